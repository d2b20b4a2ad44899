// Random operations over a network that loses, duplicates and reorders packets: each completes once
// and correctly, in order, or the connection fails with the right status.
#include "tests/unit/softib/hca/connection/connection_fixture.hpp"

namespace softib::hca {
namespace {

constexpr std::size_t kMaxSize = 9000;
constexpr std::size_t kOperations = 60;

/// An operation has places of its own in the memory of both hosts, so that a late or repeated
/// packet that did harm would be seen.
struct Operation {
  ibv_wr_opcode opcode;
  std::size_t size;
  std::vector<std::uint8_t> data;  ///< what is at the source
  [[nodiscard]] bool takes_receive() const {
    return opcode != IBV_WR_RDMA_WRITE && opcode != IBV_WR_RDMA_READ;
  }
  [[nodiscard]] bool is_read() const { return opcode == IBV_WR_RDMA_READ; }
  [[nodiscard]] bool is_send() const {
    return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM;
  }
};

class Traffic {
 public:
  Traffic(std::uint32_t seed, const NetworkFaults& faults, int retries)
      : random_(seed), network_(seed) {
    network_.add(a_.hca);
    network_.add(b_.hca);
    network_.faults = faults;
    network_.faults.whole = seed % 3 * 500;
    for (auto* const host : {&a_, &b_}) {
      for (auto& byte : host->area) byte = static_cast<std::uint8_t>(random_());
    }
    connect_pair(a_, qa_, b_, qb_, mtu_of(seed), retries);
    untouched_ = b_.area;
  }

  void run() {
    for (std::size_t i = 0; i < kOperations; ++i) post(i);
    std::size_t steps = 0;
    while (network_.step() || posted_receives_ < receives_needed_) {
      ASSERT_LT(++steps, 1'000'000U);
      // Receives come late, so there are RNR NAKs, too.
      if (posted_receives_ < receives_needed_ && random_() % 4 == 0) post_receive();
      collect();
    }
    collect();
  }

  /// Returns whether all were successful.
  bool check() {
    EXPECT_EQ(sent_.size(), kOperations) << "each completes once";
    std::size_t good = 0;
    while (good < sent_.size() && sent_[good].status == IBV_WC_SUCCESS) ++good;
    for (std::size_t i = 0; i < sent_.size(); ++i) {
      EXPECT_EQ(sent_[i].wr_id, i) << "in order";
      if (i > good) {
        EXPECT_EQ(sent_[i].status, IBV_WC_WR_FLUSH_ERR);
      }
    }
    if (good < sent_.size()) {
      EXPECT_EQ(sent_[good].status, IBV_WC_RETRY_EXC_ERR);
    }
    check_receives(good);
    for (std::size_t i = 0; i < operations_.size(); ++i) check_memory(i, i < good);
    return good == kOperations;
  }
  [[nodiscard]] const HcaCounters& counters() const { return b_.hca.counters(); }
  [[nodiscard]] std::uint64_t retries() const { return a_.hca.counters().at(1).retries; }

 private:
  static std::size_t place(std::size_t operation) { return operation * kMaxSize; }

  void post(std::size_t i) {
    constexpr std::array kOpcodes = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
                                     IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ};
    Operation operation{kOpcodes[random_() % kOpcodes.size()],
                        random_() % 3 == 0 ? random_() % 8 : random_() % kMaxSize,
                        {}};
    auto& source = operation.is_read() ? b_ : a_;
    operation.data = source.bytes(place(i), operation.size);
    auto wr = ConnectedHost::request(operation.opcode, b_.address(place(i)), b_.all.key);
    wr.imm_data = static_cast<std::uint32_t>(i);
    const unsigned flags = IBV_SEND_SIGNALED | (random_() % 8 == 0 ? unsigned{IBV_SEND_FENCE} : 0U);
    ASSERT_EQ(a_.post(qa_, wr, {a_.part(place(i), operation.size)}, i, flags), 0);
    if (operation.takes_receive()) receivers_.push_back(i);
    receives_needed_ = receivers_.size();
    operations_.push_back(std::move(operation));
  }
  /// The n-th receive is for the n-th operation that takes one.
  void post_receive() {
    const auto i = receivers_.at(posted_receives_++);
    ASSERT_EQ(b_.post_receive(qb_, place(i), kMaxSize, i), 0);
  }
  void collect() {
    for (const auto& wc : a_.poll()) sent_.push_back(wc);
    for (const auto& wc : b_.poll()) received_.push_back(wc);
  }
  /// The responder may have completed what the requester has no acknowledgement of.
  void check_receives(std::size_t good) {
    const auto needed = static_cast<std::size_t>(
        std::ranges::count_if(receivers_, [&](std::size_t i) { return i < good; }));
    ASSERT_GE(received_.size(), needed);
    ASSERT_LE(received_.size(), receivers_.size());
    for (std::size_t n = 0; n < received_.size(); ++n) {
      const auto& wc = received_[n];
      const auto i = receivers_[n];
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
      EXPECT_EQ(wc.wr_id, i);
      EXPECT_EQ(wc.byte_len, operations_[i].size);
      if ((wc.wc_flags & IBV_WC_WITH_IMM) != 0) {
        EXPECT_EQ(wc.imm_data, i);
      }
    }
  }
  void check_memory(std::size_t i, bool is_complete) {
    const auto& operation = operations_[i];
    auto& destination = operation.is_read() ? a_ : b_;
    if (is_complete) {
      EXPECT_EQ(destination.bytes(place(i), operation.size), operation.data) << i;
    }
    const auto begin = untouched_.begin() + static_cast<std::ptrdiff_t>(place(i));
    const auto from = static_cast<std::ptrdiff_t>(operation.is_read() ? 0 : operation.size);
    EXPECT_TRUE(std::equal(begin + from, begin + kMaxSize,
                           b_.area.begin() + (begin - untouched_.begin()) + from))
        << "bytes that no operation names have changed: " << i;
  }

  std::mt19937 random_;
  Network network_;
  ConnectedHost a_{5, kOperations* kMaxSize};
  ConnectedHost b_{6, kOperations* kMaxSize};
  QueuePair& qa_ = a_.make_connected();
  QueuePair& qb_ = b_.make_connected();
  std::vector<Operation> operations_;
  std::vector<std::size_t> receivers_;  ///< operations that take a receive
  std::size_t receives_needed_ = 0;
  std::size_t posted_receives_ = 0;
  std::vector<ibv_wc> sent_;
  std::vector<ibv_wc> received_;
  std::vector<std::uint8_t> untouched_;
};

TEST(ConnectionFaults, EachOperationCompletesOnceAndCorrectly) {
  std::uint64_t duplicates = 0;
  std::uint64_t gaps = 0;
  std::uint64_t waits = 0;
  for (std::uint32_t seed = 1; seed <= 16; ++seed) {
    SCOPED_TRACE(seed);
    Traffic traffic(seed, {.loss = seed % 4 * 20, .duplicate = 30, .reorder = 30}, 7);
    ASSERT_NO_FATAL_FAILURE(traffic.run());
    ASSERT_TRUE(traffic.check());
    duplicates += traffic.counters().at(1).duplicates;
    gaps += traffic.counters().at(1).sequence_errors;
    waits += traffic.counters().at(1).rnr_naks;
    if (HasFailure()) return;
  }
  EXPECT_GT(duplicates, 40U);
  EXPECT_GT(gaps, 40U);
  EXPECT_GT(waits, 40U);
}

/// Each is executed once, although requests and responses are lost and repeated.
TEST(ConnectionFaults, AtomicOperationsAreExecutedOnce) {
  constexpr std::uint64_t kAdditions = 60;
  std::uint64_t duplicates = 0;
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    ConnectedHost a{5};
    ConnectedHost b{6};
    auto& qa = a.make_connected();
    auto& qb = b.make_connected();
    Network network(seed);
    network.add(a.hca);
    network.add(b.hca);
    network.faults = {.loss = 50, .duplicate = 50, .reorder = 50};
    a.connect(qa, a.connected_attributes(qb.number(), 6));
    b.connect(qb, b.connected_attributes(qa.number(), 5));
    b.set_word(0, 0);
    for (std::uint64_t i = 0; i < kAdditions; ++i) {
      const auto add =
          ConnectedHost::atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, b.address(0), b.all.key, 1);
      ASSERT_EQ(a.post(qa, add, {a.part(8 * i, 8)}), 0);
    }
    ASSERT_NO_FATAL_FAILURE(network.run());
    EXPECT_EQ(a.poll().size(), kAdditions);
    EXPECT_EQ(b.word(0), kAdditions);
    for (std::uint64_t i = 0; i < kAdditions; ++i) EXPECT_EQ(a.word(8 * i), i);
    duplicates += b.hca.counters().at(1).duplicates;
  }
  EXPECT_GT(duplicates, 20U);
}

/// Reads as much as takes several requests; `prepare` decides what the network loses. Returns the
/// retries.
std::uint64_t read_much(int requests, std::uint32_t seed,
                        const std::function<void(Network&)>& prepare) {
  constexpr std::size_t kSize = 400'000;
  ConnectedHost a{5, kSize};
  ConnectedHost b{6, kSize};
  auto& qa = a.make_connected();
  auto& qb = b.make_connected();
  Network network(seed);
  network.add(a.hca);
  network.add(b.hca);
  auto forth = a.connected_attributes(qb.number(), 6);
  forth.max_rd_atomic = static_cast<std::uint8_t>(requests);
  a.connect(qa, forth);
  b.connect(qb, b.connected_attributes(qa.number(), 5));
  std::ranges::generate(b.area,
                        [next = 0U]() mutable { return static_cast<std::uint8_t>(next += 3); });
  prepare(network);
  const auto read = ConnectedHost::request(IBV_WR_RDMA_READ, b.address(0), b.all.key);
  EXPECT_EQ(a.post(qa, read, {a.part(0, kSize)}), 0);
  network.run();
  const auto done = a.poll();
  EXPECT_EQ(done.size(), 1U);
  if (!done.empty()) {
    EXPECT_EQ(done[0].status, IBV_WC_SUCCESS);
  }
  EXPECT_EQ(a.area, b.area);
  return a.hca.counters().at(1).retries;
}

/// The requests that are sent again must end where they did before, so that the responder knows
/// them.
TEST(ConnectionFaults, ALongReadSurvivesTheLossOfAnyPacket) {
  for (const int requests : {1, 3}) {
    for (std::uint32_t lost = 0; lost < 390; lost += 7) {
      SCOPED_TRACE(testing::Message() << "packet " << lost << ", " << requests << " at a time");
      std::uint32_t seen = 0;
      const auto lose_one = [&](Network& network) {
        network.is_lost = [&](const ConnectedPacket&) { return seen++ == lost; };
      };
      ASSERT_EQ(read_much(requests, 1, lose_one), 1U);
      if (HasFailure()) return;
    }
  }
}

TEST(ConnectionFaults, ALongReadSurvivesANetworkThatLosesSome) {
  for (std::uint32_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    const auto lose_some = [](Network& network) {
      network.faults = {.loss = 10, .duplicate = 10, .reorder = 10};
    };
    ASSERT_GT(read_much(4, seed, lose_some), 0U);
    if (HasFailure()) return;
  }
}

TEST(ConnectionFaults, AConnectionThatFailsDoesSoInOrder) {
  std::size_t failed = 0;
  for (std::uint32_t seed = 1; seed <= 16; ++seed) {
    SCOPED_TRACE(seed);
    Traffic traffic(seed, {.loss = 300, .duplicate = 30, .reorder = 30}, 2);
    ASSERT_NO_FATAL_FAILURE(traffic.run());
    failed += traffic.check() ? 0U : 1U;
    if (HasFailure()) return;
  }
  EXPECT_GT(failed, 8U);
}

TEST(ConnectionFaults, NothingIsSentAgainWithoutFaults) {
  for (std::uint32_t seed = 1; seed <= 10; ++seed) {
    Traffic traffic(seed, {}, 0);
    ASSERT_NO_FATAL_FAILURE(traffic.run());
    ASSERT_TRUE(traffic.check());
    EXPECT_EQ(traffic.retries(), 0U);
    EXPECT_EQ(traffic.counters().at(1).duplicates, 0U);
  }
}

}  // namespace
}  // namespace softib::hca
