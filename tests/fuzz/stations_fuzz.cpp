// Stations behind the TAP of a view: frames of several stations, requests and claims of the fabric,
// and time. What the link is told is consistent: each address is served once, none of the host is,
// and replies are for addresses that are served; tables stay within their limits.
//
// An input is a sequence of: action (1 byte), operand (1 byte); for a raw frame its size and
// content follow.
#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "cost.hpp"
#include "ethernet/view.hpp"
#include "require.hpp"
#include "wire/group_membership.hpp"

using namespace ipoib;
using ethernet::StationTable;
using ethernet::View;
using wire::ArpOperation;
using wire::EthernetArp;
using wire::EthernetHeader;
using wire::EtherType;

namespace {

constexpr std::uint64_t kMaxCost = 400'000;  // of one step
constexpr std::size_t kSlot = 512;
constexpr std::size_t kStations = 4;
constexpr MacAddress kHost{0x0200'0000'0001};
constexpr Ipv4Address kHostIp{0x0a2c0001};

HwAddress hardware(std::uint32_t number) {
  return {.flags = 0, .qpn = Qpn(number), .gid = Gid(Gid::kLinkLocalPrefix, Guid(number))};
}
MacAddress mac(unsigned number) { return MacAddress(0x0200'0000'0100 + number % 8); }
/// Few, so that stations meet; one of them is the host's.
Ipv4Address ip(unsigned number) { return Ipv4Address(0x0a2c0001 + number % 8); }
Ipv6Address ip6(unsigned number) {
  return Ipv6Address(Ipv6Address::Bytes{0xfd, 0x44, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                        static_cast<std::uint8_t>(1 + number % 8)});
}

class Machine {
 public:
  Machine() {
    HostView host;
    host.mac = kHost;
    host.addresses = {{kHostIp, 24}};
    host.local = {{kHostIp, 32}};
    view_.on_host_changed(host, now_);
    view_.on_link_address(hardware(1));
  }

  void step(std::uint8_t action, std::uint8_t operand, ByteReader& input) {
    const CostLimit limit(kMaxCost);
    const unsigned low = operand & 7;
    const unsigned high = operand >> 3 & 7;
    switch (action % 9) {
      case 0:
        arp(mac(low), ArpOperation::request, ip(high), ip(high));
        break;
      case 1:
        arp(mac(low), ArpOperation::reply, ip(high), ip(action >> 4));
        break;
      case 2:
        arp(mac(low), ArpOperation::request, ip(high), ip(action >> 4));
        break;
      case 3:
        packet(mac(low), destination(operand), ip(high), ip(action >> 4));
        break;
      case 4:
        advertise(mac(low), ip6(high), (action & 0x80) != 0);
        break;
      case 5:
        view_.on_neighbour((action & 0x80) != 0 ? IpAddress(ip(high)) : IpAddress(ip6(high)),
                           hardware(2 + low), false, now_);
        break;
      case 6:
        view_.on_request({.operation = ArpOperation::request,
                          .sender_hardware = hardware(2 + low),
                          .sender_protocol = (operand & 0x80) != 0 ? Ipv4Address() : ip(low + 3),
                          .target_hardware = {},
                          .target_protocol = ip(high)},
                         now_);
        break;
      case 7:
        now_ += std::chrono::milliseconds(operand) * (1 << (action >> 5));
        view_.tick(now_);
        received_ = ip(operand);
        break;
      case 8:
        raw(mac(low), action, input);
        break;
    }
    take();
  }

 private:
  Frame frame(const EthernetHeader& header, ConstBytes packet) {
    Frame made = pool_.take();
    require(static_cast<bool>(made));
    made.window(View::kHeadroom, packet.size());
    std::ranges::copy(packet, made.bytes().begin());
    header.emit(made.bytes().data() - EthernetHeader::kSize);
    return made;
  }
  void send(MacAddress from, MacAddress to, EtherType type, ConstBytes packet) {
    std::vector<Frame> batch;
    batch.push_back(frame({to, from, static_cast<std::uint16_t>(type)}, packet));
    std::vector<std::optional<IpAddress>> hops;
    view_.from_host(batch, hops, now_);
    require(hops.size() == batch.size());
  }
  void arp(MacAddress from, ArpOperation operation, Ipv4Address sender, Ipv4Address target) {
    std::array<std::uint8_t, EthernetArp::kSize> bytes;
    EthernetArp{operation, from, sender, {}, target}.emit(bytes);
    send(from, kBroadcastMac, EtherType::arp, bytes);
  }
  /// A MAC of a neighbour, of a station, of the link itself, or one that the view does not know.
  [[nodiscard]] MacAddress destination(std::uint8_t operand) const {
    switch (operand >> 6) {
      case 0:
        return view_.mac_of(hardware(2 + (operand & 7)));
      case 1:
        return mac(operand >> 3);
      case 2:
        return view_.mac_of(hardware(1));
      default:
        return MacAddress(0x0600'0000'0001);
    }
  }
  void packet(MacAddress from, MacAddress mac, Ipv4Address source, Ipv4Address to) {
    std::array<std::uint8_t, 28> bytes{0x45, 0, 0, 28};
    std::ranges::copy(source.bytes(), bytes.begin() + 12);
    std::ranges::copy(to.bytes(), bytes.begin() + 16);
    send(from, mac, EtherType::ipv4, bytes);
  }
  void advertise(MacAddress from, const Ipv6Address& address, bool is_router) {
    wire::NdMessage message;
    message.type = wire::NdType::neighbour_advertisement;
    message.source = message.target = address;
    message.destination = ip6(0);
    message.is_router = is_router;
    std::array<std::uint8_t, wire::NdMessage::kMaxEmitted> bytes;
    send(from, view_.mac_of(hardware(2)), EtherType::ipv6,
         ConstBytes(bytes).first(message.emit(bytes)));
  }
  void raw(MacAddress from, std::uint8_t kind, ByteReader& input) {
    if (input.left() == 0) return;
    const ConstBytes bytes = input.take(std::min<std::size_t>(input.u8(), input.left()));
    constexpr std::array kTypes{EtherType::ipv4, EtherType::ipv6, EtherType::arp, EtherType::rarp};
    const MacAddress to = (kind & 0x80) != 0 ? MacAddress(0x0100'5e01'0203) : kBroadcastMac;
    (void)wire::group_memberships(bytes);
    send(from, to, kTypes[kind >> 4 & 3], bytes);
  }
  /// What the daemon does after each stimulus.
  void take() {
    ethernet::Stations& stations = *view_.stations();
    for (const auto& service : stations.services()) {
      if (service.on) {
        require(service.address != IpAddress(kHostIp));
        served_.insert(service.address);
      } else {
        require(served_.erase(service.address) == 1);
      }
    }
    stations.services().clear();
    for (const wire::Arp& reply : stations.replies()) {
      require(served_.contains(reply.target_protocol));
    }
    stations.replies().clear();
    stations.events().clear();
    stations.searches().clear();
    (void)stations.take_groups();
    view_.wanted().clear();
    const StationTable& table = stations.table();
    require(table.stations() <= kStations);
    require(table.size() <= kStations * StationTable::kAddressesShare);
    std::size_t served = 0;
    std::uint32_t slot = 0;
    while (const auto* const entry = table.next(slot)) {
      require(entry->is_served() == served_.contains(entry->address()));
      served += entry->is_served() ? 1U : 0U;
    }
    require(served == served_.size());
    std::vector<Frame> frames;
    if (const auto to = std::exchange(received_, std::nullopt)) {
      std::array<std::uint8_t, 28> bytes{0x45, 0, 0, 28};
      std::ranges::copy(to->bytes(), bytes.begin() + 16);
      frames.push_back(frame({}, bytes));
    }
    view_.to_host(frames, now_);
    for (const Frame& one : frames) {
      const auto header = EthernetHeader::parse(one.bytes().data() - EthernetHeader::kSize);
      require(header.source.bytes()[0] == 0x06);
    }
  }

  TimePoint now_{std::chrono::hours(1)};
  FramePool pool_{600, kSlot};
  View view_{{.neighbours = 16, .stations = kStations}, HashKey{1, 2}, pool_};
  std::set<IpAddress> served_;
  std::optional<Ipv4Address> received_;  ///< a packet of the fabric for this address
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Machine machine;
  ByteReader input(ConstBytes(data, size));
  while (input.left() >= 2) {
    const std::uint8_t action = input.u8();
    const std::uint8_t operand = input.u8();
    machine.step(action, operand, input);
  }
  return 0;
}
