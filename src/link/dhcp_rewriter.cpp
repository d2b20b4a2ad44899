#include "link/dhcp_rewriter.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

namespace ipoib::link {
namespace {

using wire::DhcpClient;
using wire::DhcpMessage;

/// Maximum numbers of stored transactions: of all clients of the host, and together with those of
/// stations.
constexpr std::size_t kMaxTransactions = 64;
constexpr std::size_t kMaxTransactionsOfStations = 1024;
constexpr std::uint8_t kEthernet = 1;  // hardware type
/// A transaction expires this long after its last request. RFC 2131, 4.1: a client repeats a
/// request after 64 s at the latest.
constexpr Duration kTransactionTimeout = std::chrono::minutes(2);

/// Whether the client identifier is an Ethernet address (RFC 2132, 9.14). Clients send such an
/// identifier on a TUN, the same on each host.
bool names_ethernet(const std::vector<std::uint8_t>& identifier) {
  constexpr std::size_t kSize = 7;
  return identifier.size() == kSize && identifier.front() == kEthernet;
}

}  // namespace

void DhcpRewriter::own_request(Frame& packet, std::uint32_t mtu, TimePoint now) {
  const auto request = parse(packet);
  if (!request) return;
  // A forwarded or relayed request is that of a client on another link.
  const bool is_own = request->source.is_unspecified() || host_.speaks_for(request->source);
  if (!is_own || !request->giaddr.is_unspecified()) return;

  DhcpMessage conforming = *request;
  conforming.client = on_the_wire(request->client);
  conforming.broadcast = request->ciaddr.is_unspecified();
  if (conforming == *request || !rewrite(packet, conforming, mtu)) return;
  remember(*request, conforming.client.identifier, now);
  out_.counters.add(Counter::dhcp_requests_rewritten);
}

/// Sets the broadcast flag of a request, as RFC 4390, 2.2 wants the client to, since ARP cannot
/// resolve its address yet.
void DhcpRewriter::foreign_request(Frame& packet) {
  auto request = parse(packet);
  if (!request || request->client.htype != DhcpClient::kInfiniBand || request->broadcast ||
      !request->ciaddr.is_unspecified() || !request->giaddr.is_unspecified()) {
    return;
  }
  request->broadcast = true;
  if (rewrite(packet, *request, packet.capacity())) {
    out_.counters.add(Counter::dhcp_requests_mended);
  }
}

/// Rewrites a reply, which holds the client identifier of the request, or none (RFC 6842, 3).
void DhcpRewriter::reply(Frame& packet, TimePoint now) {
  auto message = parse(packet);
  if (!message) return;
  // Two clients may use one transaction id. Some servers change or leave out the identifier.
  const auto has_xid = [&](const Transaction& one) { return one.xid == message->xid; };
  auto known = std::ranges::find_if(transactions_, [&](const Transaction& one) {
    return has_xid(one) && one.identifier == message->client.identifier;
  });
  if (known == transactions_.end() && std::ranges::count_if(transactions_, has_xid) == 1) {
    known = std::ranges::find_if(transactions_, has_xid);
  }
  if (known == transactions_.end() || known->last_request + kTransactionTimeout < now) return;
  message->client = known->client;
  if (rewrite(packet, *message, packet.capacity())) {
    out_.counters.add(Counter::dhcp_replies_rewritten);
  }
}

std::optional<DhcpMessage> DhcpRewriter::parse(const Frame& packet) {
  auto message = DhcpMessage::parse(packet.bytes());
  if (message && !message->authenticated) return message;
  out_.counters.add(Counter::dhcp_left_alone);
  return std::nullopt;
}

/// The client as RFC 4390, 2.1 wants it: "htype" is 32, "hlen" is 0, "chaddr" is zero, and there is
/// a client identifier. One that the operator has configured is kept.
DhcpClient DhcpRewriter::on_the_wire(const DhcpClient& client) const {
  DhcpClient out;
  if (const auto station = station_of(client)) {
    out.identifier =
        client.identifier.empty() ? wire::dhcp_client_identifier(*station) : client.identifier;
    return out;
  }
  const bool is_named = config_.dhcp_identity != Guid();
  const Guid identity = is_named ? config_.dhcp_identity : port_.guid();
  out.identifier = client.identifier.empty() || names_ethernet(client.identifier)
                       ? wire::dhcp_client_identifier(config_.pkey, identity)
                       : client.identifier;
  return out;
}

/// The address of a client that is a station: it has an Ethernet address of its own, while the
/// host's clients have that of the TAP, or none.
std::optional<MacAddress> DhcpRewriter::station_of(const DhcpClient& client) const {
  if (!config_.serves_stations || client.htype != kEthernet || client.hlen != MacAddress::kSize) {
    return std::nullopt;
  }
  MacAddress::Bytes bytes;
  std::copy_n(client.chaddr.begin(), bytes.size(), bytes.begin());
  const MacAddress mac(bytes);
  return mac.is_zero() || mac == host_.mac() ? std::nullopt : std::optional(mac);
}

void DhcpRewriter::remember(const DhcpMessage& request, const std::vector<std::uint8_t>& identifier,
                            TimePoint now) {
  const std::size_t limit = config_.serves_stations ? kMaxTransactionsOfStations : kMaxTransactions;
  auto slot = std::ranges::find_if(transactions_, [&](const Transaction& one) {
    return one.xid == request.xid && one.identifier == identifier;
  });
  if (slot == transactions_.end() && transactions_.size() < limit) {
    slot = transactions_.emplace(slot);
  } else if (slot == transactions_.end()) {
    slot = std::ranges::min_element(transactions_, {}, &Transaction::last_request);
    if (slot->last_request + kTransactionTimeout >= now) {
      out_.counters.add(Counter::dhcp_transactions_evicted);
    }
  }
  *slot = {
      .xid = request.xid, .last_request = now, .client = request.client, .identifier = identifier};
}

/// Writes the message into the packet. It may use the unused rest of the frame's slot.
bool DhcpRewriter::rewrite(Frame& packet, const DhcpMessage& as, std::size_t limit) {
  std::array<std::uint8_t, DhcpMessage::kMaxSize> made;
  const std::size_t begin = packet.headroom();
  const std::size_t room = std::min({limit, packet.capacity() - begin, made.size()});
  const std::size_t size = as.emit(std::as_const(packet).bytes(), MutableBytes(made).first(room));
  if (size == 0) {
    out_.counters.add(Counter::dhcp_left_alone);
    return false;
  }
  const auto upper = packet.upper_layer();
  packet.window(begin, size);
  packet.set_upper_layer(upper);
  std::copy_n(made.begin(), size, packet.bytes().begin());
  return true;
}

}  // namespace ipoib::link
