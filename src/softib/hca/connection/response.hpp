// The response that a responder owes for a request.
#pragma once

#include <cstdint>

#include "wire/connected_packet.hpp"
#include "wire/psn.hpp"

namespace softib::hca {

/// An acknowledgement, or the response of a READ or of an atomic operation.
struct Response {
  enum class Kind : std::uint8_t { acknowledge, read, atomic };
  ipoib::wire::Psn psn;  ///< of its first packet
  ipoib::wire::Aeth aeth{};
  Kind kind = Kind::acknowledge;
  ipoib::wire::Reth read{};        ///< the memory to read
  std::uint32_t shared_queue = 0;  ///< that the request named, in requests of XRC
  std::uint64_t original = 0;      ///< what the atomic operation has found
  bool is_repeated = false;        ///< the request had been executed before
  std::uint32_t packets = 1;       ///< at least one
  std::uint32_t sent = 0;          ///< number of its packets that were sent
};

}  // namespace softib::hca
