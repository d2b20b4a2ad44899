#include "daemon/open_ports.hpp"

#include <boost/asio/post.hpp>
#include <stdexcept>
#include <utility>

#include "ipoib/log.hpp"

namespace ipoib::daemon {

PortControl::Port OpenPorts::open(PortRole role, std::shared_ptr<const verbs::Device> device) {
  auto options = options_;
  if (role == PortRole::backup) options.gid_index.reset();  // it is of the primary port
  auto made = std::make_unique<OpenPort>(*device, options, logs_);
  discard_replaced();
  replaced_ = std::exchange(ports_[role], std::move(made));
  replaced_device_ = std::exchange(devices_[role], std::move(device));
  return {ports_[role]->watcher, *ports_[role]->sa};
}

std::optional<PortControl::Port> OpenPorts::reopen(PortRole role) {
  const auto& before = *devices_[role];
  const auto gid_index = role == PortRole::primary ? options_.gid_index : std::nullopt;
  auto device = verbs::Device::open(before.name(), before.port(), gid_index);
  if (!device || device->link_layer() != before.link_layer() || !device->query()) {
    return std::nullopt;
  }
  try {
    boost::asio::post(context_, [this] { discard_replaced(); });
    return open(role, std::make_shared<const verbs::Device>(std::move(*device)));
  } catch (const std::runtime_error& error) {  // its device for management datagrams comes later
    logs_.daemon->debug("{} port: {}", name(role), error.what());
    return std::nullopt;
  }
}

/// It is not used any more, but holds locks of memberships.
void OpenPorts::discard_replaced() {
  replaced_.reset();
  replaced_device_.reset();
}

}  // namespace ipoib::daemon
