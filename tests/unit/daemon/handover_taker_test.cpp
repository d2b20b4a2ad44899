#include "daemon/handover_taker.hpp"

#include <cerrno>

#include "tests/unit/daemon/handover_fixture.hpp"

namespace ipoib::daemon::handover::taker_tests {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class TakerTest : public HandoverFixture {
 protected:
  TakerTest() { taker.start({kDefaultPKey, kRed}); }
  void on_mode(InterfaceNumber interface, PumpMode mode) override {
    taker.on_mode(interface, mode);
  }

  void settle(const std::string& name) {
    by_name[name]->owner().on_mode(number(name), PumpMode::held);
  }
  void settle_all() {
    settle("ib0");
    EXPECT_THAT(sent(), IsEmpty()) << "the other one is not ready";
    settle("ib0.8001");
    EXPECT_THAT(sent(), ElementsAre(Message(Ready{{kDefaultPKey, kRed}})));
    EXPECT_THAT(taken(), IsEmpty());
  }
  void peer_goes() {
    peer = Connection(FileDescriptor());
    poll();
  }

  unsigned servings = 0;
  std::vector<std::string> failures;
  Taker taker{{.context = context,
               .interfaces = interfaces,
               .on_serving = [this] { ++servings; },
               .on_failure = [this](const std::string& why) { failures.push_back(why); },
               .log = *link::silent_logger()},
              Connection(std::move(own_end)),
              4711};
};

TEST_F(TakerTest, ServesWhenAllAreReadyAndTheOtherDaemonHasReleasedThem) {
  settle_all();
  EXPECT_FALSE(taker.is_over());
  peer_sends(Released{});
  EXPECT_THAT(taken(), ElementsAre("ib0 active", "ib0.8001 active"));
  EXPECT_EQ(servings, 1U);
  EXPECT_TRUE(taker.is_over());
  peer_goes();
  EXPECT_EQ(servings, 1U);
  EXPECT_THAT(failures, IsEmpty());
  EXPECT_THAT(taken(), IsEmpty());
}

TEST_F(TakerTest, ServesAtOnceIfTheOtherDaemonDies) {
  settle("ib0");
  peer_goes();
  EXPECT_THAT(taken(), ElementsAre("ib0 active", "ib0.8001 active"));
  EXPECT_EQ(servings, 1U);
  settle("ib0.8001");
  EXPECT_EQ(servings, 1U);
}

TEST_F(TakerTest, ServesIfTheOtherDaemonDiesBeforeTheRelease) {
  settle_all();
  peer_goes();
  EXPECT_THAT(taken(), ElementsAre("ib0 active", "ib0.8001 active"));
  EXPECT_THAT(failures, IsEmpty());
}

TEST_F(TakerTest, FailsIfTheOtherDaemonRefuses) {
  settle_all();
  peer_sends(Refusal{ECANCELED, "it is ending"});
  EXPECT_THAT(failures, ElementsAre("cannot take over from process 4711: it is ending"));
  peer_goes();
  EXPECT_EQ(servings, 0U);
  EXPECT_THAT(taken(), IsEmpty()) << "the interfaces belong to the other daemon";
}

TEST_F(TakerTest, IgnoresAReleaseBeforeItIsReady) {
  peer_sends(Released{});
  EXPECT_EQ(servings, 0U);
  EXPECT_THAT(taken(), IsEmpty());
}

TEST_F(TakerTest, FailsIfTheLinksDoNotComeUpOrTheOtherDaemonIsSilent) {
  for (const bool come_up : {false, true}) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    Connection other(FileDescriptor{ends[1]});
    failures.clear();
    Taker second({.context = context,
                  .interfaces = interfaces,
                  .on_serving = [this] { ++servings; },
                  .on_failure = [this](const std::string& why) { failures.push_back(why); },
                  .log = *link::silent_logger()},
                 Connection(FileDescriptor(ends[0])), 4711,
                 {.preparing = come_up ? 30s : 1ms, .releasing = 1ms});
    second.start({kRed});
    if (come_up) second.on_mode(number("ib0.8001"), PumpMode::held);
    run_until([this] { return !failures.empty(); });
    EXPECT_THAT(failures,
                ElementsAre(HasSubstr(come_up ? "process 4711 does not respond: end it, and start "
                                                "this one without --takeover"
                                              : "the links do not come up: ")));
    EXPECT_EQ(second.is_over(), true);
  }
  EXPECT_EQ(servings, 0U);
}

TEST_F(TakerTest, FailsOnWhatItDoesNotUnderstand) {
  const std::array<std::uint8_t, 4> garbage{1, 2, 3, 4};
  ASSERT_EQ(::send(peer.descriptor(), garbage.data(), garbage.size(), 0), 4);
  poll();
  EXPECT_THAT(failures, ElementsAre(HasSubstr("not a message")));
  EXPECT_THAT(sent(), SizeIs(1)) << "the other daemon learns it";
  EXPECT_EQ(servings, 0U);
}

TEST_F(TakerTest, AnInterfaceThatWasNotHandedOverDoesNotMatter) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  Connection other(FileDescriptor{ends[1]});
  Taker second({.context = context,
                .interfaces = interfaces,
                .on_serving = [this] { ++servings; },
                .on_failure = [this](const std::string& why) { failures.push_back(why); },
                .log = *link::silent_logger()},
               Connection(FileDescriptor(ends[0])), 4711);
  second.start({kRed});
  second.on_mode(number("ib0"), PumpMode::held);
  EXPECT_EQ(other.receive().error().code, EAGAIN);
  second.on_mode(number("ib0.8001"), PumpMode::held);
  const auto ready = other.receive();
  ASSERT_TRUE(ready && *ready);
  EXPECT_TRUE((*ready)->message == Message(Ready{{kRed}}));
}

TEST_F(TakerTest, FailsWithoutAnyCommonInterface) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  const FileDescriptor other(ends[1]);
  Taker second({.context = context,
                .interfaces = interfaces,
                .on_serving = [this] { ++servings; },
                .on_failure = [this](const std::string& why) { failures.push_back(why); },
                .log = *link::silent_logger()},
               Connection(FileDescriptor(ends[0])), 4711);
  second.start({PKey(0x8002)});
  EXPECT_THAT(failures, SizeIs(1));
}

}  // namespace
}  // namespace ipoib::daemon::handover::taker_tests
