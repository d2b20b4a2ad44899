// The interface's thread: it alone owns TUN, queue pair and link, and moves packets between them.
//
// One turn of its loop: read the clock; take messages; a batch from the fabric through the link; a
// batch from the host through the link; what is due. Each source is asked itself, so a turn with
// something to do asks no poller. When there was nothing, the policy (poll_policy.hpp) says whether
// to take another turn, or to sleep until TUN, completion channel, mailbox or the link's next
// deadline. The completion queue is armed before, and polled once more, so that no completion is
// slept over; its events do no more than end a sleep, and are taken off the channel before the next
// one. The TUN is not read while sends wait for room in the send queue or no frame is free; the
// kernel's own queue takes the pressure then.
#pragma once

#include <memory>
#include <vector>

#include "daemon/admin.hpp"
#include "daemon/messages.hpp"
#include "daemon/poll_policy.hpp"
#include "daemon/pools.hpp"
#include "ipoib/log_fwd.hpp"
#include "ipoib/trace.hpp"
#include "link/link.hpp"
#include "linux/poller.hpp"
#include "linux/tun_device.hpp"
#include "offload/coalescer.hpp"
#include "verbs/ud_queue_pair.hpp"

namespace ipoib::daemon {

class Pump {
 public:
  struct Parts {
    host::TunDevice& tun;
    verbs::UdQueuePair& queue_pair;
    Pools& pools;
    InterfaceMailbox& inbox;
    ControlMailbox& outbox;
    TraceRing& trace;
    Logger& log;       ///< the pump's own
    Logger& link_log;  ///< the link's
  };
  struct Settings {
    link::Config link;
    std::uint32_t max_ip_mtu = 0;
    std::uint64_t seed = 0;
    wire::SaRequestId first_request{};
    InterfaceIdentity identity;
    PollMode poll = PollMode::adaptive;
  };

  Pump(Settings settings, const Parts& parts);

  /// The life of the thread. Ends after Stop, or when the interface cannot go on, with a message
  /// Stopped in either case.
  void run();

 private:
  enum Tag : std::uint32_t { kTun, kCompletions, kInbox };

  void turn();
  [[nodiscard]] bool from_fabric();
  [[nodiscard]] bool from_host();
  void sleep();
  void drain();
  void send_pending();
  void mend_queue_pair();
  [[nodiscard]] TimePoint next_deadline() const;

  void take_messages();
  void on(PortChanged& message);
  void on(ClientReregister& message);
  void on(SubnetNotice& message);
  void on(HostChanged& message);
  void on(wire::SaResponse& message);
  void on(AdminRequest& message);
  void on(Stop& message);

  void apply(const wire::SaRequest& event);
  void apply(const link::ConfigureQueuePair& event);
  void apply(const link::AttachGroup& event);
  void apply(const link::DetachGroup& event);
  void apply(const link::SetMtu& event);
  void apply(const link::SetCarrier& event);
  void apply(const link::HostGroupsChanged& event);

  void end(Ending why);

  Settings settings_;
  Parts parts_;
  link::Link link_;
  offload::Coalescer coalescer_;
  host::Poller poller_;
  PollPolicy policy_;
  InterfaceStatus status_;

  TimePoint now_{};
  bool armed_ = false;
  /// Packets of the next batch from the host: twice as many as there were, so that one that comes
  /// alone goes on before the TUN is asked whether there are more.
  std::size_t host_limit_ = 1;
  bool stopping_ = false;
  bool setup_failed_ = false;
  std::vector<Gid> not_attached_;  ///< groups of the instructions being carried out
  TimePoint mend_not_before_{};
  std::string awaited_;  ///< what was said that the link waits for
  Ending ending_;

  // Batches, kept for their memory.
  std::vector<Frame> packets_;
  std::vector<Incoming> datagrams_;
  std::vector<ToInterface> messages_;
  std::vector<link::Event> events_;
};

}  // namespace ipoib::daemon
