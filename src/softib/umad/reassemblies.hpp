// The transfers (RMPP) that a process is receiving, with their bounds: responses to its requests,
// and transfers that any port may begin.
#pragma once

#include <cstdint>
#include <vector>

#include "ipoib/time.hpp"
#include "softib/umad/mad_values.hpp"
#include "softib/umad/rmpp.hpp"

namespace softib::umad {

struct Reassembly {
  std::uint32_t agent = 0;
  MadHeader header;
  Lid from;
  bool requested = false;
  MadPacket last;  ///< last segment received; the template of an ABORT
  RmppReceiver receiver;
  ipoib::TimePoint deadline;
};

/// Whether two LIDs are of one port. A subnet manager assigns one LMC to all ports.
[[nodiscard]] inline bool is_same_port(Lid one, Lid other, std::uint8_t lmc) {
  return ipoib::base_lid(one, lmc) == ipoib::base_lid(other, lmc);
}

class Reassemblies {
 public:
  /// Finds a transfer; null if there is none.
  [[nodiscard]] Reassembly* find(std::uint32_t agent, const MadHeader& header, Lid from);
  /// Begins a transfer with its first segment. At a bound, it replaces a complete one of the same
  /// kind; returns null if there is none.
  [[nodiscard]] Reassembly* begin(std::uint32_t agent, const MadHeader& header,
                                  const MadPacket& first, bool requested, std::uint8_t lmc,
                                  ipoib::TimePoint now);
  void erase(const Reassembly& transfer);
  void erase_agent(std::uint32_t agent);
  /// Removes the transfers whose deadline has come, and returns them.
  [[nodiscard]] std::vector<Reassembly> take_expired(ipoib::TimePoint now);
  [[nodiscard]] ipoib::TimePoint next_deadline() const;

 private:
  template <class Counts>
  [[nodiscard]] bool make_room(std::size_t bound, Counts counts);

  std::vector<Reassembly> all_;
};

}  // namespace softib::umad
