#include "softib/rdma_cm/farewell.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "ipoib/overloaded.hpp"
#include "softib/cm/connection.hpp"
#include "softib/cm/output.hpp"
#include "softib/core/ip_gid.hpp"
#include "softib/rdma_cm/limits.hpp"

namespace softib::rdma_cm {

namespace {

std::optional<Gid> gid_at(const Address& address) {
  return std::visit(ipoib::Overloaded{
                        [](std::monostate) { return std::optional<Gid>(); },
                        [](const IpEndpoint& ip) { return std::optional(ip_gid(ip.address)); },
                        [](const IbEndpoint& ib) { return std::optional(ib.gid); },
                    },
                    address);
}

/// Whether the peer takes the connection for established, or waits for an answer to its own DREQ,
/// for which a DREQ is one, too.
bool is_awaited(const IdStatus& id) {
  constexpr std::array kStates{std::string_view("RepSent"), std::string_view("Established"),
                               std::string_view("DreqSent"), std::string_view("DreqReceived")};
  return id.connection && id.remote_id != CommId() &&
         std::ranges::find(kStates, cm::kConnectionStates.at(*id.connection)) != kStates.end();
}

}  // namespace

std::vector<MadPacket> farewells(std::span<const IdStatus::Words> ids) {
  std::vector<MadPacket> packets;
  for (const auto& words : ids) {
    const auto id = IdStatus::parse(words);
    if (!id || !is_awaited(*id)) continue;
    const auto from = gid_at(id->source);
    const auto to = gid_at(id->destination);
    if (!from || !to) continue;
    cm::Route route;
    route.grh.emplace();
    route.grh->hop_limit = kEthernetHopLimit;
    route.grh->sgid = *from;
    route.grh->dgid = *to;
    const wire::CmDreq dreq{id->local_id, id->remote_id, id->remote_qpn, {}};
    packets.push_back(
        route.packet({cm::transaction_of(id->local_id, wire::CmDreq::kAttribute), dreq}));
  }
  return packets;
}

}  // namespace softib::rdma_cm
