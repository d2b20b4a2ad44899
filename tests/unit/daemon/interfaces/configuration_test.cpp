#include "daemon/interfaces/configuration.hpp"

#include <gmock/gmock.h>
#include <spdlog/sinks/ostream_sink.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "daemon/interfaces/neighbour_store.hpp"
#include "daemon/options/logging.hpp"

namespace ipoib::daemon::configuration {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr PKey kRed{0x8001};
const std::vector<std::string> kArguments{"--mtu", "1500"};

class ConfigurationTest : public ::testing::Test {
 protected:
  ConfigurationTest() : folder_(make_folder()) {
    logs_.daemon->sinks() = {std::make_shared<spdlog::sinks::ostream_sink_mt>(log_)};
  }
  ~ConfigurationTest() override { std::filesystem::remove_all(folder_); }

  /// With a file of options and, unless it is empty, a file of neighbours.
  static std::string make_folder() {
    std::string path = ::testing::TempDir() + "ipoibd-XXXXXX";
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    write(path, "log = info\n");
    return path;
  }
  static void write(const std::string& folder, const std::string& options,
                    const std::string& neighbours = "") {
    std::ofstream(folder + "/ipoibd.conf") << options;
    std::ofstream(folder + "/neighbours") << neighbours;
  }
  Reloaded reload(const std::string& options, const std::string& neighbours = "") {
    write(folder_, options, neighbours);
    log_.str("");
    return configuration_.reload(logs_, store_);
  }
  [[nodiscard]] std::string level_of(const std::string& module) const {
    for (const auto& [name, level] : logs_.levels.all()) {
      if (name == module) return level;
    }
    return {};
  }

  std::string folder_;
  std::ostringstream log_;
  Logging logs_{LogTarget::standard_error, {}};
  NeighbourStore store_{{}};
  Configuration configuration_{std::get<Options>(parse_options(kArguments, folder_)), kArguments,
                               folder_};
};

TEST_F(ConfigurationTest, TakesOverLevelsOfTheLog) {
  (void)reload("log = link=debug\n");
  EXPECT_EQ(level_of("link"), "debug");
  EXPECT_THAT(log_.str(), HasSubstr("log: info -> link=debug"));
  (void)reload("log = sa=debug\n");
  EXPECT_EQ(level_of("link"), "info") << "no longer named";
  EXPECT_EQ(level_of("sa"), "debug");
}

TEST_F(ConfigurationTest, LeavesLevelsThatHaveNotChanged) {
  ASSERT_TRUE(logs_.levels.set({{"verbs", "trace"}}));
  (void)reload("log = info\npoll = busy\n");
  EXPECT_EQ(level_of("verbs"), "trace") << "as the operator has set it";
}

TEST_F(ConfigurationTest, TakesOverPolling) {
  EXPECT_EQ(reload("poll = busy\n").poll, PollMode::busy);
  EXPECT_EQ(configuration_.options().poll, PollMode::busy) << "for interfaces that are created now";
  EXPECT_EQ(reload("poll = busy\n").poll, std::nullopt);
  EXPECT_EQ(reload("").poll, PollMode::adaptive);
}

TEST_F(ConfigurationTest, TakesOverPartitions) {
  const auto reloaded = reload("pkey = 0xffff\npkey = 0x8001\n");
  ASSERT_TRUE(reloaded.pkeys);
  EXPECT_THAT(*reloaded.pkeys, ElementsAre(kDefaultPKey, kRed));
  EXPECT_THAT(configuration_.options().pkeys, SizeIs(2));
}

TEST_F(ConfigurationTest, InterfacesKeepTheirNames) {
  EXPECT_FALSE(reload("pkey = 0x8001\n").pkeys) << "it would be called ib0 instead of ib0.8001";
  EXPECT_THAT(log_.str(), HasSubstr("pkey: (none) -> 0x8001: takes effect when ipoibd is started"));
  EXPECT_THAT(configuration_.options().pkeys, IsEmpty());
}

TEST_F(ConfigurationTest, TakesOverNeighbours) {
  (void)store_.of(kDefaultPKey, "ib0");
  const auto reloaded = reload("", "fe80::2 10.44.0.2\n");
  ASSERT_THAT(reloaded.neighbours, SizeIs(1));
  EXPECT_THAT(reloaded.neighbours.at(kDefaultPKey), SizeIs(1));
  EXPECT_THAT(configuration_.options().neighbours, SizeIs(1));
  EXPECT_THAT(reload("", "fe80::2 10.44.0.2\n").neighbours, IsEmpty());
}

TEST_F(ConfigurationTest, VlansStayAsTheyAre) {
  (void)reload("ethernet\nvlan = 18=0x8012\nvlan = 19=0x8013\n");
  EXPECT_THAT(log_.str(), HasSubstr("vlan: (none) -> 18=0x8012, 19=0x8013: takes effect when"));
  EXPECT_TRUE(configuration_.options().vlans.empty());
}

TEST_F(ConfigurationTest, NamesWhatTakesEffectLater) {
  (void)reload("send-queue = 64\nstable-privacy\nmtu = 1400\n");
  EXPECT_THAT(log_.str(), HasSubstr("send-queue: 512 -> 64: takes effect when ipoibd is started"));
  EXPECT_THAT(log_.str(), HasSubstr("stable-privacy: no -> yes"));
  EXPECT_THAT(log_.str(), Not(HasSubstr("mtu"))) << "the command line takes precedence";
  EXPECT_EQ(configuration_.options().queues.send, verbs::QueueDepths().send);
  (void)reload("send-queue = 64\n");
  EXPECT_THAT(log_.str(), HasSubstr("send-queue: 512 -> 64")) << "still";
  EXPECT_THAT(log_.str(), Not(HasSubstr("stable-privacy")));
}

TEST_F(ConfigurationTest, AnInvalidFileChangesNothing) {
  const auto reloaded = reload("poll = busy\nlog = link=loud\n");
  EXPECT_FALSE(reloaded.poll);
  EXPECT_THAT(log_.str(), HasSubstr("nothing was changed"));
  EXPECT_THAT(log_.str(), HasSubstr("loud"));
  (void)reload("poll = busy\nport = many\n");
  EXPECT_THAT(log_.str(), HasSubstr("ipoibd.conf:2: --port many"));
  EXPECT_EQ(configuration_.options().poll, PollMode::adaptive);
  (void)reload("poll = busy\n", "nonsense\n");
  EXPECT_THAT(log_.str(), HasSubstr("neighbours:1"));
  EXPECT_EQ(configuration_.options().poll, PollMode::adaptive);
}

}  // namespace
}  // namespace ipoib::daemon::configuration
