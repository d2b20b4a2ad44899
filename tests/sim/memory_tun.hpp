// An in-memory TunPort: a queue for each direction. Packets of a TAP have their Ethernet header.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ipoib/interface_mtu.hpp"
#include "ipoib/tun_port.hpp"

namespace ipoib::sim {

class MemoryTun : public TunPort {
 public:
  using Packet = std::vector<std::uint8_t>;

  explicit MemoryTun(std::string name) : name_(std::move(name)) {}

  [[nodiscard]] const std::string& name() const override { return name_; }
  bool read(const HostPools& pools, std::size_t headroom, std::vector<Frame>& out,
            std::size_t limit) override {
    for (std::size_t count = 0; count < limit && !to_fabric.empty(); ++count) {
      Frame frame = pools.packets.take();
      if (!frame) break;
      const Packet& packet = to_fabric.front();
      frame.window(headroom - link_header, packet.size());
      std::copy(packet.begin(), packet.end(), frame.bytes().begin());
      frame.drop_front(link_header);
      out.push_back(std::move(frame));
      to_fabric.pop_front();
    }
    return !to_fabric.empty();
  }
  bool write(ConstBytes packet) override {
    if (is_full) return false;
    if (kernel && kernel(packet)) return true;
    from_fabric.emplace_back(packet.data() - link_header, packet.data() + packet.size());
    return true;
  }
  [[nodiscard]] bool accepts(Segmentation::Kind kind) const override {
    return accepts_large && kind != Segmentation::Kind::none;
  }
  bool write_large(std::span<const ConstBytes> pieces, const Segmentation& how) override {
    if (is_full) return false;
    Packet whole;
    for (const ConstBytes piece : pieces) whole.insert(whole.end(), piece.begin(), piece.end());
    large.emplace_back(from_fabric.size(), how);
    from_fabric.push_back(std::move(whole));
    return true;
  }
  [[nodiscard]] Result<void> set_mtu(std::uint32_t bytes) override {
    mtu = mtu_.wanted(bytes, mtu);
    mtu_.was_set(mtu);
    return {};
  }
  [[nodiscard]] Result<void> set_carrier(bool on) override {
    carrier_changes += on != carrier ? 1 : 0;
    carrier = on;
    return {};
  }

  std::deque<Packet> to_fabric;     ///< packets that the host sends
  std::vector<Packet> from_fabric;  ///< packets that the host has received
  /// If set, is called for each packet to the host; returns whether it consumes the packet.
  std::function<bool(ConstBytes packet)> kernel;
  std::size_t link_header = 0;  ///< bytes before each packet: 14 on a TAP
  bool accepts_large = false;
  bool is_full = false;  ///< accepts no packets
  /// Indices of large packets in from_fabric, and their segmentation.
  std::vector<std::pair<std::size_t, Segmentation>> large;
  std::uint32_t mtu = 0;  ///< the operator may change it
  bool carrier = false;
  unsigned carrier_changes = 0;

 private:
  std::string name_;
  InterfaceMtu mtu_;
};

}  // namespace ipoib::sim
