// The MAD layer of one process, which does what the kernel's MAD layer does for libibumad: agents,
// transactions with timeouts and retries, RMPP in both directions. It has no descriptor, clock or
// lock. The caller passes in `now` and takes the packets to send and the received MADs from lists.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ipoib/result.hpp"
#include "ipoib/time.hpp"
#include "softib/core/mad_packet.hpp"
#include "softib/fabric/port_counters.hpp"
#include "softib/umad/mad_values.hpp"
#include "softib/umad/reassemblies.hpp"
#include "softib/umad/registration.hpp"
#include "softib/umad/rmpp.hpp"

namespace softib::umad {

class MadLayer {
 public:
  /// `self` identifies the process in transaction ids; its agent and node are ignored.
  explicit MadLayer(const MadRoute& self) : self_(self) {}

  /// Returns the number of a new agent on a port of the HCA. The caller ensures that no other agent
  /// of the port takes the same requests.
  [[nodiscard]] ipoib::Result<std::uint32_t> add_agent(const Registration& registration,
                                                       const AgentPort& port);
  /// Removes an agent, and drops its transactions without a report.
  void remove_agent(std::uint32_t agent);

  /// Sends a MAD or an RMPP message by `port`, that of the agent. Fails with EINVAL if there is no
  /// such agent, P_Key or GID, no GRH although the port requires one, the message is too short or
  /// too long, or a pending request has its transaction id; and with ENOMEM if too many requests
  /// are pending.
  [[nodiscard]] ipoib::Result<void> send(std::uint32_t agent, const MadAddress& to, ConstBytes mad,
                                         const RetryPolicy& retry, const PortAttributes& port,
                                         ipoib::TimePoint now);
  /// `port` is the one at which the packet has arrived.
  void receive(const MadPacket& packet, const PortAttributes& port, ipoib::TimePoint now);
  void on_time(ipoib::TimePoint now);
  [[nodiscard]] ipoib::TimePoint next_deadline() const;

  [[nodiscard]] std::vector<MadPacket> take_outgoing() { return std::exchange(outgoing_, {}); }
  [[nodiscard]] std::vector<ReceivedMad> take_received() { return std::exchange(received_, {}); }
  /// One entry for each packet dropped since the last call.
  [[nodiscard]] std::vector<fabric::PortCounter> take_drops() { return std::exchange(drops_, {}); }

 private:
  struct Agent {
    Registration registration;
    AgentPort port;
  };
  [[nodiscard]] static bool is_at(const Agent& agent, const MadPacket& packet);
  struct Transaction {
    std::uint32_t agent = 0;
    MadHeader header;
    MadAddress to;
    MadPacket packet;  ///< to send again; with RMPP, only its addresses are used
    std::optional<RmppSender> sender;
    RetryPolicy retry;
    unsigned retries_left = 0;
    ipoib::TimePoint deadline;
  };
  using Transactions = std::vector<Transaction>;

  /// A packet that passed the checks of the port, and the agent that it is for.
  struct Incoming {
    const MadPacket& packet;
    MadHeader header;
    std::uint16_t pkey_index = 0;
    std::uint8_t path_bits = 0;
    std::uint8_t lmc = 0;  ///< of all ports of the subnet
    std::uint32_t agent = 0;
  };

  [[nodiscard]] std::optional<std::uint32_t> agent_for(const MadPacket& packet,
                                                       const MadHeader& header) const;
  [[nodiscard]] Transactions::iterator find(const Incoming& in);
  [[nodiscard]] bool is_duplicate(std::uint32_t agent, const MadHeader& header, Lid to) const;
  void transmit(Transaction& transaction, ipoib::TimePoint now);
  bool retry_or_fail(Transaction& transaction, ipoib::TimePoint now);
  void deliver(const Incoming& in, std::vector<std::uint8_t> mad);
  void receive_rmpp(const Incoming& in, const ipoib::wire::RmppHeader& rmpp, ipoib::TimePoint now);
  void reassemble(const Incoming& in, bool is_first, ipoib::TimePoint now);
  [[nodiscard]] Reassembly* reassembly(const Incoming& in);
  void on_progress(Reassembly& transfer, const Incoming& in, ipoib::TimePoint now);
  void receive_rmpp_control(const Incoming& in, const ipoib::wire::RmppHeader& rmpp,
                            ipoib::TimePoint now);
  void reply(const MadPacket& packet, const Mad& mad);
  void drop(fabric::PortCounter why) { drops_.push_back(why); }

  [[nodiscard]] MadRoute route_of(std::uint32_t agent) const;

  const MadRoute self_;
  std::uint32_t next_agent_ = 1;
  std::map<std::uint32_t, Agent> agents_;
  Transactions transactions_;
  Reassemblies reassemblies_;
  std::vector<MadPacket> outgoing_;
  std::vector<ReceivedMad> received_;
  std::vector<fabric::PortCounter> drops_;
};

}  // namespace softib::umad
