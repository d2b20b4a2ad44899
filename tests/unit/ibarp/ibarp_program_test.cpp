#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>

#include <array>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <thread>

#include "as_nobody.hpp"
#include "ipoib/ibarp.h"
#include "left_over.hpp"
#include "program.hpp"
#include "running_server.hpp"
#include "tests/support/emulator.hpp"

namespace ipoib::ibarp {
namespace {

namespace json = boost::json;
using control::Entry;
using control::LeftOver;
using control::RunningServer;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr const char* kLongForm = "00:00:04:01:fe:80:00:00:00:00:00:00:00:02:c9:03:00:00:00:01";
constexpr const char* kUsageHint = " (see ibarp --help)\n";

/// A network namespace of its own, so that each server in it is a test's.
class IbarpProgram : public testing::Test {
 protected:
  static void SetUpTestSuite() { alone_ = unshare(CLONE_NEWNET) == 0; }

  static Entry reachable() {
    Entry entry;
    entry.address = Ipv4Address(0x0a2c0002);
    entry.state = "reachable";
    entry.hardware = HwAddress::parse(kLongForm);
    entry.path = control::Path{Lid(3), ServiceLevel(1), 2048, 40'000};
    entry.idle = std::chrono::milliseconds(1234);
    entry.references = 2;
    entry.uses = 12345;
    return entry;
  }
  static Entry incomplete() {
    Entry entry;
    entry.address = Ipv4Address(0x0a2c0001);
    entry.state = "incomplete";
    entry.waiting = 7;
    return entry;
  }

  static inline bool alone_ = false;
};

#define REQUIRE_ALONE() \
  if (!alone_) GTEST_SKIP() << "needs a network namespace of its own"

bool nobody_may_run_it() {
  const control::AsNobody nobody;
  return eaccess(IBARP_PROGRAM, X_OK) == 0;
}

#define REQUIRE_RUNNABLE_BY_NOBODY() \
  if (!nobody_may_run_it()) GTEST_SKIP() << "nobody may not run the program here"

TEST_F(IbarpProgram, ShowsABriefTable) {
  RunningServer server;
  server.handler.put(reachable());
  server.handler.put(incomplete());
  const std::string& name = server.name();
  const std::string blanks(name.size() - 3, ' ');
  const Outcome outcome = run_ibarp({"show", "dev", name});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out, "ADDRESS    DEV" + blanks +
                             "  STATE       IDLE  DLID    QPN       GID\n"
                             "10.44.0.1  " +
                             name + "  incomplete    0s  -       -         -\n10.44.0.2  " + name +
                             "  reachable   1.2s  0x0003  0x000401  fe80::2:c903:0:1\n");
}

TEST_F(IbarpProgram, ShowsAllColumnsWithWide) {
  RunningServer server;
  server.handler.put(reachable());
  server.handler.put(incomplete());
  const std::string& name = server.name();
  const std::string blanks(name.size() - 3, ' ');
  for (const char* const option : {"-w", "--wide"}) {
    EXPECT_EQ(
        run_ibarp({option, "show", "dev", name}).out,
        "ADDRESS    DEV" + blanks +
            "  STATE       IDLE  DLID    QPN       GID               FLAGS  SL   MTU     RATE  "
            " USES  REFS  WAIT  LLADDR\n"
            "10.44.0.1  " +
            name +
            "  incomplete    0s  -       -         -                 -       -     -        -"
            "      0     0     7  -\n"
            "10.44.0.2  " +
            name +
            "  reachable   1.2s  0x0003  0x000401  fe80::2:c903:0:1  0x00    1  2048  40 Gb/s"
            "  12345     2     0  " +
            kLongForm + "\n");
  }
}

TEST_F(IbarpProgram, ShowsTheMacsOfAnEthernetInterface) {
  RunningServer server;
  server.handler.put(incomplete());
  Entry entry = reachable();
  entry.mac = MacAddress(0x0612'3456'789a);
  server.handler.put(entry);
  const auto show = [&](const char* option) {
    return run_ibarp({option, "-i", server.name()}).out;
  };
  EXPECT_THAT(show("-w"), AllOf(HasSubstr("LLADDR" + std::string(55, ' ') + "MAC\n"),
                                HasSubstr(std::string(kLongForm) + "  06:12:34:56:78:9a\n")));
  EXPECT_THAT(show("-j"), HasSubstr(R"("mac":"06:12:34:56:78:9a")"));
  EXPECT_THAT(show("-n"), Not(HasSubstr("06:12:34:56:78:9a")));
}

std::size_t widest(const std::string& text) {
  std::size_t longest = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    longest = std::max(longest, end - at);
    at = end + 1;
  }
  return longest;
}

TEST_F(IbarpProgram, ShowsAges) {
  RunningServer server;
  using std::chrono::milliseconds;
  constexpr std::int64_t kSecond = 1000;
  constexpr std::int64_t kHour = 3600 * kSecond;
  for (const auto& [idle, text] :
       std::vector<std::pair<std::int64_t, const char*>>{{0, "0s"},
                                                         {9999, "9.9s"},
                                                         {10'000, "10s"},
                                                         {10'999, "10s"},
                                                         {120 * kSecond - 1, "119s"},
                                                         {120 * kSecond, "2m"},
                                                         {2 * kHour - 1, "119m"},
                                                         {2 * kHour, "2h"},
                                                         {48 * kHour - 1, "47h"},
                                                         {48 * kHour, "2d"}}) {
    Entry entry = reachable();
    entry.idle = milliseconds(idle);
    server.handler.put(entry);
    EXPECT_THAT(run_ibarp({"show", "dev", server.name()}).out,
                HasSubstr(std::string(" ") + text + "  0x0003"))
        << idle;
  }
}

TEST_F(IbarpProgram, FitsTheTerminal) {
  RunningServer server;
  Entry entry = reachable();
  server.handler.put(entry);
  const std::string& name = server.name();
  const auto show = [&](const char* columns) {
    return run_ibarp({"show", "dev", name}, {.columns = columns}).out;
  };
  EXPECT_THAT(show("80"), AllOf(StartsWith("ADDRESS"), HasSubstr("  GID\n")));
  EXPECT_LE(widest(show("80")), 80U);
  entry.address = *parse_ip_address("2001:db8:1234:5678:9abc:def0:1234:5678");
  entry.state = "incomplete";
  server.handler.put(entry);
  EXPECT_THAT(show("80"), AllOf(StartsWith("ADDRESS"), HasSubstr("2001:db8:1234:5678:9abc:def0"),
                                HasSubstr("STATE"), HasSubstr("  DLID\n")));
  EXPECT_LE(widest(show("80")), 80U);
  EXPECT_THAT(show("200"), HasSubstr("  GID\n"));
}

TEST_F(IbarpProgram, ShowsBlocksIfAllColumnsDoNotFit) {
  RunningServer server;
  server.handler.put(reachable());
  const std::string& name = server.name();
  const auto show = [&](const char* columns) {
    return run_ibarp({"show", "-w", "dev", name}, {.columns = columns}).out;
  };
  EXPECT_THAT(show("200"), AllOf(StartsWith("ADDRESS"), HasSubstr("LLADDR")));
  EXPECT_EQ(show("80"), "10.44.0.2  " + name + "  reachable\n    lladdr " + kLongForm +
                            "\n    flags 0x00  qpn 0x000401  gid fe80::2:c903:0:1\n"
                            "    dlid 0x0003  sl 1  mtu 2048  rate 40 Gb/s\n"
                            "    idle 1.2s  uses 12345  references 2  waiting 0\n");
}

TEST_F(IbarpProgram, ShowsAWideTableThatJustFits) {
  RunningServer server;
  server.handler.put(reachable());
  const auto show = [&](std::size_t columns) {
    return run_ibarp({"show", "-w", "dev", server.name()}, {.columns = std::to_string(columns)})
        .out;
  };
  const std::string table = show(500);
  ASSERT_THAT(table, StartsWith("ADDRESS"));
  EXPECT_EQ(show(widest(table)), table);
  EXPECT_THAT(show(widest(table) - 1), Not(StartsWith("ADDRESS")));
}

TEST_F(IbarpProgram, ShowsOneEntry) {
  RunningServer server;
  server.handler.put(reachable());
  server.handler.put(incomplete());
  const std::string& name = server.name();
  for (const auto& words :
       std::vector<std::vector<std::string>>{{"show", "10.44.0.1", "dev", name},
                                             {"10.44.0.1", "dev", name},
                                             {"list", "to", "10.44.0.1", "-i", name},
                                             {"get", "10.44.0.1", "dev", name}}) {
    const Outcome outcome = run_ibarp(words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("10.44.0.1"), Not(HasSubstr("10.44.0.2"))));
  }
  const Outcome show = run_ibarp({"show", "10.44.0.9", "dev", name});
  EXPECT_EQ(show.status, 0);
  EXPECT_THAT(show.out, IsEmpty());
  const Outcome get = run_ibarp({"get", "10.44.0.9", "dev", name});
  EXPECT_EQ(get.status, 1);
  EXPECT_EQ(get.err, "ibarp: 10.44.0.9: no such entry\n");
}

TEST_F(IbarpProgram, ShowsTheChosenInterfaceOnly) {
  REQUIRE_ALONE();
  RunningServer one;
  RunningServer other;
  one.handler.put(reachable());
  other.handler.put(incomplete());
  EXPECT_THAT(run_ibarp({"show", "dev", one.name()}).out,
              AllOf(HasSubstr("10.44.0.2"), Not(HasSubstr("10.44.0.1"))));
  EXPECT_THAT(run_ibarp({"show"}).out, AllOf(HasSubstr("10.44.0.2"), HasSubstr("10.44.0.1")));
}

TEST_F(IbarpProgram, ShowsJson) {
  RunningServer server;
  server.handler.put(reachable());
  server.handler.put(incomplete());
  const json::value all = json::parse(run_ibarp({"--json", "dev", server.name()}).out);
  EXPECT_EQ(all,
            json::parse(R"([{"address":"10.44.0.1","interface":")" + server.name() +
                        R"(","state":"incomplete","idle_ms":0,"uses":0,"references":0,"waiting":7},
      {"address":"10.44.0.2","interface":")" +
                        server.name() + R"(","state":"reachable","lladdr":")" + kLongForm +
                        R"(","flags":0,"qpn":1025,"gid":"fe80::2:c903:0:1",
      "path":{"dlid":3,"sl":1,"mtu":2048,"rate_mbps":40000},
      "idle_ms":1234,"uses":12345,"references":2,"waiting":0}])"));
}

TEST_F(IbarpProgram, ShowsEntriesLikeArp) {
  REQUIRE_ROOT();
  RunningServer server;
  server.handler.put(reachable());
  server.handler.put(incomplete());
  const std::string& name = server.name();
  EXPECT_EQ(run_ibarp({"-n", "-s", "10.44.0.3", kLongForm, "-i", name}).status, 0);
  EXPECT_EQ(run_ibarp({"-an", "-i", name}).out,
            "? (10.44.0.1) at <incomplete> on " + name + "\n? (10.44.0.2) at " + kLongForm +
                " [infiniband] on " + name + "\n? (10.44.0.3) at " + kLongForm +
                " [infiniband] PERM on " + name + "\n");
  EXPECT_EQ(run_ibarp({"-n", "-a", "10.44.0.9", "-i", name}).out, "10.44.0.9 -- no entry\n");
  EXPECT_EQ(run_ibarp({"-n", "-d", "10.44.0.3", "-i", name}).status, 0);
  EXPECT_EQ(run_ibarp({"-n", "-d", "10.44.0.3", "-i", name}).status, 1);
}

TEST_F(IbarpProgram, ShowsTextLikeArp) {
  RunningServer server;
  EXPECT_EQ(run_ibarp({"-a", "-i", server.name()}).out.find('['), std::string::npos);
}

TEST_F(IbarpProgram, SavesTheInterfacesThatADaemonHasAdded) {
  const std::string name = "save" + std::to_string(getpid());
  RunningServer first(control::kIdleTimeout, name + "a");
  RunningServer added(control::kIdleTimeout, name + "b");
  RunningServer other(control::kIdleTimeout, name + "c");
  const auto describe = [](RunningServer& server, std::uint32_t pid, std::uint16_t mtu) {
    control::InterfaceInfo info;
    info.interface = server.name();
    info.pid = pid;
    info.host_mtu = mtu;
    info.pkey = PKey(0x8012);
    server.handler.put(info);
  };
  describe(first, 1, 2044);
  describe(added, 1, 4092);
  describe(other, 2, 2044);
  const std::string out = run_ibarp({"save"}).out;
  EXPECT_THAT(out, HasSubstr("interface replace 0x8012 name " + added.name() + " dev " +
                             first.name() + "\n"));
  EXPECT_THAT(out, Not(HasSubstr(" name " + first.name())));
  EXPECT_THAT(out, Not(HasSubstr(" name " + other.name())));
}

TEST_F(IbarpProgram, ListsInterfaces) {
  RunningServer server;
  const std::string& name = server.name();
  control::InterfaceInfo info;
  info.interface = name;
  info.device = "mlx5_0";
  info.port = 2;
  info.pkey = PKey(0x8012);
  info.membership = "limited";
  info.state = "joining";
  server.handler.put(info);
  const std::string blanks(name.size() - 3, ' ');
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"interface", "dev", name}, {"int", "list", "dev", name}}) {
    const Outcome outcome = run_ibarp(words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "DEV" + blanks + "  PKEY    MEMBER   STATE    DEVICE  PORT\n" + name +
                               "  0x8012  limited  joining  mlx5_0     2\n");
  }
  EXPECT_EQ(json::parse(run_ibarp({"-j", "interface", "show", "dev", name}).out),
            json::parse(R"([{"interface":")" + name +
                        R"(","state":"joining","device":"mlx5_0","port":2,"pkey":"0x8012",)"
                        R"("membership":"limited"}])"));
}

TEST_F(IbarpProgram, AddsAndDeletesInterfaces) {
  REQUIRE_ROOT();
  RunningServer server;
  const std::string& name = server.name();
  EXPECT_EQ(run_ibarp({"interface", "add", "0x8001", "dev", name}).out, "");
  EXPECT_EQ(run_ibarp({"-j", "interface", "add", "32769", "dev", name}).out,
            "[{\"interface\":\"ib0.8001\"}]\n");
  EXPECT_EQ(run_ibarp({"-j", "interface", "a", "0x1", "name", "red", "dev", name}).out,
            "[{\"interface\":\"red\"}]\n");
  const Outcome again = run_ibarp({"interface", "add", "0x8002", "dev", name});
  EXPECT_EQ(again.status, 1);
  EXPECT_EQ(again.err, "ibarp: " + name + ": the partition has an interface\n");
  EXPECT_EQ(run_ibarp({"interface", "del", name}).status, 0);
  const Outcome last = run_ibarp({"interface", "delete", "dev", name});
  EXPECT_EQ(last.status, 1);
  EXPECT_EQ(last.err, "ibarp: " + name + ": it is the last interface\n");
}

TEST_F(IbarpProgram, MovesAnInterfaceToAnotherPort) {
  RunningServer server;
  std::vector<control::FailoverRequest> seen;
  server.handler.before_request = [&](const control::InterfaceRequest& request) {
    if (const auto* const failover = std::get_if<control::FailoverRequest>(&request)) {
      seen.push_back(*failover);
    }
  };
  const Outcome refused = run_ibarp({"failover", "dev", server.name()});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("the interface has one port"));
  control::InterfaceInfo info;
  info.ports.resize(2);
  server.handler.put(info);
  const Outcome moved = run_ibarp({"failover", "mlx5_1:2", "dev", server.name()});
  EXPECT_EQ(moved.status, 0) << moved.err;
  EXPECT_EQ(moved.out, "");
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0].device, "") << "the other one, whichever it is";
  EXPECT_EQ(seen[1].device, "mlx5_1");
  EXPECT_EQ(seen[1].port, 2);
  for (const char* const port : {"mlx5_1", "mlx5_1:", ":1", "mlx5_1:256", "mlx5_1:x"}) {
    EXPECT_EQ(run_ibarp({"failover", port, "dev", server.name()}).status, 2) << port;
  }
}

TEST_F(IbarpProgram, RefusesInterfacesThatAreNotNamed) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"add"},
                                                {"add", "red"},
                                                {"add", "0x18001"},
                                                {"add", "0x"},
                                                {"add", "1x"},
                                                {"add", "0x1g"},
                                                {"add", "-1"},
                                                {"add", "1", "2"},
                                                {"add", "1", "name"},
                                                {"add", "1", "name", "a", "name", "b"},
                                                {"del"},
                                                {"del", "a", "b"},
                                                {"show", "a"},
                                                {"flush"}}) {
    std::vector<std::string> all{"interface"};
    all.insert(all.end(), words.begin(), words.end());
    EXPECT_EQ(run_ibarp(all).status, 2) << testing::PrintToString(all);
  }
}

TEST_F(IbarpProgram, AsksForADaemonIfSeveralRun) {
  REQUIRE_ROOT();
  REQUIRE_ALONE();
  RunningServer one;
  RunningServer other;
  control::InterfaceInfo info;
  info.pid = 1;
  one.handler.put(info);
  other.handler.put(info);
  EXPECT_EQ(run_ibarp({"interface", "add", "0x8001"}).status, 0) << "both are of one daemon";
  info.pid = 2;
  other.handler.put(info);
  const Outcome outcome = run_ibarp({"interface", "add", "0x8001"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("dev IF"));
  const Outcome capture = run_ibarp({"capture", "-c", "1"});
  EXPECT_EQ(capture.status, 2);
  EXPECT_THAT(capture.err, HasSubstr("dev IF"));
}

TEST_F(IbarpProgram, ChangesEntries) {
  REQUIRE_ROOT();
  RunningServer server;
  const std::string& name = server.name();
  const auto ibarp = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"dev", name});
    return run_ibarp(words);
  };
  EXPECT_EQ(ibarp({"change", "10.44.0.2", "lladdr", kLongForm}).status, 1);
  EXPECT_EQ(ibarp({"add", "10.44.0.2", "lladdr", "0x401@fe80::2:c903:0:1"}).status, 0);
  const Outcome again = ibarp({"add", "10.44.0.2", "lladdr", kLongForm});
  EXPECT_EQ(again.status, 1);
  EXPECT_EQ(again.err, "ibarp: " + name + ": 10.44.0.2: entry exists already\n");
  EXPECT_THAT(ibarp({"show", "-w"}).out, AllOf(HasSubstr("permanent"), HasSubstr(kLongForm)));
  EXPECT_EQ(ibarp({"change", "10.44.0.2", "lladdr", "qpn", "7", "gid", "fe80::9"}).status, 0);
  EXPECT_THAT(ibarp({"show"}).out, HasSubstr("0x000007  fe80::9"));
  EXPECT_EQ(ibarp({"replace", "10.44.0.2", "lladdr", "8@fe80::9", "nud", "permanent"}).status, 0);
  EXPECT_EQ(ibarp({"del", "10.44.0.2"}).status, 0);
  EXPECT_EQ(ibarp({"del", "10.44.0.2"}).status, 1);
}

TEST_F(IbarpProgram, PinsAnAddress) {
  REQUIRE_ROOT();
  RunningServer server;
  const auto ibarp = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"dev", server.name()});
    return run_ibarp(arguments);
  };
  EXPECT_EQ(ibarp({"add", "10.44.0.2", "gid", "fe80::9"}).status, 0);
  EXPECT_THAT(ibarp({"show"}).out, HasSubstr("  pinned    0s  -     -    fe80::9 pinned\n"));
  EXPECT_THAT(run_ibarp({"show", "-w", "dev", server.name()}, {.columns = "60"}).out,
              HasSubstr("\n    gid fe80::9 pinned\n"));
  EXPECT_THAT(ibarp({"-j"}).out, HasSubstr(R"("state":"pinned","pinned_gid":"fe80::9")"));
  EXPECT_THAT(ibarp({"show", "nud", "pinned"}).out, HasSubstr("10.44.0.2"));
  Entry entry = reachable();
  entry.pinned = entry.hardware->gid;
  server.handler.put(entry);
  EXPECT_THAT(ibarp({"show"}).out, HasSubstr("0x000401  fe80::2:c903:0:1 pinned\n"));
  EXPECT_THAT(ibarp({"show", "nud", "pinned"}).out, HasSubstr("reachable"));
  EXPECT_THAT(ibarp({"show", "nud", "stale"}).out, IsEmpty());
  EXPECT_EQ(run_ibarp({"-i", server.name(), "-s", "10.44.0.3", "gid", "fe80::3"}).status, 0);
  EXPECT_THAT(ibarp({"get", "10.44.0.3"}).out, HasSubstr("fe80::3 pinned"));
  const Outcome wrong = ibarp({"add", "10.44.0.2", "gid", "10.0.0.1"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("\"10.0.0.1\" is no GID"));
  EXPECT_EQ(ibarp({"add", "10.44.0.2", "gid"}).status, 2);
}

TEST_F(IbarpProgram, SetsTheEntriesOfAFile) {
  REQUIRE_ROOT();
  RunningServer server;
  const std::string path = testing::TempDir() + "/neighbours-" + server.name();
  const auto load = [&](const std::string& text) {
    std::ofstream(path) << text;
    return run_ibarp({"-f", path, "-i", server.name()});
  };
  const auto show = [&] { return run_ibarp({"show", "-j", "dev", server.name()}).out; };
  EXPECT_EQ(load("0x401@fe80::9 10.44.0.2\n"
                 "fe80::9 10.44.0.3 " +
                 server.name() +
                 "\n"
                 "fe80::9 10.44.0.4 other\n")
                .status,
            0);
  EXPECT_THAT(show(), HasSubstr(R"("10.44.0.2")"));
  EXPECT_THAT(show(), HasSubstr(R"("10.44.0.3")"));
  EXPECT_THAT(show(), Not(HasSubstr("10.44.0.4")));
  const Outcome wrong = load("fe80::9 10.44.0.5\nfe80::9\n");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr(path + ":2: the IP address is missing"));
  EXPECT_THAT(show(), Not(HasSubstr("10.44.0.5"))) << "nothing is set";
  std::filesystem::remove(path);
  EXPECT_EQ(run_ibarp({"--file", path, "-i", server.name()}).status, 1);
  EXPECT_EQ(run_ibarp({"-f", path, "-a"}).status, 2);
}

TEST_F(IbarpProgram, Flushes) {
  REQUIRE_ROOT();
  RunningServer server;
  server.handler.put(reachable());
  server.handler.put(incomplete());
  EXPECT_EQ(run_ibarp({"flush", "-j", "-i", server.name()}).out,
            R"([{"interface":")" + server.name() + "\",\"deleted\":2}]\n");
  const Outcome again = run_ibarp({"flush", "dev", server.name()});
  EXPECT_EQ(again.status, 0);
  EXPECT_THAT(again.out, IsEmpty());
}

/// Four entries: IPv4 reachable and incomplete, IPv4 failed in another network, IPv6 permanent.
void put_four(RunningServer& server, Entry first, Entry second) {
  server.handler.put(std::move(first));
  server.handler.put(std::move(second));
  Entry failed;
  failed.address = Ipv4Address(0x0a2d0001);
  failed.state = "failed";
  server.handler.put(failed);
  Entry ipv6;
  ipv6.address = *parse_ip_address("2001:db8::2");
  ipv6.state = "permanent";
  server.handler.put(ipv6);
}

/// The addresses in a JSON listing.
std::vector<std::string> addresses_in(const std::string& listing) {
  std::vector<std::string> out;
  const json::value all = json::parse(listing);
  for (const auto& entry : all.as_array()) {
    out.emplace_back(entry.at("address").as_string());
  }
  return out;
}

TEST_F(IbarpProgram, FiltersTheList) {
  RunningServer server;
  put_four(server, reachable(), incomplete());
  const auto list = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"-j", "-i", server.name()});
    const Outcome outcome = run_ibarp(words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return addresses_in(outcome.out);
  };
  const std::string one = "10.44.0.1";
  const std::string two = "10.44.0.2";
  const std::string failed = "10.45.0.1";
  const std::string ipv6 = "2001:db8::2";
  EXPECT_THAT(list({"-4"}), ElementsAre(one, two, failed));
  EXPECT_THAT(list({"-6", "show"}), ElementsAre(ipv6));
  EXPECT_THAT(list({"list", "to", "10.44.0.0/24"}), ElementsAre(one, two));
  EXPECT_THAT(list({"10.44.0.77/24"}), ElementsAre(one, two))
      << "bits beyond the length are ignored";
  EXPECT_THAT(list({"show", "to", "2001:db8::/32"}), ElementsAre(ipv6));
  EXPECT_THAT(list({"to", "10.44.0.0/24"}), ElementsAre(one, two));
  EXPECT_THAT(list({"0.0.0.0/0"}), ElementsAre(one, two, failed));
  EXPECT_THAT(list({"show", "nud", "failed"}), ElementsAre(failed));
  EXPECT_THAT(list({"state", "incomplete,permanent"}), ElementsAre(one, ipv6));
  EXPECT_THAT(list({"show", "nud", "incomplete", "nud", "failed"}), ElementsAre(one, failed));
  EXPECT_THAT(list({"nud", "all"}), ElementsAre(one, two, failed, ipv6));
  EXPECT_THAT(list({"show", "10.44.0.0/24", "nud", "reachable"}), ElementsAre(two));
  EXPECT_THAT(list({"show", "10.44.0.2", "nud", "reachable"}), ElementsAre(two));
  EXPECT_THAT(list({"show", "10.44.0.2", "nud", "stale"}), IsEmpty());
  EXPECT_THAT(list({"-6", "show", "10.44.0.2"}), IsEmpty());
  EXPECT_THAT(run_ibarp({"-a", "-n", "-6", "-i", server.name()}).out,
              StartsWith("? (2001:db8::2)"));
}

TEST_F(IbarpProgram, FlushesWhatMatches) {
  REQUIRE_ROOT();
  RunningServer server;
  const auto deleted = [&](std::vector<std::string> words) {
    put_four(server, reachable(), incomplete());
    words.insert(words.begin(), "flush");
    words.insert(words.end(), {"-j", "-i", server.name()});
    return json::parse(run_ibarp(words).out).at(0).at("deleted").to_number<int>();
  };
  EXPECT_EQ(deleted({"all"}), 3) << "not the permanent entry";
  EXPECT_EQ(deleted({"10.44.0.0/24"}), 2);
  EXPECT_EQ(deleted({"to", "10.44.0.2"}), 1);
  EXPECT_EQ(deleted({"nud", "failed"}), 1);
  EXPECT_EQ(deleted({"-6"}), 0);
  EXPECT_EQ(deleted({"-6", "nud", "permanent"}), 1);
  EXPECT_EQ(deleted({"nud", "all"}), 4);
}

TEST_F(IbarpProgram, AcceptsAbbreviations) {
  REQUIRE_ROOT();
  RunningServer server;
  server.handler.put(reachable());
  const auto ibarp = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"dev", server.name()});
    const Outcome outcome = run_ibarp(words);
    EXPECT_EQ(outcome.status, 0) << words[0] << outcome.err;
    return outcome.out;
  };
  const std::string all = ibarp({"show"});
  for (const char* const word : {"l", "li", "ls", "s", "sh", "sho"}) EXPECT_EQ(ibarp({word}), all);
  EXPECT_EQ(ibarp({"g", "10.44.0.2"}), all);
  EXPECT_EQ(ibarp({"a", "10.44.0.3", "lladdr", kLongForm}), "");
  EXPECT_EQ(ibarp({"c", "10.44.0.3", "lladdr", "7@fe80::9"}), "");
  EXPECT_EQ(ibarp({"r", "10.44.0.3", "lladdr", "8@fe80::9"}), "");
  EXPECT_THAT(ibarp({"l"}), HasSubstr("0x000008"));
  EXPECT_EQ(ibarp({"d", "10.44.0.3"}), "");
  EXPECT_EQ(ibarp({"f"}), "");
  EXPECT_EQ(ibarp({"l"}), "");
  EXPECT_THAT(ibarp({"st"}), HasSubstr("packets_sent"));
  EXPECT_THAT(ibarp({"lo"}), HasSubstr("link"));
  EXPECT_THAT(ibarp({"i"}), HasSubstr("pid"));
  EXPECT_THAT(ibarp({"gr"}), StartsWith("GROUP"));
  EXPECT_EQ(run_ibarp({"h"}).out, run_ibarp({"--help"}).out);
}

TEST_F(IbarpProgram, AcceptsLongOptionsWithOneHyphen) {
  RunningServer server;
  server.handler.put(reachable());
  EXPECT_EQ(run_ibarp({"-json", "-device", server.name()}).out,
            run_ibarp({"--json", "-i", server.name()}).out);
}

TEST_F(IbarpProgram, RunsABatch) {
  REQUIRE_ROOT();
  RunningServer server;
  const std::string commands = "# two entries\n\nadd 10.44.0.2 lladdr " + std::string(kLongForm) +
                               "   # the first\n\tadd 10.44.0.3 lladdr 7@fe80::1\nget 10.44.0.3";
  for (const char* const option : {"-batch", "--batch", "-b"}) {
    const Outcome outcome = run_ibarp({option, "-", "-i", server.name()}, {.input = commands});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("10.44.0.3"), Not(HasSubstr("10.44.0.2"))));
    EXPECT_EQ(run_ibarp({"flush", "nud", "permanent", "-j", "-i", server.name()}).out,
              R"([{"interface":")" + server.name() + "\",\"deleted\":2}]\n");
  }
}

TEST_F(IbarpProgram, ABatchEndsAtTheFirstFailure) {
  REQUIRE_ROOT();
  RunningServer server;
  const std::string commands =
      "add 10.44.0.2 lladdr 7@fe80::1\n\ndel 10.44.0.9\nsing\nflush 10/99\nshow\n";
  const std::string& name = server.name();
  const Outcome outcome = run_ibarp({"-batch", "-", "-i", name}, {.input = commands});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.err, "ibarp: -:3: " + name + ": 10.44.0.9: no such entry\n");
  EXPECT_THAT(outcome.out, IsEmpty());
  run_ibarp({"del", "10.44.0.2", "-i", name});
  const Outcome forced = run_ibarp({"-force", "-batch", "-", "-i", name}, {.input = commands});
  EXPECT_EQ(forced.status, 2) << "the worst";
  EXPECT_EQ(forced.err, "ibarp: -:3: " + name +
                            ": 10.44.0.9: no such entry\n"
                            "ibarp: -:4: the command \"sing\" is unknown (see ibarp --help)\n"
                            "ibarp: -:5: \"10/99\" is not an IP address or prefix\n");
  EXPECT_THAT(forced.out, HasSubstr("10.44.0.2"));
}

TEST_F(IbarpProgram, ABatchHasNoCommandsWithoutAnEnd) {
  for (const std::string command : {"monitor", "top", "capture x"}) {
    const Outcome outcome = run_ibarp({"-batch", "-"}, {.input = command + "\nhelp\n"});
    EXPECT_EQ(outcome.status, 2);
    EXPECT_EQ(outcome.err,
              "ibarp: -:1: monitor, top and capture are not for --batch (see ibarp --help)\n");
    EXPECT_THAT(outcome.out, IsEmpty());
  }
  EXPECT_EQ(run_ibarp({"-batch", "-"}, {.input = "save\n"}).status, 1) << "no daemon runs";
}

TEST_F(IbarpProgram, OptionsOfOneCommandAreNotForOthers) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong{
      {{"show", "--output", "x"}, "--output is for metrics, save and bugreport only"},
      {{"show", "--serve", "1"}, "--serve is for metrics only"},
      {{"metrics", "--password-file", "x"}, "--password-file has no effect without --serve"},
      {{"metrics", "--serve", "1", "--output", "x"}, "use only one of --output and --serve"},
      {{"metrics", "--output", "--x"},
       "--output needs a file; one whose name begins with -- is ./--x"},
      {{"show", "--timeout", "1"}, "--timeout is for wait only"},
      {{"show", "--interval", "1"}, "--interval is for monitor, probe and top only"}};
  for (const auto& [words, message] : wrong) {
    const Outcome outcome = run_ibarp(words);
    EXPECT_EQ(outcome.status, 2) << message;
    EXPECT_EQ(outcome.err, "ibarp: " + message + " (see ibarp --help)\n");
  }
  const Outcome served = run_ibarp({"metrics", "--serve", "1", "--password-file", "/no/such"});
  EXPECT_EQ(served.status, 1);
  EXPECT_THAT(served.err, HasSubstr("/no/such"));
}

TEST_F(IbarpProgram, SaysWhatAMistypedWordMayMean) {
  EXPECT_THAT(run_ibarp({"exlpain"}).err, HasSubstr("unknown; did you mean explain?"));
  EXPECT_THAT(run_ibarp({"--jsno"}).err, HasSubstr("unknown; did you mean --json?"));
  EXPECT_THAT(run_ibarp({"sing"}).err, Not(HasSubstr("did you mean")));
}

TEST_F(IbarpProgram, ABatchTakesLinesUpToItsLimit) {
  constexpr std::size_t kLongest = 4096;
  const std::string longest(kLongest, '#');
  const Outcome outcome = run_ibarp({"-batch", "-"}, {.input = longest + "\nhelp\n"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith("Usage: ibarp "));
  const Outcome longer = run_ibarp({"-batch", "-"}, {.input = "help\n" + longest + "#\nhelp\n"});
  EXPECT_EQ(longer.status, 2);
  EXPECT_EQ(longer.out, outcome.out) << "of the first line";
  EXPECT_EQ(longer.err, "ibarp: -:2: a line has at most 4096 bytes\n");
}

/// As a program does that reads the result of a command before it writes the next one.
TEST_F(IbarpProgram, ABatchPrintsResultsBeforeTheNextCommand) {
  RunningServer server;
  server.handler.put(reachable());
  std::array<int, 2> to{};
  std::array<int, 2> from{};
  ASSERT_EQ(pipe2(to.data(), O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(from.data(), O_CLOEXEC), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    execl(IBARP_PROGRAM, "ibarp", "-batch", "/dev/stdin", "-i", server.name().c_str(), nullptr);
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  constexpr int kPatience = 10'000;
  pollfd readable{from[0], POLLIN, 0};
  for (int i = 0; i < 2; ++i) {
    const std::string command = "get 10.44.0.2\n";  // whose result does not fill a buffer
    EXPECT_EQ(write(to[1], command.data(), command.size()), static_cast<ssize_t>(command.size()));
    ASSERT_EQ(poll(&readable, 1, kPatience), 1);
    std::array<char, 65536> text{};
    const ssize_t size = read(from[0], text.data(), text.size());
    EXPECT_THAT(std::string(text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))),
                HasSubstr("10.44.0.2"));
  }
  close(to[1]);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  close(from[0]);
}

TEST_F(IbarpProgram, RejectsABatchThatItCannotRead) {
  const Outcome missing = run_ibarp({"-batch", "/no/such/file"});
  EXPECT_EQ(missing.status, 1);
  EXPECT_EQ(missing.err, "ibarp: /no/such/file: No such file or directory\n");
  const Outcome folder = run_ibarp({"-batch", "/"});
  EXPECT_EQ(folder.status, 1);
  EXPECT_EQ(folder.err, "ibarp: /:1: Is a directory\n");
  const Outcome endless = run_ibarp({"-batch", "/dev/zero"});
  EXPECT_EQ(endless.status, 2);
  EXPECT_EQ(endless.err, "ibarp: /dev/zero:1: a line has at most 4096 bytes\n");
}

constexpr const char* kOutputIsFull =
    "ibarp: the output is incomplete: No space left on device; free some space on the file system "
    "(df)\n";

TEST_F(IbarpProgram, ABatchReportsThatTheOutputCannotBeWritten) {
  const Outcome outcome =
      run_ibarp({"-batch", "-"}, {.output = "/dev/full", .input = "help\nhelp\n"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.err, kOutputIsFull);
}

TEST_F(IbarpProgram, ABatchEndsWhenItsOutputCannotBeWritten) {
  REQUIRE_ROOT();
  RunningServer server;
  const std::string commands = "help\nadd 10.44.0.2 lladdr 7@fe80::1\n";
  const Outcome outcome =
      run_ibarp({"-batch", "-", "-i", server.name()}, {.output = "/dev/full", .input = commands});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(run_ibarp({"show", "dev", server.name()}).out, IsEmpty()) << "nothing was added";
}

TEST_F(IbarpProgram, RefusesChangesByOtherUsers) {
  REQUIRE_ROOT();
  REQUIRE_RUNNABLE_BY_NOBODY();
  RunningServer server;
  for (const auto& words :
       std::vector<std::vector<std::string>>{{"add", "10.44.0.2", "lladdr", kLongForm},
                                             {"del", "10.44.0.2"},
                                             {"flush"},
                                             {"log", "link=debug"}}) {
    std::vector<std::string> all = words;
    all.insert(all.end(), {"dev", server.name()});
    const Outcome outcome = run_ibarp(all, {.as_nobody = true});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.err, HasSubstr("only root may change"));
  }
  const Outcome trace = run_ibarp({"trace", "dev", server.name()}, {.as_nobody = true});
  EXPECT_EQ(trace.status, 1);
  EXPECT_THAT(trace.err, HasSubstr("only root may see the trace"));
  EXPECT_EQ(run_ibarp({"show", "dev", server.name()}, {.as_nobody = true}).status, 0);
}

TEST_F(IbarpProgram, ShowsCounters) {
  RunningServer server;
  const std::string& name = server.name();
  const Outcome outcome = run_ibarp({"stats", "dev", name});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out,
              AllOf(StartsWith(name + ":\n  dropped:\n    path_failed  2\n"),
                    HasSubstr("  failed:\n    join_failures  3\n  counted:\n"),
                    HasSubstr("    packets_sent"), HasSubstr("more are zero; -z shows them"),
                    Not(HasSubstr("control_timeouts"))));
  EXPECT_THAT(run_ibarp({"stats", "-z", "dev", name}).out,
              AllOf(HasSubstr("control_timeouts"), Not(HasSubstr("-z"))));
  const json::value all = json::parse(run_ibarp({"stats", "-j", "dev", name}).out);
  EXPECT_EQ(all.at(0).at("interface"), json::value(name));
  EXPECT_EQ(all.at(0).at("counters").at("packets_sent"), 7);
  EXPECT_EQ(all.at(0).at("drops").at("path_failed"), 2);
  EXPECT_EQ(all.at(0).at("counters").at("control_timeouts"), 0) << "zeros, too";
}

TEST_F(IbarpProgram, ShowsAndSetsLogLevels) {
  REQUIRE_ROOT();
  RunningServer server;
  const std::string& name = server.name();
  EXPECT_EQ(run_ibarp({"log", "dev", name}).out, name + ":\n  control  info\n  link     info\n");
  const Outcome set = run_ibarp({"log", "link=debug", "control=off", "dev", name});
  EXPECT_EQ(set.status, 0);
  EXPECT_THAT(set.out, IsEmpty());
  EXPECT_EQ(
      run_ibarp({"log", "-j", "dev", name}).out,
      "[{\"interface\":\"" + name + R"(","levels":{"control":"off","link":"debug"}}])" + "\n");
  EXPECT_EQ(run_ibarp({"log", "dev", name}).out, name + ":\n  control  off\n  link     debug\n");
  const Outcome wrong = run_ibarp({"log", "link=loud", "dev", name});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("no such level"));
}

TEST_F(IbarpProgram, ShowsTheTrace) {
  RunningServer server;
  TraceRing& ring = server.trace.add("pump");
  ring.record("path_query", TimePoint(std::chrono::nanoseconds(12'000'000'345)), 0x10, 2);
  EXPECT_EQ(run_ibarp({"trace", "dev", server.name()}).out,
            "[    12.000000345] pump path_query 0x10 0x2\n");
  EXPECT_EQ(run_ibarp({"trace", "-j", "dev", server.name()}).out,
            "[{\"interface\":\"" + server.name() +
                R"(","records":[{"thread":"pump","when_ns":12000000345,"keyword":"path_query",)"
                R"("first":16,"second":2}]}])"
                "\n");
}

TEST_F(IbarpProgram, ShowsTheInterface) {
  RunningServer server;
  control::InterfaceInfo info;
  info.interface = "ib0";
  info.device = "mlx5_0";
  info.port = 1;
  info.pkey = kDefaultPKey;
  info.qkey = QKey(0xb1b);
  info.qpn = Qpn(0x401);
  info.gid = *Gid::parse("fe80::2:c903:0:1");
  info.lid = Lid(3);
  info.mtu = 2044;
  info.state = "joining";
  info.waiting_for = "the broadcast group";
  info.version = "0.1.0";
  info.pid = 4711;
  info.groups = {{*Gid::parse("ff12:401b:ffff::ffff:ffff"), Lid(0xc000), "full"}};
  server.handler.put(info);
  EXPECT_EQ(run_ibarp({"info", "dev", server.name()}).out,
            server.name() +
                ": joining, waiting for the broadcast group\n"
                "    mlx5_0 port 1  pkey 0xffff  lid 0x0003  qkey 0x00000b1b  mtu 2044\n"
                "    lladdr " +
                kLongForm +
                "\n"
                "    qpn 0x000401  gid fe80::2:c903:0:1\n"
                "    group ff12:401b:ffff::ffff:ffff  mlid 0xc000  full\n"
                "    ipoibd 0.1.0  pid 4711\n");
  const json::value all = json::parse(run_ibarp({"info", "-j", "dev", server.name()}).out);
  EXPECT_EQ(all.at(0).at("qpn"), 0x401);
  EXPECT_EQ(all.at(0).at("groups").at(0).at("mlid"), "0xc000");
  EXPECT_EQ(all.at(0).at("pkey"), "0xffff");
  EXPECT_EQ(all.at(0).at("qkey"), "0x00000b1b");
  EXPECT_EQ(all.at(0).at("admin_up"), true);
}

TEST_F(IbarpProgram, InfoOmitsWhatIsNotKnown) {
  RunningServer server;
  control::InterfaceInfo info;
  info.interface = "ib0";
  info.device = "mlx5_0";
  info.port = 1;
  info.pkey = kDefaultPKey;
  info.state = "no_subnet_manager";
  info.waiting_for = "a subnet manager";
  info.version = "0.1.0";
  info.pid = 4711;
  info.groups = {{*Gid::parse("ff12:401b:ffff::ffff:ffff"), Lid(0), "absent"}};
  server.handler.put(info);
  EXPECT_EQ(run_ibarp({"info", "dev", server.name()}).out,
            server.name() +
                ": no_subnet_manager, waiting for a subnet manager\n"
                "    mlx5_0 port 1  pkey 0xffff\n"
                "    group ff12:401b:ffff::ffff:ffff  mlid -  absent\n"
                "    ipoibd 0.1.0  pid 4711\n");
  const auto all = json::parse(run_ibarp({"info", "-j", "dev", server.name()}).out);
  for (const char* const key : {"qkey", "mtu", "lid", "qpn", "gid", "lladdr"}) {
    EXPECT_FALSE(all.at(0).as_object().contains(key)) << key;
  }
  EXPECT_FALSE(all.at(0).at("groups").at(0).as_object().contains("mlid"));
}

TEST_F(IbarpProgram, InfoTellsWhatALimitedMemberAndALargeMtuMean) {
  RunningServer server;
  control::InterfaceInfo info;
  info.state = "up";
  info.pkey = kDefaultPKey;
  info.mtu = info.host_mtu = 2044;
  info.membership = "full";
  server.handler.put(info);
  const auto text = [&] { return run_ibarp({"info", "dev", server.name()}).out; };
  EXPECT_THAT(text(), AllOf(HasSubstr("pkey 0xffff full"), Not(HasSubstr("limited")),
                            Not(HasSubstr("more than"))));
  info.host_mtu = 4000;
  info.membership = "limited";
  server.handler.put(info);
  EXPECT_THAT(text(), AllOf(HasSubstr("but not other limited members"),
                            HasSubstr("mtu 4000 of the interface is more than")));
  const auto all = json::parse(run_ibarp({"info", "-j", "dev", server.name()}).out);
  EXPECT_EQ(all.at(0).at("membership"), "limited");
  EXPECT_EQ(all.at(0).at("host_mtu"), 4000);
}

TEST_F(IbarpProgram, InfoTellsWhetherTheInterfaceIsAdministrativelyDown) {
  RunningServer server;
  control::InterfaceInfo info;
  info.state = "up";
  info.admin_up = false;
  server.handler.put(info);
  EXPECT_THAT(run_ibarp({"info", "dev", server.name()}).out,
              StartsWith(server.name() + ": administratively down, link up\n"));
  const auto all = json::parse(run_ibarp({"info", "-j", "dev", server.name()}).out);
  EXPECT_EQ(all.at(0).at("admin_up"), false);
}

TEST_F(IbarpProgram, InfoShowsLongReasonsCompletely) {
  RunningServer server;
  control::InterfaceInfo info;
  info.state = "no_pkey";
  info.waiting_for = "partition 0x8001: the port is in " + std::string(1000, 'x') + " only";
  server.handler.put(info);
  EXPECT_THAT(run_ibarp({"info", "dev", server.name()}).out, HasSubstr(info.waiting_for + "\n"));
  const auto all = json::parse(run_ibarp({"info", "-j", "dev", server.name()}).out);
  EXPECT_EQ(all.at(0).at("waiting_for").as_string(), info.waiting_for);
}

/// Adds one group with known members and one with unknown members.
void put_groups(RunningServer& server) {
  control::InterfaceInfo info;
  const Gid known = *Gid::parse("ff12:401b:ffff::1");
  info.groups = {{known, Lid(0xc001), "full", Ipv4Address(0xe0000001)},
                 {*Gid::parse("ff12:601b:ffff::5"), Lid(0), "joining", {}, 7}};
  server.handler.put(info);
  server.handler.put(known,
                     {{*Gid::parse("fe80::7"), IBARP_FULL_MEMBER},
                      {*Gid::parse("fe80::8"), IBARP_FULL_MEMBER | IBARP_SEND_ONLY_NON_MEMBER}});
}

TEST_F(IbarpProgram, ShowsGroups) {
  REQUIRE_ROOT();
  RunningServer server;
  put_groups(server);
  const std::string gap(server.name().size() - 3, ' ');
  EXPECT_EQ(run_ibarp({"groups", "dev", server.name()}).out,
            "GROUP      DEV" + gap + "  MEMBERSHIP  MEMBERS  MLID    WAIT  MGID\n224.0.0.1  " +
                server.name() +
                "  full              2  0xc001     0  ff12:401b:ffff::1\n-          " +
                server.name() + "  joining           -  -          7  ff12:601b:ffff::5\n");
  EXPECT_EQ(run_ibarp({"groups", "dev", server.name()}).status, 0)
      << "unknown members that nobody has asked for are no failure";
  const json::value all = json::parse(run_ibarp({"groups", "-j", "dev", server.name()}).out);
  EXPECT_EQ(all.at(0).at("address"), "224.0.0.1");
  EXPECT_EQ(all.at(0).at("mlid"), "0xc001");
  EXPECT_FALSE(all.at(1).as_object().contains("mlid"));
  EXPECT_EQ(all.at(0).at("interface"), server.name().c_str());
  EXPECT_EQ(all.at(1).at("waiting"), 7);
  EXPECT_FALSE(all.at(1).as_object().contains("address"));
  EXPECT_EQ(all.at(0).at("members").at(1).at("gid"), "fe80::8");
  EXPECT_EQ(all.at(0).at("members").at(1).at("join"), json::value({"full", "send-only"}));
  EXPECT_FALSE(all.at(1).as_object().contains("members"));
}

TEST_F(IbarpProgram, ShowsStationsSortedByAddress) {
  RunningServer server;
  server.handler.put(
      std::vector<control::Station>{{*parse_ip_address("fd44::11"), MacAddress(0x0200'0000'0011),
                                     "checking", false, std::chrono::milliseconds(500)},
                                    {*parse_ip_address("10.44.0.11"), MacAddress(0x0200'0000'0011),
                                     "reachable", true, std::chrono::seconds(7)}});
  const auto shown = run_ibarp({"stations", "dev", server.name()});
  EXPECT_EQ(shown.status, 0);
  const std::string gap(server.name().size() - 3, ' ');
  EXPECT_EQ(shown.out, "ADDRESS     DEV" + gap + "  STATE      IDLE  SERVED  MAC\n10.44.0.11  " +
                           server.name() +
                           "  reachable    7s  yes     02:00:00:00:00:11\nfd44::11    " +
                           server.name() + "  checking   0.5s  no      02:00:00:00:00:11\n");
  const json::value all = json::parse(run_ibarp({"stations", "-j", "dev", server.name()}).out);
  EXPECT_EQ(all.at(0), json::value({{"interface", server.name()},
                                    {"address", "10.44.0.11"},
                                    {"mac", "02:00:00:00:00:11"},
                                    {"state", "reachable"},
                                    {"served", true},
                                    {"idle_ms", 7000}}));
}

TEST_F(IbarpProgram, AnInterfaceThatIsNoEthernetHasNoStations) {
  RunningServer server;
  const auto named = run_ibarp({"stations", "dev", server.name()});
  EXPECT_EQ(named.status, 1);
  EXPECT_THAT(named.err, HasSubstr("there are no stations"));
  const auto all = run_ibarp({"stations"});
  EXPECT_EQ(all.status, 1);
  EXPECT_THAT(all.err, HasSubstr("--ethernet"));
}

TEST_F(IbarpProgram, GroupsFitTheTerminal) {
  RunningServer server;
  control::InterfaceInfo info;
  info.groups = {{*Gid::parse("ff12:601b:ffff::1:ff34:5678"), Lid(0xc001), "send-only",
                  *parse_ip_address("ff02::1:ff34:5678")}};
  server.handler.put(info);
  const auto groups = [&](const std::string& option, const char* columns) {
    return run_ibarp({"groups", option, "dev", server.name()}, {.columns = columns}).out;
  };
  const std::string brief = groups("-n", "80");
  EXPECT_LE(widest(brief), 80U);
  EXPECT_THAT(brief, AllOf(HasSubstr("ff02::1:ff34:5678"), HasSubstr("send-only"),
                           HasSubstr("ff12:601b:ffff::1:ff34:5678"), Not(HasSubstr("WAIT"))));
  EXPECT_THAT(groups("-w", "80"), HasSubstr("WAIT"));
  EXPECT_THAT(groups("-n", "200"), HasSubstr("WAIT"));
}

TEST_F(IbarpProgram, ShowsMembersOfGroups) {
  REQUIRE_ROOT();
  RunningServer server;
  put_groups(server);
  const Outcome known = run_ibarp({"groups", "-m", "dev", server.name()});
  const std::string gap(server.name().size() - 3, ' ');
  EXPECT_EQ(known.out, "GROUP      DEV" + gap + "  PORT     JOINED          MGID\n224.0.0.1  " +
                           server.name() +
                           "  fe80::7  full            ff12:401b:ffff::1\n224.0.0.1  " +
                           server.name() + "  fe80::8  full+send-only  ff12:401b:ffff::1\n");
  EXPECT_EQ(known.status, 1) << "those of the other group are not known";
  EXPECT_THAT(known.err,
              HasSubstr("members are unknown: no response from the subnet administrator"));
  EXPECT_EQ(run_ibarp({"groups", "dev", server.name()}).status, 0);
}

/// Each request may take seconds.
TEST_F(IbarpProgram, StopsAskingForMembersAfterAFailure) {
  REQUIRE_ROOT();
  RunningServer server;
  control::InterfaceInfo info;
  const Gid known = *Gid::parse("ff12:401b:ffff::1");
  info.groups = {{*Gid::parse("ff12:601b:ffff::5"), Lid(0), "joining"},
                 {known, Lid(0xc001), "full"}};
  server.handler.put(info);
  server.handler.put(known, {{*Gid::parse("fe80::7"), IBARP_FULL_MEMBER}});
  const Outcome outcome = run_ibarp({"groups", "-j", "dev", server.name()});
  const json::value all = json::parse(outcome.out);
  EXPECT_FALSE(all.at(1).as_object().contains("members"));
  EXPECT_THAT(outcome.err, HasSubstr("members are unknown: no response"));
}

TEST_F(IbarpProgram, ShowsGroupsWithoutMembersToOtherUsers) {
  REQUIRE_ROOT();
  RunningServer server;
  put_groups(server);
  REQUIRE_RUNNABLE_BY_NOBODY();
  const Outcome groups = run_ibarp({"groups", "dev", server.name()}, {.as_nobody = true});
  EXPECT_EQ(groups.status, 0);
  EXPECT_EQ(groups.err, "");
  EXPECT_THAT(groups.out, HasSubstr("full              -  0xc001"));
  const Outcome members = run_ibarp({"groups", "-m", "dev", server.name()}, {.as_nobody = true});
  EXPECT_EQ(members.status, 1);
  EXPECT_THAT(members.err, HasSubstr("only root may list members"));
}

TEST_F(IbarpProgram, AppliesToAllInterfaces) {
  REQUIRE_ALONE();
  RunningServer one;
  RunningServer other;
  one.handler.put(reachable());
  other.handler.put(incomplete());
  const Outcome outcome = run_ibarp({});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr(one.name()), HasSubstr(other.name())));
  EXPECT_EQ(json::parse(run_ibarp({"stats", "--json"}).out).as_array().size(), 2U);
  EXPECT_EQ(run_ibarp({"get", "10.44.0.2"}).status, 0);
  const Outcome ambiguous = run_ibarp({"del", "10.44.0.2"});
  EXPECT_EQ(ambiguous.status, 2);
  EXPECT_THAT(ambiguous.err, AllOf(HasSubstr("dev IF"), HasSubstr(one.name())));
}

TEST_F(IbarpProgram, NeedsNoInterfaceIfThereIsOne) {
  REQUIRE_ROOT();
  REQUIRE_ALONE();
  RunningServer server;
  server.handler.put(reachable());
  EXPECT_EQ(run_ibarp({"del", "10.44.0.2"}).status, 0);
}

TEST_F(IbarpProgram, ReportsThatNoDaemonIsRunning) {
  REQUIRE_ALONE();
  const Outcome outcome = run_ibarp({});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.err, "ibarp: no ipoibd is running in this network namespace\n");
  EXPECT_THAT(outcome.out, IsEmpty());
}

TEST_F(IbarpProgram, ReportsThatTheDaemonOfAnInterfaceIsNotRunning) {
  SKIP_UNDER_EMULATOR("does not say which interfaces are TUN devices");
  REQUIRE_ALONE();
  const LeftOver interface;
  if (!interface.made()) GTEST_SKIP() << "cannot create a TUN device here";
  const char* const message =
      "ibarp: ib7: its ipoibd is not running: start it again, or delete the interface\n";
  for (const auto& words : std::vector<std::vector<std::string>>{
           {}, {"show", "dev", "ib7"}, {"info"}, {"flush", "dev", "ib7"}}) {
    const Outcome outcome = run_ibarp(words);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(outcome.err, message);
  }
  RunningServer server;
  server.handler.put(reachable());
  const Outcome both = run_ibarp({});
  EXPECT_EQ(both.status, 1);
  EXPECT_EQ(both.err, message);
  EXPECT_THAT(both.out, HasSubstr("10.44.0.2")) << "the other interface is shown";
}

/// As when its RDMA device goes: the daemon closes its socket and opens another one. On a busy
/// machine that may take longer than kReopenTime, so there are several attempts.
TEST_F(IbarpProgram, WaitsForADaemonThatOpensItsSocketAgain) {
  SKIP_UNDER_EMULATOR("does not say which interfaces are TUN devices");
  const LeftOver interface;
  if (!interface.made()) GTEST_SKIP() << "cannot create a TUN device here";
  bool opened = false;
  for (int attempt = 0; attempt < 20 && !opened; ++attempt) {
    std::optional<RunningServer> server;
    std::thread starter([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // ibarp has started
      server.emplace(control::kIdleTimeout, "ib7");
    });
    opened = run_ibarp({"info", "-i", "ib7"}).status == 0;
    starter.join();
  }
  EXPECT_TRUE(opened);
}

TEST_F(IbarpProgram, AddsAnInterfaceBesideOneWithoutADaemon) {
  REQUIRE_ROOT();
  REQUIRE_ALONE();
  const LeftOver interface;
  if (!interface.made()) GTEST_SKIP() << "cannot create a TUN device here";
  EXPECT_EQ(run_ibarp({"interface", "add", "0x8001"}).status, 1) << "no daemon at all";
  RunningServer server;
  const Outcome outcome = run_ibarp({"interface", "add", "0x8001"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
}

TEST_F(IbarpProgram, ExitsWithTheWorstStatusOfAllInterfaces) {
  SKIP_UNDER_EMULATOR("does not say which interfaces are TUN devices");
  REQUIRE_ROOT();
  REQUIRE_ALONE();
  const LeftOver before("a-first");
  const LeftOver after("zz-last");
  if (!before.made() || !after.made()) GTEST_SKIP() << "cannot create a TUN device here";
  RunningServer server;
  EXPECT_EQ(run_ibarp({"log"}).status, 1) << "two daemons do not run";
  EXPECT_EQ(run_ibarp({"log", "link=loud"}).status, 2) << "the third refuses the level";
}

TEST_F(IbarpProgram, NamesTheInterfaceOnceIfItsDaemonEnds) {
  RunningServer server;
  server.handler.hold();
  auto running = std::async(std::launch::async, [&] {
    return run_ibarp({"show", "dev", server.name()});
  });
  server.handler.wait_for(1);
  server.stop();
  const Outcome outcome = running.get();
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, StartsWith("ibarp: " + server.name() + ": "));
  EXPECT_THAT(outcome.err, Not(HasSubstr(server.name() + ": " + server.name())));
}

TEST_F(IbarpProgram, ReportsThatNoDaemonServesTheInterface) {
  const Outcome outcome = run_ibarp({"show", "dev", "no-such-if"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(
      outcome.err,
      "ibarp: no-such-if: no ipoibd runs this interface in this network namespace: start it, or "
      "see in its log why it has ended\n");
}

TEST_F(IbarpProgram, RejectsInvalidValues) {
  RunningServer server;
  for (const auto& words :
       std::vector<std::vector<std::string>>{{"show", "10.44.0.256"},
                                             {"flush", "now"},
                                             {"show", "10.44.0.0/33"},
                                             {"show", "nud", "asleep"},
                                             {"add", "10.44.0.2", "lladdr", "00:11:22:33:44:55"},
                                             {"-s", "10.44.0.2", "zz"},
                                             {"-n", "-d", "host2"}}) {
    std::vector<std::string> all = words;
    all.insert(all.end(), {"-i", server.name()});
    const Outcome outcome = run_ibarp(all);
    EXPECT_EQ(outcome.status, 2) << words[0] << outcome.err;
    EXPECT_THAT(outcome.err, AllOf(StartsWith("ibarp: "), EndsWith("\n")));
  }
}

TEST_F(IbarpProgram, AcceptsTheSameFamilyTwice) {
  RunningServer server;
  server.handler.put(reachable());
  const Outcome outcome = run_ibarp({"-4", "-4", "show", "dev", server.name()});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("10.44.0.2"));
}

TEST_F(IbarpProgram, RefusesMoreStatesThanARequestHolds) {
  RunningServer server;
  constexpr std::size_t kRoom = IBARP_TEXT_SIZE - 1;
  const auto error = [&](std::size_t size) {
    const Outcome outcome =
        run_ibarp({"show", "nud", std::string(size, 'x'), "dev", server.name()});
    EXPECT_EQ(outcome.status, 2) << size;
    return outcome.err;
  };
  EXPECT_THAT(error(kRoom), Not(HasSubstr("too many states"))) << "but none of them exists";
  EXPECT_THAT(error(kRoom + 1), HasSubstr("too many states"));
}

TEST_F(IbarpProgram, RejectsInvalidCommandLines) {
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"sing"},
           {"-Z"},
           {"--loud"},
           {"-nZ"},
           {"show", "dev"},
           {"add"},
           {"add", "10.0.0.1"},
           {"add", "10.0.0.1", "lladdr"},
           {"add", "10.0.0.1", "lladdr", "qpn", "7", "lid", "3"},
           {"add", "10.0.0.1", "lladdr", "7@fe80::1", "nud", "stale"},
           {"del"},
           {"get"},
           {"del", "10.0.0.1", "10.0.0.2"},
           {"flush", "all", "10.0.0.1", "10.0.0.2"},
           {"show", "nud"},
           {"show", "10.0.0.1", "10.0.0.2"},
           {"-4", "-6"},
           {"--force"},
           {"--batch"},
           {"-batch", "-", "show"},
           {"-batch", "-", "-a"},
           {"log", "link"},
           {"log", "=debug"},
           {"-s"},
           {"-s", "10.0.0.1"},
           {"-a", "one", "two"},
           {"-a", "-d", "10.0.0.1"}}) {
    const Outcome outcome = run_ibarp(words);
    EXPECT_EQ(outcome.status, 2) << words.back();
    EXPECT_THAT(outcome.err, AllOf(StartsWith("ibarp: "), EndsWith(kUsageHint))) << words.back();
    EXPECT_THAT(outcome.out, IsEmpty());
  }
}

TEST_F(IbarpProgram, PrintsHelpAndVersion) {
  for (const char* const word : {"--help", "-h", "help"}) {
    const Outcome outcome = run_ibarp({word});
    EXPECT_EQ(outcome.status, 0);
    EXPECT_THAT(outcome.out, StartsWith("Usage: ibarp "));
  }
  EXPECT_THAT(run_ibarp({"--version"}).out, testing::MatchesRegex("ibarp [0-9.]+\n"));
  for (const char* const option : {"--help", "--version"}) {
    EXPECT_EQ(run_ibarp({option, "sing", "--batch"}).out, run_ibarp({option}).out)
        << "whatever follows";
  }
}

TEST_F(IbarpProgram, ReportsThatTheOutputCannotBeWritten) {
  RunningServer server;
  for (std::uint32_t i = 0; i < 500; ++i) {
    Entry entry = reachable();
    entry.address = Ipv4Address(0x0a2c0000 + i);
    server.handler.put(entry);
  }
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"--version"}, {"--help"}, {"show", "dev", server.name()}}) {
    const Outcome outcome = run_ibarp(words, {.output = "/dev/full"});
    EXPECT_EQ(outcome.status, 1) << words[0];
    EXPECT_EQ(outcome.err, kOutputIsFull);
  }
}

TEST_F(IbarpProgram, IsSilentOnClosedPipe) {
  const Outcome killed = run_ibarp({"--help"}, {.pipe_is_closed = true});
  EXPECT_EQ(killed.status, 128 + SIGPIPE);
  EXPECT_THAT(killed.err, IsEmpty());
  const Outcome ended = run_ibarp({"--help"}, {.pipe_is_closed = true, .ignores_sigpipe = true});
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.err, IsEmpty());
}

}  // namespace
}  // namespace ipoib::ibarp
