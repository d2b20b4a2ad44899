#include "softib/fabric/port_counters.hpp"

namespace softib::fabric {

namespace {
/// The names in the order of PortCounter.
constexpr std::array<std::string_view, kPortCounters> kNames{
    "sent_packets",        "sent_bytes",          "received_packets",     "received_bytes",
    "multicast_copies",    "drop_malformed",      "drop_port_not_active", "drop_unknown_lid",
    "drop_empty_place",  // drop_empty_slot, by its name since the first release
    "drop_congested",      "drop_lost_peer",      "drop_no_receiver",     "drop_unknown_qp",
    "drop_qkey",           "drop_pkey",           "drop_no_receive",      "drop_not_attached",
    "drop_mad_no_agent",   "drop_mad_no_request", "drop_mad_full",        "drop_link_fault",
    "link_duplicates",     "drop_icrc",           "rc_retries",           "rc_rnr_naks",
    "rc_srq_rnr_naks",     "srq_limit_events",    "rc_duplicates",        "rc_sequence_errors",
    "uc_dropped_messages", "qp_errors",           "accept_paused",
};
static_assert(!kNames.back().empty());
}  // namespace

std::string_view name(PortCounter counter) {
  const auto index = static_cast<std::size_t>(counter);
  return index < kNames.size() ? kNames[index] : "";
}

}  // namespace softib::fabric
