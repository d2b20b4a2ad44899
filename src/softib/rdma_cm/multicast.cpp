// Memberships in multicast groups. The SA has one record for a port and a group, so the processes
// of a node count their memberships together, and the last one leaves. An Ethernet port has no SA:
// the interface joins while a queue pair is attached.
#include <algorithm>
#include <cerrno>

#include "ipoib/overloaded.hpp"
#include "softib/core/ip_gid.hpp"
#include "softib/rdma_cm/limits.hpp"
#include "softib/rdma_cm/manager.hpp"
#include "wire/mgid.hpp"

namespace softib::rdma_cm {

using ipoib::Error;
using ipoib::Overloaded;
using ipoib::Result;
using ipoib::TimePoint;
using wire::McMemberRecord;

namespace {

/// The second byte of the signature of groups of RDMA_PS_UDP, in place of 0x1b: their packets are
/// not those of IPoIB.
constexpr std::uint8_t kRdmaSignature = 0x01;
constexpr std::size_t kSignatureByte = 3;

/// Whether the group is in ff1x:a01b::/32: groups whose address the SA has chosen are named by it.
bool is_chosen_by_sa(const ipoib::Ipv6Address& group) {
  const auto& bytes = group.bytes();
  return bytes[0] == 0xff && (bytes[1] & 0xf0) == 0x10 && bytes[2] == 0xa0 && bytes[3] == 0x1b;
}

/// The group on an Ethernet port is the IP address itself.
std::optional<Gid> ethernet_group_of(const Address& address) {
  const auto* const ip = std::get_if<IpEndpoint>(&address);
  const auto gid = ip != nullptr ? ip_gid(ip->address) : Gid();
  return is_ip_multicast(gid) ? std::optional(gid) : std::nullopt;
}

wire::PathRecord path_to(const McMemberRecord& group) {
  wire::PathRecord path;
  path.dgid = group.mgid;
  path.sgid = group.port_gid;
  path.dlid = group.mlid;
  path.sl = group.sl;
  path.flow_label = group.flow_label;
  path.traffic_class = group.traffic_class;
  path.hop_limit = group.hop_limit;
  path.pkey = group.pkey;
  path.mtu = group.mtu;
  path.rate = group.rate;
  return path;
}

/// The group of an Ethernet port, as the kernel's cma_iboe_join_multicast().
McMemberRecord ethernet_group(const Gid& mgid, const Id& id, const PortAttributes& port) {
  McMemberRecord group;
  group.mgid = mgid;
  group.port_gid = source_gid(id, port);
  group.qkey = id.qkey;
  group.pkey = ipoib::kDefaultPKey;
  group.mtu = port.mtu;
  group.rate = kEthernetRate;
  group.traffic_class = id.tos;
  group.hop_limit = is_ipv4(mgid) ? kEthernetHopLimit : std::uint8_t{1};
  return group;
}

}  // namespace

/// The MGID of an address; a zero one, which the SA chooses, for a wildcard.
std::optional<Gid> Manager::group_of(const Id& id, const Address& address) const {
  if (is_any(address)) return Gid();
  if (const auto* const ib = std::get_if<IbEndpoint>(&address)) return ib->gid;
  const IpAddress& ip = std::get<IpEndpoint>(address).address;
  const Gid mgid = std::visit(
      Overloaded{
          [&](const ipoib::Ipv4Address& v4) { return wire::multicast_gid(v4, id.pkey); },
          [&](const ipoib::Ipv6Address& v6) {
            return is_chosen_by_sa(v6) ? Gid(v6.bytes()) : wire::multicast_gid(v6, id.pkey);
          },
      },
      ip);
  if (id.space != PortSpace::udp || mgid == Gid()) return mgid;
  const auto* const v6 = std::get_if<ipoib::Ipv6Address>(&ip);
  if (v6 != nullptr && is_chosen_by_sa(*v6)) return mgid;
  Gid::Bytes bytes = mgid.bytes();
  bytes[kSignatureByte] = kRdmaSignature;
  return Gid(bytes);
}

Result<JoinHandle> Manager::join(ChannelId channel, IdHandle handle, std::uint64_t uid,
                                 const Address& group, bool is_send_only, TimePoint now) {
  const auto owned_id = owned(channel, handle);
  if (!owned_id) return owned_id.error();
  const Id& id = **owned_id;
  const bool is_bound = id.state == IdState::address_bound || id.state == IdState::address_resolved;
  if (!id.local || !is_bound || id.service != Service::datagram) {
    return Error{
        EINVAL,
        "only an ID of RDMA_PS_UDP or RDMA_PS_IPOIB that is bound to a port can join a group"};
  }
  const PortAttributes port = node_.port(*id.local);
  const auto mgid = port.is_ethernet() ? ethernet_group_of(group) : group_of(id, group);
  if (!mgid) return Error{EINVAL, "the address is no multicast address"};
  if (joins_.size() >= kMaxJoins) {
    return Error{ENOMEM, "a process can have " + std::to_string(kMaxJoins) +
                             " memberships of groups: leave some"};
  }
  Join one;
  one.id = handle;
  one.uid = uid;
  one.port = *id.local;
  one.mgid = *mgid;
  one.join_state = is_send_only ? McMemberRecord::kSendOnlyFullMember : McMemberRecord::kFullMember;
  do {
    ++last_join_;
  } while (last_join_ == 0 || joins_.contains(JoinHandle(last_join_)));
  one.handle = JoinHandle(last_join_);
  if (port.is_ethernet()) {
    auto& added = joins_.emplace(one.handle, one).first->second;
    on_join(added, {one.handle, ethernet_group(one.mgid, id, port)});
    return one.handle;
  }
  // This comes before the request, so that no process of the node leaves the group meanwhile.
  if (!mgid->is_zero() && !node_.hold_group(one.port, one.mgid, one.join_state)) {
    return not_locked(EAGAIN, "the membership");
  }
  wire::JoinQuery query = wire::join_query(one.mgid, port.gid(), id.pkey, one.join_state);
  query.record.qkey = id.qkey;
  query.components |= McMemberRecord::kQKey | McMemberRecord::kSl | McMemberRecord::kFlowLabel |
                      McMemberRecord::kTrafficClass;
  if (mgid->is_zero()) query.components &= ~std::uint64_t{McMemberRecord::kMgid};
  joins_.emplace(one.handle, one);
  hcas_.at(one.port.hca)->sa.begin(one.handle, query, port, kJoinTimeout, now);
  return one.handle;
}

void Manager::on_join(Join& join, const SaRequests::Result& result) {
  const Id& id = ids_.at(join.id);
  Event event{.id = id.handle, .join = join.handle, .uid = join.uid};
  const auto fail = [&](int status) {
    (void)release_group(join);
    join.mgid = Gid();  // there is nothing to leave
    event.type = EventType::multicast_error;
    event.status = status;
  };
  std::visit(Overloaded{
                 [&](const McMemberRecord& record) {
                   const bool is_wanted = join.mgid.is_zero() || record.mgid == join.mgid;
                   if (!is_wanted || record.mgid.is_zero()) return fail(-EINVAL);
                   if (join.mgid.is_zero()) {
                     (void)node_.hold_group(join.port, record.mgid, join.join_state);
                   }
                   join.mgid = record.mgid;
                   join.is_member = true;
                   event.type = EventType::multicast_join;
                   event.parameters =
                       DatagramParameters{ipoib::kMulticastQpn, record.qkey, path_to(record), {}};
                 },
                 [](const wire::PathRecord&) {},
                 [&](wire::SaStatus) { fail(-EINVAL); },
                 [&](std::errc error) { fail(-static_cast<int>(error)); },
             },
             result.answer);
  changed(id.channel).push_back({event, id.handle});
}

/// Releases a membership. Returns whether the node is no longer a member.
bool Manager::release_group(const Join& join) {
  if (join.mgid.is_zero()) return false;
  const bool is_held_by_another = std::ranges::any_of(joins_, [&](const auto& one) {
    const Join& other = one.second;
    return other.handle != join.handle && other.port == join.port && other.mgid == join.mgid &&
           other.join_state == join.join_state;
  });
  return !is_held_by_another && node_.release_group(join.port, join.mgid, join.join_state);
}

/// Ends a membership that its ID has, or waits for.
void Manager::leave(const Join& join, TimePoint now) {
  const PortAttributes port = node_.port(join.port);
  if (port.is_ethernet()) return;
  auto& sa = hcas_.at(join.port.hca)->sa;
  sa.cancel(join.handle);
  if (!release_group(join)) return;
  sa.begin(std::monostate(), wire::leave_query(join.mgid, port.gid(), join.join_state), port,
           kJoinTimeout, now);
}

Result<std::uint32_t> Manager::leave(ChannelId channel, JoinHandle handle, TimePoint now) {
  const auto found = joins_.find(handle);
  if (found == joins_.end())
    return Error{ENOENT, "the process has no such membership: it has left the group"};
  const auto id = owned(channel, found->second.id);
  if (!id) return id.error();
  std::erase_if(changed(channel), [&](const QueuedEvent& one) { return one.event.join == handle; });
  leave(found->second, now);
  const std::uint32_t reported = found->second.events_reported;
  joins_.erase(found);
  return reported;
}

}  // namespace softib::rdma_cm
