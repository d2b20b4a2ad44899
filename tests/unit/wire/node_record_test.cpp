#include "wire/node_record.hpp"

#include <algorithm>

#include "golden.hpp"

namespace ipoib::wire {
namespace {

const auto kInfo = from_hex(
    "01 01 01 02 0002c90300000003 0002c90300000000 0002c90300000001"
    "0080 1003 000000a1 01 0002c9");
const auto kRecord = from_hex(
    "0004 0000"
    "01 01 01 02 0002c90300000003 0002c90300000000 0002c90300000001"
    "0080 1003 000000a1 01 0002c9"
    "686f737431000000 0000000000000000 0000000000000000 0000000000000000"
    "0000000000000000 0000000000000000 0000000000000000 0000000000000000");

NodeInfo info() {
  NodeInfo node;
  node.type = NodeInfo::kChannelAdapter;
  node.ports = 2;
  node.system_image_guid = Guid(0x0002c90300000003);
  node.node_guid = Guid(0x0002c90300000000);
  node.port_guid = Guid(0x0002c90300000001);
  node.partition_capacity = 128;
  node.device_id = 0x1003;
  node.revision = 0xa1;
  node.local_port = 1;
  node.vendor_id = 0x0002c9;
  return node;
}

TEST(NodeInfo, HasTheLayoutOfIba) {
  ASSERT_EQ(kInfo.size(), NodeInfo::kSize);
  expect_golden(info(), kInfo);
  expect_stable<NodeInfo>(kInfo);
  expect_truncations_refused<NodeInfo>(kInfo);
}

TEST(NodeRecord, HasTheLayoutOfIba) {
  ASSERT_EQ(kRecord.size(), NodeRecord::kSize);
  NodeRecord record;
  record.lid = Lid(4);
  record.node = info();
  std::ranges::copy(std::string_view("host1"), record.description.begin());
  expect_golden(record, kRecord);
  expect_stable<NodeRecord>(kRecord);
  expect_truncations_refused<NodeRecord>(kRecord);
}

}  // namespace
}  // namespace ipoib::wire
