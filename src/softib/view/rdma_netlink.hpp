// The answers of the kernel's RDMA family of netlink (NETLINK_RDMA, rdma/rdma_netlink.h) about the
// HCAs of a process: devices, ports and their counters, and resources of the processes on them,
// which rdma(8) prints.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "softib/view/netlink_message.hpp"
#include "softib/view/resources.hpp"

namespace softib::view {

/// The answers to what the socket with the number `port_id` has sent, in the order in which it is
/// to receive them. As in the kernel, requests that are incomplete or unknown are answered with an
/// error, and what is no request is ignored.
[[nodiscard]] std::vector<Datagram> netlink_answers(ConstBytes sent, std::uint32_t port_id,
                                                    std::span<const ShownHca> hcas,
                                                    ResourceSource& source);

}  // namespace softib::view
