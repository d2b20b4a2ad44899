#include "softib/socket_engine.hpp"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

#include "ipoib/monotonic_clock.hpp"
#include "softib/unix_socket.hpp"

namespace softib {

struct SocketEngine::Scratch {
  using Buffer = std::array<std::uint8_t, kMaxTrainOctets>;
  std::array<Buffer, kMessagesPerRead> buffers;
  std::array<iovec, kMessagesPerRead> pieces{};
  std::array<mmsghdr, kMessagesPerRead> messages{};
  std::vector<ConstBytes> packets;
};

namespace {

template <class Make>
GuardedFd checked(Make make, const char* what) {
  const ForksHeldOff held;
  const int fd = make();
  if (fd < 0) throw std::system_error(errno, std::generic_category(), what);
  return {ipoib::FileDescriptor(fd), held};
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
      scratch_(std::make_unique<Scratch>()) {
  for (std::size_t i = 0; i < kMessagesPerRead; ++i) {
    scratch_->pieces[i] = {scratch_->buffers[i].data(), scratch_->buffers[i].size()};
    scratch_->messages[i].msg_hdr.msg_iov = &scratch_->pieces[i];
    scratch_->messages[i].msg_hdr.msg_iovlen = 1;
  }
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
  const int patience = is_paused ? static_cast<int>(kAcceptPause.count()) : -1;
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsPerTurn, patience);
  for (int i = 0; i < count; ++i) on_readable(events[static_cast<std::size_t>(i)].data.fd);
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
    if (!read_from(fd) && errno != EAGAIN && errno != EINTR) forget(fd);
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
  while (read_from(fd)) {
  }
  forget(fd);
}

void SocketEngine::forget(int fd) {
  const auto sender = senders_.find(fd);
  // Closing would not do, should a child that was forked behind our back share the socket.
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  by_silence_.erase(sender->second.silence);
  senders_.erase(sender);
}

/// False: nothing more came, for the reason in errno; 0 is the end.
bool SocketEngine::read_from(int fd) {
  auto& messages = scratch_->messages;
  const int count = ::recvmmsg(fd, messages.data(), kMessagesPerRead, MSG_DONTWAIT, nullptr);
  if (count < 0) return false;
  const std::size_t whole = unload_all(static_cast<std::size_t>(count));
  if (!scratch_->packets.empty()) receiver_.arrived(scratch_->packets);
  errno = 0;
  // A message of no octets means the end.
  return count > 0 && whole == static_cast<std::size_t>(count);
}

/// Collects the packets of the first `messages` messages; returns how many came before the end.
std::size_t SocketEngine::unload_all(std::size_t messages) {
  scratch_->packets.clear();
  for (std::size_t i = 0; i < messages; ++i) {
    const auto& message = scratch_->messages[i];
    if (message.msg_len == 0) return i;
    const bool is_whole = (message.msg_hdr.msg_flags & MSG_TRUNC) == 0;
    const ConstBytes octets(scratch_->buffers[i].data(), message.msg_len);
    if (!is_whole || !unload(octets, scratch_->packets)) receiver_.malformed();
  }
  return messages;
}

}  // namespace softib
