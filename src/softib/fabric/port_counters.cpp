#include "softib/fabric/port_counters.hpp"

namespace softib::fabric {

namespace {
/// The names in the order of PortCounter.
constexpr std::array<std::string_view, kPortCounters> kNames{
    "sent_packets",
    "sent_bytes",
    "received_packets",
    "received_bytes",
    "multicast_copies",
    "drop_malformed",
    "drop_port_not_active",
    "drop_unknown_lid",
    "drop_routing_loop",
    "drop_unreachable",
    "drop_too_long",
    "drop_empty_place",  // drop_empty_slot, by its name since the first release
    "drop_congested",
    "drop_lost_peer",
    "drop_no_receiver",
    "drop_unknown_qp",
    "drop_qkey",
    "drop_pkey",
    "drop_no_receive",
    "drop_not_attached",
    "drop_mad_no_agent",
    "drop_mad_no_request",
    "drop_mad_full",
    "drop_link_fault",
    "link_duplicates",
    "drop_cable_fault",
    "drop_icrc",
    "rc_retries",
    "rc_rnr_naks",
    "rc_srq_rnr_naks",
    "srq_limit_events",
    "cnps_sent",
    "cnps_received",
    "rc_duplicates",
    "rc_sequence_errors",
    "uc_dropped_messages",
    "qp_errors",
    "accept_paused",
};
static_assert(!kNames.back().empty());
}  // namespace

std::string_view name(PortCounter counter) {
  const auto index = static_cast<std::size_t>(counter);
  return index < kNames.size() ? kNames[index] : "";
}

subnet::PerformanceCounters performance_counters(const PortCounterValues& values) {
  const auto of = [&](PortCounter counter) { return values[static_cast<std::size_t>(counter)]; };
  subnet::PerformanceCounters counters;
  counters.symbol_errors = of(PortCounter::drop_icrc) + of(PortCounter::drop_cable_fault);
  counters.receive_errors = of(PortCounter::drop_malformed) + counters.symbol_errors;
  counters.relay_errors = of(PortCounter::drop_unknown_lid) + of(PortCounter::drop_routing_loop);
  counters.transmit_discards = of(PortCounter::drop_port_not_active) +
                               of(PortCounter::drop_congested) + of(PortCounter::drop_lost_peer) +
                               of(PortCounter::drop_link_fault);
  counters.vl15_dropped = of(PortCounter::drop_mad_full);
  counters.transmit_data = of(PortCounter::sent_bytes) / 4;
  counters.receive_data = of(PortCounter::received_bytes) / 4;
  counters.transmit_packets = of(PortCounter::sent_packets);
  counters.receive_packets = of(PortCounter::received_packets);
  return counters;
}

}  // namespace softib::fabric
