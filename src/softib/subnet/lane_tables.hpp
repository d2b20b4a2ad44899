// The tables of virtual lanes of an HCA or a switch (IBA 14.2.5.8, 14.2.5.9): what an SM writes is
// kept and read again. Packets have no lanes in the emulation, so nothing else uses them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "softib/core/fabric_types.hpp"

namespace softib::subnet {

class LaneTables {
 public:
  /// Bytes of a block of each table.
  static constexpr std::size_t kSlToVlSize = 8;
  static constexpr std::size_t kArbitrationSize = 64;
  /// The blocks of the arbitration table: entries of low and of high priority, in two halves each.
  static constexpr unsigned kArbitrationBlocks = 4;
  static constexpr std::uint8_t kArbitrationEntries = 64;  ///< of each priority
  using SlToVl = std::array<std::uint8_t, kSlToVlSize>;    ///< 4 bits each of SLs 0 to 15
  using Arbitration = std::array<std::uint8_t, kArbitrationSize>;

  /// `ports` is the highest port number of a switch; 0 for the port of an HCA.
  explicit LaneTables(SwitchPort ports = 0) : ports_(ports) {}

  [[nodiscard]] bool has_port(unsigned port) const { return port <= ports_; }
  /// The ports of all these have to exist. Each SL has the VL of its number at first, but SL 15
  /// VL 7: VL 15 is for management only.
  [[nodiscard]] SlToVl sl_to_vl(unsigned in, unsigned out) const;
  void set_sl_to_vl(unsigned in, unsigned out, const SlToVl& to);
  /// `block` is 0 to kArbitrationBlocks - 1. All weights are 0 at first.
  [[nodiscard]] Arbitration arbitration(unsigned port, unsigned block) const;
  void set_arbitration(unsigned port, unsigned block, const Arbitration& to);

 private:
  [[nodiscard]] std::size_t index(unsigned in, unsigned out) const {
    return in * (ports_ + std::size_t{1}) + out;
  }

  SwitchPort ports_;
  std::vector<SlToVl> sl_to_vl_;          ///< empty until the first is set
  std::vector<Arbitration> arbitration_;  ///< likewise
};

}  // namespace softib::subnet
