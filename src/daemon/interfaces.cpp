#include "daemon/interfaces.hpp"

#include <boost/asio/post.hpp>
#include <exception>

#include "ipoib/log.hpp"
#include "ipoib/monotonic_clock.hpp"

namespace ipoib::daemon {

Interfaces::Interfaces(const Interface::Dependencies& dependencies, PortOwner& owner,
                       SaRequestPort& sa, Logger& log)
    : dependencies_(dependencies),
      owner_(owner),
      sa_(sa),
      log_(log),
      plan_(dependencies.options.pkeys, dependencies.options.interface),
      retry_timer_(dependencies.context, [this] { apply_plan(); }) {}

void Interfaces::start(const verbs::PortSnapshot& port) {
  port_ = port;
  try {
    for (const PKey partition : plan_.update(port.active, port.pkeys).create) create(partition);
  } catch (...) {
    for (auto& [number, interface] : interfaces_) {
      if (interface->adopted()) {
        dependencies_.kept.insert(interface->identity().name);
      } else {
        interface->remove_at_end();
      }
    }
    throw;
  }
  if (port.active) discard_kept();
  if (interfaces_.empty()) log_.info("waiting for a partition in the port's P_Key table");
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

// --- Creation and removal ------------------------------------------------------------------------

void Interfaces::apply_plan() {
  if (stopping_) return;
  const auto changes = plan_.update(port_.active, port_.pkeys);
  for (const PKey partition : changes.remove) remove(partition);
  if (changes.left_out > left_out_) {
    log_.warn("{} partitions have no interface: the maximum is {}", changes.left_out,
              kMaxInterfaces);
  }
  left_out_ = changes.left_out;
  std::string failure;
  for (const PKey partition : changes.create) {
    try {
      create(partition);
    } catch (const std::exception& error) {
      plan_.on_removed(partition);
      failure = error.what();
    }
  }
  if (failure.empty()) {
    if (port_.active) discard_kept();
    (void)retry_.succeeded();
    return retry_timer_.set(kNever);
  }
  if (retry_.failed()) log_.error("{}; trying again", failure);
  retry_timer_.set(monotonic_now() + retry_.pause());
}

void Interfaces::create(PKey partition) {
  last_number_ = InterfaceNumber(last_number_.value() + 1);
  InterfaceOwner& self = *this;
  auto made = std::make_unique<Interface>(
      Interface::Identity{last_number_, partition, plan_.name_of(partition)}, dependencies_, self,
      sa_);
  made->control().on_port(port_);
  dependencies_.kept.erase(made->identity().name);
  interfaces_.emplace(last_number_, std::move(made));
}

/// Removes network interfaces of partitions that the port is no longer in.
void Interfaces::discard_kept() {
  for (const auto& name : std::exchange(dependencies_.kept, {})) {
    log_.info("{}: the port is no longer in its partition: removing the interface", name);
    dependencies_.home.run([&] { host::TunDevice::discard(name); });
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

// --- End ----------------------------------------------------------------------------------------

void Interfaces::stop(const StopReason& why) {
  if (stopping_) return;
  stopping_ = why;
  for (auto& [number, interface] : interfaces_) interface->control().stop(why);
  if (interfaces_.empty()) owner_.on_finished(why.reason);
}

void Interfaces::stop_now() {
  for (auto& [number, interface] : interfaces_) interface->remove_at_end();
  interfaces_.clear();
}

/// Destroys the interface later, not within its own call.
void Interfaces::on_ended(InterfaceNumber number, const StopReason& why) {
  boost::asio::post(dependencies_.context, [this, alive = std::weak_ptr(alive_), number, why] {
    if (!alive.expired()) destroy(number, why);
  });
}

void Interfaces::destroy(InterfaceNumber number, const StopReason& why) {
  const auto at = interfaces_.find(number);
  auto interface = std::move(at->second);
  interfaces_.erase(at);
  const auto [_, partition, name] = interface->identity();
  const bool was_last = interfaces_.empty();
  switch (why.kind) {
    case StopReason::Kind::requested:
      interface->remove_at_end();
      plan_.on_removed(partition);
      break;
    case StopReason::Kind::deleted:
      log_.warn("interface {} was deleted", name);
      plan_.suppress(partition);
      if (was_last && !stopping_) stopping_ = {why.kind, "interface " + name + " was deleted"};
      break;
    case StopReason::Kind::failed:
      dependencies_.kept.insert(name);
      stop({why.kind, name + ": " + why.reason});
      break;
  }
  interface.reset();  // apply_plan() may create another one of this name
  if (!stopping_) return apply_plan();
  if (was_last) owner_.on_finished(stopping_->reason);
}

}  // namespace ipoib::daemon
