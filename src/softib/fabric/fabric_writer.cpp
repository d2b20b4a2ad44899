// The writing side. A writer that was killed between two stores leaves an inconsistent file; its
// successor writes everything that it adopts again.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "softib/fabric/fabric.hpp"
#include "softib/fabric/fabric_layout.hpp"
#include "softib/fabric/shared_file.hpp"

namespace softib::fabric {

using ipoib::Error;
using ipoib::Result;

namespace {

std::uint16_t entry_of(NodeIndex node) { return static_cast<std::uint16_t>(node + 1); }

Error failure(const std::string& what, int code) {
  return Error{code, what + ": " + std::strerror(code)};
}

/// Creates the file under a temporary name and renames it when it is complete, so no process opens
/// an incomplete one. Allocates its pages now, so that a full file system cannot cause SIGBUS
/// later.
Result<void> create(const std::string& path) {
  const std::string draft = path + ".new";
  ::unlink(draft.c_str());  // left by a process that was killed
  const auto file = open_shared(draft, IfMissing::create);
  if (!file)
    return Error{file.error().code, "cannot create " + draft + ": " + file.error().message};
  if (const int code = ::posix_fallocate(file->get(), 0, sizeof(FabricLayout)); code != 0) {
    return failure("cannot allocate " + draft, code);
  }
  FabricHeader header{};
  header.magic = kFabricMagic;
  header.version = kFabricVersion;
  header.size = sizeof(FabricLayout);
  if (::pwrite(file->get(), &header, sizeof header, 0) != ssize_t{sizeof header} ||
      ::rename(draft.c_str(), path.c_str()) != 0) {
    return failure("cannot create " + path, errno);
  }
  return {};
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
  return FabricWriter(std::move(*fabric), exists);
}

void FabricWriter::set_node(NodeIndex index, const subnet::Node& node) {
  layout_->nodes[index].publish(encode(node));
}

void FabricWriter::remove_node(NodeIndex index) { layout_->nodes[index].publish({}); }

/// Sets a route. Only entries that differ are stored, since other processes forward by them
/// meanwhile.
void FabricWriter::set_route(Lid lid, std::optional<NodeIndex> node) {
  if (!ipoib::is_unicast(lid) || node_at(lid) == node) return;
  layout_->lids[lid.value()].store(node ? entry_of(*node) : std::uint16_t{0},
                                   std::memory_order_release);
}

void FabricWriter::set_group(Lid mlid, const subnet::GroupForwarding& forwarding) {
  layout_->groups[subnet::group_index(mlid)].publish(encode(forwarding));
}

}  // namespace softib::fabric
