// The MADs that wait for the subnet process, and a fair share of its time for each port.
//
// One thread serves all ports, and requests differ by a factor of 10^5 in what they cost: a table
// of all paths, or one record. So they are not served in the order of arrival, nor in turn, but the
// one whose sender has used the least time comes first ("start-time fair queueing", Goyal, Vin and
// Cheng 1997). A port that sends more than it has time for delays its own requests; those of
// another port wait only for the MAD that is being served.
#pragma once

#include <map>
#include <queue>
#include <set>
#include <utility>

#include "ipoib/fair_share.hpp"
#include "ipoib/time.hpp"
#include "softib/core/fabric_types.hpp"
#include "softib/core/mad_packet.hpp"

namespace softib::subnetd {

class MadQueue {
 public:
  struct Next {
    NodeIndex from = 0;
    MadPacket mad;
  };

  /// A queue for `capacity` MADs.
  explicit MadQueue(std::size_t capacity) : shares_(capacity) {}

  /// Returns false if the sender has its share of the capacity.
  [[nodiscard]] bool push(NodeIndex from, const MadPacket& mad);
  [[nodiscard]] bool empty() const { return waiting_.empty(); }
  /// Requires that the queue is not empty.
  [[nodiscard]] Next pop();
  /// Charges a sender for the MAD that was served. Must be called before the next pop().
  void charge(NodeIndex from, ipoib::Duration took);

 private:
  struct Sender {
    std::queue<MadPacket> mads;
    ipoib::Duration used{};
  };

  ipoib::FairShare<NodeIndex> shares_;
  std::map<NodeIndex, Sender> senders_;  ///< all that there have been, at most kMaxNodes + 1
  std::set<std::pair<ipoib::Duration, NodeIndex>> waiting_;  ///< by the time that they have used
  /// What the sender that was served last had used. One that has sent nothing for a while begins
  /// here, so that it has saved up no time.
  ipoib::Duration least_used_{};
};

}  // namespace softib::subnetd
