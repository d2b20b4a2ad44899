#include "link/counters.hpp"

namespace ipoib::link {
namespace {

constexpr std::array<std::string_view, kCounterCount> kCounterNames{
    "drop_link_down",
    "drop_malformed_packet",
    "drop_multicast_not_joined",
    "drop_no_group",
    "drop_group_limit",
    "drop_bad_destination",
    "drop_packet_too_big",
    "drop_path_mtu_exceeded",
    "drop_neighbour_failed",
    "drop_neighbour_limit",
    "drop_neighbour_removed",
    "drop_unresolved_limit",
    "drop_solicitation_limit",
    "drop_path_limit",
    "drop_path_failed",
    "drop_parked_limit",
    "drop_parked_total_limit",
    "drop_not_up",
    "drop_malformed_datagram",
    "drop_own_multicast",
    "drop_foreign_group",
    "drop_unsupported_type",
    "drop_malformed_arp",
    "drop_bad_arp_sender",
    "drop_duplicate_address",
    "drop_malformed_nd",
    "drop_no_frame",
    "tx_packets",
    "rx_packets",
    "too_big_answers",
    "arp_received",
    "arp_requests_broadcast",
    "arp_requests_unicast",
    "arp_replies_sent",
    "nd_received",
    "nd_solicitations_multicast",
    "nd_solicitations_unicast",
    "announcements_sent",
    "announcements_skipped",
    "solicitations_withheld",
    "neighbours_created",
    "neighbours_evicted",
    "neighbour_address_changes",
    "path_requests",
    "path_responses",
    "path_failures",
    "paths_evicted",
    "path_reports",
    "path_lid_mismatches",
    "address_handle_refusals",
    "join_questions",
    "join_refusals",
    "memberships_lost",
    "groups_evicted",
    "host_groups_left_out",
    "multicast_by_routers",
    "carrier_losses",
    "dhcp_requests_rewritten",
    "dhcp_replies_rewritten",
    "dhcp_requests_mended",
    "dhcp_left_alone",
    "dhcp_transactions_evicted",
};
// A missing name would leave an empty one at the end; an extra one does not compile.
static_assert(!kCounterNames.back().empty());

}  // namespace

std::string_view name(Counter counter) { return kCounterNames[static_cast<std::size_t>(counter)]; }

}  // namespace ipoib::link
