// Removes the folders of subnets that no process uses any longer.
//
// A subnet process that ends removes its folder, unless programs still use the subnet. Then it
// marks the folder (SubnetFolder::mark_ended()), and the last program removes it at its exit. If
// that was killed, the next process that starts a subnet or lists them does it. The folder of a
// subnet process that was killed is not marked; it stays, so that another one can take over.
#pragma once

#include <span>
#include <string>

#include "softib/fabric/attached_processes.hpp"
#include "softib/fabric/fabric.hpp"
#include "softib/fabric/folder.hpp"

namespace softib::fabric {

/// The slots of the calling process, on different nodes.
using OwnSlots = std::span<const SlotAddress>;

/// Removes the folder unless a process is attached to an HCA; the slots `own` do not count. Returns
/// whether it did. For the holder of the subnet's lock.
bool remove_if_unused(const SubnetFolder& folder, const Fabric& fabric, OwnSlots own = {});

/// Removes the folder in other processes, also one without a usable fabric file. Does nothing while
/// a subnet process runs.
bool remove_without_process(const SubnetFolder& folder, OwnSlots own = {});

/// Removes the folder only if it is marked.
bool remove_if_ended(const SubnetFolder& folder, OwnSlots own = {});

/// Calls remove_if_ended() for each subnet in a directory.
void remove_ended_folders(const std::string& directory);

}  // namespace softib::fabric
