#include "softib/topology/net_file.hpp"

#include <gmock/gmock.h>

#include <cerrno>

#include "softib/topology/check.hpp"
#include "softib/topology/net_line.hpp"
#include "softib/topology/node_names.hpp"

namespace softib::topology {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

NetFile parse(const std::string& text, const ReadInclude& include = {}) {
  auto file = parse_net(text, "f", include);
  EXPECT_TRUE(file.has_value()) << (file ? "" : file.error().message);
  return file ? *file : NetFile();
}

std::string error_of(const std::string& text, const ReadInclude& include = {}) {
  const auto file = parse_net(text, "f", include);
  return file ? "" : file.error().message;
}

/// Cables as "leaf[1] host[2] 4xQDR"-like texts with the three attributes.
std::vector<std::string> cables_of(const Topology& topology) {
  std::vector<std::string> out;
  for (const auto& each : topology.cables) {
    const auto end = [&](const End& at) {
      return name_of(topology, at) + '[' + std::to_string(at.port) + ']';
    };
    out.push_back(end(each.a) + ' ' + end(each.b) + ' ' + std::to_string(each.width) + ' ' +
                  std::to_string(each.speed) + ' ' + std::to_string(each.extended_speed));
  }
  return out;
}

/// A switch and an HCA with a cable, whose two lines end with these texts.
std::string two_ends(const std::string& of_switch, const std::string& of_hca = "") {
  return "Switch 8 \"s\"\n[1] \"h\"[2]" + of_switch + "\nCa 2 \"h\"\n[2] \"s\"[1]" + of_hca + "\n";
}
std::string rate_of(const std::string& of_switch, const std::string& of_hca = "") {
  const auto cables = cables_of(parse(two_ends(of_switch, of_hca)).topology);
  return cables.size() == 1 ? cables[0].substr(cables[0].find("] s[1] ") + 7) : "no cable";
}

TEST(NetFile, RecordsOfIbsim) {
  const auto file = parse(
      "# A comment\n"
      "\n"
      "Switch\t8 \"Switch1\"\n"
      "[1]\t\"Hca1\"[1]\n"
      "# within a record\n"
      "[3]\t\"Switch2\"[3]\n"
      "[4]\t\"Switch2\"[5]\n"
      "Switch 6 \"Switch2\"\n"
      "[3]\t\"Switch1\" [3]\n"
      "[5]\t\"Switch1\"[4]\n"
      "\n"
      "Hca\t2 \"Hca1\"\n"
      "[1]\t\"Switch1\"[1]\n"
      "Ca 1 \"Hca2\"\n");
  EXPECT_THAT(file.remarks, IsEmpty());
  const auto& topology = file.topology;
  ASSERT_EQ(topology.switches.size(), 2U);
  EXPECT_EQ(topology.switches[0], (Switch{"Switch1", "", Guid(), 8}));
  EXPECT_EQ(topology.switches[1], (Switch{"Switch2", "", Guid(), 6}));
  ASSERT_EQ(topology.hcas.size(), 2U);
  EXPECT_EQ(topology.hcas[0], (Hca{"Hca1", "", Guid(), 2, {}}));
  EXPECT_EQ(topology.hcas[1], (Hca{"Hca2", "", Guid(), 1, {}}));
  EXPECT_THAT(cables_of(topology),
              ElementsAre("Hca1[1] Switch1[1] 2 1 0", "Switch1[3] Switch2[3] 2 1 0",
                          "Switch1[4] Switch2[5] 2 1 0"));
}

TEST(NetFile, PortOneIsTheDefaultOfTheOtherEnd) {
  EXPECT_THAT(cables_of(parse("Switch 4 \"s\"\n[1] \"h\"\nCa 1 \"h\"\n[1] \"s\"\n").topology),
              ElementsAre("h[1] s[1] 2 1 0"));
}

TEST(NetFile, OutputOfIbnetdiscover) {
  const auto file = parse(
      "#\n# Topology file: generated on Sat Nov 28 13:10:56 2026\n#\n"
      "# Initiated from node 0002c902004000f0 port 0002c902004000f0\n\n"
      "vendid=0x2c9\ndevid=0xbd36\nsysimgguid=0x2c902004000f1\n"
      "switchguid=0x2c902004000f1(2c902004000f1)\n"
      "Switch\t6 \"S-0002c902004000f1\"\t\t# \"SW1;leaf:IS5030/U1\" enhanced port 0 lid 7 lmc 0\n"
      "[3]\t\"S-0002c902004000f0\"[3]\t\t# \"spine\" lid 4 4xEDR\n"
      "[4]\t\"H-0002c90200001240\"[2](2c90200001248) \t\t# \"node1 HCA-1\" lid 9 4xQDR\n"
      "\nvendid=0x2c9\ndevid=0xbd36\nsysimgguid=0x2c902004000f0\n"
      "switchguid=0x2c902004000f0(2c902004000f0)\n"
      "Switch\t36 \"S-0002c902004000f0\"\t\t# \"spine\" base port 0 lid 4 lmc 0\n"
      "[3]\t\"S-0002c902004000f1\"[3]\t\t# \"SW1;leaf:IS5030/U1\" lid 7 4xEDR\n"
      "\nvendid=0x2c9\ndevid=0x673c\nsysimgguid=0x2c90200001243\ncaguid=0x2c90200001240\n"
      "Ca\t2 \"H-0002c90200001240\"\t\t# \"node1 HCA-1\"\n"
      "[2](2c90200001248) \t\"S-0002c902004000f1\"[4]\t\t# lid 9 lmc 0 \"SW1;leaf:IS5030/U1\" lid "
      "7 "
      "4xQDR\n"
      "\ncaguid=0x2c90200001250\nCa\t2 \"H-0002c90200001250\"\t\t# \"node1 HCA-1\"\n");
  EXPECT_THAT(file.remarks, IsEmpty());
  const auto& topology = file.topology;
  EXPECT_EQ(topology.switches[0],
            (Switch{"SW1-leaf-IS5030-U1", "SW1;leaf:IS5030/U1", Guid(0x2c902004000f1), 6}));
  EXPECT_EQ(topology.switches[1], (Switch{"spine", "", Guid(0x2c902004000f0), 36}));
  EXPECT_EQ(topology.hcas[0], (Hca{"node1-HCA-1",
                                   "node1 HCA-1",
                                   Guid(0x2c90200001240),
                                   2,
                                   {Guid(), Guid(0x2c90200001248)}}));
  EXPECT_EQ(topology.hcas[1].name, "node1-HCA-1-2");
  EXPECT_THAT(cables_of(topology), ElementsAre("node1-HCA-1[2] SW1-leaf-IS5030-U1[4] 2 4 0",
                                               "SW1-leaf-IS5030-U1[3] spine[3] 2 4 2"));
}

TEST(NetFile, PortsOfChassisAndFullListings) {
  const auto file = parse(
      "Switch 8 \"S-0000000000000001\" # \"a\" base port 0 lid 1 lmc 0\n"
      "[1][ext 5]\t\"S-0000000000000002\"[2][ext 7]\t\t# \"b\" lid 2 4xDDR s=2 w=2 v=4\n"
      "Switch 8 \"S-0000000000000002\" # \"b\" base port 0 lid 2 lmc 0\n"
      "[2][ext 7]\t\"S-0000000000000001\"[1][ext 5]\t\t# \"a\" lid 1 4xDDR s=2 w=2 v=4\n");
  EXPECT_THAT(cables_of(file.topology), ElementsAre("a[1] b[2] 2 2 0"));
}

TEST(NetFile, GuidsCountUpAsWithIbsim) {
  const auto& topology = parse(
                             "Switch 1 \"s0\"\n"
                             "switchguids=0x100\nSwitch 1 \"s1\"\nSwitch 1 \"s2\"\n"
                             "switchguids+0x10\nSwitch 1 \"s3\"\n"
                             "switchguid=0\nSwitch 1 \"s4\"\nSwitch 1 \"s5\"\n"
                             "Ca 1 \"h0\"\n"
                             "hcaguids = 0x1000 # base\nHca 2 \"h1\"\nHca 1 \"h2\"\nCa 1 \"h3\"\n"
                             "caguids+16\nCa 1 \"h4\"\n")
                             .topology;
  std::vector<std::uint64_t> guids;
  for (const auto& each : topology.switches) guids.push_back(each.guid.value());
  for (const auto& each : topology.hcas) guids.push_back(each.guid.value());
  EXPECT_THAT(guids, ElementsAre(0, 0x100, 0x101, 0x110, 0, 0, 0, 0x1000, 0x1003, 0x1005, 0x1010));
  // Without a base, + is relative to ibsim's.
  EXPECT_EQ(parse("switchguids+1\nSwitch 1 \"s\"\n").topology.switches[0].guid, Guid(0x200001));
  EXPECT_EQ(parse("caguids+1\nCa 1 \"h\"\n").topology.hcas[0].guid, Guid(0x100001));
}

TEST(NetFile, GuidsOfIdsAreUsedIfTheFileGivesNoOther) {
  const auto& topology = parse(
                             "switchguid=0x5\nSwitch 1 \"S-0000000000000007\"\n"
                             "Switch 1 \"S-0000000000000009\"\nSwitch 1 \"named\"\n"
                             "Ca 1 \"H-00000000000000ab\"\n")
                             .topology;
  EXPECT_EQ(topology.switches[0].guid, Guid(5));
  EXPECT_EQ(topology.switches[1].guid, Guid(9));
  EXPECT_EQ(topology.switches[2].guid, Guid(6));
  EXPECT_EQ(topology.hcas[0].guid, Guid(0xab));
  EXPECT_EQ(topology.hcas[0].name, "H-00000000000000ab");
}

TEST(NetFile, GuidsInAllNotations) {
  for (const char* each : {"0x2c90200001240", "0X0002C90200001240", "2c90200001240",
                           "0002c90200001240", "0002:c902:0000:1240", "783960380543552"}) {
    EXPECT_EQ(parse_guid(each), Guid(0x2c90200001240)) << each;
  }
  EXPECT_EQ(parse_guid("0008104000000123"), Guid(0x8104000000123)) << "16 digits";
  for (const char* each : {"", "0x", "x", "0x123456789abcdef01", "-1", "1:2:3:4",
                           "0002:c902:00001:240", "0002:c902", "12345678901234567890123"}) {
    EXPECT_EQ(parse_guid(each), std::nullopt) << each;
  }
  EXPECT_EQ(guid_of_node_id("S-0002c90200001240"), Guid(0x2c90200001240));
  for (const char* each : {"S-0002c9020000124", "X-0002c90200001240", "S-0002c9020000124g", ""}) {
    EXPECT_EQ(guid_of_node_id(each), std::nullopt) << each;
  }
}

TEST(NetFile, PortGuidsMayBeDigitsOnly) {
  const auto file = parse("Switch 4 \"s\"\n[1] \"h\"[1]\nCa 1 \"h\"\n[1](2900000012) \"s\"[1]\n");
  EXPECT_EQ(file.topology.hcas[0].port_guids[0], Guid(0x2900000012));
  const auto of_chassis =
      parse("Switch 4 \"s\"\n[1] \"h\"[1]\nCa 1 \"h\"\n[1][ext 3](2900000012) \"s\"[1]\n");
  EXPECT_EQ(of_chassis.topology.hcas[0].port_guids[0], Guid(0x2900000012));
}

TEST(NetFile, NamesOfNodes) {
  const auto& topology = parse(
                             "Switch 1 \"sw 1\"  # \"  ..Leaf (1), -x\"\n"
                             "Switch 1 \"id is better\"\n"
                             "Switch 1 \"valid.id_1\" # \"other\"\n"
                             "Switch 1 \"((\" # \"---\"\n"
                             "Ca 1 \"H-0000000000000001\" # \"valid.id_1\"\n"
                             "Ca 1 \"H-0000000000000002\" # unquoted one lid 4 lmc 0\n"
                             "Ca 1 \"H-0000000000000003\" #  base port 0 lid 4\n"
                             "Ca 1 \"H-0000000000000004\" # \"caf\xc3\xa9\"\n")
                             .topology;
  std::vector<std::string> names;
  for (const auto& each : topology.switches) names.push_back(each.name);
  for (const auto& each : topology.hcas) names.push_back(each.name);
  EXPECT_THAT(names, ElementsAre("Leaf-1-x", "id-is-better", "valid.id_1", "switch", "valid.id_1-2",
                                 "unquoted-one", "H-0000000000000003", "caf"));
  EXPECT_EQ(topology.switches[0].description, "  ..Leaf (1), -x");
  EXPECT_EQ(topology.switches[2].description, "other");
  EXPECT_EQ(topology.hcas[1].description, "unquoted one");
  EXPECT_EQ(topology.hcas[2].description, "");
  EXPECT_EQ(topology.hcas[3].description, "caf  ");
}

TEST(NetFile, DescriptionsHaveNoQuotes) {
  const auto& topology = parse("Ca 1 \"x\" # the \"fast\" one lid 4 lmc 0\n").topology;
  EXPECT_EQ(topology.hcas[0].description, "the 'fast' one");
}

TEST(NetFile, ManyEqualDescriptions) {
  std::string text;
  for (int i = 1; i <= 500; ++i) {
    std::string digits = std::to_string(i);
    text += "Switch 1 \"S-" + std::string(16 - digits.size(), '0') + digits + "\" # \"" +
            std::string(63, 'x') + "\"\n";
  }
  const auto& topology = parse(text).topology;
  EXPECT_EQ(topology.switches[0].name, std::string(63, 'x'));
  EXPECT_EQ(topology.switches[499].name, std::string(59, 'x') + "-500");
  EXPECT_TRUE(check(topology).has_value());
}

TEST(NetFile, RatesOfCables) {
  EXPECT_EQ(rate_of(""), "2 1 0") << "ibsim's: 4x SDR";
  EXPECT_EQ(rate_of(" # lid 3 4xQDR"), "2 1 0") << "the other end permits SDR only";
  const auto both = [](const std::string& remark) { return rate_of(remark, remark); };
  EXPECT_EQ(both(" # \"x\" lid 3 1xSDR"), "1 1 0");
  EXPECT_EQ(both(" # \"x\" lid 3 2xDDR"), "16 2 0");
  EXPECT_EQ(both(" # lid 1 lmc 0 \"a lid 4 12xSDR\" lid 3 4xQDR"), "2 4 0");
  EXPECT_EQ(both(" # \"x\" lid 3 8xFDR10"), "4 4 0");
  EXPECT_EQ(both(" # \"x\" lid 3 12xFDR"), "8 4 1");
  EXPECT_EQ(both(" # \"x\" lid 3 4xEDR"), "2 4 2");
  EXPECT_EQ(both(" # \"x\" lid 3 4xHDR s=4 w=2 v=4"), "2 4 4");
  EXPECT_EQ(both(" # \"x\" lid 3 4xNDR"), "2 4 8");
  EXPECT_EQ(rate_of(" # \"x\" lid 3 4xHDR", " # \"x\" lid 3 4xEDR"), "2 4 2") << "in common";
  EXPECT_EQ(both(" # \"x\" lid 3 4xWARP"), "2 1 0");
  EXPECT_EQ(both(" # \"x lid 3 12xQDR"), "2 1 0") << "a description without end";
  EXPECT_EQ(both(" # the lid of the box 3xQDR"), "2 1 0");
  EXPECT_EQ(both(" w=8 s=4 e=2"), "8 4 2");
  EXPECT_EQ(both("\tw=0x8 s=0"), "8 4 0");
  EXPECT_EQ(both(" w=31 s=3 e=15"), "8 2 8") << "the greatest";
  EXPECT_EQ(both(" w=23"), "4 1 0");
  EXPECT_EQ(both(" w=19"), "2 1 0");
  EXPECT_EQ(both(" w=17"), "16 1 0");
  EXPECT_EQ(both(" # \"w=8\" w=4 s=2"), "4 2 0");
  EXPECT_EQ(rate_of(" w=3", " w=10"), "2 1 0");
  EXPECT_EQ(both(" v=9 q=x"), "2 1 0") << "unknown options mean nothing";
  EXPECT_EQ(both(" # s=fast"), "2 1 0") << "a comment";
  const std::string defaults = "width=8\nspeed=2\nextspeed=1\n";
  EXPECT_THAT(cables_of(parse(defaults + two_ends("")).topology), ElementsAre("h[2] s[1] 8 2 1"));
  EXPECT_THAT(cables_of(parse(defaults + two_ends(" w=8 s=3", " s=7 e=3")).topology),
              ElementsAre("h[2] s[1] 8 2 1"));
}

TEST(NetFile, RoutersAndUnknownNodesAreSkipped) {
  const auto file = parse(
      "Switch 4 \"s\"\n[1] \"R-0000000000000005\"[1](5) # \"r\" lid 0 4xSDR\n"
      "[2] \"gate\"[1]\n[3] \"?-0000000000000006\"[1]\n[4] \"odd\"[2]\n"
      "rtguid=0x5\nRt 2 \"gate\" # \"router\"\n[1] \"s\"[2]\n[300] nonsense\n"
      "\n??? 7 \"odd\"\n[2] \"s\"[4]\n"
      "Chassis 1 (guid 0x1)\n");
  EXPECT_EQ(file.topology.switches.size(), 1U);
  EXPECT_THAT(file.topology.hcas, IsEmpty());
  EXPECT_THAT(file.topology.cables, IsEmpty());
  EXPECT_THAT(file.remarks,
              ElementsAre("f:7:6: the router \"gate\" is skipped",
                          "f:11:1: the node \"odd\" of the unknown kind \"???\" is skipped",
                          "f:13:1: a line that begins with \"Chassis\" is skipped",
                          "f:2:5: the cable to \"R-0000000000000005\" is skipped",
                          "f:3:5: the cable to \"gate\" is skipped",
                          "f:4:5: the cable to \"?-0000000000000006\" is skipped",
                          "f:5:5: the cable to \"odd\" is skipped"));
}

TEST(NetFile, WhatCannotBeHonouredIsRemarked) {
  EXPECT_THAT(parse("do \"Link foo\"\npdebug=1\n").remarks,
              ElementsAre(HasSubstr("f:1:3: \"do\" is skipped")));
  const auto ports = parse(
      "Switch 4 \"s\"\n[1] \"h\"[1]\n[2] \"h\"[4]\nCa 4 \"h\"\n[1] \"s\"[1]\n[4](abc) \"s\"[2]\n");
  EXPECT_EQ(ports.topology.hcas[0].ports, 2);
  EXPECT_EQ(ports.topology.cables.size(), 1U);
  EXPECT_THAT(ports.remarks, ElementsAre("f:4:6: \"h\" has 4 ports; those above 2 are skipped",
                                         "f:3:5: the cable of port 4 of \"h\" is skipped"));
}

TEST(NetFile, RemarksAreLimited) {
  std::string text;
  for (std::size_t i = 0; i < kMaxRemarks + 7; ++i) text += "do \"it\"\n";
  const auto file = parse(text);
  EXPECT_EQ(file.remarks.size(), kMaxRemarks);
  EXPECT_EQ(file.more_remarks, 7U);
}

TEST(NetFile, Aliases) {
  const auto file = parse(
      "Switch 4 \"s\"\n@[2] \"up\" w=8\n[1] \"@down\" w=2\n"
      "Switch 4 \"t\"\n[3] \"@up\" w=8 # to s\n@[4] \"down\"\n");
  EXPECT_THAT(cables_of(file.topology), ElementsAre("s[1] t[4] 2 1 0", "s[2] t[3] 8 1 0"));
}

TEST(NetFile, Modules) {
  const auto file = parse(
      "module=\"left\"\nSwitch 4 \"s\" # \"switch\"\n[1] \"h\"[1]\n@[2] \"up\"\n"
      "[3] \"right#s\"[4]\nCa 1 \"h\"\n[1] \"s\"[1]\n"
      "module=\"right\"\nSwitch 4 \"s\"\n[1] \"left@up\"\n[3] \"top\"[1]\n[4] \"left#s\"[3]\n"
      "@[2] \"in\"\nSwitch 2 \"top\"\n[1] \"s\"[3]\n[2] \"@in\"\nmodule=\"\"\nCa 1 \"h\"\n");
  EXPECT_THAT(cables_of(file.topology),
              ElementsAre("left-h[1] switch[1] 2 1 0", "switch[2] right-s[1] 2 1 0",
                          "switch[3] right-s[4] 2 1 0", "right-s[2] right-top[2] 2 1 0",
                          "right-s[3] right-top[1] 2 1 0"));
  EXPECT_EQ(file.topology.hcas[1].name, "h");
  EXPECT_THAT(
      error_of("module=\"a\"\nSwitch 2 \"s\"\n[1] \"b#s\"[1]\nmodule=\"b\"\nSwitch 2 \"s\"\n"),
      HasSubstr("f:3:5: port 1 of \"b#s\" has no cable; expected one to port 1 of \"a#s\""));
}

TEST(NetFile, IncludedFilesShareTheState) {
  const auto include = [](const std::string& includer, const std::string& path) {
    EXPECT_EQ(includer, "f");
    EXPECT_EQ(path, "leaf.net");
    return ipoib::Result<IncludedFile>(
        IncludedFile{"dir/leaf.net", "Ca 1 \"h\"\n[1] \"s\"[1]\nspeed=4\ndo x\n"});
  };
  const auto file = parse(
      "include \"leaf.net\"\nSwitch 4 \"s\"\n[1] \"h\"[1] s=7\n[2] \"t\"[1]\nSwitch 1 \"t\"\n[1] "
      "\"s\"[2]\n",
      include);
  EXPECT_THAT(cables_of(file.topology), ElementsAre("h[1] s[1] 2 1 0", "s[2] t[1] 2 4 0"));
  EXPECT_THAT(file.remarks, ElementsAre(StartsWith("dir/leaf.net:4:3: ")));
}

TEST(NetFile, IncludesAreLimited) {
  std::size_t reads = 0;
  const auto twice = [&](const std::string&, const std::string& path) {
    ++reads;
    return ipoib::Result<IncludedFile>(IncludedFile{path, "include \"f\"\ninclude \"f\"\n"});
  };
  EXPECT_EQ(error_of("include \"f\"", twice), "f:1:9: files include each other more than 9 deep");
  EXPECT_EQ(reads, kMaxIncludeDepth);
  std::string many;
  for (std::size_t i = 0; i <= kMaxIncludes; ++i) many += "include \"g\"\n";
  const auto empty = [](const std::string&, const std::string& path) {
    return ipoib::Result<IncludedFile>(IncludedFile{path, ""});
  };
  EXPECT_EQ(error_of(many, empty), "f:257:9: more than 256 files are included");
  const auto missing = [](const std::string&, const std::string& path) {
    return ipoib::Result<IncludedFile>(ipoib::Error{ENOENT, path + ": No such file"});
  };
  EXPECT_EQ(error_of("\n include \"x\"", missing), "f:2:10: x: No such file");
  EXPECT_EQ(error_of("include \"x\""), "f:1:9: no file can be included here");
  const auto large = [](const std::string&, const std::string& path) {
    return ipoib::Result<IncludedFile>(IncludedFile{path, std::string(kMaxNetBytes / 2, '\n')});
  };
  EXPECT_EQ(error_of("include \"x\"\ninclude \"x\"\n", large),
            "x: more than 48 MiB with what it includes");
}

TEST(NetFile, ErrorsHaveLineAndColumn) {
  const std::vector<std::pair<std::string, std::string>> faults{
      {"Switch \"s\"", "1:8: expected the number of ports"},
      {"\nSwitch 0 \"s\"", "2:8: expected the number of ports"},
      {"Switch 99999999999 \"s\"", "1:8: expected the number of ports"},
      {"Switch 255 \"s\"", "1:8: 255 ports are too many; at most 254"},
      {"Switch 8 s", "1:10: expected the ID of the node in double quotes"},
      {"Switch 8 \"\"", "1:10: expected the ID of the node in double quotes"},
      {"Switch 8 \"s", "1:10: expected the ID of the node in double quotes"},
      {"Switch 8 \"a#b\"", "1:10: an ID cannot have '#' or '@'"},
      {"Switch 1 \"s\"\nCa 1 \"s\"", "2:6: another node has the ID \"s\""},
      {"Switch 1 \"s\"\nRt 1 \"s\"", "2:6: another node has the ID \"s\""},
      {"[1] \"s\"[1]", "1:1: a port outside of a node"},
      {"Switch 1 \"s\"\nwidth=1\n[1] \"s\"[1]", "3:1: a port outside of a node"},
      {"Switch 4 \"s\"\n[0] \"t\"[1]", "2:2: expected a port from 1 to 4"},
      {"Switch 4 \"s\"\n[5] \"t\"[1]", "2:2: expected a port from 1 to 4"},
      {"Switch 4 \"s\"\n[x] \"t\"[1]", "2:2: expected a port from 1 to 4"},
      {"Switch 4 \"s\"\n[1 \"t\"[1]", "2:3: expected ']'"},
      {"Switch 4 \"s\"\n[1] t[1]", "2:5: expected the ID of a node in double quotes"},
      {"Switch 4 \"s\"\n[1] \"t[1]", "2:5: expected the ID of a node in double quotes"},
      {"Switch 4 \"s\"\n[1] \"t\"[0]", "2:9: expected a port of the other node"},
      {"Switch 4 \"s\"\n[1] \"t\"[2", "2:10: expected ']'"},
      {"Switch 4 \"s\"\n[1] \"t\"[1]", "2:5: no node \"t\" is in the file"},
      {"Switch 4 \"s\"\n[1] \"s\"[1]", "2:5: a cable from a port to itself"},
      {"Switch 4 \"s\"\n[1] \"s\"[5]", "2:5: \"s\" has ports 1 to 4, not 5"},
      {"Switch 4 \"s\"\n[1] \"t\"[1]\nSwitch 4 \"t\"\n",
       "2:5: port 1 of \"t\" has no cable; expected one to port 1 of \"s\""},
      {"Switch 4 \"s\"\n[1] \"t\"[1]\nSwitch 4 \"t\"\n[1] \"s\"[2]",
       "2:5: port 1 of \"t\" has a cable to port 2 of \"s\"; expected port 1 of \"s\""},
      {"Switch 4 \"s\"\n[1] \"t\"[1]\n[1] \"t\"[2]", "3:5: the port has another cable"},
      {"Switch 4 \"s\"\n@1", "2:2: expected '['"},
      {"Switch 4 \"s\"\n@[1] a", "2:6: expected an alias in double quotes"},
      {"Switch 4 \"s\"\n@[1] \"a#\"", "2:6: an alias cannot have '#' or '@'"},
      {"Switch 4 \"s\"\n@[1] \"a\"\n@[2] \"a\"", "3:6: another port has the alias \"a\""},
      {"Switch 4 \"s\"\n@[1] \"a\"\n@[1] \"b\"", "3:6: the port has another alias"},
      {"Switch 4 \"s\"\n[1] \"@a\"", "2:5: no port has the alias \"@a\""},
      {"Switch 4 \"s\"\n@[1] \"a\"\n[2] \"@a\"\n[3] \"@a\"",
       "4:5: port 1 of \"s\", which has this alias, has another cable"},
      {"Switch 4 \"s\"\n@[1] \"a\"\n[1] \"@a\"", "3:5: a cable from a port to itself"},
      {"Switch 4 \"s\"\n[1] \"t\"[1] w=32",
       "2:12: expected w=1 to w=31, s=0 to s=7, or e=0 to e=15"},
      {"Switch 4 \"s\"\n[1] \"t\"[1] s=8", "2:12: expected w=1"},
      {"Switch 4 \"s\"\n[1] \"t\"[1]  e=", "2:13: expected w=1"},
      {two_ends(" w=1", " w=8"), "2:5: the ends of the cable have no width in common"},
      {two_ends(" s=1", " s=2"), "2:5: the ends of the cable have no speed in common"},
      {"switchguid 5", "1:12: expected '=' or '+'"},
      {"switchguid=", "1:12: expected a GUID, such as 0x"},
      {"caguids=0x", "1:9: expected a GUID"},
      {"rtguid=x", "1:8: expected a GUID"},
      {"switchguid=5\nSwitch 1 \"a\"\nswitchguid=5\nSwitch 1 \"b\"",
       "4:10: another node has the GUID of \"b\""},
      {"switchguid=5\nSwitch 1 \"a\"\ncaguid=4\nCa 1 \"b\"",
       "4:6: another port has a port GUID of \"b\""},
      {"vendid", "1:7: expected '='"},
      {"width=0", "1:7: expected a number from 1 to 31"},
      {"speed = 8", "1:9: expected a number from 1 to 7"},
      {"extspeed=16", "1:10: expected a number from 0 to 15"},
      {"extspeed", "1:9: expected '='"},
      {"module=x", "1:8: expected the name of a module"},
      {"module \"x\"", "1:8: expected '='"},
      {"include x", "1:9: expected the name of a file"},
      {"\n\n" + std::string(kMaxNetLine + 1, '#'), "3:4097: the line is longer than 4096 bytes"},
  };
  for (const auto& [text, reason] : faults) {
    EXPECT_THAT(error_of(text), StartsWith("f:" + reason)) << text;
  }
}

TEST(NetFile, NodesAreLimited) {
  std::string switches;
  for (std::size_t i = 0; i < kMaxSwitches; ++i) {
    switches += "Switch 1 \"s" + std::to_string(i) + "\"\n";
  }
  std::string hcas;
  for (std::size_t i = 0; i < kMaxHcas; ++i) hcas += "Ca 2 \"h" + std::to_string(i) + "\"\n";
  EXPECT_EQ(parse(switches + hcas).topology.hcas.size(), kMaxHcas);
  EXPECT_EQ(error_of(switches + "Switch 1 \"x\""), "f:1025:10: more than 1024 switches");
  EXPECT_EQ(error_of(hcas + "Hca 1 \"x\""), "f:4096:7: more than 4095 HCAs");
}

TEST(NetFile, LineEndsAndByteOrderMarksOfOtherSystems) {
  const auto file = parse(
      "\xef\xbb\xbfSwitch 8 \"s\"\r\n  [1] \"h\"[2] w=8\r\n\r\nCa 2 \"h\"\r\n[2] \"s\"[1] w=8");
  EXPECT_THAT(cables_of(file.topology), ElementsAre("h[2] s[1] 8 1 0"));
}

TEST(NetFile, MessagesArePrintable) {
  EXPECT_EQ(error_of("Switch 1 \"s\"\n[1] \"\x1b[31m\xff\"[1]"),
            "f:2:5: no node \"?[31m?\" is in the file");
  EXPECT_THAT(error_of("Switch 1 \"s\"\n[1] \"" + std::string(1000, 'x') + "\""),
              HasSubstr(std::string(64, 'x') + "...\" is"));
}

}  // namespace
}  // namespace softib::topology
