// Rewrites DHCP to the form of IPoIB (RFC 4390) and back. The host's DHCP clients take the TUN for
// an Ethernet device.
//
// Clients of stations behind a TAP have Ethernet addresses of their own, which name them: by their
// client identifier, or one that is made from the address.
//
// Requests of the host's clients are rewritten to the form of RFC 4390. Replies get back the
// client's hardware type, hardware address and client identifier, which are stored by transaction.
// For DHCP servers on the host, the broadcast flag is set in requests that lack it: an IPoIB client
// cannot be answered otherwise.
#pragma once

#include <optional>
#include <vector>

#include "ipoib/frame.hpp"
#include "ipoib/time.hpp"
#include "link/config.hpp"
#include "link/host_addresses.hpp"
#include "link/output.hpp"
#include "wire/dhcp.hpp"

namespace ipoib::link {

class DhcpRewriter {
 public:
  /// The arguments outlive this object; `port` may change.
  DhcpRewriter(const Config& config, const HostAddresses& host, const Gid& port, Output& out)
      : config_(config), host_(host), port_(port), out_(out) {}

  /// Takes any IPv4 packet of the host. The rewritten packet is at most `mtu` bytes long.
  void from_host(Frame& packet, std::uint32_t mtu, TimePoint now) {
    const auto upper = wire::upper_layer(packet.bytes());
    if (kind(packet, upper) == wire::DhcpKind::request) own_request(packet, mtu, now);
  }
  /// Takes any IPv4 packet for the host, with Frame::upper_layer() set.
  void from_fabric(Frame& packet, TimePoint now) {
    const auto found = kind(packet, packet.upper_layer());
    if (found == wire::DhcpKind::request) foreign_request(packet);
    if (found == wire::DhcpKind::reply && !transactions_.empty()) reply(packet, now);
  }

 private:
  /// The identity of a client of the host, before rewriting, and the identifier that was sent.
  struct Transaction {
    std::uint32_t xid = 0;
    TimePoint last_request{};
    wire::DhcpClient client;
    std::vector<std::uint8_t> identifier;
  };

  [[nodiscard]] std::optional<wire::DhcpKind> kind(const Frame& packet, UpperLayer upper) const {
    return config_.dhcp_rewrite ? wire::dhcp_kind(packet.bytes(), upper) : std::nullopt;
  }
  void own_request(Frame& packet, std::uint32_t mtu, TimePoint now);
  void foreign_request(Frame& packet);
  void reply(Frame& packet, TimePoint now);
  [[nodiscard]] std::optional<wire::DhcpMessage> parse(const Frame& packet);
  [[nodiscard]] wire::DhcpClient on_the_wire(const wire::DhcpClient& client) const;
  [[nodiscard]] std::optional<MacAddress> station_of(const wire::DhcpClient& client) const;
  void remember(const wire::DhcpMessage& request, const std::vector<std::uint8_t>& identifier,
                TimePoint now);
  bool rewrite(Frame& packet, const wire::DhcpMessage& as, std::size_t limit);

  const Config& config_;
  const HostAddresses& host_;
  const Gid& port_;
  Output& out_;
  std::vector<Transaction> transactions_;
};

}  // namespace ipoib::link
