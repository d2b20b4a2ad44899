// Completion channels and asynchronous events.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

#include "softib/transport/ring.hpp"
#include "softib/transport/unix_socket.hpp"
#include "softib/transport/wakeup_table.hpp"
#include "softib/transport/wire_message.hpp"
#include "softib/verbs/event_queue.hpp"
#include "verbs_fixture.hpp"

namespace softib::verbs {
namespace {

/// Waits until a thread sleeps, or has done its work.
void wait_until_asleep(const std::atomic<pid_t>& thread, const std::atomic<bool>& done) {
  EXPECT_TRUE(eventually([&] { return done || is_asleep(std::to_string(thread)); }));
}

class EventsTest : public VerbsTest {
 protected:
  /// A queue pair whose send queue has overrun its completion queue: events of both are queued.
  struct Overrun {
    ibv_cq* cq;
    ibv_qp* qp;
  };
  [[nodiscard]] Overrun overrun_a_queue() {
    auto* const cq = ibv_create_cq(near_.context, 1, nullptr, nullptr, 0);
    auto init = near_.initial();
    init.send_cq = cq;
    auto* const qp = ibv_create_qp(near_.pd, &init);
    Side::bring_up(qp);
    auto* const ah = near_.handle(far_lid());
    EXPECT_EQ(near_.send(qp, ah, 0x10000, "one"), 0);
    EXPECT_EQ(near_.send(qp, ah, 0x10000, "two"), 0);
    return {cq, qp};
  }
  /// Posts a receive on `qp` and sends it a datagram from the other HCA.
  void send_to(ibv_qp* qp) {
    ASSERT_EQ(near_.post_receive(qp), 0);
    ASSERT_EQ(far_.send(far_.make_qp(), far_.handle(near_lid()), qp->qp_num, "wake"), 0);
  }
  /// The first datagram opens a connection, which takes the engines a while.
  void exchange(ibv_qp* qp) {
    ibv_wc wc{};
    EXPECT_EQ(ibv_poll_cq(near_.cq, 1, &wc), 0);  // from now on packets wake nobody
    send_to(qp);
    EXPECT_EQ(near_.next_completion().opcode, IBV_WC_RECV);
    wait_for_engines();
  }
  [[nodiscard]] ibv_cq* take_event() {
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    EXPECT_EQ(ibv_get_cq_event(near_.channel, &cq, &cq_context), 0);
    EXPECT_EQ(cq_context, &near_);
    return cq;
  }
  [[nodiscard]] ibv_async_event take_async_event() {
    ibv_async_event event{};
    EXPECT_EQ(ibv_get_async_event(near_.context, &event), 0);
    return event;
  }
};

TEST_F(EventsTest, WakesAThreadInEpoll) {
  auto* const qp = near_.make_qp();
  const ipoib::FileDescriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  ASSERT_EQ(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, near_.channel->fd, &event), 0);
  ASSERT_EQ(ibv_req_notify_cq(near_.cq, 0), 0);
  EXPECT_EQ(::epoll_wait(epoll.get(), &event, 1, 0), 0);
  send_to(qp);
  EXPECT_EQ(::epoll_wait(epoll.get(), &event, 1, kTimeout), 1);
  EXPECT_EQ(take_event(), near_.cq);
  EXPECT_EQ(::epoll_wait(epoll.get(), &event, 1, 0), 0);
  ibv_ack_cq_events(near_.cq, 1);
}

TEST_F(EventsTest, HasNoEventUnlessArmed) {
  auto* const qp = near_.make_qp();
  send_to(qp);
  EXPECT_EQ(near_.next_completion().opcode, IBV_WC_RECV);
  EXPECT_FALSE(is_readable(near_.channel->fd));
}

// Also if it arrives while the queue is being armed: a program that waits then must learn of it.
TEST_F(EventsTest, WhatHasNotBeenPolledCausesAnEventAtOnce) {
  auto* const qp = near_.make_qp();
  exchange(qp);
  send_to(qp);
  ASSERT_EQ(ibv_req_notify_cq(near_.cq, 0), 0);
  EXPECT_TRUE(is_readable(near_.channel->fd));
  ASSERT_EQ(ibv_req_notify_cq(near_.cq, 0), 0);
  EXPECT_EQ(take_event(), near_.cq);
  ASSERT_EQ(ibv_req_notify_cq(near_.cq, 0), 0);
  EXPECT_FALSE(is_readable(near_.channel->fd)) << "one for a completion";
  EXPECT_EQ(near_.next_completion().opcode, IBV_WC_RECV);
  ibv_ack_cq_events(near_.cq, 1);
}

// So a program that then waits for the event of an armed queue finds the completion.
TEST_F(EventsTest, PacketsDuringABatchAreLeftForTheNextOne) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 16;
  auto* const cq = ibv_create_cq_ex(near_.context, &attr);
  ASSERT_NE(cq, nullptr);
  auto init = near_.initial();
  init.recv_cq = ibv_cq_ex_to_cq(cq);
  auto* const qp = ibv_create_qp(near_.pd, &init);
  Side::bring_up(qp);
  exchange(near_.make_qp());
  ibv_poll_cq_attr none{};
  // An engine that something else has woken may take the packet, but not each time.
  constexpr int kAttempts = 1000;
  const auto begins = [&] { return ibv_start_poll(cq, &none) == 0; };
  bool is_left = false;
  for (int attempt = 0; attempt < kAttempts && !is_left; ++attempt) {
    EXPECT_EQ(ibv_start_poll(cq, &none), ENOENT);  // from now on packets wake nobody
    send_to(qp);
    ASSERT_TRUE(eventually(begins));
    send_to(qp);
    is_left = ibv_next_poll(cq) == ENOENT;
    ibv_end_poll(cq);
  }
  ASSERT_TRUE(is_left);
  EXPECT_TRUE(eventually(begins));
  ibv_end_poll(cq);
}

TEST_F(EventsTest, BlocksUntilAnEvent) {
  auto* const qp = near_.make_qp();
  ASSERT_EQ(ibv_req_notify_cq(near_.cq, 0), 0);
  std::thread waiter([this] { EXPECT_EQ(take_event(), near_.cq); });
  send_to(qp);
  waiter.join();
  ibv_ack_cq_events(near_.cq, 1);
}

TEST_F(EventsTest, NonBlockingChannelFailsWithEagain) {
  ASSERT_EQ(::fcntl(near_.channel->fd, F_SETFL, O_NONBLOCK), 0);
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  EXPECT_EQ(ibv_get_cq_event(near_.channel, &cq, &cq_context), -1);
  EXPECT_EQ(errno, EAGAIN);
}

/// A sender of the test, which can send wakeups without packets.
class WakeupSender {
 public:
  WakeupSender(const fabric::SubnetFolder& folder, Qpn to)
      : connection_(transport::connect_to(folder, 1, QpnLayout::slot(to))) {
    const auto ring = transport::make_ring_memory();
    EXPECT_EQ(
        transport::send_message(connection_.get(), transport::MessageKind::ring, {}, ring->get()),
        0);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(transport::send_message(connection_.get(), transport::MessageKind::wakeup), 0);
    }
    const auto table = transport::WakeupView::map(next(transport::MessageKind::wakeup_table).get());
    const auto number = transport::WakeupView::waiter(table->entry(QpnLayout::index(to)));
    std::array<std::uint8_t, sizeof number> body;
    std::memcpy(body.data(), &number, sizeof number);
    EXPECT_EQ(
        transport::send_message(connection_.get(), transport::MessageKind::want_wakeup_fd, body),
        0);
    sender_ = next(transport::MessageKind::wakeup_fd);
  }
  bool wake() { return transport::wake(sender_.get()); }
  /// A wakeup that looks like one of the receiver's own.
  bool pretend() { return ::send(sender_.get(), "x", 1, MSG_DONTWAIT) == 1; }

 private:
  ipoib::FileDescriptor next(transport::MessageKind kind) {
    transport::MessageReader reader;
    EXPECT_TRUE(eventually(
        [&] { return reader.next(connection_.get()) == transport::MessageReader::Got::message; }));
    EXPECT_EQ(reader.kind(), kind);
    return reader.take_fd();
  }

  transport::GuardedFd connection_;
  ipoib::FileDescriptor sender_;
};

TEST_F(EventsTest, NonBlockingChannelFullOfWakeupsFailsWithEagain) {
  ASSERT_EQ(::fcntl(near_.channel->fd, F_SETFL, O_NONBLOCK), 0);
  auto* const qp = near_.make_qp();
  ASSERT_EQ(ibv_req_notify_cq(near_.cq, 0), 0);
  WakeupSender faulty(subnet_.subnet.folder(), Qpn(qp->qp_num));
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  for (const bool pretends : {false, true}) {
    while (pretends ? faulty.pretend() : faulty.wake()) {
    }
    EXPECT_EQ(ibv_get_cq_event(near_.channel, &cq, &cq_context), -1);
    EXPECT_EQ(errno, EAGAIN);
  }
  send_to(qp);
  ASSERT_TRUE(eventually(
      [&] { return ibv_get_cq_event(near_.channel, &cq, &cq_context) == 0 || errno != EAGAIN; }));
  EXPECT_EQ(cq, near_.cq);
  ibv_ack_cq_events(near_.cq, 1);
}

/// A queue full of wakeups of one sender neither hides the packets of another nor the events.
TEST_F(EventsTest, AFullChannelLosesNoEvent) {
  ASSERT_EQ(::fcntl(near_.channel->fd, F_SETFL, O_NONBLOCK), 0);
  auto* const qp = near_.make_qp();
  ASSERT_EQ(ibv_req_notify_cq(near_.cq, 0), 0);
  WakeupSender faulty(subnet_.subnet.folder(), Qpn(qp->qp_num));
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  for (int i = 0; i < 20; ++i) {
    while (i % 2 == 0 ? faulty.pretend() : faulty.wake()) {
    }
    send_to(qp);
    ASSERT_TRUE(eventually([&] {
      return is_readable(near_.channel->fd, kTimeout) &&
             ibv_get_cq_event(near_.channel, &cq, &cq_context) == 0;
    }));
    EXPECT_EQ(near_.next_completion().status, IBV_WC_SUCCESS);
    ibv_ack_cq_events(near_.cq, 1);
    ASSERT_EQ(ibv_req_notify_cq(near_.cq, 0), 0);
  }
}

TEST_F(EventsTest, DestroyingAQueueWithdrawsItsEvents) {
  auto* const cq = ibv_create_cq(near_.context, 8, nullptr, near_.channel, 0);
  auto init = near_.initial();
  init.recv_cq = cq;
  auto* const qp = ibv_create_qp(near_.pd, &init);
  Side::bring_up(qp);
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  send_to(qp);
  ASSERT_TRUE(is_readable(near_.channel->fd, kTimeout));
  EXPECT_EQ(ibv_destroy_cq(cq), EBUSY);
  EXPECT_TRUE(is_readable(near_.channel->fd));
  ASSERT_EQ(ibv_destroy_qp(qp), 0);
  ASSERT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_FALSE(is_readable(near_.channel->fd));
}

TEST_F(EventsTest, DestroyingAQueueWaitsForAcknowledgements) {
  auto* const qp = near_.make_qp();
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(ibv_req_notify_cq(near_.cq, 0), 0);
    send_to(qp);
    EXPECT_EQ(take_event(), near_.cq);
  }
  ASSERT_EQ(ibv_destroy_qp(qp), 0);
  std::atomic<bool> destroyed = false;
  std::atomic<pid_t> thread = 0;
  std::thread destroyer([&] {
    thread = ::gettid();
    EXPECT_EQ(ibv_destroy_cq(near_.cq), 0);
    destroyed = true;
  });
  ibv_ack_cq_events(near_.cq, 1);
  wait_until_asleep(thread, destroyed);
  EXPECT_FALSE(destroyed);
  // The thread that has taken the event uses the queue before it acknowledges.
  std::array<ibv_wc, 4> completions{};
  EXPECT_EQ(ibv_poll_cq(near_.cq, 4, completions.data()), 0) << "those of the queue pair have gone";
  EXPECT_EQ(ibv_req_notify_cq(near_.cq, 0), 0);
  auto* const other = ibv_create_cq(near_.context, 1, nullptr, nullptr, 0);
  EXPECT_NE(other->handle, near_.cq->handle) << "its place is not free";
  EXPECT_EQ(ibv_destroy_cq(other), 0);
  ibv_ack_cq_events(near_.cq, 1);
  destroyer.join();
  EXPECT_TRUE(destroyed);
}

TEST_F(EventsTest, SeveralEventsAreAcknowledgedAtOnce) {
  auto* const qp = near_.make_qp();
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(ibv_req_notify_cq(near_.cq, 0), 0);
    send_to(qp);
    EXPECT_EQ(take_event(), near_.cq);
  }
  ASSERT_EQ(ibv_destroy_qp(qp), 0);
  ibv_ack_cq_events(near_.cq, 3);
  EXPECT_EQ(ibv_destroy_cq(near_.cq), 0);
}

TEST_F(EventsTest, ChannelInUseCannotBeDestroyed) {
  EXPECT_EQ(ibv_destroy_comp_channel(near_.channel), EBUSY);
  ASSERT_EQ(ibv_destroy_cq(near_.cq), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(near_.channel), 0);
}

TEST_F(EventsTest, SendsPortEventsToEachContext) {
  Side other(list_[0]);
  EXPECT_FALSE(is_readable(near_.context->async_fd));
  subnet_.change_port([](PortAttributes& port) { port.state = PortState::init; });
  for (auto* const context : {near_.context, other.context}) {
    ASSERT_TRUE(is_readable(context->async_fd, kTimeout));
    ibv_async_event event{};
    ASSERT_EQ(ibv_get_async_event(context, &event), 0);
    EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ERR);
    EXPECT_EQ(event.element.port_num, 1);
    ibv_ack_async_event(&event);
  }
  ibv_port_attr attr{};
  ASSERT_EQ(ibv_query_port(near_.context, 1, &attr), 0);
  EXPECT_EQ(attr.state, IBV_PORT_INIT);
  subnet_.change_port([](PortAttributes& port) {
    port.state = PortState::active;
    ++port.reregister_count;
  });
  auto event = take_async_event();
  EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ACTIVE);
  event = take_async_event();
  EXPECT_EQ(event.event_type, IBV_EVENT_CLIENT_REREGISTER);
}

TEST_F(EventsTest, FindsAnotherDeviceAfterAFailure) {
  auto* const qp = near_.make_qp();
  ASSERT_EQ(near_.post_receive(qp), 0);
  const auto set_failed = [&](bool failed) {
    subnet_.subnet.set_failed(1, failed);
    (void)subnet_.other_endpoint->wake_processes(1);
  };
  set_failed(true);
  auto event = take_async_event();
  EXPECT_EQ(event.event_type, IBV_EVENT_DEVICE_FATAL);
  ibv_ack_async_event(&event);
  EXPECT_EQ(near_.next_completion().status, IBV_WC_WR_FLUSH_ERR);
  ibv_port_attr attr{};
  EXPECT_EQ(ibv_query_port(near_.context, 1, &attr), EIO);
  auto init = near_.initial();
  EXPECT_EQ(ibv_create_qp(near_.pd, &init), nullptr);
  EXPECT_EQ(errno, EIO);
  EXPECT_EQ(ibv_get_device_list(nullptr), nullptr);
  EXPECT_EQ(errno, ENODEV);
  set_failed(false);
  EXPECT_EQ(ibv_query_port(near_.context, 1, &attr), EIO) << "an open context does not recover";
  auto** const list = ibv_get_device_list(nullptr);
  ASSERT_NE(list, nullptr);
  {
    Side again(list[0]);
    auto* const to = again.make_qp();
    ASSERT_EQ(again.post_receive(to), 0);
    ASSERT_EQ(far_.send(far_.make_qp(), far_.handle(near_lid()), to->qp_num, "again"), 0);
    EXPECT_EQ(again.next_completion().status, IBV_WC_SUCCESS);
  }
  ibv_free_device_list(list);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(EventsTest, DestroyingAQueuePairWaitsForAcknowledgements) {
  auto* const qp = near_.make_qp();
  drain(qp);
  auto event = take_async_event();
  EXPECT_EQ(event.event_type, IBV_EVENT_SQ_DRAINED);
  EXPECT_EQ(event.element.qp, qp);
  std::atomic<bool> destroyed = false;
  std::atomic<pid_t> thread = 0;
  std::thread destroyer([&] {
    thread = ::gettid();
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    destroyed = true;
  });
  wait_until_asleep(thread, destroyed);
  EXPECT_FALSE(destroyed);
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  EXPECT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RESET) << "it is there until its event is acknowledged";
  auto* const other = near_.make_qp();
  EXPECT_NE(other->qp_num, qp->qp_num);
  EXPECT_EQ(ibv_destroy_qp(other), 0);
  ibv_ack_async_event(&event);
  destroyer.join();
}

TEST_F(EventsTest, DestroyingAQueuePairWithdrawsItsEvents) {
  auto* const qp = near_.make_qp();
  drain(qp);
  ASSERT_TRUE(is_readable(near_.context->async_fd));
  ASSERT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_FALSE(is_readable(near_.context->async_fd));
}

TEST_F(EventsTest, ReportsAnOverrunOfACompletionQueue) {
  const auto [cq, qp] = overrun_a_queue();
  auto event = take_async_event();
  EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(event.element.cq, cq);
  ibv_ack_async_event(&event);
  event = take_async_event();
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_FATAL);
  EXPECT_EQ(event.element.qp, qp);
  ibv_ack_async_event(&event);
  ibv_wc wc{};
  EXPECT_EQ(ibv_poll_cq(cq, 1, &wc), 1);
  EXPECT_EQ(ibv_poll_cq(cq, 1, &wc), -1);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(EventsTest, ReportsAQueuePairThatTheOperatorLetsFail) {
  auto* const qp = near_.make_qp();
  ASSERT_EQ(near_.post_receive(qp), 0);
  const auto before = counted(fabric::PortCounter::qp_errors);
  subnet_.change_port([&](PortAttributes& port) { port.qp_errors.add(Qpn(qp->qp_num)); });
  auto event = take_async_event();
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_FATAL);
  EXPECT_EQ(event.element.qp, qp);
  ibv_ack_async_event(&event);
  ibv_wc wc{};
  ASSERT_EQ(ibv_poll_cq(near_.cq, 1, &wc), 1);
  EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_TRUE(eventually([&] { return counted(fabric::PortCounter::qp_errors) == before + 1; }));
}

TEST_F(EventsTest, DestroyingAQueueWithdrawsItsAsynchronousEvents) {
  const auto [cq, qp] = overrun_a_queue();
  ASSERT_TRUE(is_readable(near_.context->async_fd));
  ASSERT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_TRUE(is_readable(near_.context->async_fd)) << "the event of the completion queue";
  ASSERT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_FALSE(is_readable(near_.context->async_fd));
}

TEST_F(EventsTest, DestroyingAQueueWaitsForAcknowledgementsOfAsynchronousEvents) {
  const auto [cq, qp] = overrun_a_queue();
  auto event = take_async_event();
  ASSERT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
  ASSERT_EQ(ibv_destroy_qp(qp), 0);
  std::atomic<bool> destroyed = false;
  std::atomic<pid_t> thread = 0;
  std::thread destroyer([&, cq = cq] {
    thread = ::gettid();
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    destroyed = true;
  });
  wait_until_asleep(thread, destroyed);
  EXPECT_FALSE(destroyed);
  ibv_ack_async_event(&event);
  destroyer.join();
}

struct Numbers : verbs::EventQueue<int> {
  Numbers() : EventQueue(transport::WakeupSocket::make().value()) {}
};

TEST(EventQueue, KeepsOrderAndIsReadableWhileAnEventIsQueued) {
  Numbers queue;
  EXPECT_FALSE(is_readable(queue.fd()));
  queue.push(1);
  queue.push(2);
  for (const int wanted : {1, 2}) {
    EXPECT_TRUE(is_readable(queue.fd()));
    EXPECT_TRUE(queue.take([&](int event) { EXPECT_EQ(event, wanted); }));
  }
  EXPECT_FALSE(is_readable(queue.fd()));
}

TEST(EventQueue, WithdrawsSelectedEvents) {
  Numbers queue;
  for (const int event : {1, 2, 1, 3}) queue.push(event);
  queue.withdraw([](int event) { return event == 1; });
  for (const int wanted : {2, 3}) {
    EXPECT_TRUE(queue.take([&](int event) { EXPECT_EQ(event, wanted); }));
  }
  EXPECT_FALSE(is_readable(queue.fd()));
}

/// A reader that has taken the wakeup of a withdrawn event must wait for the next event.
TEST(EventQueue, ReaderWithoutAnEventReadsAgain) {
  Numbers queue;
  queue.socket().wake();  // without an event
  std::thread reader([&] { EXPECT_TRUE(queue.take([](int event) { EXPECT_EQ(event, 5); })); });
  queue.push(5);
  reader.join();
}

/// The descriptor of a queue, in epoll with edges (EPOLLET).
class Edges {
 public:
  explicit Edges(int fd) : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;
    EXPECT_EQ(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event), 0);
  }
  [[nodiscard]] bool next() const {
    epoll_event event{};
    return ::epoll_wait(epoll_.get(), &event, 1, 0) == 1;
  }

 private:
  ipoib::FileDescriptor epoll_;
};

/// A queue that another process wakes, and whose descriptor is O_NONBLOCK.
class WokenQueueTest : public ::testing::Test {
 protected:
  WokenQueueTest() { EXPECT_EQ(::fcntl(queue_.fd(), F_SETFL, O_NONBLOCK), 0); }

  const TestSubnet subnet_;
  verbs::EventQueue<int> queue_{
      transport::WakeupSocket::make_shared(subnet_.folder(), 1, 0).value()};
  const ipoib::FileDescriptor sender_ = queue_.socket().make_sender().value();
  const Edges edges_{queue_.fd()};
};

TEST(WakeupSocketTest, WithoutDescriptorsItSaysSo) {
  const TestSubnet subnet;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const auto first_free = static_cast<rlim_t>(ipoib::FileDescriptor(::dup(0)).get());
  const auto made_with = [&](rlim_t descriptors) {
    const rlimit few{first_free + descriptors, before.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    auto made = transport::WakeupSocket::make_shared(subnet.folder(), 1, 0);
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    return made;
  };
  constexpr rlim_t kNeeded = 4;  // at the same time, with the folder of the node
  for (rlim_t descriptors = 0; descriptors < kNeeded; ++descriptors) {
    const auto made = made_with(descriptors);
    ASSERT_FALSE(made.has_value()) << descriptors;
    EXPECT_EQ(made.error().code, EMFILE) << descriptors << ": " << made.error().message;
  }
  EXPECT_TRUE(made_with(kNeeded).has_value());
}

/// Another process can wake without end.
TEST_F(WokenQueueTest, NonBlockingTakeReturnsDespiteEndlessWakeups) {
  ASSERT_TRUE(transport::wake(sender_.get()));
  int calls = 0;
  const auto take = [&](int push_at) {
    calls = 0;
    return queue_.take([](int event) { EXPECT_EQ(event, 5); },
                       [&] {
                         ASSERT_LT(++calls, 1000);
                         if (calls == push_at) queue_.push(5);
                         EXPECT_TRUE(transport::wake(sender_.get()));
                       });
  };
  errno = 0;
  EXPECT_FALSE(take(0));
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(calls, verbs::kMaxIdleWakeups);
  EXPECT_TRUE(take(3)) << "takes an event that the call pushes";
  EXPECT_EQ(calls, 3);
}

/// However many wakeups of others are before it.
TEST_F(WokenQueueTest, AnEventAfterEagainIsAnEdge) {
  const auto take = [&] { return queue_.take([](int /*event*/) {}); };
  for (int wakeups = 0; wakeups < 8; ++wakeups) {
    for (int i = 0; i < wakeups; ++i) ASSERT_TRUE(transport::wake(sender_.get()));
    queue_.push(1);
    EXPECT_TRUE(take());
    EXPECT_FALSE(take());
    (void)edges_.next();
    EXPECT_FALSE(edges_.next());
    queue_.push(2);
    EXPECT_TRUE(edges_.next()) << "after " << wakeups;
    EXPECT_TRUE(take());
  }
}

TEST_F(WokenQueueTest, TheRestOfManyWakeupsIsAnEdge) {
  int calls = 0;
  const auto take = [&] { return queue_.take([](int /*event*/) {}, [&] { ++calls; }); };
  int sent = 0;
  while (transport::wake(sender_.get())) ++sent;
  ASSERT_GT(sent, verbs::kMaxIdleWakeups);
  int turns = 0;
  for (; edges_.next(); ++turns) EXPECT_FALSE(take());
  EXPECT_GE(calls, sent);
  EXPECT_GT(turns, 1);
  EXPECT_FALSE(is_readable(queue_.fd()));
}

/// The wakeup of another process is not taken for that of an event, or lost with an event. The
/// descriptor is not readable for longer than there is something.
TEST_F(WokenQueueTest, CallsForEachWakeupOfAnotherProcess) {
  int calls = 0;
  const auto take = [&] { return queue_.take([](int /*event*/) {}, [&] { ++calls; }); };
  ASSERT_TRUE(transport::wake(sender_.get()));
  queue_.push(1);
  EXPECT_TRUE(take());
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(is_readable(queue_.fd())) << "the event's wakeup is not left";
  ASSERT_TRUE(transport::wake(sender_.get()));
  EXPECT_TRUE(queue_.take([](int event) { EXPECT_EQ(event, 3); }, [&] { queue_.push(3); }));
  EXPECT_FALSE(is_readable(queue_.fd()));
  ASSERT_TRUE(transport::wake(sender_.get()));
  queue_.push(1);
  queue_.withdraw([](int /*event*/) { return true; });
  EXPECT_TRUE(is_readable(queue_.fd()));
  EXPECT_FALSE(take());
  EXPECT_EQ(calls, 2);
  EXPECT_FALSE(is_readable(queue_.fd()));
}

/// Many threads take and withdraw while another process wakes: nothing is lost, and nothing is
/// left.
TEST_F(WokenQueueTest, LosesNoWakeupOfOthers) {
  constexpr int kRounds = 2000;
  std::atomic<int> packets = 0;
  std::atomic<int> taken = 0;
  std::atomic<bool> is_done = false;
  const auto take_all = [&] {
    return queue_.take([&](int /*event*/) { ++taken; },
                       [&] {
                         for (int arrived = packets.exchange(0); arrived != 0; --arrived)
                           queue_.push(1);
                       });
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!is_done) (void)take_all();
    });
  }
  threads.emplace_back([&] {
    while (!is_done) {
      queue_.push(0);
      queue_.withdraw([](int event) { return event == 0; });
    }
  });
  int sent = 0;
  for (; sent < kRounds; ++sent) {
    ++packets;
    (void)transport::wake(sender_.get());
  }
  EXPECT_TRUE(eventually([&] { return packets == 0 && taken >= sent; })) << taken;
  is_done = true;
  for (auto& each : threads) each.join();
  while (take_all()) {
  }
  EXPECT_FALSE(is_readable(queue_.fd()));
}

TEST(EventQueue, IsBounded) {
  Numbers queue;
  for (std::size_t i = 0; i < verbs::kMaxQueuedEvents + 5; ++i) queue.push(static_cast<int>(i));
  std::size_t taken = 0;
  while (is_readable(queue.fd())) taken += queue.take([](int) {}) ? 1 : 0;
  EXPECT_EQ(taken, verbs::kMaxQueuedEvents);
}

}  // namespace
}  // namespace softib::verbs
