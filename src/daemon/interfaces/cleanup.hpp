// Removes network interfaces that daemons have left (--cleanup): those of --keep, and of a crash.
//
// The kernel keeps them, and with each its mark (interface_mark.hpp), which says that ipoibd has
// made it, and for which port. Those that a process has open stay.
#pragma once

#include <optional>

#include "daemon/interfaces/interface_mark.hpp"
#include "daemon/interfaces/partition_interface.hpp"
#include "daemon/options/options.hpp"

namespace ipoib::daemon {

/// Removes a kept network interface; `home` is the namespace of the option --netns.
[[nodiscard]] Result<void> discard(const KeptInterface& kept, const linux::NetworkNamespace& home);

/// Whether the options of --cleanup mean the interface with this mark: one of their port and, if
/// partitions are chosen, with the name that the interface of one of these gets. `port` is nullopt
/// if there is no such device (any more); then the usual names of the interfaces decide.
[[nodiscard]] bool is_to_be_removed(const InterfaceMark& mark, const Options& options,
                                    std::optional<Guid> port);

/// Removes the interfaces in the network namespace of --netns, and tells on standard output and
/// standard error what it does. Returns whether none is left. Throws std::runtime_error if they
/// cannot be listed.
[[nodiscard]] bool clean_up(const Options& options);

}  // namespace ipoib::daemon
