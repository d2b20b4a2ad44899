// Several connections that share receives, over a network that loses, duplicates and reorders
// packets: each message takes one receive, and arrives once and whole, in the order of its
// connection.
#include "tests/unit/softib/hca/connection/connection_fixture.hpp"

namespace softib::hca {
namespace {

constexpr std::size_t kPairs = 3;
constexpr std::size_t kMessages = 25;  ///< of each pair
constexpr std::size_t kLongest = 6000;
constexpr std::size_t kTotal = kPairs * kMessages;

struct SharedMessage {
  ibv_wr_opcode opcode;
  std::size_t size;
  std::size_t queue;  ///< that it names
};

class SharedTraffic {
 public:
  SharedTraffic(std::uint32_t seed, bool is_xrc) : random_(seed), network_(seed), is_xrc_(is_xrc) {
    network_.add(a_.hca);
    network_.add(b_.hca);
    network_.faults = {
        .loss = seed % 3 * 20, .duplicate = 30, .reorder = 30, .whole = seed % 2 * 500};
    network_.room = 1 + seed % 40;
    for (auto& byte : a_.area) byte = static_cast<std::uint8_t>(random_());
    auto* const domain = is_xrc ? *b_.hca.shared_receives().open_domain() : nullptr;
    for (auto& queue : queues_) {
      queue = *b_.hca.shared_receives().create({.pd = b_.pd,
                                                .attributes = {kTotal, 1, 0},
                                                .domain = domain,
                                                .cq = is_xrc ? b_.cq : nullptr});
    }
    for (std::size_t pair = 0; pair < kPairs; ++pair) make_pair(pair, domain, seed);
  }

  void run() {
    for (std::size_t i = 0; i < kMessages; ++i) {
      for (std::size_t pair = 0; pair < kPairs; ++pair) post(pair);
    }
    std::size_t steps = 0;
    while (network_.step() || posted_ < kTotal) {
      ASSERT_LT(++steps, 1'000'000U);
      if (posted_ < kTotal && random_() % 4 == 0) post_receive();  // late: there are RNR NAKs, too
      collect();
    }
  }
  void check() {
    EXPECT_EQ(sent_, kTotal);
    EXPECT_EQ(received_, kTotal);
    for (auto* const queue : queues_) EXPECT_EQ(queue->waiting(), 0U);
  }
  [[nodiscard]] const HcaCounters& counters() const { return b_.hca.counters(); }

 private:
  /// In the memory of a.
  static std::size_t source(std::size_t pair, std::size_t message) {
    return (pair * kMessages + message) * kLongest;
  }

  void make_pair(std::size_t pair, XrcDomain* domain, std::uint32_t seed) {
    auto from = a_.config();
    from.type = is_xrc_ ? IBV_QPT_XRC_SEND : IBV_QPT_RC;
    auto to = b_.config();
    to.type = IBV_QPT_RC;
    to.shared = queues_[0];
    if (is_xrc_) to = {.domain = domain, .type = IBV_QPT_XRC_RECV};
    senders_[pair] = *a_.hca.create_queue_pair(from);
    targets_[pair] = *b_.hca.create_queue_pair(to);
    connect_pair(a_, *senders_[pair], b_, *targets_[pair], mtu_of(seed));
  }
  void post(std::size_t pair) {
    constexpr std::array kOpcodes = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM};
    const auto index = messages_[pair].size();
    const SharedMessage message{kOpcodes[random_() % kOpcodes.size()],
                                random_() % 3 == 0 ? random_() % 8 : random_() % kLongest,
                                is_xrc_ ? random_() % queues_.size() : 0};
    const auto into = kTotal * kLongest + source(pair, index);
    auto wr = ConnectedHost::request(message.opcode, b_.address(into), b_.all.key);
    wr.imm_data = static_cast<std::uint32_t>(index);
    if (is_xrc_) wr.qp_type.xrc.remote_srqn = queues_[message.queue]->number;
    const auto elements = std::vector{a_.part(source(pair, index), message.size)};
    ASSERT_EQ(a_.post(*senders_[pair], wr, elements, index), 0);
    ++needed_[message.queue];
    messages_[pair].push_back(message);
  }
  /// Receive n, of any queue, has the n-th part of the memory of b.
  void post_receive() {
    const std::size_t queue = given_[0] < needed_[0] ? 0 : 1;
    auto sge = b_.part(posted_ * kLongest, kLongest);
    ibv_recv_wr wr{posted_, nullptr, &sge, 1};
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(b_.hca.shared_receives().post(*queues_[queue], &wr, &bad), 0);
    ++given_[queue];
    ++posted_;
  }
  void collect() {
    for (const auto& wc : a_.poll()) {
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
      ++sent_;
    }
    for (const auto& wc : b_.poll()) check_received(wc);
  }
  void check_received(const ibv_wc& wc) {
    ++received_;
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    const auto target = std::ranges::find_if(
        targets_, [&](const auto* qp) { return qp->number().value() == wc.qp_num; });
    ASSERT_NE(target, targets_.end());
    const auto pair = static_cast<std::size_t>(target - targets_.begin());
    const auto index = arrived_[pair]++;
    const auto& message = messages_[pair].at(index);
    EXPECT_EQ(wc.byte_len, message.size);
    const bool is_write = message.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    EXPECT_EQ(wc.opcode, is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
    if (message.opcode != IBV_WR_SEND) {
      EXPECT_EQ(wc.imm_data, index);
    }
    const auto into = is_write ? kTotal * kLongest + source(pair, index) : wc.wr_id * kLongest;
    EXPECT_EQ(b_.bytes(into, message.size), a_.bytes(source(pair, index), message.size));
  }

  std::mt19937 random_;
  Network network_;
  bool is_xrc_;
  ConnectedHost a_{5, kTotal* kLongest};
  ConnectedHost b_{6, 2 * kTotal* kLongest};
  std::array<SharedReceiveQueue*, 2> queues_{};
  std::array<QueuePair*, kPairs> senders_{};
  std::array<QueuePair*, kPairs> targets_{};
  std::array<std::vector<SharedMessage>, kPairs> messages_;
  std::array<std::size_t, kPairs> arrived_{};
  std::array<std::size_t, 2> needed_{};
  std::array<std::size_t, 2> given_{};
  std::size_t posted_ = 0;
  std::size_t sent_ = 0;
  std::size_t received_ = 0;
};

class SharedReceiveFaults : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(, SharedReceiveFaults, testing::Bool(),
                         [](const auto& each) { return each.param ? "Xrc" : "Rc"; });

TEST_P(SharedReceiveFaults, EachMessageTakesOneReceive) {
  std::uint64_t duplicates = 0;
  std::uint64_t gaps = 0;
  std::uint64_t waits = 0;
  for (std::uint32_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    SharedTraffic traffic(seed, GetParam());
    ASSERT_NO_FATAL_FAILURE(traffic.run());
    traffic.check();
    duplicates += traffic.counters().at(1).duplicates;
    gaps += traffic.counters().at(1).sequence_errors;
    waits += traffic.counters().at(1).rnr_naks;
    if (HasFailure()) return;
  }
  EXPECT_GT(duplicates, 40U);
  EXPECT_GT(gaps, 40U);
  EXPECT_GT(waits, 40U);
}

}  // namespace
}  // namespace softib::hca
