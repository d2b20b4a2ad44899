#include "watched.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "program/progress.hpp"

namespace ipoib::ibarp {

namespace {

/// Whether it helps to try again later: the daemon ends or starts, or has no device yet.
bool is_temporary(int error) {
  return error == -ENODEV || error == -ESRCH || error == -ENXIO || error == -EPIPE ||
         error == -ETIMEDOUT || error == -EBUSY || error == -ESHUTDOWN || error == -ECONNREFUSED;
}

}  // namespace

std::vector<std::string> Watched::look() {
  std::vector<std::string> added;
  why_.clear();
  for (const std::string& name : interfaces_named(device_)) {
    if (handles_.contains(name)) continue;
    connect(name);
    if (handles_.contains(name)) added.push_back(name);
  }
  if (why_.empty() && handles_.empty()) why_ = "no ipoibd is running in this network namespace";
  return added;
}

void Watched::connect(const std::string& name) {
  const program::BlockingProgress progress(waiting_for(name));
  ::ibarp* made = nullptr;
  int result = ibarp_open(name.c_str(), &made);
  Handle handle(made);
  if (result == 0) result = ibarp_subscribe(made, topics_, interval_ms_);
  if (result == 0) {
    handles_.emplace(name, std::move(handle));
    return;
  }
  const std::string why = result == -EOPNOTSUPP
                              ? name + ": its ipoibd is older, and cannot be watched"
                              : reason_of(name, made, result);
  if (!is_temporary(result) && !device_.empty()) throw Failure(kFailed, why);
  why_ = why;
}

/// Returns the events of `output`, which may be -1.
short Watched::poll_until(Clock::time_point until, int output) {
  std::vector<pollfd> polled{{output, 0, 0}};
  for (const auto& [name, handle] : handles_) {
    polled.push_back({ibarp_fd(handle.get()), POLLIN, 0});
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  const auto timeout = std::clamp<std::int64_t>(left.count(), 0, 3'600'000);
  if (poll(polled.data(), polled.size(), static_cast<int>(timeout)) <= 0) return 0;
  return polled[0].revents;
}

void Watched::wait(Clock::time_point until) { (void)poll_until(until, -1); }

bool Watched::wait_with_output(Clock::time_point until) {
  return (poll_until(until, STDOUT_FILENO) & (POLLERR | POLLHUP | POLLNVAL)) == 0;
}

void Watched::take(const std::function<void(const std::string&, const ibarp_event&)>& on_event,
                   const std::function<void(const std::string&)>& on_end) {
  for (auto at = handles_.begin(); at != handles_.end();) {
    int result = 0;
    while (result == 0) {
      ibarp_event event{};
      event.size = sizeof(event);
      result = ibarp_next_event(at->second.get(), &event, 0);
      if (result == 0) on_event(at->first, event);
    }
    if (result == -EAGAIN) {
      ++at;
    } else {
      on_end(at->first);
      at = handles_.erase(at);
    }
  }
}

}  // namespace ipoib::ibarp
