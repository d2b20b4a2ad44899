// Checks whether a new daemon can have what a running one hands over. What it cannot change without
// taking the interface down has to be the same.
#pragma once

#include "daemon/interfaces/handover.hpp"
#include "daemon/options/interface_plan.hpp"
#include "daemon/options/options.hpp"
#include "linux/network_namespace.hpp"

namespace ipoib::daemon::handover {

/// Throws std::runtime_error if the running daemon has other VLANs.
void check_vlans(const Handover& handover, const Options& options);

/// Finds the namespace of each interface that is in another one than `own`, that of --netns. Throws
/// std::runtime_error if an interface has gone.
void find_homes(Handover& handover, const linux::NetworkNamespace& own);

/// The kernel does not rename an interface that is up. Throws std::runtime_error if the running
/// daemon has another name for a partition that this one will serve. `own` is the namespace of
/// --netns, find_homes() has found those of the interfaces.
void check_names(const Handover& handover, Guid port, const Options& options,
                 OperatorChanges& changes, const linux::NetworkNamespace& own);

}  // namespace ipoib::daemon::handover
