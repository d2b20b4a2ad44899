#include "softib/umad/reassemblies.hpp"

#include <algorithm>
#include <iterator>

namespace softib::umad {

Reassembly* Reassemblies::find(std::uint32_t agent, const MadHeader& header, Lid from) {
  const auto found = std::find_if(all_.begin(), all_.end(), [&](const Reassembly& one) {
    return one.agent == agent && one.from == from &&
           one.header.transaction_id == header.transaction_id &&
           one.header.management_class == header.management_class &&
           one.header.method == header.method;
  });
  return found == all_.end() ? nullptr : &*found;
}

Reassembly* Reassemblies::begin(std::uint32_t agent, const MadHeader& header,
                                const MadPacket& first, bool requested, std::uint8_t lmc,
                                ipoib::TimePoint now) {
  const auto is_of_kind = [&](const Reassembly& one) { return one.requested == requested; };
  const auto is_of_port = [&](const Reassembly& one) {
    return !one.requested && is_same_port(one.from, first.slid, lmc);
  };
  const bool has_room = requested ? make_room(kMaxReassemblies, is_of_kind)
                                  : make_room(kMaxUnsolicitedOfPort, is_of_port) &&
                                        make_room(kMaxUnsolicited, is_of_kind);
  if (!has_room) return nullptr;
  const RmppReceiver receiver(requested ? kMaxRmppSegments : kMaxUnsolicitedSegments);
  all_.push_back({agent, header, first.slid, requested, first, receiver, now + kReassemblyTimeout});
  return &all_.back();
}

template <class Counts>
bool Reassemblies::make_room(std::size_t bound, Counts counts) {
  const auto count = std::count_if(all_.begin(), all_.end(), counts);
  if (static_cast<std::size_t>(count) < bound) return true;
  const auto complete = std::find_if(all_.begin(), all_.end(), [&](const Reassembly& one) {
    return counts(one) && one.receiver.is_complete();
  });
  if (complete == all_.end()) return false;
  all_.erase(complete);
  return true;
}

void Reassemblies::erase(const Reassembly& transfer) {
  all_.erase(all_.begin() + (&transfer - all_.data()));
}

void Reassemblies::erase_agent(std::uint32_t agent) {
  std::erase_if(all_, [&](const Reassembly& one) { return one.agent == agent; });
}

std::vector<Reassembly> Reassemblies::take_expired(ipoib::TimePoint now) {
  const auto expired = std::stable_partition(
      all_.begin(), all_.end(), [&](const Reassembly& one) { return one.deadline > now; });
  std::vector<Reassembly> out(std::make_move_iterator(expired),
                              std::make_move_iterator(all_.end()));
  all_.erase(expired, all_.end());
  return out;
}

ipoib::TimePoint Reassemblies::next_deadline() const {
  ipoib::TimePoint first = ipoib::kNever;
  for (const auto& one : all_) first = std::min(first, one.deadline);
  return first;
}

}  // namespace softib::umad
