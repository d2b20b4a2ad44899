#include "softib/cli/show_table.hpp"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <sstream>

namespace softib::cli {
namespace {

boost::json::object subnet() {
  return boost::json::parse(R"({"subnet":"lab","folder":"/f","running":true,"sm":"own",
    "nodes":[{"name":"softib-sm","lid":1,"state":"active","mtu":2048,"rate_mbps":40000,
              "gid":"fe80::1","addresses":["127.77.0.0","fd77::"],"pkeys":["0xffff"],"processes":[{"pid":77}],
              "counters":{"sent_packets":5,"drop_qkey":0,"drop_pkey":1,"drop_lost_peer":2}},
             {"name":"a","lid":2,"state":"down","mtu":2048,"rate_mbps":2500,"gid":"fe80::2",
              "addresses":["127.77.0.1","fd77::1","10.1.0.1"],"pkeys":[],"processes":[],"counters":{}}],
    "partitions":[{"pkey":"0xffff","others":"full","members":[]},
                  {"pkey":"0x8012","others":"none","members":[{"hca":"a","membership":"limited"}]}],
    "groups":[{"mgid":"ff12::1","mlid":"0xc000","pkey":"0xffff","qkey":"0x00000b1b","mtu":2048,
               "rate_mbps":10000,
               "members":[{"hca":"a","join_state":5},{"hca":"b","join_state":1}]}],
    "sa":{"answered":3,"refused":0}})")
      .as_object();
}

constexpr std::string_view kNodes =
    "LID  NODE       STATE   MTU   GBIT/S  GID      ADDRESSES                    P_KEYS  "
    "PROCESSES\n"
    "1    softib-sm  active  2048  40      fe80::1  127.77.0.0 fd77::            0xffff  77\n"
    "2    a          down    2048  2.5     fe80::2  127.77.0.1 fd77::1 10.1.0.1  -       -\n";
constexpr std::string_view kPartitions =
    "PARTITION  MEMBERS\n"
    "0xffff     all(full)\n"
    "0x8012     a(limited)\n";
constexpr std::string_view kGroups =
    "MLID    GROUP    P_KEY   Q_KEY       MTU   GBIT/S  MEMBERS\n"
    "0xc000  ff12::1  0xffff  0x00000b1b  2048  10      a(full+send-only) b\n";
constexpr std::string_view kCounters =
    "NODE       COUNTER         VALUE\n"
    "SM and SA  answered        3\n"
    "softib-sm  sent_packets    5\n"
    "softib-sm  drop_pkey       1\n"
    "softib-sm  drop_lost_peer  2\n";

TEST(ShowTable, WideFormHasAllSections) {
  EXPECT_EQ(show_wide(subnet()), "subnet lab in /f\n\n" + std::string(kNodes) + '\n' +
                                     std::string(kPartitions) + '\n' + std::string(kGroups) + '\n' +
                                     std::string(kCounters));
}

TEST(ShowTable, SectionStandsAlone) {
  EXPECT_EQ(show_section(subnet(), *parse_section("nodes")), kNodes);
  EXPECT_EQ(show_section(subnet(), *parse_section("partitions")), kPartitions);
  EXPECT_EQ(show_section(subnet(), *parse_section("groups")), kGroups);
  EXPECT_EQ(show_section(subnet(), *parse_section("counters")), kCounters);
  EXPECT_FALSE(parse_section("processes"));
}

TEST(ShowTable, NodesHaveAllLidsOfTheirPorts) {
  auto several = subnet();
  auto& node = several["nodes"].as_array()[1].as_object();
  node["lid"] = 4;
  node["lmc"] = 2;
  EXPECT_NE(show_section(several, Section::nodes).find("\n4-7  a "), std::string::npos);
  EXPECT_NE(show_brief(several).find("\n4-7  a "), std::string::npos);
}

TEST(ShowTable, BriefFormCutsNamesOfMoreThanFortyCharacters) {
  auto large = subnet();
  auto& node = large["nodes"].as_array()[1].as_object();
  node["name"] = std::string(40, 'n');
  EXPECT_NE(show_brief(large).find(std::string(40, 'n')), std::string::npos);
  node["name"] = std::string(41, 'n');
  EXPECT_NE(show_brief(large).find(' ' + std::string(37, 'n') + "... "), std::string::npos);
}

TEST(ShowTable, NodesHaveTheFaultsOfTheirLinksIfThereAreAny) {
  auto faulty = subnet();
  auto& nodes = faulty["nodes"].as_array();
  nodes[0].as_object()["link_faults"] = {{"loss", 0}, {"delay", 0}};
  EXPECT_EQ(show_section(faulty, Section::nodes), kNodes);
  nodes[1].as_object()["link_faults"] = {{"loss", 105},       {"duplicate", 0}, {"reorder", 10000},
                                         {"delay", 5},        {"corrupt", 1},   {"cm_loss", 200},
                                         {"seed", 4294967295}};
  EXPECT_NE(
      show_section(faulty, Section::nodes)
          .find("PROCESSES  LINK FAULTS\n1    softib-sm  active  2048  40      fe80::1  127.77.0.0 "
                "fd77::            0xffff  77         -\n"),
      std::string::npos);
  EXPECT_NE(
      show_section(faulty, Section::nodes)
          .find(
              "loss=1.05% reorder=100.00% delay=5ms corrupt=0.01% cm-loss=2.00% seed=4294967295\n"),
      std::string::npos);
}

TEST(ShowTable, BriefFormCounts) {
  EXPECT_EQ(show_brief(subnet()),
            "subnet lab in /f\n"
            "\n"
            "LID  NODE       STATE    MTU  GBIT/S  PROCESSES  SENT  RECEIVED  DROPPED\n"
            "1    softib-sm  active  2048      40          1     5         0        3\n"
            "2    a          down    2048     2.5          0     0         0        0\n"
            "\n"
            "PARTITION  FULL  LIMITED  OTHERS\n"
            "0xffff        0        0  full\n"
            "0x8012        0        1  none\n"
            "\n"
            "MLID    GROUP    P_KEY    MTU  MEMBERS\n"
            "0xc000  ff12::1  0xffff  2048        2\n");
}

TEST(ShowTable, BriefFormFitsEightyColumns) {
  auto large = subnet();
  auto& node = large["nodes"].as_array()[1].as_object();
  node["name"] = std::string(63, 'n');
  node["lid"] = 49024;
  node["lmc"] = 7;
  node["counters"] = {{"sent_packets", ~std::uint64_t{0}},
                      {"received_packets", ~std::uint64_t{0}},
                      {"drop_qkey", 4'000'000'000}};
  auto& group = large["groups"].as_array()[0].as_object();
  group["mgid"] = "ff12:401b:8012:1111:2222:3333:4444:5555";
  std::istringstream lines(show_brief(large));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), kBriefWidth) << line;
}

TEST(ShowTable, OfASubnetWithoutProcessHasKnownValuesOnly) {
  auto partial = subnet();
  partial["running"] = false;
  for (const auto* key : {"partitions", "sa"}) partial.erase(key);
  EXPECT_EQ(show_wide(partial).find("subnet lab in /f: its process is not running\n"), 0U);
  EXPECT_NE(show_brief(partial).find("softib-sm"), std::string::npos);
  EXPECT_EQ(show_brief(partial).find("PARTITION"), std::string::npos);
}

TEST(ShowTable, JsonOfASectionHasItsMembersOnly) {
  const auto keys = [](const boost::json::object& object) {
    std::string all;
    for (const auto& [key, value] : object) all += std::string(key) + ' ';
    return all;
  };
  EXPECT_EQ(keys(json_of_section(subnet(), Section::groups)), "subnet folder running sm groups ");
  const auto counters = json_of_section(subnet(), Section::counters);
  EXPECT_EQ(keys(counters), "subnet folder running sm sa nodes ");
  EXPECT_EQ(keys(counters.at("nodes").at(0).as_object()), "name counters ");
  EXPECT_EQ(counters.at("nodes").at(0).at("name"), "softib-sm");
  EXPECT_EQ(counters.at("nodes").at(0).at("counters").at("sent_packets"), 5);
}

}  // namespace
}  // namespace softib::cli
