// Times of completions.
#include <chrono>

#include "verbs_fixture.hpp"

namespace softib::verbs {
namespace {

class CompletionTimesVerbsTest : public VerbsTest {
 protected:
  [[nodiscard]] static std::uint64_t raw_clock(ibv_context* context) {
    ibv_values_ex values{};
    values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
    EXPECT_EQ(ibv_query_rt_values_ex(context, &values), 0);
    EXPECT_EQ(values.raw_clock.tv_sec, 0);
    return static_cast<std::uint64_t>(values.raw_clock.tv_nsec);
  }
};

TEST_F(CompletionTimesVerbsTest, LieBetweenPostingAndPolling) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 16;
  attr.wc_flags =
      IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  auto* const cq = ibv_create_cq_ex(far_.context, &attr);
  ASSERT_NE(cq, nullptr);
  auto init = far_.initial();
  init.recv_cq = ibv_cq_ex_to_cq(cq);
  auto* const to = ibv_create_qp(far_.pd, &init);
  ASSERT_NE(to, nullptr);
  Side::bring_up(to);
  auto* const from = near_.make_qp();
  auto* const ah = near_.handle(far_lid());
  std::uint64_t last_day = 0;
  for (int round = 0; round < 3; ++round) {
    const auto before = raw_clock(far_.context);
    ASSERT_EQ(far_.post_receive(to), 0);
    ASSERT_EQ(near_.send(from, ah, to->qp_num, "hello"), 0);
    ibv_poll_cq_attr poll{};
    ASSERT_TRUE(eventually([&] { return ibv_start_poll(cq, &poll) == 0; }));
    const auto at = ibv_wc_read_completion_ts(cq);
    const auto day_at = ibv_wc_read_completion_wallclock_ns(cq);
    ibv_end_poll(cq);
    EXPECT_GE(at, before);
    EXPECT_LE(at, raw_clock(far_.context));
    EXPECT_NE(day_at, last_day);
    // Not of another epoch or unit.
    const std::chrono::nanoseconds now = std::chrono::system_clock::now().time_since_epoch();
    EXPECT_NEAR(static_cast<double>(day_at), static_cast<double>(now.count()), 3600e9);
    last_day = day_at;
  }
  ibv_values_ex unknown{};
  unknown.comp_mask = 1 << 5;
  EXPECT_EQ(ibv_query_rt_values_ex(far_.context, &unknown), EOPNOTSUPP);
}

}  // namespace
}  // namespace softib::verbs
