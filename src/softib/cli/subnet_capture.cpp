#include "softib/cli/subnet_capture.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <random>
#include <utility>

#include "erf/capture_messages.hpp"
#include "ipoib/descriptor_limit.hpp"
#include "program/progress.hpp"
#include "softib/control/client.hpp"
#include "softib/control/protocol.hpp"
#include "softib/transport/unix_socket.hpp"

namespace softib::cli {

using ipoib::Error;
using ipoib::Result;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr int kEventsAtOnce = 64;
/// Messages that are read of one process before the others get their turn.
constexpr int kMessagesAtOnce = 16;
constexpr int kAttempts = 16;  ///< to find an id that is free

bool watch_descriptor(int epoll, int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = descriptor;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

std::int64_t wall_time() {
  using std::chrono::nanoseconds;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<nanoseconds>(now).count();
}

}  // namespace

Result<SubnetCapture> SubnetCapture::begin(const fabric::SubnetFolder& folder,
                                           const std::vector<std::string>& hcas) {
  ipoib::raise_descriptor_limit();
  // Says also why there is no subnet, or none of this user.
  const auto control = control::Connection::open(folder);
  if (!control) return control.error();
  const auto top = folder.open();
  if (!top) return top.error();
  std::random_device random;
  std::uniform_int_distribution<int> ids(1, fabric::kMaxCaptureId);
  Error last{EBUSY, "no id is free"};
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const auto id = static_cast<fabric::CaptureId>(ids(random));
    const auto name = fabric::capture_name(id);
    if (::faccessat(top->get(), name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0) continue;
    auto listener = transport::listen_at(top->get(), name);
    if (!listener) return listener.error();
    ipoib::FileDescriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
    if (!epoll || !watch_descriptor(epoll.get(), listener->get())) {
      return Error{errno, std::string("cannot wait for packets: ") + std::strerror(errno)};
    }
    SubnetCapture capture(folder, id, std::move(*listener), std::move(epoll));
    const auto line = [&] {
      const ipoib::program::BlockingProgress progress("waiting for the subnet '" + folder.name() +
                                                      "'");
      return control->request(control::emit(control::Capture{id, hcas}));
    }();
    if (!line) return line.error();
    const auto begun = control::parse_acknowledgement(*line);
    if (begun) return capture;
    last = begun.error();
    if (last.code != EEXIST) return last;
  }
  return last;
}

SubnetCapture::~SubnetCapture() {
  if (!listener_) return;
  if (const auto top = folder_.open()) {
    ::unlinkat(top->get(), fabric::capture_name(id_).c_str(), 0);
  }
}

void SubnetCapture::accept() {
  auto connection = transport::accept_from(listener_.get());
  if (!connection) {
    // Without a descriptor for it, the process would be reported again and again.
    const bool is_over = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
    if (!is_over) (void)::usleep(1000);
    return;
  }
  const int descriptor = connection.get();
  if (connections_.size() >= kMaxCapturedProcesses || !watch_descriptor(epoll_.get(), descriptor)) {
    ++refused_;
    return;
  }
  if (subnet_ < 0) subnet_ = descriptor;
  connections_.emplace(descriptor, std::move(connection));
}

void SubnetCapture::forget(int connection) {
  if (connection == subnet_) has_ended_ = true;
  connections_.erase(connection);
}

void SubnetCapture::receive(int connection) {
  // One more byte, so that a longer message is not taken for a whole one.
  message_.resize(ipoib::erf::kMaxCaptureMessage + 1);
  for (int i = 0; i < kMessagesAtOnce; ++i) {
    const auto size = ::recv(connection, message_.data(), message_.size(), MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size <= 0) return forget(connection);
    const auto bytes = ipoib::ConstBytes(message_).first(static_cast<std::size_t>(size));
    if (bytes.size() <= ipoib::erf::kMaxCaptureMessage && order_.add(bytes)) continue;
    ++refused_;
    return forget(connection);
  }
}

void SubnetCapture::wait(milliseconds timeout) {
  std::array<epoll_event, kEventsAtOnce> events;
  const int count =
      ::epoll_wait(epoll_.get(), events.data(), kEventsAtOnce, static_cast<int>(timeout.count()));
  for (int i = 0; i < count; ++i) {
    const int descriptor = events[static_cast<std::size_t>(i)].data.fd;
    if (descriptor == listener_.get()) {
      accept();
    } else if (connections_.contains(descriptor)) {
      receive(descriptor);
    }
  }
}

void SubnetCapture::read(milliseconds timeout, const Visit& visit) {
  wait(timeout);
  order_.take(wall_time() - kOrderWindow, visit);
}

void SubnetCapture::end(const Visit& visit) {
  connections_.erase(subnet_);  // by which the subnet process knows it
  const auto deadline = steady_clock::now() + kCaptureEndPatience;
  constexpr milliseconds kPause{20};
  // A process that is just connecting has sent nothing yet.
  while (!connections_.empty() && steady_clock::now() < deadline) wait(kPause);
  order_.take(std::numeric_limits<std::int64_t>::max(), visit);
}

}  // namespace softib::cli
