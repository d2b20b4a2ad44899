// check and explain of the ibarp program, with a server in the test's process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <map>

#include "finding_lines.hpp"
#include "program.hpp"
#include "running_server.hpp"

namespace ipoib::ibarp {
namespace {

using control::RunningServer;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Findings : public testing::Test {
 protected:
  static control::InterfaceInfo healthy() {
    control::InterfaceInfo info;
    info.device = "softib0";
    info.port = 1;
    info.pkey = PKey(0xffff);
    info.lid = Lid(3);
    info.sm_lid = Lid(1);
    info.mtu = 2044;
    info.host_mtu = 2044;
    info.membership = "full";
    info.state = "up";
    info.version = "1.2.3";
    info.pid = 4711;
    info.groups = {
        {*Gid::parse("ff12:401b:ffff::ffff:ffff"), Lid(0xc000), "full", Ipv4Address(0xffffffff)}};
    return info;
  }

  Lines check(control::InterfaceInfo info) {
    info.interface = server_.name();
    server_.handler.put(info);
    return lines_of(run_ibarp({"check", "-j", "dev", server_.name()}));
  }
  Lines explain(const std::string& address) {
    return lines_of(run_ibarp({"explain", address, "-j"}));
  }

  RunningServer server_;
};

TEST_F(Findings, AHealthyInterface) {
  Lines found = check(healthy());
  EXPECT_EQ(found["daemon"], "ok: ipoibd 1.2.3, process 4711");
  EXPECT_EQ(found["interface"], "ok: administratively up");
  EXPECT_EQ(found["port"], "ok: softib0 port 1, LID 0x0003");
  EXPECT_EQ(found["subnet manager"], "ok: LID 0x0001");
  EXPECT_EQ(found["partition"], "ok: P_Key 0xffff, full member");
  EXPECT_EQ(found["broadcast group"], "ok: MLID 0xc000, full");
  EXPECT_EQ(found.count("groups"), 0U);
}

TEST_F(Findings, AreTextWithoutJson) {
  server_.handler.put(healthy());
  const Outcome outcome = run_ibarp({"check", "dev", server_.name()});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out,
              AllOf(StartsWith(server_.name() + ":\n  ok "), HasSubstr("softib0 port 1"),
                    HasSubstr("-> ip addr add ADDRESS/BITS dev " + server_.name())));
}

TEST_F(Findings, AnInterfaceThatIsDown) {
  auto info = healthy();
  info.admin_up = false;
  EXPECT_EQ(check(info)["interface"],
            "wrong: administratively down -> ip link set " + server_.name() + " up");
}

TEST_F(Findings, APortThatWaits) {
  for (const auto& [waiting_for, found_text] : std::map<std::string, std::string>{
           {"a cable (plug it in)", "a cable -> plug it in"},
           {"a (red) cable (plug it in)", "a (red) cable -> plug it in"},
           {"a cable", "a cable"}}) {
    auto info = healthy();
    info.state = "port_init";
    info.waiting_for = waiting_for;
    info.sm_lid = Lid(0);
    Lines found = check(info);
    EXPECT_EQ(found["port"], "wrong: softib0 port 1 waits for " + found_text);
    EXPECT_EQ(found.count("subnet manager") + found.count("broadcast group"), 0U);
  }
}

TEST_F(Findings, ALimitedMember) {
  auto info = healthy();
  info.membership = "limited";
  EXPECT_THAT(check(info)["partition"], StartsWith("warning: P_Key 0xffff, limited member"));
  info.membership = "";
  EXPECT_EQ(check(info).count("partition"), 0U) << "not known yet";
}

TEST_F(Findings, AnMtuThatTheSubnetDoesNotCarry) {
  auto info = healthy();
  EXPECT_EQ(check(info)["MTU"], "ok: 2044 bytes");
  info.host_mtu = 2045;
  EXPECT_EQ(check(info)["MTU"],
            "wrong: 2045 bytes, but the subnet carries 2044: larger packets are dropped -> ip link "
            "set " +
                server_.name() + " mtu 2044");
}

TEST_F(Findings, APortThatIsSlowerThanItsGroup) {
  auto info = healthy();
  info.port_mtu = 4096;
  info.port_rate_mbps = 100'000;
  info.group_rate_mbps = 10'000;
  EXPECT_EQ(check(info)["broadcast group"],
            "ok: MLID 0xc000, full, MTU 2048 (the port: 4096), rate 10 Gb/s (the port: 100 Gb/s)");
  info.port_rate_mbps = info.group_rate_mbps;
  EXPECT_THAT(check(info)["broadcast group"], StartsWith("ok: "));
  info.port_rate_mbps = 2'500;
  EXPECT_THAT(
      check(info)["broadcast group"],
      AllOf(StartsWith("warning: "), HasSubstr("slower than the group"), HasSubstr("-> ibstat")));
  info.port_rate_mbps = 100'000;
  info.port_mtu = 1024;
  EXPECT_THAT(check(info)["broadcast group"],
              AllOf(StartsWith("warning: "), HasSubstr("smaller than the group"),
                    HasSubstr("the MTU of the partition")));
}

TEST_F(Findings, RoCEHasNoSubnetManager) {
  auto info = healthy();
  info.lid = info.sm_lid = Lid(0);
  Lines found = check(info);
  EXPECT_EQ(found["port"], "ok: softib0 port 1, LID -");
  EXPECT_EQ(found.count("subnet manager"), 0U);
}

TEST_F(Findings, GroupsThatNobodyHasJoined) {
  auto info = healthy();
  info.groups.push_back(
      {*Gid::parse("ff12:401b:ffff::f01:203"), Lid(0), "missing", Ipv4Address(0xef010203)});
  info.groups.push_back(
      {*Gid::parse("ff12:401b:ffff::1"), Lid(0xc001), "full", Ipv4Address(0xe0000001)});
  Lines found = check(info);
  EXPECT_THAT(found["groups"], StartsWith("ok: 1 to which the host sends"));
  EXPECT_EQ(found["broadcast group"], "ok: MLID 0xc000, full");
}

TEST_F(Findings, PacketsThatWereDropped) {
  EXPECT_THAT(check(healthy())["drops"],
              AllOf(StartsWith("warning: since the start: "), HasSubstr("path_failed 2")));
}

TEST_F(Findings, ASenderThatNoHostCanBe) {
  constexpr const char* kMartian = "wrong: no host can have it";
  server_.handler.put(healthy());
  const auto sender = [&](const char* address) {
    return lines_of(run_ibarp({"explain", "--from", address, "-j", "dev", server_.name()}));
  };
  for (const char* const address : {"0.0.0.0", "0.1.2.3", "127.1.2.3", "224.0.0.1", "240.0.0.1",
                                    "255.255.255.255", "::", "::1", "ff02::1"}) {
    EXPECT_THAT(sender(address)["address"], StartsWith(kMartian)) << address;
  }
  for (const char* const address :
       {"1.0.0.1", "126.0.0.1", "128.0.0.1", "223.255.255.255", "::2", "2001:db8::1"}) {
    EXPECT_THAT(sender(address)["address"], Not(StartsWith(kMartian))) << address;
  }
}

TEST_F(Findings, TheLimitOfLockedMemoryOfTheDaemon) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &before), 0);
  rlimit low = before;
  low.rlim_cur = 4096;
  auto info = healthy();
  info.pid = static_cast<std::uint32_t>(getpid());
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &low), 0);
  const std::string found = check(info)["locked memory"];
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &before), 0);
  EXPECT_THAT(found, StartsWith("warning: at most 4096 bytes: more queues may fail"));
}

TEST_F(Findings, AnAddressOfTheHostItself) {
  EXPECT_EQ(explain("127.0.0.1")["route"].substr(0, 3), "ok:");
}

TEST_F(Findings, AnAddressWithoutRoute) {
  if (unshare(CLONE_NEWNET) != 0) GTEST_SKIP() << "needs a network namespace, which has no routes";
  EXPECT_THAT(explain("192.0.2.1")["route"], AllOf(StartsWith("wrong: the host has none"),
                                                   HasSubstr("-> ip route get 192.0.2.1")));
  EXPECT_THAT(explain("2001:db8::1")["route"], StartsWith("wrong: "));
}

TEST_F(Findings, ExplainNeedsOneAddress) {
  for (const auto& words :
       std::vector<std::vector<std::string>>{{"explain"},
                                             {"explain", "nowhere"},
                                             {"explain", "10.0.0.1", "10.0.0.2"},
                                             {"check", "10.0.0.1"}}) {
    EXPECT_EQ(run_ibarp(words).status, 2);
  }
}

}  // namespace
}  // namespace ipoib::ibarp
