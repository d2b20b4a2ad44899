// The writing side. A writer that was killed between two stores leaves an inconsistent file; its
// successor writes everything that it adopts again.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "softib/fabric/fabric.hpp"
#include "softib/fabric/fabric_layout.hpp"
#include "softib/fabric/shared_file.hpp"

namespace softib::fabric {

using ipoib::Error;
using ipoib::Result;

namespace {

Error failure(const std::string& what, int code) {
  return Error{code, what + ": " + std::strerror(code)};
}

/// Allocates the pages of nodes. A full file system cannot cause SIGBUS then.
Result<void> allocate_nodes(int fd, std::size_t first, std::size_t count) {
  using Layout = FabricLayout;
  for (const auto& [array, size] :
       {std::pair(offsetof(Layout, nodes), sizeof(PublishedNode)),
        std::pair(offsetof(Layout, slots), sizeof(NodeSlots)),
        std::pair(offsetof(Layout, violations), sizeof(Layout::violations[0]))}) {
    const int code = ::posix_fallocate(fd, off_t(array + first * size), off_t(count * size));
    if (code != 0) {
      return failure("cannot allocate memory for more HCAs; free some space", code);
    }
  }
  return {};
}

/// Allocates the pages of all but the nodes.
Result<void> allocate_others(int fd, const SwitchCount& count) {
  const auto switches = file_bytes(count) - sizeof(FabricLayout);
  int code = ::ftruncate(fd, off_t(file_bytes(count))) == 0 ? 0 : errno;
  for (const auto& [first, size] :
       {std::pair(std::size_t{0}, sizeof(FabricHeader)),
        std::pair(offsetof(FabricLayout, groups), sizeof(FabricLayout::groups)),
        std::pair(offsetof(FabricLayout, captures), sizeof(FabricLayout::captures)),
        std::pair(sizeof(FabricLayout), switches)}) {
    if (code == 0) code = ::posix_fallocate(fd, off_t(first), off_t(size));
  }
  if (code != 0) return failure("cannot allocate the fabric file; free some space", code);
  return {};
}

/// Creates the file under a temporary name and renames it when it is complete, so no process opens
/// an incomplete one.
Result<void> create(const std::string& path, const SwitchCount& count) {
  const std::string draft = path + ".new";
  ::unlink(draft.c_str());  // left by a process that was killed
  const auto file = open_shared(draft, IfMissing::create);
  if (!file)
    return Error{file.error().code, "cannot create " + draft + ": " + file.error().message};
  if (auto done = allocate_others(file->get(), count); !done) return done;
  if (auto done = allocate_nodes(file->get(), 0, kNodesAtOnce); !done) return done;
  FabricHeader header{};
  header.magic = kFabricMagic;
  header.version = kFabricVersion;
  header.switches = count.switches;
  header.ports = count.ports;
  header.size = file_bytes(count);
  header.nodes = kNodesAtOnce;
  if (::pwrite(file->get(), &header, sizeof header, 0) != ssize_t{sizeof header} ||
      ::rename(draft.c_str(), path.c_str()) != 0) {
    return failure("cannot create " + path, errno);
  }
  return {};
}

}  // namespace

Result<FabricWriter> FabricWriter::create_or_adopt(const std::string& path,
                                                   const SwitchCount& switches) {
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (!exists) {
    if (const auto created = create(path, switches); !created) return created.error();
  }
  auto fabric = Fabric::open(path);
  if (!fabric) return fabric.error();
  if (fabric->switches() != switches) {
    return Error{EINVAL, path +
                             " is of a subnet with another topology; end its programs, and remove "
                             "it with `softib stop`"};
  }
  FabricWriter writer(std::move(*fabric), path, exists);
  writer.changed();  // its predecessor may have been killed before it could say so
  return writer;
}

void FabricWriter::changed() {
  std::atomic_ref(layout_->header.changes).fetch_add(1, std::memory_order_release);
}

Result<void> FabricWriter::reserve(NodeIndex index) {
  const std::size_t before = nodes();
  // A file that another process has truncated stays as it is, so that everybody finds out.
  if (index < before || is_lost()) return {};
  const std::size_t more = (index - before) / kNodesAtOnce * kNodesAtOnce + kNodesAtOnce;
  const auto file = open_shared(path_, IfMissing::fail);
  if (!file) return file.error();
  if (auto done = allocate_nodes(file->get(), before, more); !done) return done;
  std::atomic_ref(layout_->header.nodes).store(before + more, std::memory_order_release);
  return {};
}

void FabricWriter::set_node(NodeIndex index, const subnet::Node& node) {
  layout_->nodes[index].publish(encode(node));
  changed();
}

void FabricWriter::remove_node(NodeIndex index) {
  layout_->nodes[index].publish({});
  changed();
  for (const auto key : kCheckedKeys) reset_violations(index, key);
  for (auto& counter : layout_->slots[index].counters) counter.store(0, std::memory_order_relaxed);
}

void FabricWriter::reset_violations(NodeIndex node, CheckedKey key) {
  layout_->violations[node][static_cast<std::size_t>(key)].packets.store(0);
}

/// Other processes forward by the entries meanwhile, so each is stored at once, and only if it
/// differs.
void FabricWriter::set_switch(const subnet::Switch& from, const subnet::SwitchChanges& changes) {
  PublishedSwitch& to = switch_at(changes.index);
  if (changes.ports) {
    to.node.publish(encode(from.node));
    for (SwitchPort port = 1; port <= from.last_port() && port <= count_.ports; ++port) {
      const auto& external = from.ports[port];
      auto& published = port_at(changes.index, port);
      for (std::size_t i = 0; i < kPKeyTableSize; i += 4) {
        std::uint64_t keys = 0;
        for (std::size_t k = 0; k < 4; ++k) {
          keys |= std::uint64_t{external.filter.pkeys[i + k].value()} << (16 * k);
        }
        published.pkeys[i / 4].store(keys, std::memory_order_relaxed);
      }
      published.links_lost.store(external.links_lost, std::memory_order_relaxed);
      published.attributes.store(encode_attributes(external), std::memory_order_relaxed);
      published.peer.store(encode(external.peer), std::memory_order_release);
    }
  }
  for (auto block = changes.routes._Find_first(); block < changes.routes.size();
       block = changes.routes._Find_next(block)) {
    for (std::size_t i = block * subnet::kBlockLids; i < (block + 1) * subnet::kBlockLids; ++i) {
      const auto exit = from.routes.at(Lid(static_cast<std::uint16_t>(i)));
      const auto entry = static_cast<std::uint16_t>(exit ? *exit + 1 : 0);
      if (to.routes[i].load(std::memory_order_relaxed) == entry) continue;
      to.routes[i].store(entry, std::memory_order_release);
    }
  }
  for (std::size_t group = 0; group < kMaxGroups && changes.groups.any(); ++group) {
    if (!changes.groups[group / subnet::kBlockGroups]) continue;
    const PortSet& exits = from.groups.at(group);
    const auto row = row_at(changes.index, group);
    for (std::size_t word = 0; word < row.size(); ++word) {
      std::uint64_t bits = 0;
      for (std::size_t bit = 0; bit < 64 && word * 64 + bit < exits.size(); ++bit) {
        bits |= std::uint64_t{exits[word * 64 + bit]} << bit;
      }
      row[word].store(bits, std::memory_order_release);
    }
  }
  changed();
}

void FabricWriter::set_checks(subnet::CheckSet checks) {
  std::atomic_ref(layout_->header.checks).store(checks, std::memory_order_release);
  changed();
}

void FabricWriter::set_group(Lid mlid, const subnet::GroupForwarding& forwarding) {
  layout_->groups[subnet::group_index(mlid)].publish(encode(forwarding));
}

bool FabricWriter::set_captures(NodeIndex node, std::uint64_t captures) {
  return layout_->captures[node].exchange(captures, std::memory_order_acq_rel) != captures;
}

}  // namespace softib::fabric
