#include "daemon/interfaces/cleanup.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>

#include "control/socket_folder.hpp"
#include "daemon/interfaces/softib_launcher.hpp"
#include "daemon/options/interface_plan.hpp"
#include "linux/link_settings.hpp"
#include "linux/network_namespace.hpp"
#include "linux/tun_device.hpp"
#include "verbs/device.hpp"

namespace ipoib::daemon {

namespace {

/// Whether it is the base name, or that with a P_Key: "ib0.8001".
bool is_usual_name(const std::string& name, const std::string& base) {
  if (!name.starts_with(base)) return false;
  const auto suffix = name.substr(base.size());
  if (suffix.empty()) return true;
  const auto is_digit = [](unsigned char each) { return std::isxdigit(each) != 0; };
  return suffix.size() == kPartitionSuffix && suffix.front() == '.' &&
         std::all_of(suffix.begin() + 1, suffix.end(), is_digit);
}

std::optional<Guid> guid_of_port(const Options& options) {
  if (options.softib && !is_under_softib()) return std::nullopt;  // its subnet need not be started
  const auto device = verbs::Device::open(options.device, options.port, options.gid_index);
  if (!device) return std::nullopt;
  const auto port = device->query();
  return port ? std::optional(port->gid.guid()) : std::nullopt;
}

bool remove_all(const Options& options, std::optional<Guid> port) {
  bool none_is_left = true;
  for (const auto& [interface, alternative] : linux::alternative_names().value()) {
    const auto mark = parse_mark(alternative);
    if (!mark || !is_to_be_removed(*mark, options, port)) continue;
    const auto removed = linux::TunDevice::discard(alternative);
    if (removed) {
      std::printf("removed %s\n", interface.c_str());
    } else {
      none_is_left = false;
      std::fprintf(stderr, "ipoibd: %s\n", removed.error().message.c_str());
    }
  }
  return none_is_left;
}

}  // namespace

bool is_to_be_removed(const InterfaceMark& mark, const Options& options, std::optional<Guid> port) {
  if (port && mark.port != *port) return false;
  if (options.pkeys.empty()) return port || is_usual_name(mark.name, options.interface);
  OperatorChanges none;
  const InterfacePlan plan(options.pkeys, options.interface, none);
  return std::ranges::any_of(options.pkeys,
                             [&](PKey each) { return plan.name_of(each) == mark.name; });
}

Result<void> discard(const KeptInterface& kept, const linux::NetworkNamespace& home) {
  const auto& in = kept.home ? *kept.home : home;
  return in.run([&] { return linux::TunDevice::discard(kept.mark); });
}

bool clean_up(const Options& options) {
  control::remove_unused_socket_folders();
  const auto home = linux::NetworkNamespace::open(options.netns).value();
  const auto port = guid_of_port(options);
  return home.run([&] { return remove_all(options, port); });
}

}  // namespace ipoib::daemon
