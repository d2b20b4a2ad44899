#include "link/claims.hpp"

#include <string>

#include "ipoib/log.hpp"
#include "ipoib/log_event.hpp"

namespace ipoib::link {

bool Claims::admit(const IpAddress& address, const HwAddress& hardware, const Incoming& datagram,
                   TimePoint now) {
  if (is_admissible(address, hardware, datagram)) return true;
  deps_.out.counters.add(may_be_sender(hardware, datagram) ? Counter::drop_pinned_gid
                         : has_qpn(hardware, datagram)     ? Counter::drop_false_gid
                                                           : Counter::drop_false_qpn);
  const auto left_out = pause_.take(now);
  if (!left_out) return false;
  deps_.log.log(message_id(events::kFalseClaim), spdlog::level::warn,
                "dropped a false claim: LID {}, QPN {:#x}{} says that it has {} at {}{}",
                datagram.source_lid.value(), datagram.source_qpn.value(),
                datagram.has_grh ? ", GID " + datagram.source_gid.to_string() : "",
                to_string(address), hardware.to_string(),
                *left_out == 0 ? "" : "; dropped " + std::to_string(*left_out) + " before it");
  return false;
}

}  // namespace ipoib::link
