#include "softib/fabric/port_counters.hpp"

namespace softib::fabric {

std::string_view name(PortCounter counter) {
  switch (counter) {
    case PortCounter::sent_packets:
      return "sent_packets";
    case PortCounter::sent_bytes:
      return "sent_bytes";
    case PortCounter::received_packets:
      return "received_packets";
    case PortCounter::received_bytes:
      return "received_bytes";
    case PortCounter::multicast_copies:
      return "multicast_copies";
    case PortCounter::drop_malformed:
      return "drop_malformed";
    case PortCounter::drop_port_not_active:
      return "drop_port_not_active";
    case PortCounter::drop_unknown_lid:
      return "drop_unknown_lid";
    case PortCounter::drop_empty_place:
      return "drop_empty_place";
    case PortCounter::drop_congested:
      return "drop_congested";
    case PortCounter::drop_lost_peer:
      return "drop_lost_peer";
    case PortCounter::drop_no_receiver:
      return "drop_no_receiver";
    case PortCounter::drop_unknown_qp:
      return "drop_unknown_qp";
    case PortCounter::drop_qkey:
      return "drop_qkey";
    case PortCounter::drop_pkey:
      return "drop_pkey";
    case PortCounter::drop_no_receive:
      return "drop_no_receive";
    case PortCounter::drop_not_attached:
      return "drop_not_attached";
    case PortCounter::drop_mad_no_agent:
      return "drop_mad_no_agent";
    case PortCounter::drop_mad_no_request:
      return "drop_mad_no_request";
    case PortCounter::drop_mad_full:
      return "drop_mad_full";
    case PortCounter::accept_paused:
      return "accept_paused";
    case PortCounter::count_:
      break;
  }
  return "";
}

}  // namespace softib::fabric
