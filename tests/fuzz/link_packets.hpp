// Values, packets and host configurations for the fuzz target `link`, from its input. Addresses,
// GIDs and groups are of small sets, so that they coincide.
#pragma once

#include <array>
#include <optional>

#include "ipoib/frame.hpp"
#include "ipoib/host_view.hpp"
#include "link/link.hpp"
#include "wire/encapsulation.hpp"
#include "wire/neighbour_discovery.hpp"

namespace ipoib::fuzz {

/// All frames return to their pools at the end of an input, so the pools are made once.
struct Pools {
  explicit Pools(std::size_t count) : frames(count, 4160) {}
  [[nodiscard]] std::size_t available() const { return frames.available() + large.available(); }
  [[nodiscard]] std::size_t capacity() const { return frames.capacity() + large.capacity(); }
  FramePool frames;
  FramePool large{3, 16384};
};

class Packets {
 public:
  Packets(ByteReader& in, Pools& pools) : in_(in), pools_(pools) {}

  // --- Values ----------------------------------------------------------------------------------
  [[nodiscard]] static Gid gid(std::uint8_t number) {
    return Gid(Gid::kLinkLocalPrefix, Guid(number));
  }
  [[nodiscard]] Gid gid() { return gid(in_.u8() % 11); }
  [[nodiscard]] Ipv4Address ipv4();
  [[nodiscard]] Ipv6Address ipv6();
  [[nodiscard]] IpAddress ip() { return in_.u8() % 2 == 0 ? IpAddress(ipv4()) : IpAddress(ipv6()); }
  [[nodiscard]] HwAddress hardware();
  /// Of one of those addresses.
  [[nodiscard]] Gid mgid();
  [[nodiscard]] HostView host_view();

  // --- Packets of the host, with kHeadroom bytes before them; empty if no frame is free ---------
  [[nodiscard]] Frame packet();  ///< of any kind below
  [[nodiscard]] Frame raw(std::size_t begin);
  [[nodiscard]] Frame ipv4_packet(Ipv4Address to);
  [[nodiscard]] Frame ipv6_packet(const Ipv6Address& to);
  /// Not larger than a slot; often with options, or one that may be fragmented.
  [[nodiscard]] Frame odd_packet();
  /// To be segmented (GSO).
  [[nodiscard]] Frame large_packet();
  /// Solicitation, advertisement, router message or redirect, with valid checksum.
  [[nodiscard]] Frame discovery();

  // --- Datagrams, with the encapsulation header ------------------------------------------------
  [[nodiscard]] Frame arp();
  [[nodiscard]] Frame arp_of(const HwAddress& sender, Ipv4Address address, Ipv4Address target,
                             bool is_request);
  [[nodiscard]] static Frame encapsulated(Frame packet);
  /// With a byte changed, or shorter.
  [[nodiscard]] Frame mutated(Frame frame);

 private:
  [[nodiscard]] Frame frame_of(std::size_t begin, ConstBytes bytes);
  [[nodiscard]] Frame router_message(wire::NdType type);
  [[nodiscard]] RoutingTable routing_table();
  [[nodiscard]] RoutingRule routing_rule();
  [[nodiscard]] IpPrefix prefix();
  /// The first address of a range of either family, or one of those after it.
  [[nodiscard]] IpAddress one_of(std::uint32_t v4, Ipv6Address::Bytes v6);
  [[nodiscard]] IpAddress own_address();
  [[nodiscard]] IpAddress group();
  [[nodiscard]] IpAddress gateway(IpFamily of);

  ByteReader& in_;
  Pools& pools_;
};

}  // namespace ipoib::fuzz
