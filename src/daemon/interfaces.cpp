#include "daemon/interfaces.hpp"

#include <boost/asio/post.hpp>
#include <exception>

#include "ipoib/log.hpp"
#include "ipoib/monotonic_clock.hpp"

namespace ipoib::daemon {

Interfaces::Interfaces(const SharedByInterfaces& shared, PortOwner& owner, SaRequestPort& sa,
                       Logger& log)
    : shared_(shared),
      owner_(owner),
      sa_(sa),
      log_(log),
      plan_(shared.options.pkeys, shared.options.interface),
      retry_alarm_(shared.context, [this] { apply_plan(); }) {}

void Interfaces::start(const verbs::PortSnapshot& port) {
  port_ = port;
  try {
    for (const PKey partition : plan_.update(port.active, port.pkeys).create) make(partition);
  } catch (...) {
    for (auto& [number, interface] : interfaces_) {
      if (interface->adopted()) {
        shared_.kept.insert(interface->identity().name);
      } else {
        interface->remove_at_end();
      }
    }
    throw;
  }
  if (port.active) discard_kept();
  if (interfaces_.empty()) log_.info("waits for a partition in the port's table");
}

void Interfaces::on_port(const verbs::PortSnapshot& port) {
  port_ = port;
  for (auto& [number, interface] : interfaces_) interface->control().on_port(port);
  apply_plan();
}

void Interfaces::on_client_reregister() {
  for (auto& [number, interface] : interfaces_) interface->control().on_client_reregister();
}

void Interfaces::on_notice(const wire::Notice& notice) {
  for (auto& [number, interface] : interfaces_) interface->control().on_notice(notice);
}

void Interfaces::on_response(const wire::SaResponse& response) {
  const auto at = interfaces_.find(interface_of(response.id));
  if (at != interfaces_.end()) at->second->control().on_response(response);
}

// --- Making and removing -------------------------------------------------------------------------

void Interfaces::apply_plan() {
  if (stopping_) return;
  const auto changes = plan_.update(port_.active, port_.pkeys);
  for (const PKey partition : changes.remove) remove(partition);
  if (changes.left_out > left_out_) {
    log_.warn("{} partitions have no interface: there are {} at most", changes.left_out,
              kMaxInterfaces);
  }
  left_out_ = changes.left_out;
  std::string refused;
  for (const PKey partition : changes.create) {
    try {
      make(partition);
    } catch (const std::exception& error) {
      plan_.on_removed(partition);
      refused = error.what();
    }
  }
  if (refused.empty()) {
    if (port_.active) discard_kept();
    (void)retry_.succeeded();
    return retry_alarm_.set(kNever);
  }
  if (retry_.failed()) log_.error("{}; tries again until it can", refused);
  retry_alarm_.set(monotonic_now() + retry_.pause());
}

void Interfaces::make(PKey partition) {
  last_number_ = InterfaceNumber(last_number_.value() + 1);
  InterfaceOwner& self = *this;
  auto made = std::make_unique<Interface>(
      Interface::Identity{last_number_, partition, plan_.name_of(partition)}, shared_, self, sa_);
  made->control().on_port(port_);
  shared_.kept.erase(made->identity().name);
  interfaces_.emplace(last_number_, std::move(made));
}

/// Those of partitions that the port is no longer in.
void Interfaces::discard_kept() {
  for (const auto& name : std::exchange(shared_.kept, {})) {
    log_.info("{}: the port is no longer in its partition: removing the interface", name);
    shared_.home.run([&] { host::TunDevice::discard(name); });
  }
}

void Interfaces::remove(PKey partition) {
  for (auto& [number, interface] : interfaces_) {
    if (interface->identity().pkey != partition) continue;
    log_.info("{}: the port is no longer in partition {:#06x}: removing the interface",
              interface->identity().name, partition.value());
    interface->control().stop({});
  }
}

// --- The end -------------------------------------------------------------------------------------

void Interfaces::stop(const Ending& why) {
  if (stopping_) return;
  stopping_ = why;
  for (auto& [number, interface] : interfaces_) interface->control().stop(why);
  if (interfaces_.empty()) owner_.on_finished(why.reason);
}

void Interfaces::abandon() {
  for (auto& [number, interface] : interfaces_) interface->remove_at_end();
  interfaces_.clear();
}

/// Not within a call of the interface that is to be destroyed.
void Interfaces::on_ended(InterfaceNumber number, const Ending& why) {
  boost::asio::post(shared_.context, [this, alive = std::weak_ptr(alive_), number, why] {
    if (!alive.expired()) bury(number, why);
  });
}

void Interfaces::bury(InterfaceNumber number, const Ending& why) {
  const auto at = interfaces_.find(number);
  auto interface = std::move(at->second);
  interfaces_.erase(at);
  const auto [_, partition, name] = interface->identity();
  const bool was_last = interfaces_.empty();
  switch (why.kind) {
    case Ending::Kind::asked:
      interface->remove_at_end();
      plan_.on_removed(partition);
      break;
    case Ending::Kind::deleted:
      log_.warn("interface {} was deleted", name);
      plan_.suppress(partition);
      if (was_last && !stopping_) stopping_ = {why.kind, "interface " + name + " was deleted"};
      break;
    case Ending::Kind::failed:
      shared_.kept.insert(name);
      stop({why.kind, name + ": " + why.reason});
      break;
  }
  interface.reset();  // another one may take its name at once
  if (!stopping_) return apply_plan();
  if (was_last) owner_.on_finished(stopping_->reason);
}

}  // namespace ipoib::daemon
