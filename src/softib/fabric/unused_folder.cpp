#include "softib/fabric/unused_folder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "softib/core/name.hpp"
#include "softib/fabric/file_lock.hpp"
#include "softib/fabric/shared_file.hpp"

namespace softib::fabric {

bool remove_if_unused(const SubnetFolder& folder, const Fabric& fabric,
                      std::optional<SlotAddress> own) {
  const auto blocked = block_attach(folder);
  if (!blocked || !fabric.is_file(blocked->get())) return false;
  const subnet::SubnetSnapshot last = fabric.snapshot();
  for (const auto& entry : last.nodes) {
    if (first_attached_pid(folder, entry.index, own) != 0) return false;
  }
  for (const auto& entry : last.nodes) folder.remove_node(entry.index);
  folder.remove();
  return true;
}

bool remove_without_process(const SubnetFolder& folder, std::optional<SlotAddress> own) {
  const auto lock = open_shared(folder.lock(), IfMissing::fail);
  if (!lock || !try_lock(lock->get(), 0) || !is_named(lock->get(), AT_FDCWD, folder.lock())) {
    return false;
  }
  // So that a subnet process that starts waits (SubnetLock::take()).
  if (::ftruncate(lock->get(), 0) != 0) return false;
  const auto fabric = Fabric::open(folder.fabric());
  return fabric && remove_if_unused(folder, *fabric, own);
}

bool remove_if_ended(const SubnetFolder& folder, std::optional<SlotAddress> own) {
  return folder.is_ended() && remove_without_process(folder, own);
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
