// Calls of librdmacm on an HCA of softib: waiting, signals, cancellation, fork, errors.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>

namespace {

using ChannelOwner = std::unique_ptr<rdma_event_channel, decltype(&::rdma_destroy_event_channel)>;
using IdOwner = std::unique_ptr<rdma_cm_id, decltype(&::rdma_destroy_id)>;

constexpr int kMilliseconds = 2000;
constexpr std::uint32_t kNobody = 0x7f4d'03ff;  ///< 127.77.3.255: the last node that can be
constexpr std::uint32_t kThisHca = 0x7f00'0001;

sockaddr_in address(std::uint32_t host, std::uint16_t port) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl(host);
  in.sin_port = htons(port);
  return in;
}

sockaddr* generic(sockaddr_in& in) { return reinterpret_cast<sockaddr*>(&in); }

class RdmaCmCalls : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(channel_); }
  IdOwner create() {
    rdma_cm_id* id = nullptr;
    EXPECT_EQ(::rdma_create_id(channel_.get(), &id, nullptr, RDMA_PS_TCP), 0);
    return {id, &::rdma_destroy_id};
  }
  static int bind(rdma_cm_id* id, std::uint32_t host, std::uint16_t port) {
    auto in = address(host, port);
    return ::rdma_bind_addr(id, generic(in)) == 0 ? 0 : errno;
  }
  static int resolve(rdma_cm_id* id, std::uint32_t host, std::uint16_t port = 9) {
    auto in = address(host, port);
    return ::rdma_resolve_addr(id, nullptr, generic(in), kMilliseconds) == 0 ? 0 : errno;
  }
  void set_nonblocking() {
    ASSERT_EQ(::fcntl(channel_->fd, F_SETFL, ::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK), 0);
  }
  /// The type of the next event, which is acknowledged; minus errno if there is none.
  int next_event() {
    rdma_cm_event* event = nullptr;
    if (::rdma_get_cm_event(channel_.get(), &event) != 0) return -errno;
    const int type = event->event;
    ::rdma_ack_cm_event(event);
    return type;
  }
  [[nodiscard]] bool is_readable(int timeout = 0) const {
    pollfd event{channel_->fd, POLLIN, 0};
    return ::poll(&event, 1, timeout) == 1;
  }

  ChannelOwner channel_{::rdma_create_event_channel(), &::rdma_destroy_event_channel};
};

TEST_F(RdmaCmCalls, AChannelCanBePolled) {
  set_nonblocking();
  EXPECT_EQ(next_event(), -EAGAIN);
  EXPECT_FALSE(is_readable());
  const int poller = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN;
  ASSERT_EQ(::epoll_ctl(poller, EPOLL_CTL_ADD, channel_->fd, &event), 0);
  EXPECT_EQ(::epoll_wait(poller, &event, 1, 0), 0);
  const auto id = create();
  ASSERT_EQ(resolve(id.get(), kThisHca), 0);
  EXPECT_EQ(::epoll_wait(poller, &event, 1, kMilliseconds), 1);
  EXPECT_TRUE(is_readable());
  EXPECT_EQ(next_event(), RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_FALSE(is_readable());
  EXPECT_NE(id->verbs, nullptr);
  ::close(poller);
}

TEST_F(RdmaCmCalls, AThreadThatWaitsGetsAnEvent) {
  std::atomic<int> type = -1;
  std::thread waiter([&] { type = next_event(); });
  const auto id = create();
  ASSERT_EQ(resolve(id.get(), kNobody), 0);
  waiter.join();
  EXPECT_EQ(type, RDMA_CM_EVENT_ADDR_ERROR);
}

extern "C" void on_signal(int) {}

/// A handler with SA_RESTART lets the wait go on, another one ends it.
TEST_F(RdmaCmCalls, SignalsInterruptTheWaitAsTheyDoAnyRead) {
  for (const bool restarts : {false, true}) {
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = restarts ? SA_RESTART : 0;
    ASSERT_EQ(::sigaction(SIGUSR1, &action, nullptr), 0);
    std::atomic<int> result = 0;
    std::atomic<bool> has_ended = false;
    std::thread waiter([&] {
      result = next_event();
      has_ended = true;
    });
    const auto id = create();
    for (int i = 0; i < 20 && !has_ended; ++i) {
      ::pthread_kill(waiter.native_handle(), SIGUSR1);
      std::this_thread::sleep_for(std::chrono::milliseconds(restarts ? 1 : 50));
    }
    EXPECT_EQ(has_ended, !restarts);
    if (restarts) {
      EXPECT_EQ(resolve(id.get(), kThisHca), 0);
    }
    waiter.join();
    EXPECT_EQ(result, restarts ? int{RDMA_CM_EVENT_ADDR_RESOLVED} : -EINTR);
  }
}

/// The thread unwinds, and the channel stays usable.
TEST_F(RdmaCmCalls, AThreadThatWaitsCanBeCancelled) {
  struct Shared {
    rdma_event_channel* channel;
    std::atomic<bool> is_unwound = false;
  } shared{channel_.get()};
  pthread_t thread{};
  const auto wait = [](void* argument) -> void* {
    auto& own = *static_cast<Shared*>(argument);
    struct Guard {
      std::atomic<bool>& flag;
      ~Guard() { flag = true; }
    } const guard{own.is_unwound};
    rdma_cm_event* event = nullptr;
    (void)::rdma_get_cm_event(own.channel, &event);
    return nullptr;
  };
  ASSERT_EQ(::pthread_create(&thread, nullptr, wait, &shared), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_EQ(::pthread_cancel(thread), 0);
  void* result = nullptr;
  ASSERT_EQ(::pthread_join(thread, &result), 0);
  EXPECT_EQ(result, PTHREAD_CANCELED);
  EXPECT_TRUE(shared.is_unwound);
  const auto id = create();
  ASSERT_EQ(resolve(id.get(), kThisHca), 0);
  EXPECT_EQ(next_event(), RDMA_CM_EVENT_ADDR_RESOLVED);
}

/// The IDs live until both processes have closed the channel.
TEST_F(RdmaCmCalls, AChildThatEndsTakesNothingAway) {
  auto id = create();
  ASSERT_EQ(bind(id.get(), 0, 4711), 0);
  ASSERT_EQ(::rdma_listen(id.get(), 0), 0);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  const auto other = create();
  EXPECT_EQ(bind(other.get(), 0, 4711), EADDRNOTAVAIL) << "the listener has the port";
  ASSERT_EQ(resolve(other.get(), kThisHca), 0);
  EXPECT_EQ(next_event(), RDMA_CM_EVENT_ADDR_RESOLVED);
}

TEST_F(RdmaCmCalls, ErrorsAreThoseOfTheKernel) {
  const auto one = create();
  const auto other = create();
  EXPECT_EQ(::rdma_listen(one.get(), 0), 0) << "binds it to any address";
  EXPECT_EQ(::rdma_disconnect(one.get()) == 0 ? 0 : errno, EINVAL);
  EXPECT_EQ(bind(one.get(), 0, 1), EINVAL) << "it is bound";
  EXPECT_EQ(bind(other.get(), kNobody, 4000), EADDRNOTAVAIL);
  const std::uint16_t taken = ntohs(::rdma_get_src_port(one.get()));
  EXPECT_EQ(bind(other.get(), 0, taken), EADDRNOTAVAIL);
  EXPECT_EQ(bind(other.get(), kThisHca, 0), 0);
}

TEST_F(RdmaCmCalls, ASynchronousIdReturnsTheErrorOfItsEvent) {
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(::rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP), 0);
  const IdOwner owner(id, &::rdma_destroy_id);
  EXPECT_EQ(resolve(id, kNobody), ETIMEDOUT);
  ASSERT_EQ(resolve(id, kThisHca, 4712), 0);
  ASSERT_EQ(::rdma_resolve_route(id, kMilliseconds), 0);
  ibv_qp_init_attr attributes{};
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap.max_send_wr = attributes.cap.max_recv_wr = 1;
  attributes.cap.max_send_sge = attributes.cap.max_recv_sge = 1;
  ASSERT_EQ(::rdma_create_qp(id, nullptr, &attributes), 0);
  EXPECT_EQ(::rdma_connect(id, nullptr), -1);
  EXPECT_EQ(errno, ECONNREFUSED) << "nobody listens";
  ::rdma_destroy_qp(id);
}

}  // namespace
