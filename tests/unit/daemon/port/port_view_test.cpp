#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <cerrno>
#include <sstream>

#include "daemon/port/port_watcher.hpp"
#include "ipoib/log.hpp"

namespace ipoib::daemon {
namespace {

using Query = Result<verbs::PortSnapshot>;

verbs::PortSnapshot port_with(Lid lid) {
  verbs::PortSnapshot port;
  port.active = true;
  port.lid = lid;
  return port;
}

class PortViewTest : public ::testing::Test {
 protected:
  bool take(const Query& look) { return view_.update(look, "mlx5_0 port 1"); }
  [[nodiscard]] std::ptrdiff_t lines() const {
    const auto text = log_text_.str();
    return std::ranges::count(text, '\n');
  }

  std::ostringstream log_text_;
  Logger log_{"test", std::make_shared<spdlog::sinks::ostream_sink_st>(log_text_)};
  PortView view_{log_};
};

TEST_F(PortViewTest, ReportsChanges) {
  EXPECT_TRUE(take(port_with(Lid(7))));
  EXPECT_FALSE(take(port_with(Lid(7))));
  EXPECT_TRUE(take(port_with(Lid(8))));
  EXPECT_EQ(view_.snapshot().lid, Lid(8));
  EXPECT_FALSE(view_.retry().is_failing());
}

TEST_F(PortViewTest, FailedQueryIsRetriedAndLoggedOnce) {
  EXPECT_TRUE(take(port_with(Lid(7))));
  const auto before = lines();
  const Query failed = Error(EIO, "cannot query port 1 of mlx5_0");
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(take(failed));
  EXPECT_TRUE(view_.retry().is_failing());
  EXPECT_GT(view_.retry().pause(), Duration::zero());
  EXPECT_EQ(view_.snapshot().lid, Lid(7)) << "the last state is kept";
  EXPECT_EQ(lines(), before + 1);

  EXPECT_TRUE(take(port_with(Lid(8)))) << "reports what has changed meanwhile";
  EXPECT_FALSE(view_.retry().is_failing());
}

}  // namespace
}  // namespace ipoib::daemon
