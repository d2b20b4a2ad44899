// What a client of the subnet administrator counts.
#pragma once

#include <cstdint>

namespace ipoib::sa {

struct Counters {
  std::uint64_t queries = 0;            ///< questions asked
  std::uint64_t requests = 0;           ///< MADs sent, with retries
  std::uint64_t retries = 0;            ///< MADs sent again
  std::uint64_t answers = 0;            ///< questions answered by a record
  std::uint64_t refused_by_status = 0;  ///< questions answered by a status
  std::uint64_t busy = 0;               ///< responses with status BUSY
  std::uint64_t redirects = 0;          ///< responses that named another place to ask
  std::uint64_t timeouts = 0;           ///< requests without a response in time
  std::uint64_t send_errors = 0;        ///< requests that the port did not take
  std::uint64_t malformed_answers = 0;  ///< a response without the record that was asked for
  std::uint64_t strangers = 0;          ///< MADs that answer no request of ours, dropped
  std::uint64_t reports = 0;            ///< of the administrator, with repetitions
  std::uint64_t overloaded = 0;         ///< questions refused since too many waited
  std::uint64_t without_sm = 0;         ///< questions given up for want of a subnet manager
};

}  // namespace ipoib::sa
