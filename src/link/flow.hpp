// The properties of a packet by which the host routes it.
#pragma once

#include <cstdint>
#include <optional>

#include "ipoib/bytes.hpp"
#include "ipoib/ip.hpp"

namespace ipoib::link {

class HostAddresses;

struct Flow {
  IpAddress source;
  IpAddress destination;
  // The members below are set only if read_headers() has been called.
  std::uint8_t tos = 0;       ///< or traffic class
  std::uint8_t protocol = 0;  ///< or next header
  bool has_ports = false;     ///< false: none, or in another fragment
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
  std::optional<bool> is_of_host = {};  ///< false: forwarded; nullopt: not known
  friend bool operator==(const Flow&, const Flow&) = default;
};

/// Sets the other members of `flow` from an IP packet with a valid header.
void read_headers(ConstBytes packet, const HostAddresses& host, Flow& flow);

}  // namespace ipoib::link
