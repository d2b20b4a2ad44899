#include "daemon/handover_taker.hpp"

#include <spdlog/fmt/fmt.h>

#include <cerrno>
#include <utility>

#include "ipoib/log.hpp"
#include "ipoib/monotonic_clock.hpp"

namespace ipoib::daemon::handover {

Taker::Taker(Dependencies dependencies, Connection connection, std::uint32_t peer,
             const Patience& patience)
    : dependencies_(std::move(dependencies)),
      connection_(std::move(connection)),
      peer_(peer),
      patience_(patience),
      timeout_(dependencies_.context,
               [this] {
                 fail(state_ == State::ready
                          ? fmt::format("process {} does not respond: end it, and start this one "
                                        "without --takeover",
                                        peer_)
                          : "the links do not come up: " + dependencies_.interfaces.status());
               }),
      watch_(dependencies_.context, connection_.descriptor(), [this] { on_readable(); }) {}

void Taker::start(const std::set<PKey>& handed) {
  for (const auto& [number, pkey] : dependencies_.interfaces.partitions()) {
    if (handed.contains(pkey)) held_.insert(number);
  }
  unsettled_ = held_;
  if (held_.empty()) return fail("none of its partitions has an interface here");
  timeout_.set(monotonic_now() + patience_.preparing);
}

void Taker::on_mode(InterfaceNumber interface, PumpMode mode) {
  if (mode != PumpMode::held || unsettled_.erase(interface) == 0) return;
  if (unsettled_.empty() && state_ == State::preparing) send_ready();
}

void Taker::send_ready() {
  Ready ready;
  const auto partitions = dependencies_.interfaces.partitions();
  for (const auto number : held_) {
    if (const auto at = partitions.find(number); at != partitions.end()) {
      ready.pkeys.push_back(at->second);
    }
  }
  state_ = State::ready;
  timeout_.set(monotonic_now() + patience_.releasing);
  // If the other daemon has gone, the end of the connection says so.
  (void)connection_.send(emit(ready));
}

void Taker::on_readable() {
  for (;;) {
    auto received = connection_.receive();
    if (!received && received.error().code == EAGAIN) return;
    if (!received) {
      watch_.stop();
      return fail(received.error().message);
    }
    if (!*received) {
      watch_.stop();
      dependencies_.log.info("process {} has ended", peer_);
      if (!is_over()) serve();
      return;
    }
    const auto& message = (*received)->message;
    if (const auto* const refusal = std::get_if<Refusal>(&message)) fail(refusal->text);
    if (std::holds_alternative<Released>(message) && state_ == State::ready) serve();
  }
}

void Taker::serve() {
  state_ = State::serving;
  timeout_.set(kNever);
  for (const auto number : held_) {
    if (auto* const interface = dependencies_.interfaces.find(number)) {
      interface->set_mode(PumpMode::active);
    }
  }
  dependencies_.log.info("has taken over {} interfaces from process {}", held_.size(), peer_);
  dependencies_.on_serving();
}

void Taker::fail(const std::string& why) {
  if (is_over()) return;
  state_ = State::failed;
  timeout_.set(kNever);
  (void)connection_.send(emit(Refusal{ECANCELED, why}));
  dependencies_.on_failure("cannot take over from process " + std::to_string(peer_) + ": " + why);
}

}  // namespace ipoib::daemon::handover
