#include "softib/fabric/unused_folder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include "softib/core/name.hpp"
#include "softib/fabric/file_lock.hpp"
#include "softib/fabric/shared_file.hpp"

namespace softib::fabric {

namespace {

bool remove_with_nodes(const SubnetFolder& folder, const std::vector<NodeIndex>& nodes,
                       OwnSlots own) {
  for (const NodeIndex index : nodes) {
    const auto ours = std::ranges::find(own, index, &SlotAddress::node);
    const auto except = ours != own.end() ? std::optional(*ours) : std::nullopt;
    if (first_attached_pid(folder, index, except) != 0) return false;
  }
  for (const NodeIndex index : nodes) folder.remove_node(index);
  folder.remove();
  return true;
}

/// Without a usable fabric file, the folders of nodes tell which there are.
std::vector<NodeIndex> nodes_with_folder(const SubnetFolder& folder) {
  std::vector<NodeIndex> nodes;
  for (NodeIndex index = 0; index < kMaxNodes; ++index) {
    if (folder.open_node(index)) nodes.push_back(index);
  }
  return nodes;
}

bool remove_without_fabric(const SubnetFolder& folder, OwnSlots own) {
  const auto blocked = block_attach(folder);
  if (!blocked && blocked.error().code != ENOENT) return false;
  return remove_with_nodes(folder, nodes_with_folder(folder), own);
}

}  // namespace

bool remove_if_unused(const SubnetFolder& folder, const Fabric& fabric, OwnSlots own) {
  const auto blocked = block_attach(folder);
  if (!blocked || !fabric.is_file(blocked->get())) return false;
  if (fabric.is_lost()) return remove_with_nodes(folder, nodes_with_folder(folder), own);
  std::vector<NodeIndex> nodes;
  const subnet::SubnetSnapshot last = fabric.snapshot();
  nodes.reserve(last.nodes.size());
  for (const auto& entry : last.nodes) nodes.push_back(entry.index);
  return remove_with_nodes(folder, nodes, own);
}

bool remove_without_process(const SubnetFolder& folder, OwnSlots own) {
  const auto lock = open_shared(folder.lock(), IfMissing::fail);
  if (!lock || !try_lock(lock->get(), 0) || !is_named(lock->get(), AT_FDCWD, folder.lock())) {
    return false;
  }
  // The file is emptied, so that a subnet process that starts waits (SubnetLock::take()).
  if (::ftruncate(lock->get(), 0) != 0) return false;
  const auto fabric = Fabric::open(folder.fabric());
  return fabric ? remove_if_unused(folder, *fabric, own) : remove_without_fabric(folder, own);
}

bool remove_if_ended(const SubnetFolder& folder, OwnSlots own) {
  return folder.check(FolderUse::attach) && folder.is_ended() &&
         remove_without_process(folder, own);
}

void remove_ended_folders(const std::string& directory) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    if (is_valid_name(entry.path().filename().string())) {
      remove_if_ended(SubnetFolder(entry.path().string()));
    }
  }
}

}  // namespace softib::fabric
