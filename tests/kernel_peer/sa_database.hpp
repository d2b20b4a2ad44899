// The records of the subnet administration (SA) for soft InfiniBand ports: the ports of this
// machine, multicast groups with their members, and subscriptions to traps. Status codes are those
// of OpenSM.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ipoib/address.hpp"
#include "ipoib/bytes.hpp"
#include "wire/sa_request.hpp"

namespace ipoib::kernel_peer {

struct SubnetPort {
  std::string device;
  Gid gid;
  Lid lid;
  std::vector<PKey> pkeys;
};

/// Port 1 of each RDMA device of this machine, as it is now.
[[nodiscard]] std::vector<SubnetPort> local_ports();

struct SubnetSettings {
  std::uint8_t mtu = 4;  ///< of broadcast groups and paths, as a code: 2048
  QKey qkey{0x0b1b};
  std::vector<PKey> partitions;  ///< with a broadcast group that always exists
};

using MemberQuery = wire::QueryFor<wire::McMemberRecord>;

/// The value of a big-endian number in a structure of libibumad.
template <class T>
[[nodiscard]] T from_network(T value) {
  return load_be<T>(std::bit_cast<std::array<std::uint8_t, sizeof(T)>>(value).data());
}

struct Subscriber {
  Lid lid;
  Qpn qpn;
  ServiceLevel sl;
};

class SaDatabase {
 public:
  /// `own_gid` is that of the SA's port.
  SaDatabase(const SubnetSettings& settings, const Gid& own_gid);

  // These set `record` of the query to that of the response if they return ok.
  [[nodiscard]] wire::SaStatus join(MemberQuery& query);
  [[nodiscard]] wire::SaStatus leave(MemberQuery& query);
  [[nodiscard]] wire::SaStatus find_path(wire::QueryFor<wire::PathRecord>& query) const;

  [[nodiscard]] std::vector<wire::McMemberRecord> find_members(const MemberQuery& query) const;
  /// Adds or removes a subscription to a trap.
  [[nodiscard]] wire::SaStatus subscribe(const wire::InformInfo& info, const Subscriber& from);
  [[nodiscard]] std::vector<Subscriber> subscribers(std::uint16_t trap) const;

  struct GroupEvent {
    Gid mgid;
    std::uint16_t trap = 0;  ///< 66: created, 67: deleted
  };
  /// Returns and forgets what the last join or leave created or deleted.
  [[nodiscard]] std::optional<GroupEvent> take_event();

 private:
  struct Group {
    wire::McMemberRecord record;  ///< without port and join state
    bool permanent = false;
    std::map<Gid, std::uint8_t> members;  ///< port: join state
  };
  struct Subscription {
    Subscriber subscriber;
    std::uint16_t trap = 0;
  };

  [[nodiscard]] std::optional<wire::McMemberRecord> new_group(const MemberQuery& query) const;
  [[nodiscard]] Lid free_mlid() const;

  const SubnetSettings settings_;
  const Gid own_gid_;
  std::map<Gid, Group> groups_;
  std::vector<Subscription> subscriptions_;
  std::optional<GroupEvent> event_;
};

}  // namespace ipoib::kernel_peer
