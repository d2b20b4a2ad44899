#include "softib/socket_engine.hpp"

#include <fcntl.h>
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

namespace softib {

struct SocketEngine::Scratch {
  using Buffer = std::array<std::uint8_t, kMaxTrainOctets>;
  std::array<Buffer, kMessagesPerRead> buffers;
  std::array<iovec, kMessagesPerRead> pieces{};
  std::array<mmsghdr, kMessagesPerRead> messages{};
  std::vector<ConstBytes> packets;
};

namespace {

GuardedFd checked(int fd, const char* what) {
  if (fd < 0) throw std::system_error(errno, std::generic_category(), what);
  return GuardedFd(ipoib::FileDescriptor(fd));
}

thread_local const SocketEngine* engine_of_this_thread = nullptr;

int open_reserve() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

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
      epoll_(checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
      wake_(checked(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")),
      timer_(checked(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), "timerfd")),
      reserve_(checked(open_reserve(), "/dev/null")),
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

SocketEngine::~SocketEngine() {
  if (generation_ != fork_generation()) {
    thread_.detach();  // it runs in the parent
    return;
  }
  stopping_ = true;
  wake();
  thread_.join();
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
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsPerTurn, -1);
  ++turns_;
  for (int i = 0; i < count; ++i) {
    const int fd = events[static_cast<std::size_t>(i)].data.fd;
    std::uint64_t number = 0;
    if (fd == listener_) {
      accept_all();
    } else if (fd == wake_.get()) {
      (void)::eventfd_read(fd, &number);
    } else if (fd == timer_.get()) {
      if (::read(fd, &number, sizeof number) > 0) receiver_.deadline(ipoib::monotonic_now());
    } else {
      read_from(fd);
    }
  }
}

bool SocketEngine::watch(int fd) const {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void SocketEngine::accept_all() {
  for (;;) {
    ipoib::FileDescriptor fd(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      if ((errno == EMFILE || errno == ENFILE) && make_room()) continue;
      return;
    }
    if (senders_.size() >= kMaxSenders) (void)make_room();
    const int number = fd.get();
    if (!watch(number)) continue;
    senders_.insert_or_assign(number, Sender{GuardedFd(std::move(fd)), turns_});
  }
}

/// Without a free descriptor the listener would stay readable for ever. Cuts off the sender that
/// has been silent for longest; with none to cut off, the one who waits is turned away.
bool SocketEngine::make_room() {
  const auto oldest = std::min_element(
      senders_.begin(), senders_.end(),
      [](const auto& a, const auto& b) { return a.second.last_turn < b.second.last_turn; });
  if (oldest != senders_.end()) {
    senders_.erase(oldest);
    return true;
  }
  reserve_.reset();
  const bool was_there = static_cast<bool>(
      ipoib::FileDescriptor(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)));
  reserve_ = GuardedFd(ipoib::FileDescriptor(open_reserve()));
  return was_there;
}

void SocketEngine::read_from(int fd) {
  const auto sender = senders_.find(fd);
  if (sender == senders_.end()) return;  // cut off in this turn
  sender->second.last_turn = turns_;
  auto& messages = scratch_->messages;
  const int count = ::recvmmsg(fd, messages.data(), kMessagesPerRead, MSG_DONTWAIT, nullptr);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const std::size_t whole = unload_all(static_cast<std::size_t>(std::max(count, 0)));
  if (!scratch_->packets.empty()) receiver_.arrived(scratch_->packets);
  // An error, or the message of no octets that means the end.
  if (count <= 0 || whole < static_cast<std::size_t>(count)) senders_.erase(fd);
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
