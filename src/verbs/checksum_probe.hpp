// Tests whether a device computes the checksums of datagrams. Some devices advertise it
// (IBV_DEVICE_UD_IP_CSUM), but silently ignore IBV_SEND_IP_CSUM. So a queue pair sends itself one
// large UDP packet over IPv4 and one over IPv6. A device that advertises TSO also segments them, so
// the received segments test both. (TCP is not tested: a device that sets the UDP lengths correctly
// is trusted with TCP.)
#pragma once

#include <array>
#include <chrono>

#include "ipoib/bytes.hpp"
#include "ipoib/frame.hpp"

namespace ipoib::verbs {

/// How long a queue pair that comes up waits for the probes to return.
inline constexpr std::chrono::milliseconds kProbeTimeout{100};
/// How often a queue pair probes while probes are lost: its partition may be gone at the moment.
/// That of a limited member sends none, since it cannot receive from itself.
inline constexpr int kMaxProbeAttempts = 3;
inline constexpr std::array<std::uint8_t, 2> kProbeVersions{4, 6};  ///< of IP
inline constexpr std::size_t kProbeSegments = 2;                    ///< of each packet

/// Writes a large packet to a loopback address, without checksums, into the frame. The slot has
/// room for 128 bytes.
void write_probe(Frame& frame, std::uint8_t version);
/// Whether a datagram, with its encapsulation header, is a segment of such a packet.
[[nodiscard]] bool is_probe(ConstBytes datagram);
[[nodiscard]] bool has_valid_checksums(ConstBytes probe);

/// The result of the probes so far. It is a value: the owner sends the probes and passes in the
/// datagrams that it receives.
class ChecksumProbe {
 public:
  /// Whether there is no result yet, and attempts are left.
  [[nodiscard]] bool is_open() const {
    return state_ == State::open && attempts_ < kMaxProbeAttempts;
  }
  [[nodiscard]] bool passed() const { return state_ == State::passed; }
  [[nodiscard]] bool failed() const { return state_ == State::failed; }

  /// Begins an attempt: the probes are about to be sent.
  void begin();
  /// Whether some probes have not returned.
  [[nodiscard]] bool is_waiting() const { return missing_ != 0; }
  /// Takes a datagram from the queue pair to itself. Returns false if it is not a probe.
  [[nodiscard]] bool take(ConstBytes datagram);
  /// The device has refused the probes.
  void fail() { state_ = State::failed; }

 private:
  enum class State : std::uint8_t { open, passed, failed };
  State state_ = State::open;
  int attempts_ = 0;
  std::size_t missing_ = 0;
};

}  // namespace ipoib::verbs
