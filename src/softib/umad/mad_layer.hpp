// The MAD layer of one process, as the kernel's is to libibumad: agents, transactions with
// time-outs and repetitions, RMPP in both directions. No descriptor, no clock, no lock: calls and
// `now` go in, packets to send and MADs for agents come out in lists.
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
#include "softib/umad/registration.hpp"
#include "softib/umad/rmpp.hpp"

namespace softib::umad {

class MadLayer {
 public:
  /// Of the process that `self` names, whatever agent that names: it goes into transaction ids.
  explicit MadLayer(const MadRoute& self) : self_(self) {}

  /// The number of a new agent. That nobody else takes the same requests is the caller's affair.
  [[nodiscard]] ipoib::Result<std::uint32_t> add_agent(const Registration& registration);
  /// Its transactions end without a word.
  void remove_agent(std::uint32_t agent);

  /// Sends a MAD, or an RMPP message of any length. EINVAL: no such agent or P_Key, too short or
  /// too long, or a request with the transaction id of another one that is still waiting.
  [[nodiscard]] ipoib::Result<void> send(std::uint32_t agent, const MadAddress& to, ConstBytes mad,
                                         const Persistence& persistence, const PortAttributes& port,
                                         ipoib::TimePoint now);
  void receive(const MadPacket& packet, const PortAttributes& port, ipoib::TimePoint now);
  void on_time(ipoib::TimePoint now);
  [[nodiscard]] ipoib::TimePoint next_deadline() const;

  [[nodiscard]] std::vector<MadPacket> take_outgoing() { return std::exchange(outgoing_, {}); }
  [[nodiscard]] std::vector<Arrived> take_arrived() { return std::exchange(arrived_, {}); }
  /// What was dropped since the last call, one entry each.
  [[nodiscard]] std::vector<fabric::PortCounter> take_drops() { return std::exchange(drops_, {}); }

 private:
  struct Transaction {
    std::uint32_t agent = 0;
    MadHeader header;
    MadAddress to;
    MadPacket packet;  ///< to send again; only its addresses count for RMPP
    std::optional<RmppSender> sender;
    Persistence persistence;
    unsigned retries_left = 0;
    ipoib::TimePoint deadline;
  };
  struct Reassembly {
    std::uint32_t agent = 0;
    MadHeader header;
    Lid from;
    MadPacket last;  ///< the segment that came last; what is answered looks like it
    RmppReceiver receiver;
    ipoib::TimePoint deadline;
  };
  using Transactions = std::vector<Transaction>;
  using Reassemblies = std::vector<Reassembly>;

  /// A packet that passed the port, and whose it is.
  struct Incoming {
    const MadPacket& packet;
    MadHeader header;
    std::uint16_t pkey_index = 0;
    std::uint8_t path_bits = 0;
    std::uint32_t agent = 0;
  };

  [[nodiscard]] std::optional<std::uint32_t> agent_for(const MadPacket& packet,
                                                       const MadHeader& header) const;
  [[nodiscard]] Transactions::iterator find(std::uint32_t agent, const MadHeader& header);
  [[nodiscard]] bool is_duplicate(std::uint32_t agent, const MadHeader& header, Lid to) const;
  void transmit(Transaction& transaction, ipoib::TimePoint now);
  bool time_out(Transaction& transaction, ipoib::TimePoint now);
  void receive_whole(const Incoming& in, std::vector<std::uint8_t> mad);
  void receive_rmpp(const Incoming& in, const ipoib::wire::RmppHeader& rmpp, ipoib::TimePoint now);
  void reassemble(const Incoming& in, ipoib::TimePoint now);
  [[nodiscard]] Reassemblies::iterator reassembly(const Incoming& in);
  [[nodiscard]] bool make_room();
  void control_sender(const Incoming& in, const ipoib::wire::RmppHeader& rmpp,
                      ipoib::TimePoint now);
  void answer(const MadPacket& packet, const Mad& mad);
  void drop(fabric::PortCounter why) { drops_.push_back(why); }

  [[nodiscard]] MadRoute route_of(std::uint32_t agent) const;

  const MadRoute self_;
  std::uint32_t next_agent_ = 1;
  std::map<std::uint32_t, Registration> agents_;
  Transactions transactions_;
  Reassemblies reassemblies_;
  std::vector<MadPacket> outgoing_;
  std::vector<Arrived> arrived_;
  std::vector<fabric::PortCounter> drops_;
};

}  // namespace softib::umad
