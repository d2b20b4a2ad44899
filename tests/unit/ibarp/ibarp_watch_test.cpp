// monitor, wait, top and colours of the ibarp program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <ctime>
#include <map>
#include <optional>
#include <thread>

#include "program.hpp"
#include "running_program.hpp"
#include "running_server.hpp"

namespace ipoib::ibarp {
namespace {

namespace json = boost::json;
using control::Entry;
using control::GroupEvent;
using control::InterfaceInfo;
using control::LinkEvent;
using control::LostEvent;
using control::NeighbourEvent;
using control::RunningServer;
using testing::AllOf;
using testing::AnyOf;
using testing::ContainsRegex;
using testing::EndsWith;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;
using testing::StartsWith;
using Output = RunningProgram::Output;

Entry reachable(const char* address = "10.44.0.2") {
  Entry entry;
  entry.address = *parse_ip_address(address);
  entry.state = "reachable";
  entry.hardware = HwAddress::parse("00:00:04:01:fe:80:00:00:00:00:00:00:00:02:c9:03:00:00:00:01");
  entry.path = control::Path{Lid(3), ServiceLevel(1), 2048, 40'000};
  return entry;
}

InterfaceInfo info(const std::string& name, const char* state) {
  InterfaceInfo out;
  out.interface = name;
  out.state = state;
  if (out.state != "up") out.waiting_for = "a response";
  return out;
}

/// In a network namespace of its own, so that each server in it is a test's.
class IbarpWatch : public testing::Test {
 protected:
  static void SetUpTestSuite() { alone_ = unshare(CLONE_NEWNET) == 0; }
  void SetUp() override {
    if (!alone_) GTEST_SKIP() << "needs a network namespace of its own";
  }
  /// Until the program has subscribed.
  static void await(RunningServer& server) {
    while (!server.handler.watched().any()) std::this_thread::yield();
    while (server.counters().subscriptions == 0) std::this_thread::yield();
  }

  static inline bool alone_ = false;
};

TEST_F(IbarpWatch, TopicsMayBeAbbreviated) {
  RunningServer server;
  RunningProgram monitor({"monitor", "stat"});
  await(server);
  EXPECT_EQ(server.handler.watched(), control::Topics{.stats = true});
  EXPECT_EQ(monitor.end(SIGINT), 128 + SIGINT);
}

TEST_F(IbarpWatch, MonitorPrintsALineForEachChange) {
  RunningServer server;
  const std::string dev = " dev " + server.name() + " ";
  RunningProgram monitor({"monitor"});
  await(server);
  EXPECT_EQ(server.handler.watched(),
            (control::Topics{.neighbours = true, .link = true, .groups = true, .stations = true}));
  server.publish(NeighbourEvent{"changed", "confirmed", reachable()});
  EXPECT_EQ(monitor.line(),
            "[neighbour] 10.44.0.2" + dev +
                "reachable qpn 0x000401 gid fe80::2:c903:0:1 dlid 0x0003: confirmed");
  Entry gone = reachable();
  gone.state = "stale";
  gone.hardware.reset();
  gone.path.reset();
  server.publish(NeighbourEvent{"deleted", "unused", gone});
  EXPECT_EQ(monitor.line(), "[neighbour] Deleted 10.44.0.2" + dev + "stale: unused");
  LinkEvent link{{"state", "mtu"}, info(server.name(), "joining")};
  link.info.mtu = 2044;
  server.publish(link);
  EXPECT_EQ(monitor.line(),
            "[link] " + server.name() + ": state joining mtu 2044, waiting for a response");
  const Gid mgid = *Gid::parse("ff12:401b:ffff::fb");
  server.publish(
      GroupEvent{"joined", "joined", {mgid, Lid(0xc001), "full", Ipv4Address(0xe00000fb)}});
  EXPECT_EQ(monitor.line(),
            "[group] 224.0.0.251" + dev + "joined full mgid ff12:401b:ffff::fb mlid 0xc001");
  server.publish(GroupEvent{"failed", "timed out", {mgid, Lid(), "joining"}});
  EXPECT_EQ(monitor.line(), "[group] ff12:401b:ffff::fb" + dev + "failed: timed out");
  server.publish(
      control::StationEvent{"duplicate",
                            "claimed by 02:00:00:00:00:02",
                            {*parse_ip_address("10.44.0.11"), MacAddress(0x11), "reachable"}});
  EXPECT_EQ(monitor.line(),
            "[station] 10.44.0.11" + dev +
                "duplicate mac 00:00:00:00:00:11 reachable: claimed by 02:00:00:00:00:02");
  server.publish(LostEvent{17});
  EXPECT_EQ(monitor.line(), "[lost] " + server.name() + ": 17 events lost");
  EXPECT_EQ(monitor.end(SIGINT), 128 + SIGINT);
}

TEST_F(IbarpWatch, MonitorOfOneTopicNeedsNoLabel) {
  RunningServer server;
  RunningProgram monitor({"mon", "neigh", "dev", server.name()});
  await(server);
  EXPECT_EQ(server.handler.watched(), (control::Topics{.neighbours = true}));
  server.publish(NeighbourEvent{"changed", "confirmed", reachable()});
  EXPECT_THAT(monitor.line(), StartsWith("10.44.0.2 dev "));
}

TEST_F(IbarpWatch, MonitorPrintsAnObjectOnEachLine) {
  RunningServer server;
  RunningProgram monitor({"-j", "-t", "monitor", "all", "--interval", "0.1"});
  await(server);
  server.publish(NeighbourEvent{"new", "packet", reachable()});
  server.publish(LinkEvent{{"state", "mtu"}, info(server.name(), "up")});
  server.publish(GroupEvent{"left", "left", {Gid{}, Lid(), "absent"}});
  server.publish(LostEvent{3});
  std::map<std::string, json::object> events;
  while (events.size() < 5) {
    const auto line = monitor.line();
    ASSERT_FALSE(line.empty());
    json::object event = json::parse(line).as_object();
    EXPECT_EQ(event.at("interface").as_string(), server.name().c_str());
    EXPECT_THAT(std::string(event.at("timestamp").as_string()),
                MatchesRegex("[0-9]+-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+\\.[0-9]+"));
    const std::string kind(event.at("event").as_string());
    events[kind] = std::move(event);
  }
  EXPECT_EQ(events["neighbour"].at("change"), "new");
  EXPECT_EQ(events["neighbour"].at("entry").at("address"), "10.44.0.2");
  EXPECT_EQ(events["neighbour"].at("entry").at("qpn"), 0x401);
  EXPECT_EQ(events["link"].at("changed"), json::value({"state", "mtu"}));
  EXPECT_EQ(events["link"].at("info").at("state"), "up");
  EXPECT_EQ(events["group"].at("group").at("membership"), "absent");
  EXPECT_EQ(events["lost"].at("events"), 3);
  const auto& counters = events["stats"].at("counters").as_array();
  ASSERT_FALSE(counters.empty());
  EXPECT_EQ(counters.at(0).at("name"), "packets_sent");
  EXPECT_EQ(counters.at(0).at("delta"), 7);
  EXPECT_EQ(counters.at(0).at("drop"), false);
}

TEST_F(IbarpWatch, MonitorPrintsDifferencesOfCounters) {
  RunningServer server;
  RunningProgram monitor({"monitor", "stats", "--interval", "0.1"});
  EXPECT_EQ(monitor.line(), server.name() + ": packets_sent +7");
}

TEST_F(IbarpWatch, MonitorPrintsTimesLikeIp) {
  RunningServer server;
  RunningProgram brief({"-ts", "monitor", "link"});
  RunningProgram full({"-t", "monitor", "link"});
  while (server.counters().subscriptions < 2) std::this_thread::yield();
  const auto now = [](const char* format) {
    const std::time_t seconds = std::time(nullptr);
    std::array<char, 40> text{};
    return std::string(text.data(),
                       std::strftime(text.data(), text.size(), format, std::localtime(&seconds)));
  };
  const auto begin = now("%H:%M");
  server.publish(LinkEvent{{"state"}, info(server.name(), "up")});
  const auto first = brief.line();
  const auto second = full.line();
  const auto has_time = AnyOf(HasSubstr(begin + ':'), HasSubstr(now("%H:%M:")));
  EXPECT_THAT(first, AllOf(ContainsRegex("^\\[[0-9-]+T[0-9:.]+\\] .*: state up$"),
                           HasSubstr(now("%Y-")), has_time));
  EXPECT_THAT(second,
              AllOf(ContainsRegex(
                        "^Timestamp: [A-Z][a-z][a-z] .* [0-9][0-9]?[0-9]?[0-9]?[0-9]?[0-9]? usec$"),
                    HasSubstr(now(" %Y ")), has_time));
  EXPECT_THAT(full.line(), EndsWith(": state up"));
}

TEST_F(IbarpWatch, MonitorOutlivesTheDaemon) {
  const std::string name = RunningServer::unique_name();
  std::optional<RunningServer> server(std::in_place, control::kIdleTimeout, name);
  RunningProgram monitor({"monitor"});
  await(*server);
  server.reset();
  EXPECT_EQ(monitor.line(), "[daemon] " + name + ": its ipoibd has ended");
  server.emplace(control::kIdleTimeout, name);
  EXPECT_EQ(monitor.line(), "[daemon] " + name + ": its ipoibd is running");
  server->publish(LostEvent{1});
  EXPECT_EQ(monitor.line(), "[lost] " + name + ": 1 events lost");
  RunningServer other;
  EXPECT_EQ(monitor.line(), "[daemon] " + other.name() + ": its ipoibd is running");
}

TEST_F(IbarpWatch, MonitorTellsATakeoverFromAnEnd) {
  RunningServer server;
  RunningProgram text({"monitor", "groups"});
  RunningProgram object({"--json", "monitor", "groups"});
  while (server.counters().subscriptions < 2) std::this_thread::yield();
  server.publish(control::TakeoverEvent{});
  EXPECT_EQ(text.line(), server.name() + ": another ipoibd takes over");
  EXPECT_EQ(json::parse(object.line()).at("event"), "takeover");
}

TEST_F(IbarpWatch, MonitorEndsWhenNobodyReads) {
  RunningServer server;
  RunningProgram monitor({"monitor"});
  await(server);
  monitor.close_output();
  EXPECT_EQ(monitor.wait(), 0);
}

TEST_F(IbarpWatch, MonitorNeedsSomethingToWatch) {
  const Outcome none = run_ibarp({"monitor"});
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, HasSubstr("no ipoibd is running"));
  EXPECT_EQ(run_ibarp({"monitor", "dev", "nosuch0"}).status, 1);
}

TEST_F(IbarpWatch, RefusesWrongWords) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"monitor", "weather"},
                                             {"wait"},
                                             {"wait", "left"},
                                             {"wait", "up", "now"},
                                             {"wait", "up", "--timeout", "soon"},
                                             {"wait", "up", "--timeout", "-1"},
                                             {"wait", "up", "--timeout", "nan"},
                                             {"wait", "up", "--timeout", "1000001"},
                                             {"wait", "up", "--timeout", "1s"},
                                             {"top", "--interval", "3601"},
                                             {"top", "--count", "1x"},
                                             {"top", "--count", "0"},
                                             {"top", "--sort", "beauty"},
                                             {"top", "--interval", "0.01"},
                                             {"show", "--timeout", "1"},
                                             {"show", "--interval", "1"},
                                             {"show", "--count", "1"},
                                             {"show", "--sort", "rate"},
                                             {"show", "-t"},
                                             {"show", "--color=blue"}}) {
    const Outcome outcome = run_ibarp(words);
    EXPECT_EQ(outcome.status, 2) << words.front() << " " << words.back() << outcome.err;
  }
  EXPECT_EQ(run_ibarp({"--batch", "-"}, {.input = "monitor\n"}).status, 2);
}

// --- wait ----------------------------------------------------------------------------------------

TEST_F(IbarpWatch, WaitEndsAtOnceIfThereIsNothingToWaitFor) {
  RunningServer server;
  server.handler.put(info(server.name(), "up"));
  EXPECT_EQ(run_ibarp({"wait", "up", "--timeout", "0"}).status, 0);
  EXPECT_EQ(run_ibarp({"wait", "up", "dev", server.name(), "--timeout", "0"}).status, 0);
  const Outcome down = run_ibarp({"wait", "down", "--timeout", "0"});
  EXPECT_EQ(down.status, 1);
  EXPECT_EQ(down.err, "ibarp: " + server.name() + ": up\n");
  EXPECT_EQ(run_ibarp({"wait", "down", "dev", "nosuch0", "--timeout", "0"}).status, 0);
  EXPECT_THAT(run_ibarp({"wait", "down", "--timeout", "x"}).err, HasSubstr("from 0 to 1000000\n"));
}

TEST_F(IbarpWatch, WaitSaysWhatIsMissing) {
  EXPECT_THAT(run_ibarp({"wait", "up", "--timeout", "0"}).err, HasSubstr("no ipoibd is running"));
  RunningServer server;
  server.handler.put(info(server.name(), "joining"));
  const Outcome joining = run_ibarp({"wait", "up", "--timeout", "0.05"});
  EXPECT_EQ(joining.status, 1);
  EXPECT_EQ(joining.err, "ibarp: " + server.name() + ": joining, waiting for a response\n");
  EXPECT_EQ(run_ibarp({"wait", "down", "--timeout", "0"}).status, 0);
  auto down = info(server.name(), "up");
  down.admin_up = false;
  server.handler.put(down);
  const Outcome admin = run_ibarp({"wait", "up", "--timeout", "0"});
  EXPECT_EQ(admin.status, 1);
  EXPECT_THAT(admin.err, HasSubstr("administratively down"));
}

TEST_F(IbarpWatch, WaitEndsWithTheEvent) {
  RunningServer server;
  server.handler.put(info(server.name(), "joining"));
  RunningProgram wait({"wait", "up"});
  await(server);
  server.handler.put(info(server.name(), "up"));
  server.publish(LinkEvent{{"state"}, info(server.name(), "up")});
  EXPECT_EQ(wait.wait(), 0);
}

TEST_F(IbarpWatch, WaitsForTheDaemonToo) {
  const std::string name = RunningServer::unique_name();
  RunningProgram wait({"wait", "up", "dev", name, "--timeout", "3600"});
  RunningServer server(control::kIdleTimeout, name);
  server.handler.put(info(name, "up"));
  EXPECT_EQ(wait.wait(), 0);
}

// --- top -----------------------------------------------------------------------------------------

TEST_F(IbarpWatch, TopPrintsTablesIfItIsNoTerminal) {
  RunningServer server;
  server.handler.put(info(server.name(), "up"));
  Entry busy = reachable("10.44.0.3");
  busy.uses = 12'345;
  server.handler.put(reachable());
  server.handler.put(busy);
  const Outcome outcome = run_ibarp({"top", "--count", "2", "--interval", "0.1", "--sort", "uses"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(StartsWith("DEV "), HasSubstr("\n\nDEV "), Not(HasSubstr("\033"))));
  const auto first = outcome.out.substr(0, outcome.out.find("\n\nDEV "));
  EXPECT_LT(first.find("10.44.0.3"), first.find("10.44.0.2")) << first;
  EXPECT_THAT(first, ContainsRegex("10.44.0.3 +" + server.name() + " +reachable +0 +12345 "));
}

TEST_F(IbarpWatch, TopPrintsRatesAsJson) {
  RunningServer server;
  server.handler.put(info(server.name(), "up"));
  server.handler.put(reachable());
  const Outcome outcome = run_ibarp({"--json", "top", "--count", "2", "--interval", "0.1"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(std::ranges::count(outcome.out, '\n'), 2);
  const json::value first = json::parse(outcome.out.substr(0, outcome.out.find('\n')));
  EXPECT_GE(first.at("interval_ms").as_int64(), 100);
  const json::value& interface = first.at("interfaces").at(0);
  EXPECT_EQ(interface.at("interface"), json::value(server.name()));
  EXPECT_EQ(interface.at("state"), "up");
  EXPECT_EQ(interface.at("tx_packets_per_s"), 0.0);
  EXPECT_FALSE(interface.as_object().contains("tx_bits_per_s")) << "no network interface";
  EXPECT_EQ(first.at("neighbours").at(0).at("entry").at("address"), "10.44.0.2");
  EXPECT_EQ(first.at("neighbours").at(0).at("packets_per_s"), 0.0);
}

TEST_F(IbarpWatch, TopShowsAScreenAndTakesKeys) {
  RunningServer server;
  server.handler.put(info(server.name(), "up"));
  server.handler.put(reachable());
  RunningProgram top({"top", "--interval", "3600"}, Output::terminal, {{"TERM", "xterm"}});
  const auto begin = top.until("10.44.0.2");
  EXPECT_THAT(begin, AllOf(StartsWith("\033[?1049h"), HasSubstr("by rate"), HasSubstr("\033[36m")));
  // Clearing behind a line that fills the width would take its last character.
  EXPECT_THAT(begin, HasSubstr("\033[H\033[Kibarp top "));
  EXPECT_THAT(begin, Not(HasSubstr("quit\033[K")));
  EXPECT_FALSE(top.is_restored());
  top.press("s");
  EXPECT_THAT(top.until("by state"), HasSubstr("by state"));
  top.press("q");
  EXPECT_THAT(top.until("\033[?1049l"), HasSubstr("\033[?1049l"));
  EXPECT_EQ(top.wait(), 0);
  EXPECT_TRUE(top.is_restored());
}

TEST_F(IbarpWatch, TopRestoresTheTerminalWhenItIsKilled) {
  RunningServer server;
  for (const int number : {SIGINT, SIGTERM}) {
    RunningProgram top({"top"}, Output::terminal, {{"TERM", "xterm"}});
    (void)top.until("quit");
    EXPECT_EQ(top.end(number), 128 + number);
    EXPECT_THAT(top.until("\033[?1049l"), HasSubstr("\033[?1049l"));
    EXPECT_TRUE(top.is_restored());
  }
}

// --- Colours -------------------------------------------------------------------------------------

TEST_F(IbarpWatch, ColoursAreForTerminals) {
  RunningServer server;
  server.handler.put(reachable());
  const auto shown = [](const std::vector<std::string>& arguments,
                        const std::vector<std::pair<const char*, const char*>>& environment) {
    RunningProgram program(arguments, Output::terminal, environment);
    return program.until("c903:0:1");
  };
  const std::string address = "\033[35m10.44.0.2\033[0m";
  EXPECT_THAT(shown({"show"}, {{"TERM", "xterm"}}), HasSubstr(address));
  EXPECT_THAT(shown({"show"}, {{"TERM", "xterm"}, {"NO_COLOR", ""}}), HasSubstr(address));
  EXPECT_THAT(shown({"show"}, {{"TERM", "xterm"}, {"NO_COLOR", "1"}}), Not(HasSubstr("\033")));
  EXPECT_THAT(shown({"show"}, {{"TERM", "dumb"}}), Not(HasSubstr("\033")));
  EXPECT_THAT(shown({"-c=never", "show"}, {{"TERM", "xterm"}}), Not(HasSubstr("\033")));
  EXPECT_THAT(shown({"-c", "show"}, {{"NO_COLOR", "1"}}), HasSubstr(address));
  EXPECT_THAT(shown({"-c", "show"}, {{"COLORFGBG", "15;0"}}), HasSubstr("\033[1;35m10.44.0.2"));
}

TEST_F(IbarpWatch, ColoursCanBeForcedAndAreNotInJson) {
  RunningServer server;
  server.handler.put(reachable());
  EXPECT_THAT(run_ibarp({"show"}).out, Not(HasSubstr("\033")));
  for (const char* const option : {"-c", "-color", "--color", "--color=always", "-c=always"}) {
    EXPECT_THAT(run_ibarp({option, "show"}).out, HasSubstr("\033[32mreachable\033[0m")) << option;
    EXPECT_THAT(run_ibarp({option, "-j", "show"}).out, Not(HasSubstr("\033"))) << option;
  }
}

}  // namespace
}  // namespace ipoib::ibarp
