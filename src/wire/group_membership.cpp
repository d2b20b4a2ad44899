#include "wire/group_membership.hpp"

#include <algorithm>

#include "ipoib/well_known_groups.hpp"
#include "wire/checksum.hpp"
#include "wire/transport.hpp"

namespace ipoib::wire {
namespace {

constexpr std::uint8_t kIgmpProtocol = 2;
constexpr std::size_t kIgmpSize = 8;
constexpr std::size_t kMldSize = 24;
constexpr std::uint8_t kHopByHopOptions = 0;  ///< RFC 8200, 4.3
constexpr std::size_t kRouterAlertSize = 8;   ///< with the router alert alone
constexpr std::size_t kRecord = 4;            ///< bytes before the group

enum IgmpType : std::uint8_t {
  kIgmpQuery = 0x11,
  kIgmpReportV1 = 0x12,
  kIgmpReportV2 = 0x16,
  kIgmpLeave = 0x17,
  kIgmpReportV3 = 0x22,
};
enum MldType : std::uint8_t {
  kMldQuery = 130,
  kMldReportV1 = 131,
  kMldDone = 132,
  kMldReportV2 = 143
};

/// Whether a record of this type says that the sender listens to the group (RFC 3376, 4.2.12).
std::optional<bool> is_member(std::uint8_t type, std::uint16_t sources) {
  constexpr std::uint8_t kIsInclude = 1;
  constexpr std::uint8_t kIsExclude = 2;
  constexpr std::uint8_t kToInclude = 3;
  constexpr std::uint8_t kToExclude = 4;
  constexpr std::uint8_t kAllowNew = 5;
  switch (type) {
    case kIsExclude:
    case kToExclude:
      return true;
    case kIsInclude:
    case kToInclude:
      return sources > 0;
    case kAllowNew:
      return sources > 0 ? std::optional(true) : std::nullopt;
    default:  // RFC 3376, 4.2.12: unrecognised types are ignored, as is BLOCK_OLD_SOURCES
      return std::nullopt;
  }
}

template <class Address>
void add(Address group, bool is_member, std::vector<GroupMembership>& out) {
  if (group.is_multicast()) out.push_back({group, is_member});
}

/// Records are at the same place in both protocols; only the addresses differ.
template <class Address>
void read_records(ConstBytes message, std::vector<GroupMembership>& out) {
  ByteReader reader(message.subspan(6));
  const std::uint16_t records = reader.u16();
  for (std::size_t i = 0; i < records; ++i) {
    if (reader.left() < kRecord + Address::kSize) return;
    const std::uint8_t type = reader.u8();
    const std::size_t auxiliary = std::size_t{4} * reader.u8();
    const std::uint16_t sources = reader.u16();
    const Address group(reader.template array<Address::kSize>());
    const std::size_t rest = sources * Address::kSize + auxiliary;
    if (reader.left() < rest) return;
    (void)reader.take(rest);
    if (const auto member = is_member(type, sources)) add(group, *member, out);
  }
}

/// The message of IGMP or MLD in a packet; empty if it has none.
ConstBytes igmp_in(ConstBytes packet) {
  const auto header = Ipv4Header::parse(packet);
  if (!header || header->protocol != kIgmpProtocol) return {};
  const ConstBytes message = packet.first(header->total_length).subspan(header->header_size);
  return message.size() >= kIgmpSize ? message : ConstBytes();
}
/// The message of MLD in a packet: after a hop-by-hop header with the router alert (RFC 3810, 5).
ConstBytes mld_in(ConstBytes packet) {
  const auto header = Ipv6Header::parse(packet);
  if (!header || header->next_header != kHopByHopOptions ||
      header->payload_length < kRouterAlertSize + kIgmpSize ||
      packet[Ipv6Header::kSize] != kIcmpv6 || packet[Ipv6Header::kSize + 1] != 0) {
    return {};
  }
  return packet.subspan(Ipv6Header::kSize, header->payload_length).subspan(kRouterAlertSize);
}

Ipv4Address ipv4_group(ConstBytes message) {
  return Ipv4Address(load_be<std::uint32_t>(message.data() + 4));
}
Ipv6Address ipv6_group(ConstBytes message) {
  ByteReader reader(message.subspan(8));
  return Ipv6Address(reader.array<Ipv6Address::kSize>());
}

bool is_mld(std::uint8_t icmpv6_type) {
  return icmpv6_type == kMldReportV1 || icmpv6_type == kMldDone || icmpv6_type == kMldReportV2;
}

}  // namespace

bool changes_host_groups(ConstBytes packet) {
  if (ip_version(packet) == 4) {
    return packet.size() > ipv4::kProtocol && packet[ipv4::kProtocol] == kIgmpProtocol;
  }
  constexpr std::size_t kMessage = Ipv6Header::kSize + kRouterAlertSize;
  return packet.size() > kMessage && packet[ipv6::kNextHeader] == kHopByHopOptions &&
         packet[Ipv6Header::kSize] == kIcmpv6 && is_mld(packet[kMessage]);
}

std::vector<GroupMembership> group_memberships(ConstBytes packet) {
  std::vector<GroupMembership> out;
  if (const ConstBytes igmp = igmp_in(packet); !igmp.empty()) {
    const std::uint8_t type = igmp[0];
    if (type == kIgmpReportV1 || type == kIgmpReportV2) add(ipv4_group(igmp), true, out);
    if (type == kIgmpLeave) add(ipv4_group(igmp), false, out);
    if (type == kIgmpReportV3) read_records<Ipv4Address>(igmp, out);
  } else if (const ConstBytes mld = mld_in(packet); !mld.empty()) {
    const std::uint8_t type = mld[0];
    if (type == kMldReportV2) read_records<Ipv6Address>(mld, out);
    if (mld.size() < kMldSize) return out;
    if (type == kMldReportV1) add(ipv6_group(mld), true, out);
    if (type == kMldDone) add(ipv6_group(mld), false, out);
  }
  return out;
}

bool is_group_query(ConstBytes packet) {
  if (const ConstBytes igmp = igmp_in(packet); !igmp.empty()) return igmp[0] == kIgmpQuery;
  const ConstBytes mld = mld_in(packet);
  return !mld.empty() && mld[0] == kMldQuery;
}

IpAddress GroupQuery::destination() const {
  if (group) return *group;
  if (std::holds_alternative<Ipv4Address>(source)) return kAllNodes;
  return kAllNodesOfIpv6;
}

namespace {

constexpr std::uint8_t kRobustness = 2;  ///< RFC 3376, 8.1

/// Writes a query with TTL 1, precedence 0xc0, and the router alert (RFC 2113) in a header of 24
/// bytes (RFC 3376, 4).
std::size_t emit_igmp(const GroupQuery& query, MutableBytes to) {
  constexpr std::size_t kHeader = 24;
  constexpr std::size_t kMessage = 12;
  const auto destination = std::get<Ipv4Address>(query.destination());
  ByteWriter out(to.first(kHeader + kMessage));
  out.u16(0x46c0);
  out.u16(kHeader + kMessage);
  out.u16(0);
  out.u16(ipv4::kDontFragment);
  out.u8(1);
  out.u8(kIgmpProtocol);
  out.u16(0);
  out.bytes(std::get<Ipv4Address>(query.source).bytes());
  out.bytes(destination.bytes());
  out.u16(0x9404);
  out.u16(0);
  out.u8(kIgmpQuery);
  out.u8(static_cast<std::uint8_t>(std::min<std::uint16_t>(query.delay, 127)));
  out.u16(0);
  out.bytes(query.group ? destination.bytes() : Ipv4Address{}.bytes());
  out.u8(kRobustness);
  out.u8(query.interval);
  out.u16(0);
  const MutableBytes header = to.first(kHeader);
  const MutableBytes message = to.subspan(kHeader, kMessage);
  store_be<std::uint16_t>(&header[ipv4::kChecksum], internet_checksum(header));
  store_be<std::uint16_t>(&message[2], internet_checksum(message));
  return kHeader + kMessage;
}

/// Writes a query with hop limit 1, and the router alert (RFC 2711) in a hop-by-hop header (RFC
/// 3810, 5).
std::size_t emit_mld(const GroupQuery& query, MutableBytes to) {
  constexpr std::size_t kMessage = 28;
  constexpr std::uint16_t kMilliseconds = 100;  // in a tenth of a second
  const auto source = std::get<Ipv6Address>(query.source);
  const auto destination = std::get<Ipv6Address>(query.destination());
  Ipv6Header{.source = source,
             .destination = destination,
             .payload_length = kRouterAlertSize + kMessage,
             .next_header = kHopByHopOptions,
             .hop_limit = 1}
      .emit(to);
  ByteWriter out(to.subspan(Ipv6Header::kSize, kRouterAlertSize + kMessage));
  out.u8(kIcmpv6);
  out.u8(0);
  out.u32(0x05020000);
  out.u16(0x0100);  // PadN
  out.u8(kMldQuery);
  out.u8(0);
  out.u16(0);
  out.u16(static_cast<std::uint16_t>(query.delay * kMilliseconds));
  out.u16(0);
  out.bytes(query.group ? destination.bytes() : Ipv6Address{}.bytes());
  out.u8(kRobustness);
  out.u8(query.interval);
  out.u16(0);
  const MutableBytes message = to.subspan(Ipv6Header::kSize + kRouterAlertSize, kMessage);
  store_be<std::uint16_t>(&message[2],
                          InternetChecksum()
                              .add_pseudo_header(source, destination, kIcmpv6, kMessage)
                              .add(message)
                              .value());
  return Ipv6Header::kSize + kRouterAlertSize + kMessage;
}

}  // namespace

std::size_t GroupQuery::emit(MutableBytes to) const {
  return std::holds_alternative<Ipv4Address>(source) ? emit_igmp(*this, to) : emit_mld(*this, to);
}

}  // namespace ipoib::wire
