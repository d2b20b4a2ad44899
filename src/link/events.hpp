// What goes in and out of a Link besides packets: the port's status, questions to the subnet
// administrator with their answers, and instructions to whoever owns queue pair and TUN.
//
// Each question carries an id, and is answered by exactly one call of Link::on_join_answer or
// Link::on_path_answer with it; a question that nobody answered in time is answered by a Refusal
// without status. Answers to questions that no longer matter are ignored. Instructions are carried
// out in their order; none is answered, but see Link::on_setup_failed and on_attach_failed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "ipoib/address.hpp"
#include "ipoib/strong.hpp"
#include "wire/sa_records.hpp"
#include "wire/sa_status.hpp"

namespace ipoib::link {

/// A port's GID, and the index that it has in the port's table.
struct PortGid {
  Gid gid;
  std::uint8_t index = 0;
  friend bool operator==(const PortGid&, const PortGid&) = default;
};

/// What the port is like now; given anew whenever something of it changes.
struct PortStatus {
  bool active = false;  ///< can send and be sent to: logical state ACTIVE, and it has its addresses
  bool sm_known = false;  ///< there is somebody to ask for groups and paths
  Lid lid;                ///< the first of its LIDs; zero where the link layer has none
  std::uint8_t lmc = 0;   ///< of a subnet's ports (IBA 4.1.3)
  Gid gid;
  std::uint8_t gid_index = 0;               ///< of `gid` in the port's table
  std::optional<std::uint16_t> pkey_index;  ///< where the port's table has the link's P_Key
  friend bool operator==(const PortStatus&, const PortStatus&) = default;
};

using QuestionId = Strong<struct QuestionIdTag, std::uint32_t>;

/// Set(MCMemberRecord): join, or create and join, by the components given.
struct JoinGroup {
  QuestionId id;
  wire::McMemberRecord record;
  std::uint64_t components = 0;  ///< OR of McMemberRecord::Mask
  friend bool operator==(const JoinGroup&, const JoinGroup&) = default;
};
/// Get(MCMemberRecord): whether the port is still in a group; answered as a join is.
struct LookUpMembership {
  QuestionId id;
  wire::McMemberRecord record;
  std::uint64_t components = 0;  ///< OR of McMemberRecord::Mask
  friend bool operator==(const LookUpMembership&, const LookUpMembership&) = default;
};
/// Get(PathRecord).
struct AskPath {
  QuestionId id;
  wire::PathRecord record;
  std::uint64_t components = 0;  ///< OR of PathRecord::Mask
  friend bool operator==(const AskPath&, const AskPath&) = default;
};

/// How a question was refused. No status: no answer in time, or nobody to ask.
struct Refusal {
  std::optional<wire::SaStatus> status;
  std::string why{};  ///< without a status, if it is known: as a phrase for a person
  friend bool operator==(const Refusal&, const Refusal&) = default;
};
using JoinAnswer = std::variant<wire::McMemberRecord, Refusal>;
using PathAnswer = std::variant<wire::PathRecord, Refusal>;

/// Delete(MCMemberRecord). Nobody waits for its answer.
struct LeaveGroup {
  wire::McMemberRecord record;
  std::uint64_t components = 0;
  friend bool operator==(const LeaveGroup&, const LeaveGroup&) = default;
};
/// Bring the queue pair to RTS with these, or back to RTS if one of them has changed.
struct ConfigureQueuePair {
  std::uint16_t pkey_index = 0;
  QKey qkey;
  friend bool operator==(const ConfigureQueuePair&, const ConfigureQueuePair&) = default;
};
struct AttachGroup {
  Gid mgid;
  Lid mlid;
  friend bool operator==(const AttachGroup&, const AttachGroup&) = default;
};
struct DetachGroup {
  Gid mgid;
  Lid mlid;
  friend bool operator==(const DetachGroup&, const DetachGroup&) = default;
};
/// The interface's MTU: that of the group without the encapsulation header.
struct SetMtu {
  std::uint32_t octets = 0;
  friend bool operator==(const SetMtu&, const SetMtu&) = default;
};
struct SetCarrier {
  bool on = false;
  friend bool operator==(const SetCarrier&, const SetCarrier&) = default;
};

/// The host has told routers of its multicast groups (IGMP, MLD): they may be others than those of
/// the last HostView. A kernel need not say so in any other way.
struct HostGroupsChanged {
  friend bool operator==(const HostGroupsChanged&, const HostGroupsChanged&) = default;
};

using Event = std::variant<JoinGroup, LookUpMembership, AskPath, LeaveGroup, ConfigureQueuePair,
                           AttachGroup, DetachGroup, SetMtu, SetCarrier, HostGroupsChanged>;

}  // namespace ipoib::link
