// A request of SaClient and its progress; sa_client.cpp has the table of the states.
#pragma once

#include <cstdint>

#include "ipoib/mad_port.hpp"
#include "ipoib/time.hpp"
#include "wire/sa_request.hpp"

namespace ipoib::sa {

struct Transaction {
  enum class State : std::uint8_t { unlisted, postponed, held, waiting, in_flight, backing_off };

  wire::SaRequest request;
  std::uint64_t order = 0;     ///< of the request among all
  bool is_superseded = false;  ///< by a later request about the membership: not sent again
  MadDestination asked{};      ///< the last MAD was sent there
  State state = State::unlisted;
  TimePoint deadline = kNever;         ///< of the state
  TimePoint postponed_until = kNever;  ///< at the latest; then the client gives up
  unsigned attempts = 0;               ///< MADs sent
};

}  // namespace ipoib::sa
