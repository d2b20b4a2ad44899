// The writer's side. The nodes' records are the truth; the table of LIDs follows from them and is
// mended at adoption, since the writer may have been killed between the two.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "softib/fabric.hpp"
#include "softib/fabric_layout.hpp"
#include "softib/shared_file.hpp"

namespace softib {

using ipoib::Error;
using ipoib::Result;

namespace {

std::uint16_t entry_of(NodeIndex node) { return static_cast<std::uint16_t>(node + 1); }

Error failure(const std::string& what, int code) {
  return Error{code, what + ": " + std::strerror(code)};
}

/// A file gets its name when it is whole, so nobody ever opens half of one. Its pages are allocated
/// now: a file system that is full later cannot fail a store into the mapping.
Result<void> create(const std::string& path) {
  const std::string draft = path + ".new";
  ::unlink(draft.c_str());  // of a process that was killed
  const auto file = open_shared(draft, IfMissing::make);
  if (!file) return Error{file.error().code, "cannot make " + draft + ": " + file.error().message};
  if (const int code = ::posix_fallocate(file->get(), 0, sizeof(FabricLayout)); code != 0) {
    return failure("no room for " + draft, code);
  }
  FabricHeader header{};
  header.magic = kFabricMagic;
  header.version = kFabricVersion;
  header.size = sizeof(FabricLayout);
  if (::pwrite(file->get(), &header, sizeof header, 0) != ssize_t{sizeof header} ||
      ::rename(draft.c_str(), path.c_str()) != 0) {
    return failure("cannot make " + path, errno);
  }
  return {};
}

/// Makes the table of LIDs agree with the nodes; only entries that are wrong are touched, since
/// others forward by it meanwhile.
void mend_lids(FabricLayout& layout, const SubnetSnapshot& snapshot) {
  auto wanted = std::make_unique<std::array<std::uint16_t, kUnicastLids>>();
  for (const auto& entry : snapshot.nodes) {
    const Lid lid = entry.node.port.lid;
    if (ipoib::is_unicast(lid)) (*wanted)[lid.value()] = entry_of(entry.index);
  }
  for (std::size_t lid = 0; lid < kUnicastLids; ++lid) {
    auto& entry = layout.lids[lid];
    if (entry.load(std::memory_order_relaxed) != (*wanted)[lid]) {
      entry.store((*wanted)[lid], std::memory_order_release);
    }
  }
}

}  // namespace

Result<FabricWriter> FabricWriter::create_or_adopt(const std::string& path) {
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (!exists) {
    if (const auto created = create(path); !created) return created.error();
  }
  auto fabric = Fabric::open(path);
  if (!fabric) return fabric.error();
  FabricWriter writer(std::move(*fabric), exists);
  if (exists) mend_lids(*writer.layout_, writer.snapshot());
  return writer;
}

void FabricWriter::set_node(NodeIndex index, const Node& node) {
  const auto before = this->node(index);
  layout_->nodes[index].publish(encode(node));
  if (before && before->port.lid != node.port.lid) release_lid(before->port.lid, index);
  if (ipoib::is_unicast(node.port.lid)) {
    layout_->lids[node.port.lid.value()].store(entry_of(index), std::memory_order_release);
  }
  advance_generation();
}

void FabricWriter::remove_node(NodeIndex index) {
  const auto before = node(index);
  layout_->nodes[index].publish({});
  if (before) release_lid(before->port.lid, index);
  advance_generation();
}

void FabricWriter::set_group(Lid mlid, const GroupForwarding& forwarding) {
  layout_->groups[group_index(mlid)].publish(encode(forwarding));
  advance_generation();
}

void FabricWriter::release_lid(Lid lid, NodeIndex owner) {
  if (!ipoib::is_unicast(lid)) return;
  auto& entry = layout_->lids[lid.value()];
  if (entry.load(std::memory_order_relaxed) == entry_of(owner)) {
    entry.store(0, std::memory_order_release);
  }
}

void FabricWriter::advance_generation() {
  layout_->header.generation.fetch_add(1, std::memory_order_acq_rel);
}

}  // namespace softib
