// The Ethernet view of a link: between a TAP, which carries Ethernet frames, and a link, which
// carries IP packets.
//
// A frame is translated in place: its Ethernet header lies in the headroom before the IP packet, in
// both directions (TunPort). So the link sees packets as those of a TUN. What a TAP has in addition:
//   - the destination MAC of a frame is the next hop that the kernel has chosen. The view tells it
//     to the link, which looks it up among the host's routes on a TUN;
//   - the kernel asks for MACs, by ARP and Neighbour Discovery. These requests end here: the link
//     solicits the neighbour (wanted()), and what it learns (on_neighbour()) answers them;
//   - Neighbour Discovery that passes through has link-layer options. The link replaces those of the
//     host by its own; to those of the fabric, which the link has read and removed, the view adds
//     the neighbour's MAC.
// It has no descriptor and no clock.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_set>
#include <vector>

#include "ethernet/neighbour_macs.hpp"
#include "ethernet/requests.hpp"
#include "ipoib/frame.hpp"
#include "ipoib/host_view.hpp"
#include "wire/arp.hpp"
#include "wire/ethernet.hpp"
#include "wire/neighbour_discovery.hpp"

namespace ipoib::ethernet {

struct Counters {
  std::uint64_t requests = 0;       ///< of the host, for the MAC of a neighbour
  std::uint64_t answers = 0;        ///< to these, made here
  std::uint64_t announcements = 0;  ///< to the host, of neighbours with another hardware address
  std::uint64_t drop_type = 0;      ///< neither IP nor ARP: STP, LLDP, a VLAN, ...
  std::uint64_t drop_destination = 0;  ///< for a MAC that is not on the link: flooded by a bridge
  std::uint64_t drop_malformed_arp = 0;
  std::uint64_t drop_request_limit = 0;
  std::uint64_t drop_no_frame = 0;  ///< no buffer was free for an answer
};

class View {
 public:
  /// `neighbours` limits the number of known addresses. `messages` outlives it; its slots have at
  /// least kMessageSize bytes.
  View(std::size_t neighbours, const HashKey& key, FramePool& messages)
      : macs_(neighbours, key), messages_(messages) {}

  /// Bytes before an IP packet that is read from a TAP, so that the packet is aligned.
  static constexpr std::size_t kHeadroom = 16;
  static constexpr std::size_t kMessageSize = kHeadroom + wire::NdMessage::kMaxEmitted;

  // --- Stimuli ---------------------------------------------------------------------------------
  void on_host_changed(const HostView& view);
  /// A neighbour has this hardware address; `is_permanent`: set by the operator.
  void on_neighbour(const IpAddress& address, const HwAddress& hardware, bool is_permanent);
  /// Takes frames of the host, and leaves the IP packets for the link in `batch`. `hops` becomes
  /// the next hop of each; nullopt: the link knows better.
  void from_host(std::vector<Frame>& batch, std::vector<std::optional<IpAddress>>& hops,
                 TimePoint now);
  /// Takes IP packets for the host, with Frame::headroom() for an Ethernet header, and leaves the
  /// frames to write, with answers to requests.
  void to_host(std::vector<Frame>& packets);

  // --- Output ----------------------------------------------------------------------------------
  /// Addresses that the link is to solicit; the caller removes them.
  [[nodiscard]] std::vector<IpAddress>& wanted() { return wanted_; }
  [[nodiscard]] MacAddress mac_of(const HwAddress& hardware) const { return macs_.mac_of(hardware); }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  [[nodiscard]] bool admit(const Frame& frame, std::optional<IpAddress>& hop, TimePoint now);
  [[nodiscard]] std::optional<IpAddress> hop_of(MacAddress mac, const IpAddress& destination);
  void receive_arp(ConstBytes packet, TimePoint now);
  [[nodiscard]] bool receive_solicitation(const wire::EthernetHeader& header, ConstBytes packet,
                                          TimePoint now);
  void ask(const IpAddress& target, const Asker& asker, TimePoint now);

  [[nodiscard]] bool translate(Frame& frame);
  [[nodiscard]] bool translate_discovery(Frame& frame);
  [[nodiscard]] bool is_awaited(const wire::NdMessage& advertisement, MacAddress mac);
  [[nodiscard]] wire::EthernetHeader header_for(const IpAddress& source,
                                                const IpAddress& destination);
  [[nodiscard]] MacAddress destination_of(const IpAddress& address) const;

  void answer(const Asker& asker, const IpAddress& target, MacAddress mac, bool is_router);
  void send_arp(const wire::EthernetArp& message, MacAddress to);
  void send_advertisement(const wire::NdMessage& message, MacAddress from, MacAddress to);
  [[nodiscard]] Frame make(std::size_t size, const wire::EthernetHeader& header);

  NeighbourMacs macs_;
  FramePool& messages_;
  Requests requests_;
  MacAddress host_;  ///< of the network interface
  std::unordered_set<IpAddress> own_;
  std::unordered_set<IpAddress> broadcasts_;
  std::vector<IpAddress> wanted_;
  std::vector<Frame> answers_;
  Counters counters_;
  // The last results: packets of one flow follow each other. Empty after any change.
  struct {
    MacAddress mac;
    IpAddress destination;
    std::optional<IpAddress> hop;
    bool is_set = false;
  } last_hop_;
  struct {
    IpAddress source;
    IpAddress destination;
    wire::EthernetHeader header;
    bool is_set = false;
  } last_header_;
};

}  // namespace ipoib::ethernet
