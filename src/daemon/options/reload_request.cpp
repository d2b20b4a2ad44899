#include "daemon/options/reload_request.hpp"

#include <sys/types.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <stdexcept>
#include <variant>
#include <vector>

#include "control/connection.hpp"
#include "linux/network_namespace.hpp"

namespace ipoib::daemon {

namespace {

struct Daemon {
  std::string port;  ///< "mlx5_0 port 1"
  std::vector<std::string> interfaces;
};

std::string port_text(const std::string& device, std::uint8_t port) {
  return device + " port " + std::to_string(port);
}

/// By process id. Interfaces whose daemon does not respond are left out.
std::map<pid_t, Daemon> daemons_of(const Options& wanted) {
  std::map<pid_t, Daemon> out;
  for (const auto& name : control::served_interfaces().value()) {
    control::Connection connection(name);
    const auto response = connection.ask(control::InfoRequest{});
    const auto* const info = response ? std::get_if<control::InterfaceInfo>(&*response) : nullptr;
    if (info == nullptr) continue;
    const bool is_wanted =
        wanted.device.empty() || (info->device == wanted.device && info->port == wanted.port);
    const auto process = connection.server_process();
    if (!is_wanted || process <= 0) continue;
    auto& daemon = out[process];
    daemon.port = port_text(info->device, info->port);
    daemon.interfaces.push_back(name);
  }
  return out;
}

}  // namespace

std::string request_reload(const Options& options) {
  const auto daemons =
      linux::NetworkNamespace::open(options.netns).value().run([&] { return daemons_of(options); });
  if (daemons.empty()) {
    const auto whose =
        options.device.empty() ? std::string() : " on " + port_text(options.device, options.port);
    throw std::runtime_error("--reload: no ipoibd" + whose +
                             " has an interface in this network namespace");
  }
  std::string text;
  for (const auto& [process, daemon] : daemons) {
    if (::kill(process, SIGHUP) != 0) {
      throw std::runtime_error("--reload: process " + std::to_string(process) +
                               " cannot be asked: " + std::strerror(errno));
    }
    text += "process " + std::to_string(process) + " on " + daemon.port;
    for (const auto& name : daemon.interfaces)
      text += (name == daemon.interfaces.front() ? " (" : ", ") + name;
    text += "): reads its configuration again; its log says what has changed\n";
  }
  return text;
}

}  // namespace ipoib::daemon
