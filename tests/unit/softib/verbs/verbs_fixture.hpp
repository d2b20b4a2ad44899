// Two HCAs of a subnet in one process, each with a device: the one that ibv_get_device_list()
// lists, and a second one that a program could not have. Sockets, engines and descriptors are real.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "packets.hpp"
#include "softib/verbs/device.hpp"
#include "test_subnet.hpp"

namespace softib::verbs {

using namespace test;

inline constexpr std::uint32_t kQKey = 0x0b1b;
inline constexpr std::size_t kGrh = 40;
inline constexpr int kTimeout = 30'000;  ///< milliseconds

/// A subnet with the nodes "host1" and "host2"; this process is on host1.
class VerbsSubnet {
 public:
  VerbsSubnet() {
    subnet.enter("host1");
    other_endpoint = subnet.attach(2);
    other_device = std::make_unique<verbs::Device>(*other_endpoint, 0);
    other_endpoint->set_receiver(other_device.get());
  }
  ~VerbsSubnet() { other_endpoint->set_receiver(nullptr); }

  /// One for all tests, since the process has one endpoint.
  static VerbsSubnet& instance() {
    static VerbsSubnet one;
    return one;
  }
  /// Changes the port of host1 as the subnet process does.
  void change_port(const std::function<void(PortAttributes&)>& change) {
    auto node = subnet.fabric().node(1).value();
    change(node.port);
    subnet.fabric().set_node(1, node);
    (void)other_endpoint->wake_processes(1);
  }

  TestSubnet subnet;
  std::unique_ptr<endpoint::Endpoint> other_endpoint;
  std::unique_ptr<verbs::Device> other_device;
};

/// The objects that a program creates on a device to send and receive.
class Side {
 public:
  explicit Side(ibv_device* device)
      : context(ibv_open_device(device)),
        pd(ibv_alloc_pd(context)),
        channel(ibv_create_comp_channel(context)),
        cq(ibv_create_cq(context, 128, this, channel, 0)),
        memory(16384),
        mr(ibv_reg_mr(pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE)) {
    EXPECT_TRUE(context && pd && channel && cq && mr);
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;
  ~Side() {
    if (context != nullptr) {
      EXPECT_EQ(ibv_close_device(context), 0);
    }
  }

  [[nodiscard]] ibv_qp* make_qp() {
    auto init = initial();
    auto* const qp = ibv_create_qp(pd, &init);
    EXPECT_NE(qp, nullptr);
    bring_up(qp);
    return qp;
  }
  [[nodiscard]] ibv_qp_init_attr initial() const {
    ibv_qp_init_attr init{};
    init.send_cq = cq;
    init.recv_cq = cq;
    init.cap = {64, 64, 2, 2, 64};
    init.qp_type = IBV_QPT_UD;
    return init;
  }
  static void bring_up(ibv_qp* qp) {
    ibv_qp_attr attr{};
    attr.port_num = 1;
    attr.qkey = kQKey;
    attr.qp_state = IBV_QPS_INIT;
    EXPECT_EQ(
        ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY), 0);
    attr.qp_state = IBV_QPS_RTR;
    EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    attr.qp_state = IBV_QPS_RTS;
    EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
  }
  [[nodiscard]] ibv_ah* handle(Lid to) const {
    ibv_ah_attr attr{};
    attr.dlid = to.value();
    attr.port_num = 1;
    auto* const ah = ibv_create_ah(pd, &attr);
    EXPECT_NE(ah, nullptr);
    return ah;
  }
  [[nodiscard]] ibv_sge element(std::size_t offset, std::size_t size) {
    return {std::bit_cast<std::uint64_t>(memory.data() + offset), static_cast<std::uint32_t>(size),
            mr->lkey};
  }
  int post_receive(ibv_qp* qp, std::size_t offset = 0, std::size_t size = 2088,
                   std::uint64_t id = 7) {
    auto sge = element(offset, size);
    ibv_recv_wr wr{id, nullptr, &sge, 1};
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(qp, &wr, &bad);
  }
  int send(ibv_qp* qp, ibv_ah* ah, std::uint32_t to, const std::string& text, unsigned flags = 0) {
    std::copy(text.begin(), text.end(), memory.begin() + 8192);
    auto sge = element(8192, text.size());
    ibv_send_wr wr{};
    wr.wr_id = 9;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED | flags;
    wr.wr.ud = {ah, to, kQKey};
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp, &wr, &bad);
  }
  /// Polls until there is a completion.
  [[nodiscard]] ibv_wc next_completion() const {
    ibv_wc wc{};
    int count = 0;
    EXPECT_TRUE(eventually([&] { return (count = ibv_poll_cq(cq, 1, &wc)) != 0; }));
    EXPECT_EQ(count, 1);
    return wc;
  }

  /// Polls for the completions of a send and a receive, in any order; returns that of the receive.
  [[nodiscard]] ibv_wc next_receive_and_send() const {
    const auto first = next_completion();
    const auto second = next_completion();
    const bool first_is_receive = first.opcode == IBV_WC_RECV;
    EXPECT_EQ((first_is_receive ? second : first).opcode, IBV_WC_SEND);
    return first_is_receive ? first : second;
  }

  ibv_context* context;
  ibv_pd* pd;
  ibv_comp_channel* channel;
  ibv_cq* cq;
  std::vector<std::uint8_t> memory;
  ibv_mr* mr;
};

[[nodiscard]] inline bool is_readable(int fd, int milliseconds = 0) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, milliseconds) == 1;
}

[[nodiscard]] inline bool is_asleep(const std::string& task) {
  std::ifstream stat("/proc/self/task/" + task + "/stat");
  const std::string text{std::istreambuf_iterator<char>(stat), {}};
  return text.find(") S ") != std::string::npos;
}

/// Waits until the engines have nothing to do: all other threads sleep.
inline void wait_for_engines() {
  EXPECT_TRUE(eventually([] {
    const auto own = std::to_string(::gettid());
    return std::ranges::all_of(std::filesystem::directory_iterator("/proc/self/task"),
                               [&](auto& task) {
                                 const auto name = task.path().filename().string();
                                 return name == own || is_asleep(name);
                               });
  }));
}

class VerbsTest : public testing::Test {
 protected:
  VerbsTest() : list_(ibv_get_device_list(nullptr)) {}
  ~VerbsTest() override { ibv_free_device_list(list_); }

  static void drain(ibv_qp* qp) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_SQD;
    attr.en_sqd_async_notify = 1;
    EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
  }
  [[nodiscard]] static Lid near_lid() { return TestSubnet::lid(1); }
  [[nodiscard]] static Lid far_lid() { return TestSubnet::lid(2); }

  /// Packets that host1 received for unknown queue pairs.
  [[nodiscard]] std::uint64_t near_drops() { return counted(fabric::PortCounter::drop_unknown_qp); }
  /// Of host1.
  [[nodiscard]] std::uint64_t counted(fabric::PortCounter counter) {
    return subnet_.subnet.fabric().counters(1)[static_cast<std::size_t>(counter)];
  }

  VerbsSubnet& subnet_ = VerbsSubnet::instance();
  ibv_device** list_;
  Side near_{list_[0]};
  Side far_{&subnet_.other_device->listed()};
};

}  // namespace softib::verbs
