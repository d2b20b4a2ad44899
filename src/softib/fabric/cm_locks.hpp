// Locks that say which process of a node gets the messages of communication management (class 7).
// They are locks of bytes of files in the node's folder, which the kernel releases when their
// process dies.
//
//   services   byte SERVICE_ID, shared: a process listens on the service
//   groups     a byte for a multicast group and join state, shared: a process is a member
//   agents     one byte for each request that an agent of libibumad takes, exclusive
#pragma once

#include <cstdint>

#include "softib/fabric/folder.hpp"
#include "wire/cm_messages.hpp"

namespace softib::fabric {

/// The byte of the agents file for a method of a management class without OUI.
[[nodiscard]] constexpr std::int64_t agent_lock_offset(std::uint8_t class_version,
                                                       std::uint8_t management_class,
                                                       std::uint8_t method) {
  return std::int64_t{class_version} << 16 | std::int64_t{management_class} << 8 | method;
}

/// Shows that this process listens on a service, while `services` is open. That is an open
/// kServicesName of the node, with all locks of the process. Returns false if another program keeps
/// the byte.
[[nodiscard]] bool lock_service(int services, ipoib::wire::ServiceId service);
void unlock_service(int services, ipoib::wire::ServiceId service);

/// Shows that this process is a member of a group, while `groups` is open, as lock_service() does.
[[nodiscard]] bool lock_group(int groups, const Gid& mgid, std::uint8_t join_state);
/// The opposite. True: no other process of the node is a member. Two groups may share a byte; then
/// one of them keeps the other.
[[nodiscard]] bool unlock_group(int groups, const Gid& mgid, std::uint8_t join_state);

/// Whether a process of the node listens on the service.
[[nodiscard]] bool has_listener(const SubnetFolder& folder, NodeIndex node,
                                ipoib::wire::ServiceId service);
/// Whether a process of the node is a member of the group, by lock_group().
[[nodiscard]] bool has_member(const SubnetFolder& folder, NodeIndex node, const Gid& mgid,
                              std::uint8_t join_state);
/// Whether an agent of a process of the node takes messages of class 7.
[[nodiscard]] bool has_cm_agent(const SubnetFolder& folder, NodeIndex node);

}  // namespace softib::fabric
