#include "softib/topology/net_writer.hpp"

#include <gmock/gmock.h>

#include "softib/topology/guids.hpp"
#include "softib/topology/net_file.hpp"
#include "softib/topology/shapes.hpp"
#include "topologies.hpp"

namespace softib::topology {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

NetFile read_back(const std::string& text) {
  auto file = parse_net(text, "f");
  EXPECT_TRUE(file.has_value()) << (file ? "" : file.error().message) << '\n' << text;
  return file ? *file : NetFile();
}

TEST(NetWriter, NetFileOfASmallTopology) {
  EXPECT_EQ(write_net(small_topology()),
            "# softib: node IDs are names\n"
            "width=2\n"
            "speed=4\n"
            "\n"
            "Switch\t4 \"left\"\n"
            "[1]\t\"right\"[1]\n"
            "[2]\t\"right\"[2]\n"
            "[3]\t\"host\"[1]\n"
            "\n"
            "switchguid=0x77\n"
            "Switch\t8 \"right\"\t\t# \"The right one\"\n"
            "[1]\t\"left\"[1]\n"
            "[2]\t\"left\"[2]\n"
            "[8]\t\"host\"[2]\n"
            "\n"
            "Ca\t2 \"host\"\n"
            "[1]\t\"left\"[3]\n"
            "[2]\t\"right\"[8]\n");
}

TEST(NetWriter, RatesThatDifferAreAtTheirPorts) {
  Topology topology = small_topology();
  topology.cables[0].width = 8;
  topology.cables[0].extended_speed = 4;
  const auto text = write_net(topology);
  EXPECT_THAT(text, HasSubstr("[1]\t\"left\"[3] w=8 s=4 e=4\n"));
  EXPECT_THAT(text, HasSubstr("[3]\t\"host\"[1] w=8 s=4 e=4\n"));
  for (auto& cable : topology.cables) cable = {cable.a, cable.b, 2, 1, 0};
  EXPECT_THAT(write_net(topology), AllOf(Not(HasSubstr("speed")), Not(HasSubstr("s="))))
      << "what ibsim assumes";
}

TEST(NetWriter, NetFilesReadBackEqual) {
  std::size_t cables = 0;
  for (unsigned seed = 0; seed < 150; ++seed) {
    const Topology topology = RandomTopology(seed).make();
    const auto text = write_net(topology);
    const auto file = read_back(text);
    ASSERT_EQ(file.topology, topology) << seed << '\n' << text;
    EXPECT_THAT(file.remarks, IsEmpty());
    cables += topology.cables.size();
  }
  EXPECT_GT(cables, 3'000U);
}

TEST(NetWriter, ShapesReadBackEqual) {
  for (const char* each : {"fat-tree:6", "torus:3x4x2,2", "dragonfly:4,2,2", "line:5", "star:8"}) {
    const Topology topology = *make_shape(each);
    EXPECT_EQ(read_back(write_net(topology)).topology, topology) << each;
    const Topology all = with_guids(topology, 0);
    EXPECT_EQ(read_back(write_ibnetdiscover(all, {})).topology, canonical(all)) << each;
  }
}

TEST(NetWriter, OutputLikeIbnetdiscovers) {
  Topology topology = small_topology();
  topology.switches[0].guid = Guid(0x2c90200000001);
  topology.hcas[0].guid = Guid(0x2c90200000010);
  topology = with_guids(topology, 0);
  Lids lids{{Lid(3), Lid(4)}, {{Lid(5), Lid(6)}}, 0};
  const auto text = write_ibnetdiscover(topology, lids);
  EXPECT_THAT(text,
              HasSubstr("vendid=0x0\ndevid=0x0\nsysimgguid=0x2c90200000001\n"
                        "switchguid=0x2c90200000001(2c90200000001)\n"
                        "Switch\t4 \"S-0002c90200000001\"\t\t# \"left\" base port 0 lid 3 lmc 0\n"
                        "[1]\t\"S-0000000000000077\"[1]\t\t# \"The right one\" lid 4 4xQDR\n"));
  EXPECT_THAT(
      text,
      HasSubstr("[3]\t\"H-0002c90200000010\"[1](2c90200000011) \t\t# \"host\" lid 5 4xQDR\n"));
  EXPECT_THAT(text,
              HasSubstr("caguid=0x2c90200000010\nCa\t2 \"H-0002c90200000010\"\t\t# \"host\"\n"
                        "[1](2c90200000011) \t\"S-0002c90200000001\"[3]\t\t# lid 5 lmc 0 \"left\" "
                        "lid 3 4xQDR\n"));
  EXPECT_THAT(write_ibnetdiscover(topology, {}), HasSubstr("lid 0 4xQDR"));
}

TEST(NetWriter, OutputLikeIbnetdiscoversReadsBackEqual) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    Topology topology = RandomTopology(seed).make();
    // The format has no names, and no speed beside an extended speed.
    for (auto& each : topology.switches) each.description.clear();
    for (auto& each : topology.hcas) each.description.clear();
    for (auto& each : topology.cables) each.speed = each.extended_speed == 0 ? each.speed : 4;
    topology = with_guids(topology, 0);
    const auto text = write_ibnetdiscover(topology, {});
    const auto file = read_back(text);
    ASSERT_EQ(file.topology, canonical(topology)) << seed << '\n' << text;
    EXPECT_THAT(file.remarks, IsEmpty());
  }
}

}  // namespace
}  // namespace softib::topology
