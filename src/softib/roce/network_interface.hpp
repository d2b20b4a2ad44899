// The network interface below a RoCE port: its addresses, MTU and carrier.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/result.hpp"
#include "softib/core/ip_gid.hpp"

namespace softib::roce {

struct NetworkInterface {
  std::string name;
  unsigned index = 0;
  unsigned mtu = 0;          ///< bytes
  bool has_carrier = false;  ///< and is up
  std::uint64_t mac = 0;     ///< 0: it has none
  /// The GIDs of its port: IPv4 addresses first, link-local ones last; at most kMaxGids.
  std::vector<Gid> gids;

  /// A number that differs between interfaces, for the GUIDs of the HCA.
  [[nodiscard]] std::uint64_t seed() const {
    return mac != 0 || gids.empty() ? mac : gids.front().guid().value();
  }
};

/// Reads an interface, by its name or by one of its addresses, which then is its only GID. Fails
/// with ENODEV if this network namespace has none; the error names those that there are.
[[nodiscard]] ipoib::Result<NetworkInterface> read_interface(const std::string& name_or_address);
/// The name of the interface of the default route; empty if there is none.
[[nodiscard]] std::string default_interface();

/// Writes what follows from the interface into the attributes of a port.
void apply(const NetworkInterface& interface, PortAttributes& port);
/// IBA code of the largest MTU of which a packet with all headers fits into `bytes`; 0 if there is
/// none.
[[nodiscard]] std::uint8_t mtu_code_of(unsigned bytes);

/// A descriptor that is readable when an interface or address of this network namespace changes.
[[nodiscard]] ipoib::Result<ipoib::FileDescriptor> watch_interfaces();
/// Takes the messages that are there.
void drain(const ipoib::FileDescriptor& watch);

}  // namespace softib::roce
