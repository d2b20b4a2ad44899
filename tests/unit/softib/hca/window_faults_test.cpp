// A memory window that its owner binds again and again, over a network that loses, duplicates,
// reorders and stalls: each binding is used and ends once, and its memory is not changed later.
#include "tests/unit/softib/hca/connection/connection_fixture.hpp"

namespace softib::hca {
namespace {

constexpr std::size_t kBindings = 40;
constexpr std::size_t kWindowSize = 3000;  ///< bytes, of several packets
constexpr std::size_t kMessageSize = 64;   ///< bytes
constexpr std::uint8_t kReclaimed = 0xee;  ///< written by the owner after the end of a binding

/// `b` binds the window to a part of its memory and sends a message; `a` uses the window once and
/// sends a message. That invalidates the key, or `b` does it then.
class Bindings {
 public:
  explicit Bindings(std::uint32_t seed) : random_(seed), network_(seed) {
    network_.add(a_.hca);
    network_.add(b_.hca);
    network_.faults = {
        .loss = seed % 4 * 20, .duplicate = 30, .reorder = 30, .whole = seed % 3 * 500, .stall = 3};
    network_.room = 1 + seed % 20;
    for (auto& byte : a_.area) byte = static_cast<std::uint8_t>(random_());
    connect_pair(a_, qa_, b_, qb_, mtu_of(seed));
    bindable_.lkey = b_.hca
                         .register_memory(*b_.pd, b_.area.data(), b_.area.size(), b_.address(0),
                                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)
                         ->key;
    window_.rkey = *b_.hca.memory().add_window(*b_.pd, IBV_MW_TYPE_2);
  }

  void run() {
    for (auto [host, qp] : {std::pair(&a_, &qa_), std::pair(&b_, &qb_)}) {
      for (int i = 0; i < 4; ++i) ASSERT_EQ(host->post_receive(*qp, message(), kMessageSize), 0);
    }
    bind();
    std::size_t steps = 0;
    while (network_.step() || round_ < kBindings) {
      ASSERT_LT(++steps, 1'000'000U);
      for (const auto& wc : b_.poll()) owner_completes(wc);
      for (const auto& wc : a_.poll()) peer_completes(wc);
      if (testing::Test::HasFailure()) return;
    }
  }
  void check() {
    EXPECT_EQ(round_, kBindings);
    EXPECT_EQ(invalidated_ + locally_invalidated_, kBindings);
    EXPECT_GT(invalidated_, 0U);
    for (std::size_t round = 0; round < kBindings; ++round) {
      EXPECT_THAT(b_.bytes(part(round), kWindowSize), testing::Each(kReclaimed)) << round;
    }
    EXPECT_EQ(qa_.state(), IBV_QPS_RTS);
    EXPECT_EQ(qb_.state(), IBV_QPS_RTS);
  }
  [[nodiscard]] std::uint64_t duplicates() const {
    return a_.hca.counters().at(1).duplicates + b_.hca.counters().at(1).duplicates;
  }

 private:
  enum class Use : std::uint8_t { write, read, atomic_write, add };
  static constexpr int kAccess =
      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  static std::size_t part(std::size_t round) { return 4096 + round * 4096; }
  static std::size_t message() { return 0; }

  void bind() {
    key_ = ibv_inc_rkey(window_.rkey);
    ends_by_owner_ = random_() % 3 == 0;
    use_ = static_cast<Use>(random_() % 4);
    before_ = b_.bytes(part(round_), kWindowSize);
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_BIND_MW;
    wr.bind_mw = {&window_, key_, {&bindable_, b_.address(part(round_)), kWindowSize, kAccess}};
    ASSERT_EQ(b_.post(qb_, wr, {}, kBind), 0);
    window_.rkey = key_;  // its completion may come late
    ASSERT_EQ(b_.post(qb_, ConnectedHost::request(IBV_WR_SEND), {b_.part(message(), kMessageSize)},
                      kTell),
              0);
  }
  void owner_completes(const ibv_wc& wc) {
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS) << round_;
    if (wc.wr_id == kEnd) ++locally_invalidated_, reclaim();
    if ((wc.opcode & IBV_WC_RECV) == 0) return;
    ASSERT_EQ(b_.post_receive(qb_, message(), kMessageSize), 0);
    check_use();
    if (ends_by_owner_) {
      ibv_send_wr wr{};
      wr.opcode = IBV_WR_LOCAL_INV;
      wr.invalidate_rkey = key_;
      ASSERT_EQ(b_.post(qb_, wr, {}, kEnd), 0);
      return;
    }
    ASSERT_NE(wc.wc_flags & IBV_WC_WITH_INV, 0U);
    EXPECT_EQ(wc.invalidated_rkey, key_);
    ++invalidated_;
    reclaim();
  }
  void check_use() {
    const auto now = b_.bytes(part(round_), kWindowSize);
    auto expected = before_;
    if (use_ == Use::write) expected = a_.bytes(part(round_), kWindowSize);
    if (use_ == Use::atomic_write) std::ranges::copy(a_.bytes(part(round_), 8), expected.begin());
    if (use_ == Use::add) {
      std::uint64_t word = 0;
      std::memcpy(&word, expected.data(), sizeof word);
      word += kAddend;
      std::memcpy(expected.data(), &word, sizeof word);
    }
    EXPECT_EQ(now, expected) << round_;
    if (use_ == Use::read) {
      EXPECT_EQ(a_.bytes(part(round_), kWindowSize), before_);
    }
  }
  /// A late copy of a request must change neither the part nor the next part of the window.
  void reclaim() {
    EXPECT_FALSE(b_.hca.memory().resolve(key_, b_.address(part(round_)), 8, {b_.pd, qb_.number()},
                                         IBV_ACCESS_REMOTE_WRITE));
    std::fill_n(b_.area.begin() + static_cast<std::ptrdiff_t>(part(round_)), kWindowSize,
                kReclaimed);
    if (++round_ < kBindings) bind();
  }

  void peer_completes(const ibv_wc& wc) {
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS) << round_;
    if ((wc.opcode & IBV_WC_RECV) == 0) return;
    ASSERT_EQ(a_.post_receive(qa_, message(), kMessageSize), 0);
    const auto at = b_.address(part(round_));
    auto wr = ConnectedHost::request(IBV_WR_RDMA_WRITE, at, key_);
    auto size = kWindowSize;
    if (use_ == Use::read) wr = ConnectedHost::request(IBV_WR_RDMA_READ, at, key_);
    if (use_ == Use::atomic_write) wr = ConnectedHost::request(IBV_WR_ATOMIC_WRITE, at, key_);
    if (use_ == Use::add) {
      wr = ConnectedHost::atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, at, key_, kAddend);
    }
    if (use_ == Use::atomic_write || use_ == Use::add) size = 8;
    ASSERT_EQ(a_.post(qa_, wr, {a_.part(part(round_), size)}), 0);
    ibv_send_wr end{};
    end.opcode = ends_by_owner_ ? IBV_WR_SEND : IBV_WR_SEND_WITH_INV;
    if (!ends_by_owner_) end.invalidate_rkey = key_;
    // The fence lets the response of a READ or atomic operation come before.
    ASSERT_EQ(a_.post(qa_, end, {a_.part(message(), kMessageSize)}, 1,
                      IBV_SEND_SIGNALED | IBV_SEND_FENCE),
              0);
  }

  static constexpr std::uint64_t kBind = 100, kTell = 101, kEnd = 102;
  static constexpr std::uint64_t kAddend = 0x0102030405060708;
  std::mt19937 random_;
  Network network_;
  ConnectedHost a_{5};
  ConnectedHost b_{6};
  QueuePair& qa_ = a_.make_connected();
  QueuePair& qb_ = b_.make_connected();
  ibv_mr bindable_{};
  ibv_mw window_{};
  std::uint32_t key_ = 0;
  bool ends_by_owner_ = false;
  Use use_ = Use::write;
  std::vector<std::uint8_t> before_;
  std::size_t round_ = 0;
  std::size_t invalidated_ = 0;
  std::size_t locally_invalidated_ = 0;
};

TEST(WindowFaults, EachBindingIsUsedAndEndsOnce) {
  std::uint64_t duplicates = 0;
  for (std::uint32_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    Bindings bindings(seed);
    bindings.run();
    if (testing::Test::HasFailure()) return;
    bindings.check();
    duplicates += bindings.duplicates();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(duplicates, 40U);
}

}  // namespace
}  // namespace softib::hca
