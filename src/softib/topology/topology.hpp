// The switches, HCAs and cables of a subnet, as an operator describes them: a value without state.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "softib/core/fabric_types.hpp"

namespace softib::topology {

/// Highest port number of a switch (IBA 18.2.1).
inline constexpr unsigned kMaxSwitchPorts = 254;

struct Switch {
  std::string name;         ///< valid (is_valid_name()) and unique among switches and HCAs
  std::string description;  ///< NodeDescription, at most 63 bytes; empty: the name
  Guid guid;                ///< of the node and of port 0; 0: derived from the name
  std::uint8_t ports = 0;   ///< 1 to kMaxSwitchPorts
  friend bool operator==(const Switch&, const Switch&) = default;
};

struct Hca {
  std::string name;         ///< valid (is_valid_name()) and unique among switches and HCAs
  std::string description;  ///< NodeDescription, at most 63 bytes; empty: the name
  Guid guid;                ///< of the node; 0: derived from the name
  std::uint8_t ports = 1;   ///< 1 to kMaxHcaPorts
  std::array<Guid, kMaxHcaPorts> port_guids{};  ///< of port i + 1; 0: derived
  friend bool operator==(const Hca&, const Hca&) = default;
};

/// One end of a cable.
struct End {
  bool is_switch = false;
  std::uint16_t index = 0;  ///< of the switch or HCA in Topology
  std::uint8_t port = 0;    ///< 1 and up
  friend auto operator<=>(const End&, const End&) = default;
};

/// A cable between two different ports, none of which has another cable.
struct Cable {
  End a;
  End b;
  std::uint8_t width = 2;           ///< IBA LinkWidthActive: 2 = 4x
  std::uint8_t speed = 4;           ///< IBA LinkSpeedActive: 4 = QDR
  std::uint8_t extended_speed = 0;  ///< IBA LinkSpeedExtActive: 0 = none, 1 = FDR, 2 = EDR, 4 = HDR
  friend bool operator==(const Cable&, const Cable&) = default;
};

/// At most kMaxSwitches switches and kMaxNodes - 1 HCAs.
struct Topology {
  std::vector<Switch> switches;
  std::vector<Hca> hcas;
  std::vector<Cable> cables;
  friend bool operator==(const Topology&, const Topology&) = default;
};

}  // namespace softib::topology
