// What shows whether a device computes the checksums of datagrams: some report that they do
// (IBV_DEVICE_UD_IP_CSUM), and ignore IBV_SEND_IP_CSUM without a word. A queue pair sends itself
// what they would have to be computed for: a large packet of UDP, over IPv4 and over IPv6. A device
// that says so cuts it, too; what comes shows both. (Of TCP nothing is shown: who gets the lengths
// of UDP right is trusted with it.)
#pragma once

#include <array>
#include <chrono>

#include "ipoib/bytes.hpp"
#include "ipoib/frame.hpp"

namespace ipoib::verbs {

/// How long a queue pair waits for them to come back, when it comes up,
inline constexpr std::chrono::milliseconds kProbePatience{100};
/// and in how many of its lives, while they do not: its partition may have gone meanwhile, or does
/// not let it hear itself.
inline constexpr int kProbeRounds = 3;
inline constexpr std::array<std::uint8_t, 2> kProbeVersions{4, 6};  ///< of IP
inline constexpr std::size_t kProbeSegments = 2;                    ///< of each packet

/// Makes a large packet of the frame, to one of this host's own loopback addresses, with nothing in
/// the places of its checksums. The slot has room for 128 octets.
void write_probe(Frame& frame, std::uint8_t version);
/// A segment of such a packet; begins with the encapsulation header.
[[nodiscard]] bool is_probe(ConstBytes datagram);
/// Its checksums are right.
[[nodiscard]] bool is_probe_right(ConstBytes probe);

/// What the device has shown. A value: it is told what comes.
class ChecksumCheck {
 public:
  /// Nothing is shown yet, nor the contrary: another round may tell.
  [[nodiscard]] bool is_open() const { return verdict_ == Verdict::open && rounds_ < kProbeRounds; }
  [[nodiscard]] bool passed() const { return verdict_ == Verdict::passed; }
  [[nodiscard]] bool failed() const { return verdict_ == Verdict::failed; }

  /// Begins a round: the probes are sent.
  void begin();
  /// They have not all come back.
  [[nodiscard]] bool is_waiting() const { return missing_ != 0; }
  /// A datagram from the queue pair to itself. False: it was none of them.
  [[nodiscard]] bool take(ConstBytes datagram);
  /// The device has refused them.
  void fail() { verdict_ = Verdict::failed; }

 private:
  enum class Verdict : std::uint8_t { open, passed, failed };
  Verdict verdict_ = Verdict::open;
  int rounds_ = 0;
  std::size_t missing_ = 0;
};

}  // namespace ipoib::verbs
