// Messages that the view itself sends to the host's side of an interface.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ipoib/frame.hpp"
#include "wire/arp.hpp"
#include "wire/ethernet.hpp"
#include "wire/group_membership.hpp"
#include "wire/neighbour_discovery.hpp"

namespace ipoib::ethernet {

class HostMessages {
 public:
  /// Bytes before an IP packet that is read from a TAP, so that the packet is aligned.
  static constexpr std::size_t kHeadroom = 16;
  static constexpr std::size_t kSize = kHeadroom + wire::NdMessage::kMaxEmitted;

  /// `frames` outlives this object; its slots have at least kSize bytes.
  explicit HostMessages(FramePool& frames) : frames_(frames) {}

  // A bridge learns from the source MAC of a frame, `from`, where that MAC is. So it is one of the
  // view, even in messages about the MAC of a station.
  void arp(const wire::EthernetArp& message, MacAddress to) {
    arp(message, to, message.sender_hardware);
  }
  void arp(const wire::EthernetArp& message, MacAddress to, MacAddress from);
  /// Sends a gratuitous request to all (RFC 5227, 3).
  void announce(Ipv4Address address, MacAddress mac);
  /// Sends a neighbour advertisement about `mac`.
  void advertisement(const wire::NdMessage& message, MacAddress mac, MacAddress to) {
    advertisement(message, mac, to, mac);
  }
  void advertisement(const wire::NdMessage& message, MacAddress mac, MacAddress to,
                     MacAddress from);
  /// Sends a neighbour solicitation from `mac`.
  void solicitation(const wire::NdMessage& message, MacAddress mac, MacAddress to);

  /// Sends a query of IGMP or MLD from `mac` to the members of its destination, or to one station.
  void query(const wire::GroupQuery& query, MacAddress mac, std::optional<MacAddress> to = {});

  [[nodiscard]] std::vector<Frame>& waiting() { return waiting_; }
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }  ///< for lack of a buffer

 private:
  void discovery(const wire::NdMessage& message, wire::LinkLayerOption option,
                 const wire::EthernetHeader& header, MacAddress mac);
  [[nodiscard]] Frame make(std::size_t size, const wire::EthernetHeader& header);

  FramePool& frames_;
  std::vector<Frame> waiting_;
  std::uint64_t dropped_ = 0;
};

}  // namespace ipoib::ethernet
