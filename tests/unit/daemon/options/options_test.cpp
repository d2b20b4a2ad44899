#include "daemon/options/options.hpp"

#include <gmock/gmock.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "daemon/options/configuration_files.hpp"
#include "daemon/options/interface_plan.hpp"
#include "daemon/options/logging.hpp"
#include "wire/sa_values.hpp"

namespace ipoib::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

/// Not the files of the host.
constexpr const char* kNoFolder = "/nonexistent";

Options parse(const std::vector<std::string>& arguments, const std::string& folder = kNoFolder) {
  return std::get<Options>(parse_options(arguments, folder));
}

/// The error message for `arguments`; empty if they are valid.
std::string error_for(const std::vector<std::string>& arguments,
                      const std::string& folder = kNoFolder) {
  try {
    (void)parse_options(arguments, folder);
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

std::string information(const std::vector<std::string>& arguments,
                        const std::string& folder = kNoFolder) {
  return std::get<Information>(parse_options(arguments, folder)).text;
}

TEST(OptionsTest, AcceptsUserAndGroup) {
  const auto options = parse({"--user", "daemon", "--group", "rdma"});
  EXPECT_EQ(options.user, "daemon");
  EXPECT_EQ(options.group, "rdma");
}

TEST(OptionsTest, HasDefaults) {
  const auto options = parse({});
  EXPECT_EQ(options.port, 1);
  EXPECT_THAT(options.pkeys, ElementsAre()) << "all of the port";
  EXPECT_EQ(options.interface, "ib0");
  EXPECT_EQ(options.device, "");
  EXPECT_FALSE(options.softib);
  EXPECT_FALSE(options.wait);
  EXPECT_EQ(options.netns, "");
  EXPECT_EQ(options.max_ip_mtu, Options::kMaxIpMtu);
  EXPECT_FALSE(options.link.creation.allowed);
  EXPECT_EQ(options.link.creation.mtu, wire::mtu_code(2048));
  EXPECT_EQ(options.link.creation.rate, link::GroupCreation().rate);
  EXPECT_EQ(options.link.creation.qkey, QKey(0x0b1b));
  EXPECT_EQ(options.link.scopes.front(), wire::kLinkLocalScope);
  EXPECT_EQ(options.link.scopes, link::Config().scopes);
  EXPECT_EQ(options.link.limits.neighbours, link::Limits().neighbours);
  EXPECT_GT(options.link.limits.paths, options.link.limits.neighbours)
      << "each neighbour may have its own";
  EXPECT_EQ(options.queues.receive, verbs::QueueDepths().receive);
  EXPECT_EQ(options.poll, PollMode::adaptive);
  EXPECT_TRUE(options.link.dhcp_rewrite);
  EXPECT_EQ(options.sandbox, SandboxMode::on);
  EXPECT_THAT(options.log, ElementsAre(control::ModuleLevel{"all", "info"}));
}

TEST(OptionsTest, AcceptsWhatConcernsTheNextDaemon) {
  EXPECT_FALSE(parse({}).keep);
  EXPECT_TRUE(parse({"--keep"}).keep);
  EXPECT_EQ(parse({}).takeover, Takeover::no);
  EXPECT_EQ(parse({"--takeover"}).takeover, Takeover::if_running);
  EXPECT_EQ(parse({"--takeover=required"}).takeover, Takeover::required);
  EXPECT_THAT(error_for({"--takeover=perhaps"}), HasSubstr("required, or no value"));
  EXPECT_FALSE(parse({}).cleanup);
  EXPECT_TRUE(parse({"--cleanup"}).cleanup);
}

TEST(OptionsTest, AcceptsGidIndex) {
  EXPECT_EQ(parse({}).gid_index, std::nullopt);
  EXPECT_EQ(parse({"--gid-index", "3"}).gid_index, 3);
  EXPECT_THAT(error_for({"--gid-index", "256"}), HasSubstr("0 to 255"));
}

TEST(OptionsTest, AcceptsCpusThatExist) {
  EXPECT_THAT(parse({}).cpus, ElementsAre());
  cpu_set_t own;
  ASSERT_EQ(sched_getaffinity(0, sizeof own, &own), 0);
  std::vector<unsigned> some;
  for (unsigned cpu = 0; cpu < CPU_SETSIZE && some.size() < 2; ++cpu) {
    if (CPU_ISSET(cpu, &own)) some.push_back(cpu);
  }
  const auto one = std::to_string(some.front());
  EXPECT_THAT(parse({"--cpu", one}).cpus, ElementsAre(some.front()));
  EXPECT_THAT(parse({"--cpu", one + "-" + one}).cpus, ElementsAre(some.front()));
  if (some.size() == 2) {
    const auto other = std::to_string(some.back());
    EXPECT_THAT(parse({"--cpu", other + "," + one}).cpus, ElementsAre(some.back(), some.front()));
  }
  EXPECT_THAT(error_for({"--cpu", one + "," + one}), HasSubstr("each CPU once"));
  EXPECT_THAT(error_for({"--cpu", "-1"}), HasSubstr("--cpu -1: must be CPUs and ranges"));
  for (const char* cpus : {"", "x", "0,", ",0", "0-", "-0", "1-0", "1024"}) {
    EXPECT_THAT(error_for({"--cpu", cpus}), StartsWith("--cpu")) << cpus;
  }
  if (std::thread::hardware_concurrency() < 1000) {
    EXPECT_THAT(error_for({"--cpu", "1023"}), HasSubstr("CPU 1023 does not exist"));
  }
}

TEST(OptionsTest, AcceptsOneScopeOrSeveralInOrder) {
  EXPECT_THAT(parse({"--scope", "5"}).link.scopes, ElementsAre(5));
  EXPECT_THAT(parse({"--scope=14,2"}).link.scopes, ElementsAre(14, 2));
  for (const char* scopes : {"0", "15", "", "2,", ",2", "2,,5", "2 5", "2,5,2"}) {
    EXPECT_THAT(error_for({"--scope", scopes}), HasSubstr("--scope")) << scopes;
  }
}

TEST(OptionsTest, AcceptsEitherKeyOfAPartition) {
  EXPECT_THAT(parse({"--pkey", "0x7fff"}).pkeys, ElementsAre(kDefaultPKey));
  EXPECT_THAT(parse({"--pkey=0xFFFF"}).pkeys, ElementsAre(kDefaultPKey));
  EXPECT_THAT(parse({"--pkey", "0x0012"}).pkeys, ElementsAre(PKey(0x8012)));
  EXPECT_THAT(parse({"--pkey", "32786"}).pkeys, ElementsAre(PKey(0x8012)));
}

TEST(OptionsTest, AcceptsSeveralPartitionsWithoutDuplicates) {
  EXPECT_THAT(parse({"--pkey", "0x12", "--pkey", "0x7fff", "--pkey=0x8012"}).pkeys,
              ElementsAre(PKey(0x8012), kDefaultPKey));
  std::vector<std::string> many;
  for (std::size_t i = 1; i <= kMaxInterfaces; ++i) many.push_back("--pkey=" + std::to_string(i));
  EXPECT_EQ(parse(many).pkeys.size(), kMaxInterfaces);
  many.emplace_back("--pkey=0x7fff");
  EXPECT_THAT(error_for(many), HasSubstr("at most " + std::to_string(kMaxInterfaces)));
}

TEST(OptionsTest, AcceptsNetworkNamespace) {
  EXPECT_EQ(parse({"--netns", "guest"}).netns, "guest");
}

TEST(OptionsTest, LimitsTheNameForSeveralPartitions) {
  EXPECT_EQ(parse({"--name", "infiniband0", "--pkey", "0x8012"}).interface, "infiniband0");
  EXPECT_THAT(error_for({"--name", "infiniband0"}), HasSubstr("at most 10 characters"));
  EXPECT_THAT(error_for({"--name", "infiniband0", "--pkey", "1", "--pkey", "2"}),
              HasSubstr("--pkey"));
  EXPECT_EQ(parse({"--name", "infiniband"}).interface, "infiniband");
}

TEST(OptionsTest, RejectsInvalidPKeys) {
  for (const char* key : {"0", "0x0000", "0x8000", "0x10000", "-1", "red", "", "0x", "0x12 "}) {
    EXPECT_THAT(error_for({"--pkey", key}), HasSubstr("--pkey")) << key;
  }
}

TEST(OptionsTest, RejectsInvalidValuesAndListsValidOnes) {
  EXPECT_THAT(error_for({"--port", "0"}), HasSubstr("from 1 to 254"));
  EXPECT_THAT(error_for({"--port", "255"}), HasSubstr("from 1 to 254"));
  EXPECT_THAT(error_for({"--mtu", "67"}), HasSubstr("from 68 to 4092"));
  EXPECT_THAT(error_for({"--group-mtu", "1500"}), HasSubstr("256, 512, 1024, 2048 or 4096"));
  EXPECT_THAT(error_for({"--group-rate", "11"}), HasSubstr("2.5, 5, 10, 14, 20"));
  EXPECT_THAT(error_for({"--create-group", "maybe"}), HasSubstr("yes or no"));
  EXPECT_THAT(error_for({"--strict-arp", "on"}), HasSubstr("yes or no"));
  EXPECT_THAT(error_for({"--name", "a-name-too-long-for-it"}), HasSubstr("15 characters"));
  EXPECT_THAT(error_for({"--name", "a/b"}), HasSubstr("--name a/b"));
  EXPECT_THAT(error_for({"--name", "\"ib0\""}), HasSubstr("without blanks, quotes"));
  EXPECT_THAT(error_for({"--poll", "never"}), HasSubstr("event, busy or adaptive"));
  EXPECT_THAT(error_for({"--log-target", "printer"}),
              HasSubstr("--log-target printer: must be stderr or syslog"));
  EXPECT_THAT(error_for({"--control-group", "no-such-group"}), HasSubstr("a group that exists"));
  for (const char* const value : {"", ",private", "root,", "root,public"}) {
    EXPECT_THAT(error_for({"--control-group", value}), HasSubstr("the name of a group")) << value;
  }
}

TEST(OptionsTest, ControlGroupMayMakeChanges) {
  EXPECT_EQ(parse({}).control_access, control::SocketAccess());
  EXPECT_EQ(parse({"--control-group", "root"}).control_access,
            (control::SocketAccess{.group = 0, .group_name = "root", .is_private = false}));
  EXPECT_EQ(parse({"--control-group", "root,private"}).control_access,
            (control::SocketAccess{.group = 0, .group_name = "root", .is_private = true}));
}

TEST(OptionsTest, UsersAndGroupsHaveToExist) {
  EXPECT_EQ(parse({"--user", "root", "--group", "root"}).user, "root");
  EXPECT_EQ(parse({"--user", "0", "--group", "4711"}).group, "4711") << "a number needs no name";
  EXPECT_THAT(error_for({"--user", "no-such-user"}),
              HasSubstr("--user no-such-user: must be a user that exists"));
  EXPECT_THAT(error_for({"--user", "2000000001"}), HasSubstr("must be a user that exists"));
  EXPECT_THAT(error_for({"--group", "no-such-group"}),
              HasSubstr("--group no-such-group: must be a group that exists"));
}

TEST(OptionsTest, RejectsUnknownOptions) {
  EXPECT_THAT(error_for({"--prot", "1"}), HasSubstr("--help"));
  EXPECT_THAT(error_for({"--por", "1"}), HasSubstr("--help")) << "no abbreviations";
  EXPECT_THAT(error_for({"ib0"}), HasSubstr("--help"));
  EXPECT_THAT(error_for({"--port"}), HasSubstr("--help"));
  EXPECT_THAT(error_for({"--port", "1", "--port", "2"}), HasSubstr("--help"));
}

TEST(OptionsTest, ParsesGroupParameters) {
  const auto creation = parse({"--create-group", "yes", "--group-mtu", "4096", "--group-rate",
                               "2.5", "--group-qkey", "0x80000b1b", "--group-sl", "3"})
                            .link.creation;
  EXPECT_TRUE(creation.allowed);
  EXPECT_EQ(wire::mtu_bytes(creation.mtu), 4096U);
  EXPECT_EQ(wire::rate_mbps(creation.rate), 2500U);
  EXPECT_EQ(creation.qkey, QKey(0x80000b1b));
  EXPECT_EQ(creation.sl, ServiceLevel(3));
}

TEST(OptionsTest, DisablesDhcpRewriting) {
  EXPECT_FALSE(parse({"--no-dhcp-rewrite"}).link.dhcp_rewrite);
}

TEST(OptionsTest, LimitsStationsBehindAnEthernetInterface) {
  EXPECT_EQ(parse({}).ethernet_stations, Options::kDefaultStations);
  EXPECT_EQ(parse({"--ethernet", "--ethernet-stations", "0"}).ethernet_stations, 0U);
  EXPECT_THAT(error_for({"--ethernet-stations", "65537"}), HasSubstr("65536"));
}

TEST(OptionsTest, ForbidsForeignSourcesOfStations) {
  EXPECT_FALSE(parse({}).ethernet_strict_source);
  EXPECT_TRUE(parse({"--ethernet", "--ethernet-strict-source"}).ethernet_strict_source);
  for (const auto& [option, value, needed] :
       {std::tuple{"--ethernet-stations", "7", "--ethernet"}, {"--hold-down", "7", "--backup"}}) {
    EXPECT_THAT(error_for({option, value}),
                HasSubstr(std::string(option) + ": has no effect without " + needed));
  }
  EXPECT_THAT(error_for({"--ethernet-strict-source"}), HasSubstr("no effect without --ethernet"));
}

TEST(OptionsTest, ChoosesInterfacesForEthernet) {
  EXPECT_EQ(parse({}).ethernet, EthernetChoice{});
  EXPECT_EQ(parse({"--ethernet=no"}).ethernet, EthernetChoice{});
  EXPECT_FALSE(parse({}).ethernet.includes(kDefaultPKey));
  for (const char* const all : {"--ethernet", "--ethernet=yes"}) {
    EXPECT_TRUE(parse({all}).ethernet.includes(kDefaultPKey)) << all;
  }
  EXPECT_EQ(parse({"--ethernet=0x7fff,0x8001"}).ethernet,
            (EthernetChoice{.all = false, .pkeys = {PKey(0xffff), PKey(0x8001)}}));
  EXPECT_FALSE(parse({"--ethernet=0x8001"}).ethernet.includes(kDefaultPKey));
  for (const char* const wrong :
       {"--ethernet=0x8001,", "--ethernet=,", "--ethernet=all", "--ethernet=0"}) {
    EXPECT_THROW(parse({wrong}), UsageError) << wrong;
  }
}

TEST(OptionsTest, MapsVlansToPartitions) {
  EXPECT_TRUE(parse({"--ethernet"}).vlans.empty());
  const auto options = parse({"--ethernet", "--vlan", "18=0x8012", "--vlan", "4094=0x13"});
  EXPECT_EQ(options.vlan_of(PKey(0x8012)), VlanId(18));
  EXPECT_EQ(options.vlan_of(PKey(0x8013)), kLastVlan) << "the membership bit does not matter";
  EXPECT_EQ(options.vlan_of(kDefaultPKey), std::nullopt);
  EXPECT_EQ(options.settings.at("vlan"), "18=0x8012, 4094=0x13");
  const auto chosen = parse({"--ethernet=0x8001", "--pkey", "0x8001", "--vlan", "1=0x8012"});
  EXPECT_FALSE(chosen.ethernet.includes(PKey(0x8012)));
  EXPECT_TRUE(chosen.is_ethernet(PKey(0x8012)));
  EXPECT_FALSE(chosen.is_ethernet(PKey(0x8002)));
}

TEST(OptionsTest, RefusesInvalidVlans) {
  const auto vlan = [](const std::string& text) {
    return error_for({"--ethernet", "--vlan", text});
  };
  EXPECT_THAT(vlan("18"), HasSubstr("as 18=0x8012"));
  EXPECT_THAT(vlan("0=0x8012"), HasSubstr("--vlan 0=0x8012: 0: must be a number from 1 to 4094"));
  EXPECT_THAT(vlan("4095=0x8012"), HasSubstr("a number from 1 to 4094"));
  EXPECT_THAT(vlan("18=0x8000"), HasSubstr("a P_Key from 0x0001"));
  EXPECT_THAT(vlan("18=red"), HasSubstr("hexadecimal numbers need 0x"));
  EXPECT_THAT(error_for({"--ethernet", "--vlan", "18=0x8012", "--vlan", "18=0x8013"}),
              HasSubstr("each VLAN once"));
  EXPECT_THAT(error_for({"--ethernet", "--vlan", "18=0x8012", "--vlan", "19=0x12"}),
              HasSubstr("each partition once"));
  std::vector<std::string> many{"--ethernet"};
  for (std::size_t i = 1; i <= kMaxInterfaces; ++i) {
    many.insert(many.end(), {"--vlan", std::to_string(i) + "=" + std::to_string(i)});
    if (i == kMaxInterfaces - 1) {
      EXPECT_NO_THROW(parse(many));
    }
  }
  EXPECT_THAT(error_for(many), HasSubstr("at most 127 VLANs"));
}

TEST(OptionsTest, AVlanNeedsATapThatCarriesIt) {
  EXPECT_THAT(error_for({"--vlan", "18=0x8012"}), HasSubstr("--ethernet"));
  EXPECT_THAT(
      error_for({"--ethernet", "--pkey", "0xffff", "--pkey", "0x8012", "--vlan", "18=0x8012"}),
      HasSubstr("--vlan 18=0x8012: has no interface of its own: leave out --pkey 0x8012"));
  EXPECT_THAT(error_for({"--ethernet=0x8001", "--vlan", "18=0x8012"}), HasSubstr("interface ib0"));
  EXPECT_THAT(
      error_for({"--ethernet", "--pkey", "0x8001", "--pkey", "0x8002", "--vlan", "18=0x8012"}),
      HasSubstr("0xffff"));
  EXPECT_NO_THROW(
      parse({"--ethernet", "--pkey", "0x8001", "--pkey", "0xffff", "--vlan", "18=0x8012"}));
  EXPECT_THAT(error_for({"--ethernet", "--ethernet-stations", "0", "--vlan", "18=0x8012"}),
              HasSubstr("--ethernet-stations"));
  EXPECT_THAT(error_for({"--ethernet", "--vlan", "18=0xffff"}), HasSubstr("without a tag"));
  EXPECT_THAT(
      error_for({"--ethernet", "--pkey", "0xffff", "--pkey", "0x8012", "--vlan", "18=0x8012"}),
      HasSubstr("leave out --pkey 0x8012"));
  EXPECT_THAT(
      error_for({"--ethernet", "--pkey", "0xffff", "--vlan", "18=0x8012", "--name", "elevenchars"}),
      HasSubstr("at most 10"));
}

TEST(OptionsTest, EnablesStablePrivacy) {
  EXPECT_FALSE(parse({}).stable_privacy);
  EXPECT_TRUE(parse({"--stable-privacy"}).stable_privacy);
}

TEST(OptionsTest, ParsesSoftibTarget) {
  EXPECT_EQ(parse({"--softib"}).softib, SoftibTarget{});
  EXPECT_EQ(parse({"--softib=lab"}).softib, (SoftibTarget{"lab", ""}));
  EXPECT_EQ(parse({"--softib=lab/left"}).softib, (SoftibTarget{"lab", "left"}));
  EXPECT_EQ(parse({"--softib=/left"}).softib, (SoftibTarget{"", "left"}));
  EXPECT_EQ(parse({"--softib=lab/"}).softib, (SoftibTarget{"lab", ""}));
  const std::string too_long(64, 'x');
  for (const auto& name : {"bad/name/x", "../x", "/-x", "a b", too_long.c_str()}) {
    EXPECT_THROW(parse({std::string("--softib=") + name}), UsageError) << name;
  }
  EXPECT_THAT(error_for({"--softib=lab/a b"}), HasSubstr("--softib lab/a b: 'a b' is not a valid"));
}

TEST(OptionsTest, AnEmulatedHcaHasTwoPorts) {
  EXPECT_EQ(parse({"--softib", "--port", "2"}).port, 2);
  EXPECT_EQ(parse({"--port", "3"}).port, 3);
  EXPECT_THROW(parse({"--softib", "--port", "3"}), UsageError);
  EXPECT_THROW(parse({"--softib", "--device", "softib0:3"}), UsageError);
}

TEST(OptionsTest, ARocePortIsInNoSubnet) {
  const auto options = parse({"--softib", "--roce"});
  EXPECT_EQ(options.softib, (SoftibTarget{"", "", ""}));
  EXPECT_EQ(options.device, "softib0");
  EXPECT_EQ(parse({"--roce=eth0"}).softib, (SoftibTarget{"", "", "eth0"}));
  EXPECT_EQ(parse({"--roce=eth0", "--device", "softib1"}).device, "softib1");
  EXPECT_THROW(parse({"--softib=lab", "--roce"}), UsageError);
  EXPECT_EQ(parse({"--roce"}, "/nonexistent").interface, "ib0") << "no file is read";
}

TEST(OptionsTest, ParsesLogLevels) {
  EXPECT_THAT(parse({"--log", "debug"}).log, ElementsAre(control::ModuleLevel{"all", "debug"}));
  for (const auto& [module, level] : Logging(LogTarget::standard_error, {}).levels.all()) {
    EXPECT_THAT(parse({"--log", module + "=" + level}).log,
                ElementsAre(control::ModuleLevel{module, level}));
  }
  EXPECT_THAT(
      parse({"--log", "warning,link=trace"}).log,
      ElementsAre(control::ModuleLevel{"all", "warning"}, control::ModuleLevel{"link", "trace"}));
  EXPECT_THAT(error_for({"--log", "weather=debug"}), HasSubstr("--log: weather: no such module"));
  EXPECT_THAT(error_for({"--log", "link=loud"}), HasSubstr("--log: loud: no such level"));
}

class ConfigFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const int fd = ::mkstemp(path_.data());
    ASSERT_GE(fd, 0);
    ::close(fd);
  }
  void TearDown() override { (void)std::remove(path_.c_str()); }
  void write(const std::string& text) { std::ofstream(path_) << text; }

  std::string path_ = ::testing::TempDir() + "ipoibd-XXXXXX";
};

TEST_F(ConfigFileTest, CommandLineTakesPrecedence) {
  write("# comment\nport = 2\npkey = 0x8012\nname = ibx\nsoftib = lab/left\n");
  const auto options = parse({"--config", path_, "--name", "iby"});
  EXPECT_THAT(parse({"--config", path_, "--pkey", "0x13"}).pkeys, ElementsAre(PKey(0x8013)));
  EXPECT_EQ(options.port, 2);
  EXPECT_THAT(options.pkeys, ElementsAre(PKey(0x8012)));
  EXPECT_EQ(options.interface, "iby");
  EXPECT_EQ(options.softib, (SoftibTarget{"lab", "left"}));
}

TEST_F(ConfigFileTest, IsCheckedLikeTheCommandLine) {
  write("port = many\n");
  EXPECT_THAT(error_for({"--config", path_}), HasSubstr("--port many"));
  write("prot = 1\n");
  EXPECT_THAT(error_for({"--config", path_}), StartsWith(path_));
  EXPECT_THAT(error_for({"--config", path_ + ".none"}),
              StartsWith("--config " + path_ + ".none: No such file"));
  EXPECT_THAT(error_for({"--config", "/tmp"}), StartsWith("--config /tmp: Is a directory"));
  EXPECT_THAT(error_for({"--neighbour-file", "/tmp/none/x"}),
              StartsWith("--neighbour-file /tmp/none/x: No such file"));
}

TEST_F(ConfigFileTest, ValuesHaveNoQuotes) {
  for (const char* const line : {"name = \"ib0\"\n", "device = 'mlx5_0'\n", "netns = \"blue\"\n"}) {
    write(line);
    EXPECT_THAT(error_for({"--config", path_, "--check-config"}), HasSubstr("without quotes"));
  }
}

TEST_F(ConfigFileTest, AMistypedOptionIsNamed) {
  EXPECT_THAT(error_for({"--neighbors", "100"}), HasSubstr("; did you mean --neighbours?"));
  EXPECT_THAT(error_for({"--pkye=1"}), HasSubstr("; did you mean --pkey?"));
  EXPECT_THAT(error_for({"--colour"}), Not(HasSubstr("did you mean")));
  write("neighbors = 100\n");
  EXPECT_THAT(error_for({"--config", path_}), HasSubstr("; did you mean neighbours?"));
  write("take-over\n");  // an option that is not for files
  EXPECT_THAT(error_for({"--config", path_}), Not(HasSubstr("did you mean")));
}

TEST_F(ConfigFileTest, AnErrorNamesTheLine) {
  const auto error_in = [&](const std::string& text) {
    write("# comment\n\nmtu = 2000 # bytes\n" + text + "\nwait\n");
    return error_for({"--config", path_});
  };
  const auto at = path_ + ":4: ";
  EXPECT_THAT(error_in("[main]"), StartsWith(at + "[main]: the file has no sections"));
  EXPECT_THAT(error_in("  [main]  # x"), StartsWith(at));
  EXPECT_THAT(error_in("port = many"), StartsWith(at + "--port many"));
  EXPECT_THAT(error_in("prot = 1"), StartsWith(at + "no option 'prot'; did you mean port?"));
  EXPECT_THAT(error_in("= 1"), StartsWith(at));
  EXPECT_THAT(error_in("port"), StartsWith(at + "option 'port' needs a value"));
  EXPECT_THAT(error_in("mtu = 1500"), StartsWith(at + "option 'mtu' was given before"));
  EXPECT_THAT(error_in("wait = perhaps"), StartsWith(at));
  for (const char* not_here :
       {"help", "version", "config = other", "check-config", "cleanup", "takeover"}) {
    EXPECT_THAT(error_in(not_here), StartsWith(at + "no option")) << not_here;
  }
}

TEST_F(ConfigFileTest, AnOptionWithoutAValueMayStandAlone) {
  write("stable-privacy\nno-dhcp-rewrite\nsoftib\n");
  const auto options = parse({"--config", path_});
  EXPECT_TRUE(options.stable_privacy);
  EXPECT_FALSE(options.link.dhcp_rewrite);
  EXPECT_EQ(options.softib, SoftibTarget{});
  write("stable-privacy = yes\nwait = no\n");
  EXPECT_TRUE(parse({"--config", path_}).stable_privacy);
  EXPECT_FALSE(parse({"--config", path_}).wait);
}

TEST_F(ConfigFileTest, MayNameSeveralPartitions) {
  write("pkey = 0x12\npkey = 0x13");
  EXPECT_THAT(parse({"--config", path_}).pkeys, ElementsAre(PKey(0x8012), PKey(0x8013)));
}

TEST(OptionsTest, TheBackupIsAnotherPort) {
  const auto options = parse({"--device", "mlx5_0", "--backup", "mlx5_1:2", "--backup-reselect",
                              "failure", "--hold-down", "0"});
  EXPECT_EQ(options.backup, (PortName{"mlx5_1", 2}));
  EXPECT_EQ(options.selection.reselect, Reselect::failure);
  EXPECT_EQ(options.selection.hold_down, Duration());
  EXPECT_EQ(parse({"--device", "mlx5_0", "--backup", "mlx5_0:2"}).backup, (PortName{"mlx5_0", 2}));
  EXPECT_EQ(parse({"--device", "mlx5_0", "--backup", "mlx5_1"}).backup, (PortName{"mlx5_1", 1}));
  EXPECT_FALSE(parse({}).backup);
  EXPECT_THAT(error_for({"--device", "mlx5_0", "--backup", "mlx5_0:1"}),
              HasSubstr("is the port of"));
  EXPECT_THAT(error_for({"--backup", "mlx5_0:1"}), HasSubstr("needs --device"));
  for (const auto* wrong : {"", ":1", "mlx5_1:", "mlx5_1:0", "mlx5_1:255", "mlx5_1:x"}) {
    EXPECT_THAT(error_for({"--device", "mlx5_0", "--backup", wrong}), StartsWith("--backup"))
        << wrong;
  }
  EXPECT_TRUE(parse({"--device", "mlx5_0", "--backup", "mlx5_1", "--ethernet"}).backup);
  EXPECT_THAT(error_for({"--backup-reselect", "better"}), HasSubstr("always or failure"));
  EXPECT_THAT(error_for({"--hold-down", "3601"}), HasSubstr("--hold-down"));
}

TEST(OptionsTest, TheDeviceMayNameThePort) {
  const auto options = parse({"--device", "mlx5_0:2"});
  EXPECT_EQ(options.device, "mlx5_0");
  EXPECT_EQ(options.port, 2);
  EXPECT_EQ(parse({"--device", "mlx5_0:2", "--port", "2"}).port, 2);
  EXPECT_EQ(parse({"--device", "mlx5_0", "--port", "2"}).port, 2);
  EXPECT_THAT(error_for({"--device", "mlx5_0:2", "--port", "1"}), HasSubstr("another port"));
  for (const char* wrong : {"mlx5_0:", "mlx5_0:0", "mlx5_0:255", "mlx5_0:x"}) {
    EXPECT_THAT(error_for({"--device", wrong}), StartsWith("--device NAME:PORT")) << wrong;
  }
}

/// The files of a folder such as /etc/ipoibd.
class ConfigFolderTest : public ::testing::Test {
 protected:
  ConfigFolderTest() {
    EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
    std::filesystem::create_directories(folder_ + "/ipoibd.conf.d");
    std::filesystem::create_directories(folder_ + "/mlx5_0:1.conf.d");
  }
  ~ConfigFolderTest() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name) << text;
  }
  /// The name of the interface, which a file has set.
  std::string name(const std::string& device) {
    return parse({"--device", device}, folder_).interface;
  }

  std::string folder_ = ::testing::TempDir() + "ipoibd-XXXXXX";
};

TEST_F(ConfigFolderTest, TheMostSpecificFileTakesPrecedence) {
  EXPECT_EQ(name("mlx5_0:1"), "ib0") << "there is no file";
  write("ipoibd.conf", "name = all\nmtu = 1500\n");
  EXPECT_EQ(name("mlx5_0:1"), "all");
  write("ipoibd.conf.d/10-a.conf", "name = all-a\n");
  write("ipoibd.conf.d/20-b.conf", "name = all-b\n");
  write("ipoibd.conf.d/30-c.conf~", "name = backup\n");
  EXPECT_EQ(name("mlx5_0:1"), "all-b");
  write("mlx5_0:1.conf", "name = one\n");
  EXPECT_EQ(name("mlx5_0:1"), "one");
  write("mlx5_0:1.conf.d/x.conf", "name = one-x\n");
  EXPECT_EQ(name("mlx5_0:1"), "one-x");
  EXPECT_EQ(name("mlx5_0:2"), "all-b") << "another port";
  const auto options = parse({"--device", "mlx5_0:1", "--name", "mine"}, folder_);
  EXPECT_EQ(options.interface, "mine");
  EXPECT_EQ(options.max_ip_mtu, 1500U);
}

TEST_F(ConfigFolderTest, IsNotReadForAnEmulatedSubnetNorBesideAnotherFile) {
  write("ipoibd.conf", "name = all\n");
  write("other", "mtu = 1500\n");
  EXPECT_EQ(parse({"--softib"}, folder_).interface, "ib0");
  EXPECT_EQ(parse({"--config", folder_ + "/other"}, folder_).interface, "ib0");
}

TEST_F(ConfigFolderTest, AllOptionsAreKnownAsText) {
  write("ipoibd.conf", "pkey = 0x8001\npkey = 2\nwait\n");
  const auto settings = parse({"--mtu", "1500"}, folder_).settings;
  EXPECT_EQ(settings.at("pkey"), "0x8001, 2");
  EXPECT_EQ(settings.at("wait"), "yes");
  EXPECT_EQ(settings.at("stable-privacy"), "no");
  EXPECT_EQ(settings.at("mtu"), "1500");
  EXPECT_EQ(settings.at("poll"), "adaptive");
  EXPECT_EQ(settings.count("device"), 0U);
  EXPECT_EQ(settings.count("reload"), 0U);
}

TEST_F(ConfigFolderTest, LevelsOfTheLogAreChecked) {
  write("ipoibd.conf", "log = link=loud\n");
  EXPECT_THAT(error_for({"--check-config"}, folder_), HasSubstr("loud: no such level"));
}

TEST_F(ConfigFolderTest, AReloadIsOnlyRequestedOnTheCommandLine) {
  EXPECT_TRUE(parse({"--reload"}, folder_).reload);
  EXPECT_FALSE(parse({}, folder_).reload);
  write("ipoibd.conf", "reload\n");
  EXPECT_THAT(error_for({}, folder_), HasSubstr("no option 'reload'"));
}

TEST_F(ConfigFolderTest, NeverLeavesTheFolder) {
  write("secret:1.conf", "name = secret\n");
  EXPECT_EQ(name("secret:1"), "secret");
  EXPECT_EQ(name("ipoibd.conf.d/../secret:1"), "ib0");
}

TEST_F(ConfigFolderTest, IsChecked) {
  write("ipoibd.conf", "name = all\n");
  write("mlx5_0:1.conf", "mtu = 1500\n");
  const auto report = information({"--device", "mlx5_0:1", "--check-config"}, folder_);
  EXPECT_EQ(report, "the options are valid\n  " + folder_ + "/mlx5_0:1.conf\n  " + folder_ +
                        "/ipoibd.conf\n");
  write("mlx5_0:1.conf", "mtu = 1\n");
  EXPECT_THAT(error_for({"--device", "mlx5_0:1", "--check-config"}, folder_),
              StartsWith(folder_ + "/mlx5_0:1.conf:1: --mtu 1"));
}

TEST_F(ConfigFolderTest, HasTheFileOfNeighbours) {
  EXPECT_THAT(parse({}, folder_).neighbours, IsEmpty());
  write("neighbours", "fe80::2 10.44.0.2\n");
  write("others", "fe80::3 10.44.0.3\nfe80::3 10.44.0.4\n");
  EXPECT_THAT(
      parse({}, folder_).neighbours,
      ElementsAre(control::StaticNeighbour{Ipv4Address(0x0a2c0002), *Gid::parse("fe80::2"), ""}));
  EXPECT_THAT(parse({"--softib"}, folder_).neighbours, IsEmpty());
  EXPECT_THAT(parse({"--softib", "--neighbour-file", folder_ + "/others"}, folder_).neighbours,
              SizeIs(2));
  write("ipoibd.conf", "neighbour-file = " + folder_ + "/others\n");
  EXPECT_THAT(parse({}, folder_).neighbours, SizeIs(2));
  EXPECT_THAT(information({"--check-config"}, folder_), HasSubstr("  " + folder_ + "/others\n"));
  write("others", "fe80::3\n");
  EXPECT_THAT(error_for({"--check-config"}, folder_),
              StartsWith("--neighbour-file " + folder_ + "/others:1: the IP address is missing"));
  EXPECT_THAT(error_for({"--neighbour-file", folder_ + "/absent"}, folder_),
              HasSubstr("No such file"));
}

TEST_F(ConfigFolderTest, HasALimitedNumberOfFiles) {
  for (std::size_t i = 0; i <= kMaxConfigurationFiles; ++i) {
    write("ipoibd.conf.d/" + std::to_string(i) + ".conf", "");
  }
  EXPECT_THAT(error_for({}, folder_), HasSubstr("more than 64 configuration files: merge some"));
}

TEST(OptionsTest, HelpListsDefaults) {
  const auto help = information({"--help"});
  EXPECT_THAT(help, StartsWith("Usage: ipoibd"));
  EXPECT_THAT(help, HasSubstr("--port N (=1)"));
  EXPECT_THAT(help, HasSubstr("--pkey P "));
  EXPECT_THAT(help, HasSubstr("--mtu N (=4092)"));
  EXPECT_THAT(help, HasSubstr("Exit status"));
  EXPECT_THAT(information({"--version"}), StartsWith("ipoibd "));
  EXPECT_EQ(information({"-h"}), help);
  EXPECT_EQ(information({"-V"}), information({"--version"}));
}

}  // namespace
}  // namespace ipoib::daemon
