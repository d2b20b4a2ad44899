// Messages that the view itself sends to the host's side of an interface.
#pragma once

#include <cstdint>
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

  /// `frames` outlives it; its slots have at least kSize bytes.
  explicit HostMessages(FramePool& frames) : frames_(frames) {}

  void arp(const wire::EthernetArp& message, MacAddress to);
  /// A gratuitous request to all (RFC 5227, 3).
  void announce(Ipv4Address address, MacAddress mac);
  /// A neighbour advertisement about `mac`.
  void advertisement(const wire::NdMessage& message, MacAddress mac, MacAddress to);
  /// A neighbour solicitation from `mac`.
  void solicitation(const wire::NdMessage& message, MacAddress mac, MacAddress to);

  /// A query of IGMP or MLD from `mac`.
  void query(const wire::GroupQuery& query, MacAddress mac);

  [[nodiscard]] std::vector<Frame>& waiting() { return waiting_; }
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }  ///< no buffer was free

 private:
  void discovery(const wire::NdMessage& message, wire::LinkLayerOption option,
                 const wire::EthernetHeader& header, MacAddress mac);
  [[nodiscard]] Frame make(std::size_t size, const wire::EthernetHeader& header);

  FramePool& frames_;
  std::vector<Frame> waiting_;
  std::uint64_t dropped_ = 0;
};

}  // namespace ipoib::ethernet
