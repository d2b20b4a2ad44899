#include "softib/view/tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shown_hcas.hpp"

namespace softib::view {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

std::string text(const Tree& tree, const std::string& path) {
  const auto* const entry = tree.find(path);
  return entry != nullptr && entry->kind == Entry::Kind::file ? entry->text : "no file " + path;
}

TEST(Tree, AnswersForItsFoldersAndNothingBesideThem) {
  EXPECT_EQ(Tree::own_path("/dev/infiniband"), "/dev/infiniband");
  EXPECT_EQ(Tree::own_path("//dev//infiniband/./uverbs0"), "/dev/infiniband/uverbs0");
  EXPECT_EQ(Tree::own_path("/sys/class/infiniband/softib0/ports/"),
            "/sys/class/infiniband/softib0/ports");
  EXPECT_EQ(Tree::own_path("/sys/class/infiniband/softib0/../softib1"),
            "/sys/class/infiniband/softib1");
  EXPECT_EQ(Tree::own_path("/sys/class/misc/rdma_cm/abi_version"),
            "/sys/class/misc/rdma_cm/abi_version");
  EXPECT_EQ(Tree::own_path("/sys/class/net/eth0/device/infiniband/softib0"),
            "/sys/class/net/eth0/device/infiniband/softib0");
  for (const auto* path :
       {"", "dev/infiniband", "/dev", "/dev/infiniband/..", "/dev/infinibands", "/sys/class",
        "/sys/class/infiniband_", "/tmp/dev/infiniband", "/sys/class/misc/rdma_cm2",
        "/sys/class/net", "/sys/class/net/eth0/device", "/sys/class/net/device/infiniband",
        "/sys/class/net/eth0/device/infinibands", "/sys/class/net/a/b/device/infiniband"}) {
    EXPECT_EQ(Tree::own_path(path), std::nullopt) << path;
  }
}

TEST(Tree, ShowsAnHcaAsTheKernelDoes) {
  const std::vector hcas{make_hca(0, 1)};
  const Tree tree = Tree::of(hcas);
  const std::string device = "/sys/class/infiniband/softib0/";
  EXPECT_EQ(text(tree, device + "node_guid"), "0250:1b00:0000:0001\n");
  EXPECT_EQ(text(tree, device + "node_type"), "1: CA\n");
  EXPECT_EQ(text(tree, device + "node_desc"), "host\n");
  const std::string port = device + "ports/1/";
  EXPECT_EQ(text(tree, port + "state"), "4: ACTIVE\n");
  EXPECT_EQ(text(tree, port + "phys_state"), "5: LinkUp\n");
  EXPECT_EQ(text(tree, port + "rate"), "40 Gb/sec\n");
  EXPECT_EQ(text(tree, port + "lid"), "0x1a\n");
  EXPECT_EQ(text(tree, port + "lid_mask_count"), "1\n");
  EXPECT_EQ(text(tree, port + "sm_lid"), "0x1\n");
  EXPECT_EQ(text(tree, port + "sm_sl"), "3\n");
  EXPECT_EQ(text(tree, port + "gids/0"), "fe80:0000:0000:0000:0250:1b00:0000:0002\n");
  EXPECT_EQ(text(tree, port + "pkeys/1"), "0x8012\n");
  EXPECT_EQ(text(tree, port + "pkeys/2"), "0x0000\n");
  EXPECT_EQ(text(tree, "/sys/class/infiniband_verbs/uverbs0/ibdev"), "softib0\n");
  EXPECT_EQ(text(tree, "/sys/class/infiniband_verbs/uverbs0/dev"), "231:192\n");
  EXPECT_EQ(text(tree, "/sys/class/infiniband_mad/umad0/ibdev"), "softib0\n");
}

// Index 1 is that of the loopback interface in each network namespace.
TEST(Tree, AnEthernetPortNamesItsInterface) {
  std::vector hcas{make_hca(0, 1)};
  PortAttributes port = hcas[0].ports[1];
  port.link_layer = LinkLayer::ethernet;
  port.gids[0] = *Gid::parse("::ffff:127.0.0.1");
  port.network_interface = 1;
  hcas[0].ports.set(port);
  hcas[0].node.port = port;
  const Tree tree = Tree::of(hcas);
  const std::string device = "/sys/class/infiniband/softib0/";
  EXPECT_THAT(tree.list(device + "device/net"), ElementsAre(Pair("lo", Entry::Kind::folder)));
  EXPECT_THAT(tree.list("/sys/class/net/lo/device/infiniband"),
              ElementsAre(Pair("softib0", Entry::Kind::folder)));
  EXPECT_EQ(text(tree, device + "ports/1/gid_attrs/ndevs/0"), "lo\n");
  EXPECT_EQ(text(tree, device + "ports/1/gid_attrs/types/0"), "RoCE v2\n");
  EXPECT_EQ(tree.find(device + "ports/1/gid_attrs/ndevs/1"), nullptr) << "the entry is empty";
  EXPECT_TRUE(Tree::of(std::vector{make_hca(0, 1)}).list(device + "device/net").empty());
}

TEST(Tree, ListsWhatIsInAFolder) {
  const std::vector hcas{make_hca(0, 1), make_hca(3, 2)};
  const Tree tree = Tree::of(hcas);
  EXPECT_THAT(
      tree.list("/sys/class/infiniband"),
      ElementsAre(Pair("softib0", Entry::Kind::folder), Pair("softib3", Entry::Kind::folder)));
  EXPECT_THAT(tree.list("/dev/infiniband"),
              ElementsAre(Pair("rdma_cm", Entry::Kind::device), Pair("umad0", Entry::Kind::device),
                          Pair("umad3", Entry::Kind::device), Pair("uverbs0", Entry::Kind::device),
                          Pair("uverbs3", Entry::Kind::device)));
  EXPECT_THAT(tree.list("/sys/class/infiniband/softib3/ports"),
              ElementsAre(Pair("1", Entry::Kind::folder), Pair("2", Entry::Kind::folder)));
  EXPECT_THAT(tree.list("/sys/class/infiniband_cm"), IsEmpty());
  EXPECT_EQ(tree.find("/dev/infiniband/uverbs3")->minor, 195U);
  EXPECT_EQ(tree.find("/dev/infiniband/uverbs1"), nullptr);
}

TEST(Tree, HasTheFoldersWithoutHcas) {
  const Tree tree = Tree::of({});
  for (const auto* folder :
       {"/dev/infiniband", "/sys/class/infiniband", "/sys/class/infiniband_verbs",
        "/sys/class/infiniband_mad", "/sys/class/infiniband_cm", "/sys/class/misc/rdma_cm"}) {
    const Entry* const entry = tree.find(folder);
    ASSERT_NE(entry, nullptr) << folder;
    EXPECT_EQ(entry->kind, Entry::Kind::folder);
  }
  EXPECT_THAT(tree.list("/sys/class/infiniband"), IsEmpty());
  EXPECT_THAT(tree.list("/dev/infiniband"), ElementsAre(Pair("rdma_cm", Entry::Kind::device)));
  EXPECT_EQ(text(tree, "/sys/class/misc/rdma_cm/abi_version"), "4\n");
}

TEST(Tree, ShowsBothPortsOfAnHca) {
  std::vector hcas{make_hca(1, 1)};
  PortAttributes port = hcas[0].node.port;
  port.hca_ports = 2;
  hcas[0].ports = HcaPorts(port);
  port.number = 2;
  port.lid = Lid(0x30);
  hcas[0].ports.set(port);
  hcas[0].counters[1][static_cast<std::size_t>(fabric::PortCounter::received_packets)] = 9;
  const Tree tree = Tree::of(hcas);
  const std::string ports = "/sys/class/infiniband/softib1/ports/";
  EXPECT_EQ(text(tree, ports + "1/lid"), "0x1a\n");
  EXPECT_EQ(text(tree, ports + "2/lid"), "0x30\n");
  EXPECT_EQ(text(tree, ports + "2/state"), "4: ACTIVE\n");
  EXPECT_EQ(text(tree, ports + "1/counters/port_rcv_packets"), "0\n");
  EXPECT_EQ(text(tree, ports + "2/counters/port_rcv_packets"), "9\n");
  EXPECT_EQ(text(tree, "/sys/class/infiniband_mad/umad1/port"), "1\n");
  EXPECT_EQ(text(tree, "/sys/class/infiniband_mad/umad5/port"), "2\n");
}

TEST(Tree, CountsAtTheConnectedPort) {
  std::vector hcas{make_hca(0, 2)};
  const auto set = [&](fabric::PortCounter counter, std::uint64_t value) {
    hcas[0].counters[1][static_cast<std::size_t>(counter)] = value;
  };
  set(fabric::PortCounter::sent_bytes, 400);
  set(fabric::PortCounter::received_packets, 7);
  set(fabric::PortCounter::drop_no_receive, 5);
  const Tree tree = Tree::of(hcas);
  const std::string ports = "/sys/class/infiniband/softib0/ports/";
  EXPECT_EQ(text(tree, ports + "2/counters/port_xmit_data"), "100\n") << "in units of 4 bytes";
  EXPECT_EQ(text(tree, ports + "2/counters/port_rcv_packets"), "7\n");
  EXPECT_EQ(text(tree, ports + "2/hw_counters/out_of_buffer"), "5\n");
  EXPECT_EQ(text(tree, ports + "2/hw_counters/drop_no_receive"), "5\n");
  EXPECT_EQ(text(tree, ports + "1/counters/port_rcv_packets"), "0\n");
  EXPECT_EQ(text(tree, ports + "1/state"), "1: DOWN\n");
}

}  // namespace
}  // namespace softib::view
