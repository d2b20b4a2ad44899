// ibarp metrics: what it prints about the interfaces of servers in this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>

#include "program.hpp"
#include "running_server.hpp"

namespace ipoib::ibarp {
namespace {

using control::Counter;
using control::RunningServer;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// A network namespace of its own, so that each server in it is a test's.
class IbarpMetrics : public testing::Test {
 protected:
  static void SetUpTestSuite() { alone_ = unshare(CLONE_NEWNET) == 0; }
  void SetUp() override {
    if (!alone_) GTEST_SKIP() << "needs a network namespace of its own";
  }

  static control::InterfaceInfo info(const RunningServer& server, std::uint32_t pid = 7) {
    control::InterfaceInfo info;
    info.interface = server.name();
    info.device = "mlx5_0";
    info.port = 2;
    info.pkey = PKey(0x8001);
    info.gid = *Gid::parse("fe80::1");
    info.mtu = 2044;
    info.state = "joining";
    info.version = "0.2.0";
    info.pid = pid;
    info.groups = {{*Gid::parse("ff12::1"), Lid(0xc000), "full"},
                   {*Gid::parse("ff12::2"), Lid(0xc001), "full"},
                   {*Gid::parse("ff12::3"), Lid(0), "joining"}};
    return info;
  }

  static inline bool alone_ = false;
};

/// A line of the text format without labels of interface.
std::string sample(const std::string& name, const RunningServer& server, const std::string& rest) {
  return name + "{interface=\"" + server.name() + "\"" + rest + "\n";
}

TEST_F(IbarpMetrics, DescribeTheInterface) {
  RunningServer server;
  server.handler.put(info(server));
  const Outcome outcome = run_ibarp({"metrics"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.err, IsEmpty());
  for (const auto& [name, rest] : std::vector<std::pair<const char*, const char*>>{
           {"ipoib_up", "} 1"},
           {"ipoib_info",
            R"(,device="mlx5_0",port="2",pkey="0x8001",gid="fe80::1",version="0.2.0"} 1)"},
           {"ipoib_carrier", "} 0"},
           {"ipoib_admin_up", "} 1"},
           {"ipoib_link_state", ",state=\"joining\"} 1"},
           {"ipoib_link_state", ",state=\"up\"} 0"},
           {"ipoib_mtu_bytes", "} 2044"},
           {"ipoib_groups", ",membership=\"full\"} 2"},
           {"ipoib_groups", ",membership=\"joining\"} 1"}}) {
    EXPECT_THAT(outcome.out, HasSubstr(sample(name, server, rest)));
  }
  EXPECT_THAT(outcome.out, HasSubstr("\nipoib_interfaces 1\n"));
  auto up = info(server);
  up.state = "up";
  server.handler.put(up);
  EXPECT_THAT(run_ibarp({"metrics"}).out, HasSubstr(sample("ipoib_carrier", server, "} 1")));
}

TEST_F(IbarpMetrics, CountersGaugesAndHistograms) {
  RunningServer server;
  server.handler.put(info(server));
  server.handler.put(
      {Counter{"tx_packets", 7, false}, Counter{"drop_path_failed", 2, true},
       Counter{"neighbours", 5, false, true}, Counter{"neighbours_created", 9, false},
       Counter{"neighbours_stale", 5, false, true}, Counter{"open_things", 3, false, true},
       Counter{"sa_requests", 4, false}, Counter{"drop_sa_unmatched", 6, true},
       Counter{"drop_port_no_receive", 8, true}});
  const std::string text = run_ibarp({"metrics", "dev", server.name()}).out;
  const std::string port = R"({device="mlx5_0",port="2")";
  for (const std::string& line :
       {sample("ipoib_tx_packets_total", server, "} 7"),
        sample("ipoib_drops_total", server, ",reason=\"path_failed\"} 2"),
        sample("ipoib_neighbours", server, ",state=\"stale\"} 5"),
        sample("ipoib_neighbours_created_total", server, "} 9"),
        sample("ipoib_open_things", server, "} 3"),
        sample("ipoib_resolution_seconds_bucket", server, ",le=\"0.001\"} 3"),
        sample("ipoib_resolution_seconds_bucket", server, ",le=\"0.0025\"} 5"),
        sample("ipoib_resolution_seconds_bucket", server, ",le=\"+Inf\"} 6"),
        sample("ipoib_resolution_seconds_count", server, "} 6"),
        "ipoib_sa_requests_total" + port + "} 4\n",
        "ipoib_port_drops_total" + port + ",reason=\"sa_unmatched\"} 6\n",
        "ipoib_port_drops_total" + port + ",reason=\"port_no_receive\"} 8\n"}) {
    EXPECT_THAT(text, HasSubstr("\n" + line));
  }
  EXPECT_THAT(text, Not(HasSubstr("ipoib_neighbours{interface=\"" + server.name() + "\"} ")))
      << "the sum over the states would count it twice";
}

TEST_F(IbarpMetrics, CountersOfAPortAreThereOnceForEachDaemon) {
  RunningServer one;
  RunningServer two;
  RunningServer other_daemon;
  for (auto* const server : {&one, &two, &other_daemon}) {
    server->handler.put({Counter{"sa_requests", 4, false}});
  }
  one.handler.put(info(one, 7));
  two.handler.put(info(two, 7));
  other_daemon.handler.put(info(other_daemon, 7));
  const std::string port = R"(ipoib_sa_requests_total{device="mlx5_0",port="2"} )";
  EXPECT_THAT(run_ibarp({"metrics"}).out, HasSubstr(port + "4\n")) << "one daemon";
  other_daemon.handler.put(info(other_daemon, 8));
  EXPECT_THAT(run_ibarp({"metrics"}).out, HasSubstr(port + "8\n")) << "each has counted its own";
}

/// Each family has one head, before its samples, and each sample is there once.
TEST_F(IbarpMetrics, AreWellFormed) {
  RunningServer one;
  RunningServer two;
  one.handler.put(info(one));
  two.handler.put(info(two));
  std::istringstream lines(run_ibarp({"metrics"}).out);
  const std::regex sample_line(
      R"(([a-z_][a-z0-9_]*)(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? ([0-9.e+-]+))");
  const std::regex type_line(R"(# TYPE (\S+) (counter|gauge|histogram))");
  std::set<std::string> families;
  std::set<std::string> samples;
  std::string family;
  std::string type;
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, type_line)) {
      family = match[1];
      type = match[2];
      EXPECT_TRUE(families.insert(family).second) << "twice: " << line;
      EXPECT_EQ(type == "counter", family.ends_with("_total")) << line;
    } else if (line.starts_with("# HELP ")) {
      EXPECT_GT(line.size(), std::string("# HELP ").size() + 10) << line;
    } else {
      ASSERT_TRUE(std::regex_match(line, match, sample_line)) << line;
      const std::string name = match[1];
      EXPECT_TRUE(type == "histogram" ? name.starts_with(family) : name == family) << line;
      EXPECT_TRUE(samples.insert(line.substr(0, line.rfind(' '))).second) << "twice: " << line;
    }
  }
  EXPECT_GT(families.size(), 10U);
  EXPECT_GT(samples.size(), 30U);
}

TEST_F(IbarpMetrics, AnInterfaceWithoutDaemonIsDown) {
  const Outcome outcome = run_ibarp({"metrics", "dev", "nosuch"});
  EXPECT_EQ(outcome.status, 0) << "the metrics tell it";
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("ipoib_up{interface=\"nosuch\"} 0\n"),
                                 Not(HasSubstr("ipoib_carrier"))));
  EXPECT_THAT(outcome.err, HasSubstr("nosuch"));
}

TEST_F(IbarpMetrics, ADaemonWithoutDeviceIsUpWithoutCounters) {
  RunningServer server;
  auto waiting = info(server);
  waiting.state = "no_device";
  server.handler.put(waiting);
  const Outcome outcome = run_ibarp({"metrics"});
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr(sample("ipoib_up", server, "} 1")),
                    HasSubstr(sample("ipoib_link_state", server, ",state=\"no_device\"} 1")),
                    Not(HasSubstr("control_requests"))));
  EXPECT_THAT(outcome.err, IsEmpty());
}

TEST_F(IbarpMetrics, AreThereWithoutAnyInterface) {
  const Outcome outcome = run_ibarp({"metrics"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\nipoib_interfaces 0\n"));
}

TEST_F(IbarpMetrics, AreWrittenToAFile) {
  RunningServer server;
  server.handler.put(info(server));
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("metrics-" + std::to_string(getpid()) + ".prom");
  const Outcome outcome = run_ibarp({"metrics", "--output", path});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, IsEmpty());
  std::ifstream file(path);
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>(file), {}),
              HasSubstr(sample("ipoib_up", server, "} 1")));
  std::filesystem::remove(path);
  const Outcome refused = run_ibarp({"metrics", "--output", "/nosuch/folder/x.prom"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("/nosuch/folder/x.prom: No such file or directory"));
}

TEST_F(IbarpMetrics, WrongUseIsRefused) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"metrics", "ib0"},
                                                {"metrics", "--json"},
                                                {"metrics", "--output", "x", "--serve", "0"},
                                                {"metrics", "--output", "--help"},
                                                {"metrics", "--password-file", "x"},
                                                {"metrics", "--serve", "nonsense"},
                                                {"metrics", "--serve", "localhost:9100"},
                                                {"metrics", "--serve", "1,2"},
                                                {"metrics", "--serve"},
                                                {"show", "--output", "x"},
                                                {"stats", "--serve", "0"},
                                                {"--batch", "-", "--serve", "0"},
                                                {"--batch", "-", "--output", "x"}}) {
    const Outcome outcome = run_ibarp(words);
    EXPECT_EQ(outcome.status, 2) << testing::PrintToString(words);
    EXPECT_THAT(outcome.out, IsEmpty());
  }
}

TEST_F(IbarpMetrics, APortThatIsTakenIsAnError) {
  namespace ip = boost::asio::ip;
  boost::asio::io_context context;
  const ip::tcp::acceptor other(context, ip::tcp::endpoint(ip::address_v4::loopback(), 0));
  const std::string port = std::to_string(other.local_endpoint().port());
  const Outcome outcome = run_ibarp({"metrics", "--serve", port});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.err, "ibarp: cannot listen on 127.0.0.1:" + port +
                             ": Address already in use; choose another address or port "
                             "(ss -ltnp lists those in use)\n");
}

}  // namespace
}  // namespace ipoib::ibarp
