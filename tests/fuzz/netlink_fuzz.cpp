// Messages of rtnetlink(7) about routes, rules, nexthop objects and links, with any content: what
// is read of them is within the message and within its type.
//
// An input is the type of the message (1 byte), its flags (2 bytes), the family header (12 bytes),
// and attributes: type (1 byte), size (1 byte), content. If the highest bit of the first byte is
// set, all behind the header is what the message has there instead, so sizes may be wrong.
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "cost.hpp"
#include "linux/ethernet_links.hpp"
#include "linux/route_messages.hpp"
#include "require.hpp"

using namespace ipoib;

namespace {

constexpr std::uint64_t kMaxCost = 100'000;
constexpr int kOwn = 7;  ///< index of the interface
const linux::InterfaceName kInterface{kOwn, "ib0"};
constexpr std::array kTypes{RTM_NEWROUTE,   RTM_DELROUTE,   RTM_NEWRULE, RTM_DELRULE,
                            RTM_NEWNEXTHOP, RTM_DELNEXTHOP, RTM_NEWLINK};
constexpr std::uint8_t kIsRaw = 0x80;
constexpr std::size_t kFamilyHeader = sizeof(rtmsg);
static_assert(sizeof(rtmsg) == 12);

/// Writes what the input says behind the header; returns its size.
std::size_t emit_attributes(ByteReader& in, bool is_raw, MutableBytes to) {
  if (is_raw) {
    const ConstBytes rest = in.take(std::min(in.left(), to.size()));
    std::ranges::copy(rest, to.begin());
    return rest.size();
  }
  std::size_t used = 0;
  while (in.left() >= 2) {
    const std::uint8_t type = in.u8();
    const std::size_t size = std::min<std::size_t>(in.u8(), in.left());
    const nlattr header{static_cast<std::uint16_t>(sizeof(nlattr) + size), type};
    const std::size_t padded = NLA_ALIGN(header.nla_len);
    if (used + padded > to.size()) break;
    std::memcpy(&to[used], &header, sizeof header);
    std::ranges::copy(in.take(size), &to[used + sizeof header]);
    used += padded;
  }
  return used;
}

void check(const IpPrefix& prefix) {
  const bool is_v4 = std::holds_alternative<Ipv4Address>(prefix.address);
  require(prefix.length <= 8 * (is_v4 ? Ipv4Address::kSize : Ipv6Address::kSize));
}

void check(const HostRoute& route) { check(route.destination); }

void check(const RoutingRule& rule) {
  for (const auto& prefix : {rule.source, rule.destination}) {
    if (!prefix) continue;
    check(*prefix);
    require(std::holds_alternative<Ipv4Address>(prefix->address) == (rule.family == IpFamily::v4));
  }
}

struct Check {
  void operator()(const RouteAdded& change) const { check(change.route); }
  void operator()(const RouteRemoved& change) const { check(change.route); }
  void operator()(const RuleChanged& change) const { check(change.rule); }
  template <class Other>
  void operator()(const Other& /*change*/) const {}
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3 + kFamilyHeader) return 0;
  const CostLimit limit(kMaxCost);
  ByteReader in(ConstBytes(data, size));
  const std::uint8_t type = in.u8();
  nlmsghdr header{};
  header.nlmsg_type = static_cast<std::uint16_t>(kTypes[(type & ~kIsRaw) % kTypes.size()]);
  header.nlmsg_flags = in.u16();
  std::array<std::uint8_t, 4096> built{};
  std::ranges::copy(in.take(kFamilyHeader), &built[sizeof header]);
  header.nlmsg_len = static_cast<std::uint32_t>(
      sizeof header + kFamilyHeader +
      emit_attributes(in, (type & kIsRaw) != 0,
                      MutableBytes(built).subspan(sizeof header + kFamilyHeader)));
  std::memcpy(built.data(), &header, sizeof header);
  // A message is aligned, and its end is the end of a buffer.
  const MutableBytes bytes = scratch_copy(ConstBytes(built).first(NLMSG_ALIGN(header.nlmsg_len)));
  auto* const message = reinterpret_cast<nlmsghdr*>(bytes.data());

  if (const auto change = linux::route_change_of(message, kInterface)) std::visit(Check{}, *change);
  if (const auto route = linux::route_of(message, kOwn, {{1, {RouteHop{}}}})) {
    check(route->route);
    require(!route->route.hops.empty());
  }
  (void)linux::redirect_of(message, kOwn);
  if (const auto rule = linux::rule_of(message, kInterface.name)) check(*rule);
  if (const auto object = linux::nexthop_of(message, kOwn)) {
    require(!object->hop || object->members.empty());
  }
  (void)linux::route_concerns(message, kOwn);
  (void)linux::concerns_ethernet_links(message);
  const auto* const link = reinterpret_cast<nlattr*>(bytes.data() + sizeof header + kFamilyHeader);
  if (bytes.size() > sizeof header + kFamilyHeader + sizeof *link &&
      nla_ok(link, static_cast<int>(bytes.size() - sizeof header - kFamilyHeader))) {
    (void)linux::is_tap_of_a_guest(link);
    (void)linux::is_backup_port(link);
  }
  return 0;
}
