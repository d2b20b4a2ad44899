// The Ethernet view of a link: between a TAP, which carries Ethernet frames, and a link, which
// carries IP packets.
//
// A frame is translated in place: its Ethernet header lies in the headroom before the IP packet, in
// both directions (TunPort). So the link sees packets as those of a TUN. A TAP differs from a TUN
// in this:
//   - the destination MAC of a frame is the next hop that the kernel has chosen. The view tells it
//     to the link, which looks it up among the host's routes on a TUN;
//   - the kernel asks for MACs, by ARP and Neighbour Discovery. These requests end here: the link
//     solicits the neighbour (wanted()), and what it learns (on_neighbour()) answers them;
//   - Neighbour Discovery that passes through has link-layer options. The link replaces those of
//     the host by its own; to those of the fabric, which the link has read and removed, the view
//     adds the neighbour's MAC;
//   - behind it there may be stations with MACs and addresses of their own (stations.hpp). The link
//     speaks for these addresses (services()), and packets to them get their MACs.
// It has no descriptor and no clock.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ethernet/addresses_of.hpp"
#include "ethernet/counters.hpp"
#include "ethernet/host_identity.hpp"
#include "ethernet/host_messages.hpp"
#include "ethernet/neighbour_macs.hpp"
#include "ethernet/requests.hpp"
#include "ethernet/stations.hpp"
#include "ipoib/frame.hpp"
#include "ipoib/host_view.hpp"
#include "wire/arp.hpp"
#include "wire/ethernet.hpp"
#include "wire/neighbour_discovery.hpp"

namespace ipoib::ethernet {

class View {
 public:
  struct Limits {
    std::size_t neighbours = 0;         ///< known addresses
    std::size_t stations = 0;           ///< 0: only the host may send
    bool strict = false;                ///< a station may not send from addresses of other ones
    std::uint32_t solicitations = 500;  ///< of new neighbours per second, by the link
  };
  /// `messages` outlives the view; its slots have at least kMessageSize bytes.
  View(const Limits& limits, const HashKey& key, FramePool& messages);
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  /// Room for the Ethernet header, and as much more as lets the payload of TCP over IPv4 begin at a
  /// multiple of 8, as in the frames of a TUN. Streams are slower without that
  /// (docs/performance.md).
  static constexpr std::size_t kHeadroom = 20;
  static constexpr std::size_t kMessageSize = HostMessages::kSize;

  // --- Stimuli ---------------------------------------------------------------------------------
  void on_host_changed(const HostView& view, TimePoint now);
  /// The link that serves the interface has this address.
  void on_link_address(const HwAddress& hardware);
  /// A neighbour has this hardware address; with `is_permanent` the operator has set it.
  void on_neighbour(const IpAddress& address, const HwAddress& hardware, bool is_permanent,
                    TimePoint now);
  /// An ARP request of the fabric for an address that is not the host's.
  void on_request(const wire::Arp& request, TimePoint now) {
    if (stations_) stations_->on_request(request, now);
  }
  void tick(TimePoint now) {
    if (stations_) stations_->tick(now);
  }
  [[nodiscard]] TimePoint next_deadline() const {
    return stations_ ? stations_->next_deadline() : kNever;
  }
  /// Takes frames of the host, and leaves the IP packets for the link in `batch`. `hops` becomes
  /// the next hop of each; nullopt: the link knows better.
  void from_host(std::vector<Frame>& batch, std::vector<std::optional<IpAddress>>& hops,
                 TimePoint now);
  /// Takes IP packets for the host, with Frame::headroom() for an Ethernet header, and leaves the
  /// frames to write, with answers to requests.
  void to_host(std::vector<Frame>& packets, TimePoint now);

  // --- Output ----------------------------------------------------------------------------------
  /// Addresses that the link is to solicit; the caller removes them.
  [[nodiscard]] std::vector<IpAddress>& wanted() { return wanted_; }
  [[nodiscard]] MacAddress mac_of(const HwAddress& hardware) const {
    return macs_.mac_of(hardware);
  }
  [[nodiscard]] Counters counters() const;
  /// The stations; null if only the host may send.
  [[nodiscard]] Stations* stations() { return stations_ ? &*stations_ : nullptr; }
  [[nodiscard]] const Stations* stations() const { return stations_ ? &*stations_ : nullptr; }

 private:
  [[nodiscard]] bool admit(Frame& frame, std::optional<IpAddress>& hop, TimePoint now);
  [[nodiscard]] bool admit_packet(const wire::EthernetHeader& header, ConstBytes packet,
                                  const IpAddress& source, TimePoint now);
  /// Whether a message of ARP or Neighbour Discovery is that of a station.
  [[nodiscard]] bool is_of_station(const wire::EthernetHeader& header,
                                   const IpAddress& sender) const {
    return stations_ && !identity_.is_sender(header.source, sender);
  }
  [[nodiscard]] bool admit_sender(const wire::EthernetHeader& header);
  [[nodiscard]] bool is_flooded_for_station(MacAddress mac, const IpAddress& destination,
                                            TimePoint now);
  [[nodiscard]] bool find_hop_of_flooded(const wire::EthernetHeader& header,
                                         const Addresses& addresses, std::optional<IpAddress>& hop,
                                         TimePoint now);
  [[nodiscard]] bool find_hop(Frame& frame, const wire::EthernetHeader& header,
                              const Addresses& addresses, std::optional<IpAddress>& hop,
                              TimePoint now);
  [[nodiscard]] bool find_hop_of_unknown(const wire::EthernetHeader& header,
                                         const Addresses& addresses, std::optional<IpAddress>& hop,
                                         TimePoint now);
  [[nodiscard]] bool send_back(Frame& frame, const wire::EthernetHeader& header,
                               const Addresses& addresses, TimePoint now);
  void tell(const Asker& asker, const IpAddress& target, const StationAddress* station,
            TimePoint now);
  void receive_rarp(const wire::EthernetHeader& header, ConstBytes packet, TimePoint now);
  void receive_arp(const wire::EthernetHeader& header, ConstBytes packet, TimePoint now);
  /// Returns whether the message ends here.
  [[nodiscard]] bool receive_discovery(const wire::EthernetHeader& header, ConstBytes packet,
                                       TimePoint now);
  [[nodiscard]] AskerKind kind_of(MacAddress mac, bool is_station) const;
  void ask(const IpAddress& target, const Asker& asker, AskerKind kind, MacAddress to,
           TimePoint now);
  void want(const IpAddress& target, const Asker& asker, AskerKind kind, TimePoint now);
  void want_for(const wire::EthernetHeader& header, const Addresses& addresses, TimePoint now);

  [[nodiscard]] bool translate(Frame& frame, TimePoint now);
  [[nodiscard]] bool translate_discovery(Frame& frame);
  [[nodiscard]] bool is_awaited(const wire::NdMessage& advertisement, MacAddress mac);
  [[nodiscard]] wire::EthernetHeader header_for(const IpAddress& source,
                                                const IpAddress& destination, TimePoint now);
  /// The MAC that packets from the link to an address go to, unless it is that of a station.
  [[nodiscard]] MacAddress destination_of(const IpAddress& address) const;

  void answer(const Asker& asker, const IpAddress& target, MacAddress mac, bool is_router) {
    answer(asker, target, mac, is_router, mac);
  }
  void answer(const Asker& asker, const IpAddress& target, MacAddress mac, bool is_router,
              MacAddress from);

  NeighbourMacs macs_;
  HostMessages messages_;
  Requests requests_;
  HostIdentity identity_;
  HwAddress link_address_;
  MacAddress mac_of_link_;  ///< which stations behind other hosts see as this host's
  bool is_ipv6_router_ = false;
  std::vector<IpAddress> wanted_;
  std::optional<Stations> stations_;
  Counters counters_;
  // The last results, since packets of one flow follow each other. They are empty after any change.
  struct {
    MacAddress mac;
    IpAddress destination;
    std::optional<IpAddress> hop;
    std::uint64_t stations = 0;  ///< Stations::version()
    bool is_set = false;
  } last_hop_;
  struct {
    IpAddress source;
    IpAddress destination;
    wire::EthernetHeader header;
    StationAddress* station = nullptr;  ///< the receiver
    std::uint64_t stations = 0;         ///< Stations::version()
    bool is_set = false;
  } last_header_;
};

}  // namespace ipoib::ethernet
