// Waits for interfaces to be up or down.
#include <algorithm>
#include <string>

#include "client.hpp"
#include "monitor.hpp"
#include "program/progress.hpp"
#include "watched.hpp"

namespace ipoib::ibarp {

namespace {

/// What keeps an interface from being up; empty if it is up.
std::string what_is_missing(const std::string& name, ::ibarp* handle) {
  ibarp_info info{};
  info.size = sizeof(info);
  if (const int result = ibarp_get_info(handle, &info); result != 0) {
    return name + ": " + ibarp_strerror(result);
  }
  const bool is_up = std::string_view(info.state) == "up";
  if (is_up && info.admin_up != 0) return {};
  if (is_up) return name + ": administratively down";
  std::string out = name + ": " + info.state;
  if (info.waiting_for[0] != '\0') out += std::string(", waiting for ") + info.waiting_for;
  return out;
}

/// Why the condition does not hold; empty if it does. An interface that nobody serves is down.
std::string unmet(Watched& watched, bool until_up) {
  std::string why = watched.why();
  if (!until_up) why.clear();
  for (const auto& [name, handle] : watched.all()) {
    const std::string missing = what_is_missing(name, handle.get());
    if (until_up && why.empty()) why = missing;
    if (!until_up && missing.empty()) why = name + ": up";
  }
  return why;
}

}  // namespace

Status wait_for(const Command& command) {
  using Clock = Watched::Clock;
  const auto timeout = command.watch.timeout;
  const auto deadline = timeout ? Clock::now() + *timeout : Clock::time_point::max();
  Watched watched(command.device, IBARP_LINK, 0);
  program::Progress progress;
  for (;;) {
    // A change while the state is looked at is an event, which ends the next wait.
    (void)watched.look();
    const std::string why = unmet(watched, command.watch.until_up);
    if (why.empty()) return kDone;
    progress.show(why);
    if (Clock::now() >= deadline) throw Failure(kFailed, why);
    watched.wait(std::min(deadline, Clock::now() + Watched::kLook));
    watched.take([](const auto&, const auto&) {}, [](const auto&) {});
  }
}

}  // namespace ipoib::ibarp
