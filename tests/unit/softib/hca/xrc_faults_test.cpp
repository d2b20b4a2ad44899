// The one-sided operations of XRC, over a network that loses, duplicates, reorders and stalls: each
// is executed once, on the memory that the named queue may use. For messages see
// shared_receive_faults_test.cpp.
#include "tests/unit/softib/hca/connection/connection_fixture.hpp"

namespace softib::hca {
namespace {

constexpr std::size_t kXrcOperations = 60;
constexpr std::size_t kXrcPart = 4096;

class XrcOperations {
 public:
  explicit XrcOperations(std::uint32_t seed) : random_(seed), network_(seed) {
    network_.add(a_.hca);
    network_.add(b_.hca);
    network_.faults = {
        .loss = seed % 4 * 20, .duplicate = 30, .reorder = 30, .whole = seed % 3 * 500, .stall = 3};
    for (auto* const host : {&a_, &b_}) {
      for (auto& byte : host->area) byte = static_cast<std::uint8_t>(random_());
    }
    auto with = a_.config();
    with.type = IBV_QPT_XRC_SEND;
    with.receive_cq = nullptr;
    sender_ = *a_.hca.create_queue_pair(with);
    auto& domain = **b_.hca.shared_receives().open_domain();
    target_ = *b_.hca.create_queue_pair({.domain = &domain, .type = IBV_QPT_XRC_RECV});
    queue_ = *b_.hca.shared_receives().create(
        {.pd = b_.pd, .attributes = {1, 1, 0}, .domain = &domain, .cq = b_.cq});
    connect_pair(a_, *sender_, b_, *target_, mtu_of(seed));
    sum_ = b_.word(0);
  }

  void run() {
    for (std::size_t i = 0; i < kXrcOperations; ++i) post(i);
    network_.run();
    const auto done = a_.poll();
    ASSERT_EQ(done.size(), kXrcOperations);
    for (std::size_t i = 0; i < kXrcOperations; ++i) {
      ASSERT_EQ(done[i].status, IBV_WC_SUCCESS) << i;
      EXPECT_EQ(done[i].wr_id, i);
      check(i);
    }
    EXPECT_EQ(b_.word(0), sum_);
  }
  [[nodiscard]] std::uint64_t duplicates() const { return b_.hca.counters().at(1).duplicates; }

 private:
  struct Operation {
    ibv_wr_opcode opcode;
    std::size_t size;
    std::vector<std::uint8_t> expected;
  };
  static std::size_t part(std::size_t i) { return kXrcPart * (i + 1); }

  void post(std::size_t i) {
    constexpr std::array kOpcodes = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_WRITE,
                                     IBV_WR_ATOMIC_FETCH_AND_ADD};
    Operation operation{kOpcodes[random_() % kOpcodes.size()], random_() % kXrcPart, {}};
    auto wr = ConnectedHost::request(operation.opcode, b_.address(part(i)), b_.all.key);
    if (operation.opcode == IBV_WR_ATOMIC_WRITE) operation.size = 8;
    auto& source = operation.opcode == IBV_WR_RDMA_READ ? b_ : a_;
    operation.expected = source.bytes(part(i), operation.size);
    if (operation.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {  // all on one word
      operation.size = 8;
      operation.expected.resize(8);
      std::memcpy(operation.expected.data(), &sum_, sizeof sum_);
      wr = ConnectedHost::atomic(operation.opcode, b_.address(0), b_.all.key, i + 1);
      sum_ += i + 1;
    }
    wr.qp_type.xrc.remote_srqn = queue_->number;
    ASSERT_EQ(a_.post(*sender_, wr, {a_.part(part(i), operation.size)}, i), 0);
    operations_.push_back(std::move(operation));
  }
  void check(std::size_t i) {
    const auto& operation = operations_[i];
    const bool is_at_b =
        operation.opcode == IBV_WR_RDMA_WRITE || operation.opcode == IBV_WR_ATOMIC_WRITE;
    EXPECT_EQ((is_at_b ? b_ : a_).bytes(part(i), operation.size), operation.expected) << i;
  }

  std::mt19937 random_;
  Network network_;
  ConnectedHost a_{5};
  ConnectedHost b_{6};
  QueuePair* sender_ = nullptr;
  QueuePair* target_ = nullptr;
  SharedReceiveQueue* queue_ = nullptr;
  std::uint64_t sum_ = 0;
  std::vector<Operation> operations_;
};

TEST(XrcFaults, EachOperationIsExecutedOnce) {
  std::uint64_t duplicates = 0;
  for (std::uint32_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    XrcOperations operations(seed);
    ASSERT_NO_FATAL_FAILURE(operations.run());
    duplicates += operations.duplicates();
    if (HasFailure()) return;
  }
  EXPECT_GT(duplicates, 40U);
}

}  // namespace
}  // namespace softib::hca
