// The purpose that a frame is sent for, on which the limits that it may use up depend.
#pragma once

namespace ipoib::link {

/// A packet of the host is a use of the neighbour. A reply to an ARP request or a solicitation of
/// the neighbour is not: strangers cause as many of them as they like.
enum class Purpose : bool { reply, packet };

}  // namespace ipoib::link
