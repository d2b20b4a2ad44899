// Part of values.hpp: the ports of an interface with a backup port.
#pragma once

#include <cstdint>
#include <string>

#include "ipoib/address.hpp"

namespace ipoib::control {

/// One of the two ports of an interface with a backup port.
struct PortInfo {
  std::string device;  ///< RDMA device
  std::uint8_t port = 0;
  std::string role;         ///< "primary" or "backup"
  bool active = false;      ///< serves the interface
  std::string state;        ///< of the bring-up of its link
  std::string waiting_for;  ///< as text; empty when up
  Gid gid;
  Lid lid;
  Lid sm_lid;
  friend bool operator==(const PortInfo&, const PortInfo&) = default;
};

}  // namespace ipoib::control
