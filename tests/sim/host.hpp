// A host with an IPoIB link in virtual time: pump, SA client, subscriptions and port view of the
// daemon, on a TUN in memory and the emulated HCA.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/port/port_watcher.hpp"
#include "daemon/pump/pump.hpp"
#include "ipoib/host_view.hpp"
#include "sa/sa_client.hpp"
#include "sa/subscriptions.hpp"
#include "tests/sim/hca_port.hpp"
#include "tests/sim/memory_tun.hpp"
#include "tests/sim/world.hpp"

namespace ipoib::sim {

[[nodiscard]] Logger& silent_logger();
/// An IPv4 packet of `size` bytes in total, with a number as its payload.
[[nodiscard]] MemoryTun::Packet ip_packet(Ipv4Address from, Ipv4Address to, std::uint32_t number,
                                          std::size_t size = 28);
[[nodiscard]] MemoryTun::Packet ip_packet(const Ipv6Address& from, const Ipv6Address& to,
                                          std::uint32_t number);

struct HostOptions {
  std::string hca;  ///< name of its HCA, which determines GUIDs; several hosts may share one
  IpPrefix address;
  std::optional<MacAddress> mac = {};  ///< of a TAP; none: a TUN
  std::size_t stations = 0;            ///< limit of those behind the TAP
  bool ipv6 = false;                   ///< whether it has the link-local address that ipoibd adds
  std::uint32_t slot = 0;              ///< process slot on the HCA
  std::uint32_t epoch = 1;             ///< higher for each start of a process, so that QPNs differ
  bool takes_reports = true;           ///< only one program on a port receives them
  std::reference_wrapper<Logger> log = silent_logger();
  link::Config link = {};
  std::uint32_t queue_depth = HcaPort::kDepth;  ///< of its queue pair
  std::size_t frames = 1024;                    ///< for packets of the host and messages
};

class Host : public Process, public MadPort {
 public:
  Host(World& world, const HostOptions& options);
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  /// Ends without notice, as by SIGKILL.
  ~Host() override;

  [[nodiscard]] link::Link& link() const { return pump_->link(); }
  [[nodiscard]] HwAddress hardware() const { return pump_->link().hardware_address(); }
  [[nodiscard]] MemoryTun& tun() { return tun_; }
  [[nodiscard]] HcaPort& queue_pair() { return *port_; }
  [[nodiscard]] const sa::Counters& sa_counters() const { return sa_->counters(); }
  [[nodiscard]] std::size_t sa_pending() const { return sa_->pending(); }
  [[nodiscard]] softib::NodeIndex node() const { return node_; }
  [[nodiscard]] Ipv4Address ip() const {
    return std::get<Ipv4Address>(view_.addresses.front().address);
  }
  /// Returns the last address.
  [[nodiscard]] Ipv6Address ipv6() const {
    return std::get<Ipv6Address>(view_.addresses.back().address);
  }
  [[nodiscard]] const std::optional<MacAddress>& mac() const { return view_.mac; }
  [[nodiscard]] std::uint64_t count(link::Counter counter) const {
    return pump_->link().counters()[counter];
  }
  [[nodiscard]] const ethernet::View* ethernet() const { return pump_->host().ethernet(); }
  [[nodiscard]] bool is_up() const { return tun_.carrier; }
  /// Returns "gone" if there is no entry.
  [[nodiscard]] std::string state_of(const IpAddress& address) const;

  /// Sends packets with these numbers to an address.
  void send(Ipv4Address to, std::uint32_t first = 1, std::uint32_t count = 1,
            std::size_t size = 28);
  /// Sends any packet.
  void send(MemoryTun::Packet packet);
  /// Sends a datagram from its queue pair that its link knows nothing about, as a hostile program
  /// can: the HCA fills in QPN, LID and GID.
  void send_datagram(const AddressVector& to, Qpn qpn, ConstBytes datagram);
  /// Sends a packet from its IPv6 address.
  void send(const Ipv6Address& to, std::uint32_t number = 1);
  /// Number of received packets, from an address and in total.
  [[nodiscard]] std::size_t received_from(const IpAddress& from) const;
  [[nodiscard]] std::size_t received() const { return tun_.from_fabric.size(); }
  void add_address(const IpPrefix& prefix);
  /// As of a host whose bridge has none.
  void remove_addresses();
  /// Sets the multicast groups that the host has joined.
  void set_groups(std::vector<IpAddress> groups);
  /// Starts or stops to route IPv4 multicast.
  void route_multicast(bool on);
  /// Shuts down in order, as by SIGTERM.
  void shut_down();

  // --- Process ----------------------------------------------------------------------------------
  [[nodiscard]] bool receive(ConstBytes packet) override {
    hca_->receive({packet});
    return port_->has_work();
  }
  void receive_mad(const ReceivedMad& mad) override { mads_.push_back(mad); }
  [[nodiscard]] bool takes_reports() const override { return takes_reports_; }
  void port_changed(const softib::PortAttributes& port) override;
  void turn() override;
  [[nodiscard]] TimePoint next_deadline() const override;

 private:
  [[nodiscard]] Result<void> send(const MadDestination& to, ConstBytes mad,
                                  Duration timeout) override;
  [[nodiscard]] std::optional<ReceivedMad> receive() override;
  [[nodiscard]] MadSource source() override;

  void host_changed();
  void renew_subscriptions();
  void exchange_with_sa();
  [[nodiscard]] bool take_as_kernel(ConstBytes packet);
  void drain();
  void send_requests();
  void apply(const wire::SaRequest& request);
  template <class Message>
  void apply(const Message& /*message*/) {}  // parts of the daemon that are not simulated

  World& world_;
  const PKey pkey_;
  const bool takes_reports_;
  daemon::PortView port_view_;
  HostView view_;
  MemoryTun tun_;
  FramePool frames_;
  std::deque<ReceivedMad> mads_;
  std::uint32_t reregister_count_ = 0;
  std::unique_ptr<softib::hca::Hca> hca_;
  std::unique_ptr<HcaPort> port_;
  std::unique_ptr<sa::SaClient> sa_;
  sa::Subscriptions subscriptions_;
  std::unique_ptr<daemon::RouteFollower> routes_;
  std::unique_ptr<daemon::Pump> pump_;
  softib::NodeIndex node_ = 0;
};

}  // namespace ipoib::sim
