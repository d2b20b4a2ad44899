// The fabric file with random words, as a faulty writer might leave it: readers stay within the
// file, and a new writer restores a consistent one.
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "require.hpp"
#include "softib/core/name.hpp"
#include "softib/fabric/fabric.hpp"
#include "softib/fabric/fabric_layout.hpp"
#include "softib/fabric/folder.hpp"

using namespace ipoib;
using namespace softib;

namespace {

const std::string& path() {
  static const std::string one = "/dev/shm/softib-fuzz-" + std::to_string(::getpid());
  return one;
}

const fabric::SwitchCount kSwitches{3, 100};

/// The offset of a write: in the records of the first nodes and groups, in the switches, or
/// anywhere.
std::size_t offset(ByteReader& in) {
  constexpr std::array<std::size_t, 5> kParts{
      0, offsetof(fabric::FabricLayout, nodes), offsetof(fabric::FabricLayout, groups),
      offsetof(fabric::FabricLayout, slots), sizeof(fabric::FabricLayout)};
  constexpr std::size_t kPart = 2048;
  const std::size_t part = in.u8();
  const std::size_t at = in.u24();
  return part < kParts.size() * 50 ? kParts[part % kParts.size()] + at % kPart
                                   : at % fabric::file_bytes(kSwitches);
}

/// A valid file, and pieces of the input written over parts of it: | offset 32 | size 8 | bytes |.
void write_file(ByteReader in) {
  { (void)fabric::FabricWriter::create_or_adopt(path(), kSwitches); }
  std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
  while (in.left() > 0) {
    const std::size_t at = offset(in);
    const std::size_t size =
        std::min<std::size_t>({in.u8(), in.left(), fabric::file_bytes(kSwitches) - at});
    const auto bytes = in.take(size);
    file.seekp(static_cast<std::streamoff>(at));
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(size));
  }
}

void look_at(const fabric::Fabric& fabric) {
  for (NodeIndex i = 0; i < kMaxNodes; ++i) {
    if (const auto node = fabric.node(i)) {
      require(is_valid_name(node->name));
      for (const auto& address : node->addresses) require(fabric.find(address).has_value());
    }
    (void)fabric.occupied(i);
    (void)fabric.counters(i);
    (void)fabric.port_state(i);
  }
  for (std::uint32_t lid = 0; lid < 0x10000; lid += 37) {
    const auto from = static_cast<SwitchIndex>(lid % kSwitches.switches);
    const auto node = fabric.node_at(from, Lid(static_cast<std::uint16_t>(lid)));
    require(!node || *node < kMaxNodes);
  }
  for (std::size_t i = 0; i < kMaxGroups; ++i) {
    (void)fabric.group(subnet::group_lid(i));
    (void)fabric.all_receivers(subnet::group_lid(i));
  }
  (void)fabric.snapshot();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  write_file(ByteReader({data, size}));
  if (const auto fabric = fabric::Fabric::open(path())) look_at(*fabric);
  if (auto writer = fabric::FabricWriter::create_or_adopt(path(), kSwitches)) {
    const auto before = writer->snapshot();
    const auto& nodes = before.nodes;
    subnet::Switch restored;
    restored.ports.resize(kSwitches.ports + 1U);
    restored.ports[7].peer = {subnet::Peer::Kind::node, 5, 1, PortState::down,
                              subnet::kNoChecks,        5};
    restored.routes = before.switches.at(1).routes;
    restored.routes.set(Lid(9), SwitchPort{7});
    restored.routes.mark_all_changed();
    writer->set_switch(restored, {1, true, restored.routes.take_changed(), {}});
    require(writer->node_at(1, Lid(9)) == NodeIndex{5});
    for (const auto& entry : nodes) {
      writer->remove_node(entry.index);
      require(!writer->node(entry.index));
    }
    require(writer->advance_epoch(7, 7) >= 1 && writer->epoch(7, 7) <= QpnLayout::kMaxEpoch);
  }
  std::filesystem::remove(path());
  return 0;
}
