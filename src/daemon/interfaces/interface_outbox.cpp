#include "daemon/interfaces/interface_outbox.hpp"

#include <chrono>
#include <optional>
#include <variant>

#include "daemon/pump/sa_requests.hpp"
#include "ipoib/monotonic_clock.hpp"
#include "ipoib/overloaded.hpp"

namespace ipoib::daemon {

namespace {

// Pause before the next attempt to post to a full mailbox.
constexpr std::chrono::milliseconds kPause{10};

/// The port that a message is about; nullopt if it is about none.
std::optional<PortRole> port_of_message(const ToInterface& message) {
  const auto role = [](const auto& of_port) { return std::optional(of_port.role); };
  return std::visit(
      Overloaded{[&](const PortChanged& one) { return role(one); },
                 [&](const ClientReregister& one) { return role(one); },
                 [](const wire::SaResponse& one) { return std::optional(port_of(one.id)); },
                 [](const auto&) { return std::optional<PortRole>(); }},
      message);
}

/// Whether `earlier`, which waits, is superfluous because of `later`, which then includes its
/// changes.
bool replaces(ToInterface& later, ToInterface& earlier) {
  // A message on its way to the part before is not for the new one.
  if (const auto* const part = std::get_if<PortReplaced>(&later)) {
    return port_of_message(earlier) == part->role;
  }
  // A link that is up leaves its groups when it stops; one that has lost the port cannot.
  if (std::holds_alternative<Stop>(later)) return std::holds_alternative<PortChanged>(earlier);
  if (std::holds_alternative<wire::SaResponse>(later) ||
      std::holds_alternative<ObjectFailed>(later) || later.index() != earlier.index()) {
    return false;
  }
  if (auto* const changes = std::get_if<Reconfigured>(&later)) {
    auto& before = std::get<Reconfigured>(earlier);
    if (!changes->poll) changes->poll = before.poll;
    changes->neighbours.merge(before.neighbours);
  }
  return port_of_message(later) == port_of_message(earlier);
}

}  // namespace

void InterfaceOutbox::post(ToInterface message) {
  std::erase_if(waiting_, [&](ToInterface& earlier) { return replaces(message, earlier); });
  waiting_.push_back(std::move(message));
  deliver();
}

void InterfaceOutbox::deliver() {
  for (; !waiting_.empty(); waiting_.pop_front()) {
    if (!to_.post(std::move(waiting_.front()))) return timer_.set(monotonic_now() + kPause);
  }
}

}  // namespace ipoib::daemon
