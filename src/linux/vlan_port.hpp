// The host's side of an interface that is a VLAN of a TAP: reads the VLAN's queue, and writes to
// the TAP. It has no network interface of its own; name, MTU and carrier are the TAP's.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "linux/packet_reader.hpp"
#include "linux/pollable_tun.hpp"
#include "linux/vlan_trunk.hpp"

namespace ipoib::linux {

class VlanPort final : public PollableTun {
 public:
  /// `trunk` outlives this object. `name` is for clients of the interface.
  VlanPort(VlanTrunk& trunk, VlanId vlan, std::string name)
      : trunk_(trunk), vlan_(vlan), name_(std::move(name)) {
    reader_.expect_ethernet();
    trunk_.open(vlan_);
  }
  VlanPort(const VlanPort&) = delete;
  VlanPort& operator=(const VlanPort&) = delete;
  ~VlanPort() override { trunk_.close(vlan_); }

  [[nodiscard]] const std::string& name() const override { return name_; }
  bool read(const HostPools& pools, std::size_t headroom, std::vector<Frame>& out,
            std::size_t limit) override {
    return reader_.read(trunk_.queue_of(vlan_), pools, headroom, out, limit);
  }
  bool write(ConstBytes packet) override { return trunk_.write(vlan_, {}, {&packet, 1}); }
  [[nodiscard]] bool accepts(Segmentation::Kind kind) const override {
    return trunk_.accepted().contains(kind);
  }
  bool write_large(std::span<const ConstBytes> pieces, const Segmentation& how) override {
    return trunk_.write(vlan_, header_of(pieces.front(), how), pieces);
  }
  [[nodiscard]] Result<void> set_mtu(std::uint32_t /*bytes*/) override { return {}; }
  [[nodiscard]] Result<void> set_carrier(bool /*on*/) override { return {}; }
  void set_speed(std::uint32_t /*mbps*/) override {}
  [[nodiscard]] HostDrops drops() const override { return {.malformed = reader_.malformed()}; }
  [[nodiscard]] bool is_up() const override { return trunk_.tap() >= 0; }
  [[nodiscard]] bool is_gone() const override { return false; }

 private:
  VlanTrunk& trunk_;
  const VlanId vlan_;
  const std::string name_;
  PacketReader reader_;
};

}  // namespace ipoib::linux
