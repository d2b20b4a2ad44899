#include "softib/transport/socket_engine.hpp"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <limits>
#include <system_error>
#include <utility>

#include "ipoib/monotonic_clock.hpp"
#include "softib/transport/unix_socket.hpp"

namespace softib::transport {

namespace {

template <class Make>
GuardedFd checked(Make make, const char* what) {
  const ForksHeldOff held;
  const int fd = make();
  if (fd < 0) throw std::system_error(errno, std::generic_category(), what);
  return {ipoib::FileDescriptor(fd), held};
}

ipoib::FileDescriptor memory_of_door() {
  auto memory = make_door_memory();
  if (!memory) throw std::system_error(memory.error().code, std::generic_category(), "door");
  return std::move(*memory);
}

thread_local const SocketEngine* engine_of_this_thread = nullptr;

/// All signals are the application's: a thread that it does not know must not take one.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;
  ~AllSignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace

SocketEngine::SocketEngine(int listener, WireReceiver& receiver)
    : listener_(listener),
      receiver_(receiver),
      epoll_(checked([] { return ::epoll_create1(EPOLL_CLOEXEC); }, "epoll_create1")),
      wake_(checked([] { return ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }, "eventfd")),
      timer_(checked([] { return ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK); },
                     "timerfd")),
      arrivals_(receiver),
      door_memory_(memory_of_door()),
      door_(Door::map(door_memory_.get()).value()) {
  if (!watch(listener_) || !watch(wake_.get()) || !watch(timer_.get())) {
    throw std::system_error(errno, std::generic_category(), "epoll_ctl");
  }
  const AllSignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
  ::pthread_setname_np(thread_.native_handle(), "softib");
}

SocketEngine::~SocketEngine() { stop(); }

void SocketEngine::stop() {
  if (!thread_.joinable()) return;
  if (generation_ != fork_generation()) {
    thread_.detach();  // it runs in the parent
    return;
  }
  stopping_ = true;
  wake();
  thread_.join();
  arrivals_.clear();
  senders_.clear();  // they see its end
  by_silence_.clear();
}

void SocketEngine::wake() { (void)::eventfd_write(wake_.get(), 1); }

void SocketEngine::set_deadline(ipoib::TimePoint when) {
  itimerspec spec{};
  if (when != ipoib::kNever) {
    // All zeroes would disarm it.
    const auto since = std::max(when.time_since_epoch(), ipoib::Duration(1));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since);
    spec.it_value.tv_sec = seconds.count();
    spec.it_value.tv_nsec = (since - seconds).count();
  }
  (void)::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

bool SocketEngine::is_current_thread() const { return engine_of_this_thread == this; }

void SocketEngine::run() {
  engine_of_this_thread = this;
  while (!stopping_) {
    turn();
    receiver_.turned();
  }
}

void SocketEngine::turn() {
  std::array<epoll_event, kEventsPerTurn> events;
  const bool is_paused = resume_at_ != ipoib::kNever;
  int patience = is_paused ? static_cast<int>(kAcceptPause.count()) : -1;
  if (!door_.fall_asleep()) patience = 0;
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsPerTurn, patience);
  called_ |= door_.wake_up();
  for (int i = 0; i < count; ++i) on_readable(events[static_cast<std::size_t>(i)].data.fd);
  if (std::exchange(called_, false)) arrivals_.take_all();
  if (last_bell_ != told_) {
    told_ = last_bell_;
    for (auto& [fd, sender] : senders_) {
      if (sender.has_ring) tell_of_bells(sender);
    }
  }
  if (is_paused && ipoib::monotonic_now() >= resume_at_) resume_accepting();
}

void SocketEngine::on_readable(int fd) {
  std::uint64_t number = 0;
  if (fd == listener_) {
    accept_all();
  } else if (fd == wake_.get()) {
    (void)::eventfd_read(fd, &number);
  } else if (fd == timer_.get()) {
    if (::read(fd, &number, sizeof number) > 0) receiver_.deadline(ipoib::monotonic_now());
  } else if (const auto sender = senders_.find(fd); sender != senders_.end()) {
    by_silence_.splice(by_silence_.end(), by_silence_, sender->second.silence);
    if (!read_from(fd, kMessagesPerTurn)) forget(fd);
  }  // else it was cut off in this turn
}

bool SocketEngine::watch(int fd) const {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void SocketEngine::accept_all() {
  while (accept_one()) {
  }
}

/// False: nobody waits any more, or nobody can be let in.
bool SocketEngine::accept_one() {
  GuardedFd socket = accept_from(listener_);
  if (!socket) {
    if (errno == EAGAIN) return false;
    if (errno == ECONNABORTED || errno == EINTR) return true;
    if (by_silence_.empty()) {
      pause_accepting();
      return false;
    }
    cut_off(by_silence_.front());
    socket = accept_from(listener_);
    if (!socket && errno != EAGAIN) pause_accepting();
    if (!socket) return false;
  }
  if (senders_.size() >= max_connections()) cut_off(by_silence_.front());
  const int fd = socket.get();
  if (watch(fd)) {
    senders_[fd] = {std::move(socket), by_silence_.insert(by_silence_.end(), fd)};
  }
  return true;
}

/// A listener that is readable and cannot be accepted from would keep the engine busy.
void SocketEngine::pause_accepting() {
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_, nullptr);
  resume_at_ = ipoib::monotonic_now() + kAcceptPause;
  receiver_.accept_paused();
}

void SocketEngine::resume_accepting() {
  resume_at_ = ipoib::kNever;
  if (!watch(listener_)) pause_accepting();
}

/// Nothing can be added to what is queued from now on, so nothing gets lost between the last read
/// and the end: the sender gets EPIPE.
void SocketEngine::cut_off(int fd) {
  ::shutdown(fd, SHUT_RD);
  (void)read_from(fd, std::numeric_limits<std::size_t>::max());
  forget(fd);
}

void SocketEngine::forget(int fd) {
  arrivals_.remove(fd);
  const auto sender = senders_.find(fd);
  if (sender->second.has_ring) {
    receiver_.sender_gone();
    called_ = true;
  }
  // Closing would not do, should a child that was forked behind our back share the socket.
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  by_silence_.erase(sender->second.silence);
  senders_.erase(sender);
}

/// False: the sender has ended, or is to.
bool SocketEngine::read_from(int fd, std::size_t limit) {
  for (std::size_t count = 0; count < limit; ++count) {
    switch (reader_.next(fd)) {
      case MessageReader::Got::message:
        if (!take_message(fd)) return false;
        break;
      case MessageReader::Got::malformed:
        receiver_.malformed();
        break;
      case MessageReader::Got::nothing:
        return true;
      case MessageReader::Got::end:
        return false;
    }
  }
  return true;
}

/// False: the sender counts on something that there is not.
bool SocketEngine::take_message(int fd) {
  if (reader_.kind() == MessageKind::mad) {
    receiver_.mad_arrived(reader_.body());
  } else if (reader_.kind() == MessageKind::ring) {
    auto ring = RingMemory::map(reader_.handed_over().get());
    if (!ring) {
      receiver_.malformed();
      return false;
    }
    arrivals_.remove(fd);
    arrivals_.add(fd, RingReader(std::move(*ring)));
    called_ = true;
    auto& sender = senders_.at(fd);
    sender.has_ring = true;
    (void)send_message(fd, MessageKind::door, {}, door_memory_.get());
    tell_of_bells(sender);
  } else if (reader_.kind() == MessageKind::nudge) {
    called_ = true;
  } else {
    receiver_.malformed();
  }
  return true;
}

std::uint32_t SocketEngine::add_bell(int event) {
  const std::lock_guard lock(bells_mutex_);
  if (bells_.size() == kMaxBells) return Attendant::kEngine;
  bells_[++last_bell_] = event;
  wake();
  return last_bell_;
}

void SocketEngine::remove_bell(std::uint32_t bell) {
  const std::lock_guard lock(bells_mutex_);
  bells_.erase(bell);
}

/// A sender whose queue is full is not told: it goes on waking the engine.
void SocketEngine::tell_of_bells(Sender& sender) {
  const std::lock_guard lock(bells_mutex_);
  for (auto bell = bells_.upper_bound(sender.told); bell != bells_.end(); ++bell) {
    std::array<std::uint8_t, sizeof bell->first> number;
    std::memcpy(number.data(), &bell->first, number.size());
    (void)send_message(sender.socket.get(), MessageKind::bell, number, bell->second);
    sender.told = bell->first;
  }
}

}  // namespace softib::transport
