#include "softib/transport/socket_engine.hpp"

#include <linux/sock_diag.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "ipoib/monotonic_clock.hpp"
#include "softib/transport/all_signals_blocked.hpp"
#include "softib/transport/unix_socket.hpp"

namespace softib::transport {

namespace {

template <class Make>
GuardedFd checked(Make make, const char* what) {
  const ForkLock lock;
  const int fd = make();
  if (fd < 0) throw std::system_error(errno, std::generic_category(), what);
  return {ipoib::FileDescriptor(fd), lock};
}

constexpr int kEventsPerTurn = 64;

WakeupTable make_wakeup_table() {
  auto table = WakeupTable::make();
  if (!table) throw std::system_error(table.error().code, std::generic_category(), "wakeup table");
  return std::move(*table);
}

/// Whether the other end has not read all that was sent to it.
bool has_unread(int fd) {
  std::array<std::uint32_t, SK_MEMINFO_VARS> memory{};
  socklen_t size = sizeof memory;
  return ::getsockopt(fd, SOL_SOCKET, SO_MEMINFO, memory.data(), &size) == 0 &&
         memory[SK_MEMINFO_WMEM_ALLOC] != 0;
}

thread_local const SocketEngine* engine_of_this_thread = nullptr;

/// What epoll reports for a connection to another process, which is watched for its end.
///   | 10 | - 6 | epoch 8 | node 16 | slot 32 |    other descriptors are numbers below 2^31
///   | 11 | - 30 | descriptor 32 |                 one that is watched for a hang-up
struct WatchKey {
  static constexpr std::uint64_t kWatched = std::uint64_t{1} << 63;
  static constexpr std::uint64_t kHangup = std::uint64_t{1} << 62;
  static constexpr std::uint64_t kSource = ~std::uint64_t{0};
  static constexpr std::uint64_t kSourceOthers = kSource - 1;

  [[nodiscard]] static std::uint64_t of(Process process) {
    return kWatched | std::uint64_t{process.epoch} << 48 |
           std::uint64_t{process.address.node} << 32 | process.address.slot;
  }
  [[nodiscard]] static Process process(std::uint64_t key) {
    return {{static_cast<NodeIndex>(key >> 32 & 0xffff), static_cast<std::uint32_t>(key)},
            static_cast<std::uint32_t>(key >> 48 & 0xff)};
  }
};
static_assert(QpnLayout::kMaxEpoch <= 0xff && kMaxNodes <= 0x10000);

}  // namespace

std::size_t max_unread_answers() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kLeastUnreadAnswers;
  return static_cast<std::size_t>(
      std::clamp<rlim_t>(limit.rlim_cur / 16, kLeastUnreadAnswers, kMostUnreadAnswers));
}

SocketEngine::SocketEngine(int listener, WireReceiver& receiver)
    : listener_(listener),
      receiver_(receiver),
      epoll_(checked([] { return ::epoll_create1(EPOLL_CLOEXEC); }, "epoll_create1")),
      wake_(checked([] { return ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }, "eventfd")),
      timer_(checked([] { return ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK); },
                     "timerfd")),
      rings_(receiver),
      wakeup_table_(make_wakeup_table()),
      all_of_source_{WatchKey::kSource, &PacketSource::descriptor},
      others_of_source_{WatchKey::kSourceOthers, &PacketSource::descriptor_of_others} {
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
  rings_.clear();
  senders_.clear();  // closes the connections, which the senders notice
  by_activity_.clear();
  unread_.clear();
  wakeup_table_.close_descriptor();
  epoll_.reset();
  const std::lock_guard lock(descriptors_mutex_);
  wake_.reset();
  timer_.reset();
}

void SocketEngine::wake() {
  const std::lock_guard lock(descriptors_mutex_);
  if (wake_) (void)::eventfd_write(wake_.get(), 1);
}

void SocketEngine::set_deadline(ipoib::TimePoint when) {
  itimerspec spec{};
  if (when != ipoib::kNever) {
    // All zeroes would disarm it.
    const auto since = std::max(when.time_since_epoch(), ipoib::Duration(1));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since);
    spec.it_value.tv_sec = seconds.count();
    spec.it_value.tv_nsec = (since - seconds).count();
  }
  const std::lock_guard lock(descriptors_mutex_);
  if (timer_) (void)::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

/// The kernel knows nothing of the wakeup table, so it is asked to wake the engine for a source
/// unless all waiters are none: then a program polls. That of multicast packets follows from those
/// of queue pairs, if there are any that take such packets.
void SocketEngine::set_waiter(std::size_t entry, std::uint32_t waiter) {
  wakeup_table_.set_waiter(entry, waiter);
  if (source_ == nullptr || entry == WakeupEntry::kMulticast) return;
  const std::lock_guard lock(source_mutex_);
  if (waiters_.size() <= entry) waiters_.resize(entry + 1, Waits::unset);
  const auto now = waiter == Waiter::kNone ? Waits::no : Waits::yes;
  const auto before = std::exchange(waiters_[entry], now);
  if (before == Waits::yes) --waiting_entries_;
  if (now == Waits::yes) ++waiting_entries_;
  if (now == Waits::yes) arm_source();
}

void SocketEngine::set_source(PacketSource& source, const std::function<void()>& change) {
  // Not under the lock of the source, which callers of set_waiter() take while they hold the lock
  // that those who read the rings wait for.
  rings_.set_source(source, change);
  const std::lock_guard lock(source_mutex_);
  const bool is_known = source_.exchange(&source) != nullptr;
  if (!is_known) watch_source(others_of_source_, EPOLL_CTL_ADD);
  watch_source(all_of_source_, is_known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD);
}

/// Lets the kernel wake the engine for the source, once. Requires the lock of the source.
void SocketEngine::arm_source() {
  const bool has_response_waiter =
      waiters_.size() > WakeupEntry::kResponses && waiters_[WakeupEntry::kResponses] == Waits::yes;
  const bool is_unknown = waiters_.empty();
  auto& watch = has_response_waiter || is_unknown ? all_of_source_ : others_of_source_;
  if (!watch.is_armed) watch_source(watch, EPOLL_CTL_MOD);
}

/// Adds or changes (EPOLL_CTL_*) a descriptor of the source, which wakes the engine once.
void SocketEngine::watch_source(SourceWatch& watch, int operation) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLONESHOT;
  event.data.u64 = watch.key;
  watch.is_armed = true;
  (void)::epoll_ctl(epoll_.get(), operation, (source_.load()->*watch.descriptor)(), &event);
}

/// The source has been read after the kernel has woken the engine for it.
void SocketEngine::rearm_source() {
  const std::lock_guard lock(source_mutex_);
  for (auto* const each : {&all_of_source_, &others_of_source_}) {
    if (std::exchange(each->is_ready, false)) each->is_armed = false;
  }
  const bool is_polled = waiting_entries_ == 0 && !waiters_.empty();
  if (!is_polled) arm_source();
}

bool SocketEngine::is_current_thread() const { return engine_of_this_thread == this; }

void SocketEngine::run() {
  engine_of_this_thread = this;
  while (!stopping_) {
    turn();
    receiver_.turn_done();
  }
}

void SocketEngine::turn() {
  std::array<epoll_event, kEventsPerTurn> events;
  const bool is_paused = resume_at_ != ipoib::kNever;
  int timeout = is_paused ? static_cast<int>(kAcceptPause.count()) : -1;
  if (!fall_asleep()) timeout = 0;
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsPerTurn, timeout);
  wakeup_table_.wake_up();
  if (rings_.take_requests()) linger_.handled(rings_.drain());
  for (int i = 0; i < count; ++i) {
    const epoll_data_t data = events[static_cast<std::size_t>(i)].data;
    if (data.u64 == WatchKey::kSource) {
      all_of_source_.is_ready = notified_ = true;
    } else if (data.u64 == WatchKey::kSourceOthers) {
      others_of_source_.is_ready = notified_ = true;
    } else if ((data.u64 & WatchKey::kHangup) != 0) {
      receiver_.hung_up(static_cast<int>(data.u64 & 0xffff'ffff));
    } else if ((data.u64 & WatchKey::kWatched) != 0) {
      connection_ended(WatchKey::process(data.u64));
    } else {
      on_readable(data.fd);
    }
  }
  if (std::exchange(needs_descriptors_, false)) make_room();
  if (std::exchange(notified_, false)) linger_.handled(rings_.drain());
  if (all_of_source_.is_ready || others_of_source_.is_ready) rearm_source();
  report_ended_connections();
  if (std::exchange(deadline_passed_, false)) receiver_.deadline(ipoib::monotonic_now());
  if (std::exchange(answered_, false)) limit_unread_answers();
  if (is_paused && ipoib::monotonic_now() >= resume_at_) resume_accepting();
}

/// Prepares to sleep. Returns false if the rings have to be read. Looks at them first, so that
/// senders do not send wakeups to an engine that will not sleep.
bool SocketEngine::fall_asleep() {
  const auto drain = [this] {
    (void)rings_.take_requests();
    return rings_.drain();
  };
  if (linger_.linger(drain)) return false;
  notified_ |= rings_.take_requests();
  if (notified_) return false;
  wakeup_table_.fall_asleep();
  notified_ |= rings_.take_requests();
  if (notified_) wakeup_table_.wake_up();
  return !notified_;
}

void SocketEngine::on_readable(int fd) {
  std::uint64_t number = 0;
  if (fd == listener_) {
    for (std::size_t count = 0; count < kAcceptsPerTurn && accept_one(); ++count) {
    }
  } else if (fd == wake_.get()) {
    (void)::eventfd_read(fd, &number);
  } else if (fd == timer_.get()) {
    // The packets in the rings may be those that the deadline is about.
    if (::read(fd, &number, sizeof number) > 0) deadline_passed_ = notified_ = true;
  } else if (const auto sender = senders_.find(fd); sender != senders_.end()) {
    by_activity_.splice(by_activity_.end(), by_activity_, sender->second.activity);
    if (!read_from(fd, kMessagesPerTurn)) forget(fd);
  }  // else it was evicted in this turn
}

bool SocketEngine::watch(int fd) const {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

/// Watches a socket. Without events to wait for, epoll reports the end alone (EPOLLHUP), and once.
bool SocketEngine::watch(int socket, Process process) const {
  epoll_event event{};
  event.events = EPOLLET;
  event.data.u64 = WatchKey::of(process);
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket, &event) == 0;
}

bool SocketEngine::watch_hangup(int fd) const {
  epoll_event event{};
  event.events = EPOLLET;
  event.data.u64 = WatchKey::kWatched | WatchKey::kHangup | static_cast<std::uint32_t>(fd);
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void SocketEngine::connection_ended(Process process) {
  {
    const std::lock_guard lock(ended_mutex_);
    ended_.push_back(process);
  }
  if (!is_current_thread()) wake();
}

void SocketEngine::report_ended_connections() {
  std::vector<Process> ended;
  {
    const std::lock_guard lock(ended_mutex_);
    ended.swap(ended_);
  }
  if (!ended.empty()) receiver_.connections_ended(ended);
}

/// Returns false when no sender waits, or none can be accepted.
bool SocketEngine::accept_one() {
  GuardedFd socket = accept_from(listener_);
  if (!socket) {
    if (errno == EAGAIN) return false;
    if (errno == ECONNABORTED || errno == EINTR) return true;
    if (by_activity_.empty()) {
      pause_accepting();
      return false;
    }
    evict(by_activity_.front());
    socket = accept_from(listener_);
    if (!socket && errno != EAGAIN) pause_accepting();
    if (!socket) return false;
  }
  if (senders_.size() >= max_connections()) evict(by_activity_.front());
  const int fd = socket.get();
  if (watch(fd)) {
    auto& sender = senders_[fd];
    sender.socket = std::move(socket);
    sender.activity = by_activity_.insert(by_activity_.end(), fd);
  }
  return true;
}

/// Makes room for a sender that was disconnected because its ring did not arrive, and connects
/// again.
void SocketEngine::make_room() {
  if (by_activity_.empty()) return pause_accepting();
  evict(by_activity_.front());
}

/// Pauses accepting. Otherwise the loop would spin on a readable listener that it cannot accept
/// from.
void SocketEngine::pause_accepting() {
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_, nullptr);
  resume_at_ = ipoib::monotonic_now() + kAcceptPause;
  receiver_.accept_paused();
}

void SocketEngine::resume_accepting() {
  resume_at_ = ipoib::kNever;
  if (!watch(listener_)) pause_accepting();
}

/// Disconnects a sender. After the shutdown it gets EPIPE and can queue nothing more, so no message
/// is lost between the last read and the close.
void SocketEngine::evict(int fd) {
  ::shutdown(fd, SHUT_RD);
  for (std::size_t count = 0; count < kMessagesAtEviction && read_from(fd, 1); ++count) {
  }
  forget(fd);
}

void SocketEngine::forget(int fd) {
  rings_.remove(fd);
  const auto sender = senders_.find(fd);
  // Closing alone would not remove it if a child, created without fork handlers, shares the socket.
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  by_activity_.erase(sender->second.activity);
  if (sender->second.unread) unread_.erase(*sender->second.unread);
  senders_.erase(sender);
}

/// Returns false when the connection has ended, or has to be closed since the sender is faulty.
bool SocketEngine::read_from(int fd, std::size_t limit) {
  for (std::size_t count = 0; count < limit; ++count) {
    switch (reader_.next(fd)) {
      case MessageReader::Got::message:
        if (!handle_message(fd)) return false;
        // As a rule, a sender has sent nothing else, so the rings are read first.
        if (reader_.kind() == MessageKind::wakeup) return true;
        break;
      case MessageReader::Got::no_room:
        needs_descriptors_ = true;
        return false;
      case MessageReader::Got::malformed:
        receiver_.malformed();
        return false;
      case MessageReader::Got::nothing:
        return true;
      case MessageReader::Got::end:
        return false;
    }
  }
  return true;
}

/// Returns false for a message that no sender sends; its connection has to be closed.
bool SocketEngine::handle_message(int fd) {
  bool is_valid = true;
  if (reader_.kind() == MessageKind::mad || reader_.kind() == MessageKind::mad_with_icrc) {
    const auto body = reader_.body();
    is_valid = !body.empty() && body[0] >= 1 && body[0] <= kMaxHcaPorts;
    if (is_valid) {
      receiver_.mad_arrived(
          {body.subspan(1), reader_.kind() == MessageKind::mad_with_icrc, body[0]});
    }
  } else if (reader_.kind() == MessageKind::ring) {
    is_valid = add_ring(fd);
  } else if (reader_.kind() == MessageKind::wakeup) {
    woken_by(fd);
  } else if (reader_.kind() == MessageKind::want_wakeup_fd) {
    is_valid = send_wakeup_fd(fd);
  } else if (reader_.kind() == MessageKind::want_objects) {
    is_valid = send_objects(fd);
  } else {
    is_valid = false;
  }
  if (!is_valid) receiver_.malformed();
  return is_valid;
}

bool SocketEngine::add_ring(int fd) {
  auto& sender = senders_.at(fd);
  if (sender.has_ring) return false;
  auto ring = RingMemory::map(reader_.fd().get());
  if (!ring) return false;
  rings_.add(fd, RingReader(std::move(*ring)));
  sender.has_ring = true;
  notified_ = true;
  return true;
}

/// Counts the wakeups of a sender, which wakes the engine with each packet until it has the wakeup
/// table. It gets that with its second packet: many senders send only one, as in a broadcast, and
/// read no answer.
void SocketEngine::woken_by(int fd) {
  notified_ = true;
  auto& sender = senders_.at(fd);
  if (!sender.has_ring || sender.has_wakeup_table || ++sender.wakeups < 2) return;
  sender.has_wakeup_table = answer(fd, MessageKind::wakeup_table, {}, wakeup_table_.descriptor());
}

std::uint32_t SocketEngine::add_wakeup_fd(const WakeupSocket& socket) {
  const std::lock_guard lock(wakeup_fds_mutex_);
  if (wakeup_fds_.size() == kMaxWakeupFds || last_wakeup_fd_ == Waiter::kMask) {
    return Waiter::kEngine;
  }
  wakeup_fds_[++last_wakeup_fd_] = &socket;
  return last_wakeup_fd_;
}

void SocketEngine::remove_wakeup_fd(std::uint32_t number) {
  const std::lock_guard lock(wakeup_fds_mutex_);
  wakeup_fds_.erase(number);
}

/// Returns false for a request that no sender makes.
bool SocketEngine::send_wakeup_fd(int fd) {
  std::uint32_t number = 0;
  if (reader_.body().size() != sizeof number || !senders_.at(fd).has_ring) return false;
  std::memcpy(&number, reader_.body().data(), sizeof number);
  const std::lock_guard lock(wakeup_fds_mutex_);
  const auto found = wakeup_fds_.find(number);
  if (found == wakeup_fds_.end()) return true;  // its channel has been destroyed
  if (const auto own = found->second->make_sender()) {
    (void)answer(fd, MessageKind::wakeup_fd, reader_.body(), own->get());
  }
  return true;
}

/// Returns false for a request that no process makes. A process that does not read its answers gets
/// no more of them.
bool SocketEngine::send_objects(int fd) {
  const auto request = ObjectRequest::parse(reader_.body());
  if (!request) return false;
  (void)send_message(fd, MessageKind::objects, receiver_.objects(*request).bytes());
  return true;
}

/// Sends a descriptor, unless the sender has not read the one before. A sender that gets none wakes
/// the engine instead, and asks again.
bool SocketEngine::answer(int fd, MessageKind kind, ipoib::ConstBytes body, int descriptor) {
  if (has_unread(fd) || send_message(fd, kind, body, descriptor) != 0) return false;
  auto& sender = senders_.at(fd);
  answered_ = true;
  if (sender.unread) unread_.erase(*sender.unread);
  sender.unread = unread_.insert(unread_.end(), fd);
  return true;
}

void SocketEngine::limit_unread_answers() {
  const auto most = max_unread_answers();
  if (unread_.size() <= most) return;
  for (auto each = unread_.begin(); each != unread_.end();) {
    const int fd = *each;
    if (has_unread(fd)) {
      ++each;
    } else {
      each = unread_.erase(each);
      senders_.at(fd).unread.reset();
    }
  }
  while (unread_.size() > most) evict(unread_.front());
}

}  // namespace softib::transport
