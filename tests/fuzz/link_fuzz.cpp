// A link with arbitrary frames, responses, times and events, and with limits so small that all of
// them are reached. The input is a script: a byte selects the next step, the bytes after it are its
// arguments. No frame is lost, no limit is exceeded, no group is attached twice, and no deadline is
// reported twice.
#include <spdlog/sinks/null_sink.h>

#include <map>
#include <memory>
#include <set>

#include "ipoib/log.hpp"
#include "link/link.hpp"
#include "require.hpp"
#include "tests/support/address_handles.hpp"
#include "wire/arp.hpp"
#include "wire/encapsulation.hpp"
#include "wire/ipv6.hpp"
#include "wire/neighbour_discovery.hpp"

using namespace ipoib;
using namespace ipoib::link;
using wire::SaFailure;

namespace {

template <class Record>
struct Outstanding {
  wire::SaRequestId id;
  Record record;
};

constexpr std::size_t kMaxSteps = 2000;
constexpr std::size_t kSlot = 512;

class Script {
 public:
  explicit Script(ConstBytes input) : input_(input) {
    port_.active = port_.sm_known = true;
    port_.lid = Lid(1);
    port_.gid = gid(1);
    port_.pkey_index = 0;
    link_.on_host_changed(view_, now_);
    link_.on_port(port_, now_);
    drain();
  }

  void run() {
    for (std::size_t step = 0; step < kMaxSteps && input_.left() > 0; ++step) {
      do_step(input_.u8());
      drain();
      check();
    }
    link_.shut_down(now_);
    drain();
    link_.sends().clear();
    link_.to_host().clear();
    require(!carrier_ && attached_.empty());
    require(pool_.available() == pool_.capacity());
  }

 private:
  void do_step(std::uint8_t what) {
    switch (what % 21) {
      case 0:
        return send(packet_to(address()));
      case 1:
        return send(raw(kHeadroom));
      case 2:
        return receive(arp());
      case 3:
        return receive(mutated(arp()));
      case 4:
        return receive(raw(0));
      case 5:
        return respond_path();
      case 6:
        return respond_join();
      case 7:
        return reach_deadline();
      case 8:
        return pass(std::chrono::milliseconds(input_.u16()));
      case 9:
        return change_port();
      case 10:
        return link_.on_client_reregister(now_);
      case 11:
        return link_.on_queue_pair(Qpn(0x100U + input_.u8()), now_);
      case 12:
        return input_.u8() % 2 == 0 ? link_.on_setup_failed(now_) : refuse_attachment();
      case 13:
        return change_host();
      case 14:
        return (void)link_.set_permanent(address(), hardware(), now_);
      case 15:
        return (void)(input_.u8() % 2 == 0
                          ? link_.remove(address())
                          : link_.pin(address(), gid(input_.u8() % 11)).has_value());
      case 16:
        return (void)(input_.u8() % 8 == 0 ? link_.flush() : 0);
      case 17:
        handles_.refuses = input_.u8() % 4 == 0;
        return;
      case 18:
        return receive(encapsulated(discovery()));
      case 19:
        return send(input_.u8() % 2 == 0 ? discovery() : mutated(discovery()));
      case 20:
        return send(packet_to(address6()));
    }
  }

  // --- Values from small sets, so that they coincide --------------------------------------------
  [[nodiscard]] static Gid gid(std::uint8_t number) {
    return Gid(Gid::kLinkLocalPrefix, Guid(number));
  }
  [[nodiscard]] Ipv4Address address() {
    const std::uint8_t pick = input_.u8();
    if (pick == 0xff) return Ipv4Address(0xe0000001);
    if (pick == 0xfe) return Ipv4Address(input_.u32());
    return Ipv4Address(0x0a000000U + pick % 24);
  }
  [[nodiscard]] Ipv6Address address6() {
    const std::uint8_t pick = input_.u8();
    if (pick == 0xff) return {};
    Ipv6Address::Bytes bytes{0xfe, 0x80};
    if (pick >= 0xf0) bytes = {0xff, 0x02};
    bytes[15] = pick % 24;
    return pick == 0xef ? Ipv6Address(bytes).solicited_node() : Ipv6Address(bytes);
  }
  [[nodiscard]] HwAddress hardware() {
    const std::uint8_t pick = input_.u8();
    return HwAddress{static_cast<std::uint8_t>(pick & 0x80), Qpn(pick % 7U), gid(pick % 11)};
  }
  [[nodiscard]] Frame frame_of(std::size_t begin, ConstBytes bytes) {
    Frame frame = pool_.take();
    if (!frame) return frame;
    frame.window(begin, bytes.size());
    std::ranges::copy(bytes, frame.bytes().begin());
    return frame;
  }
  [[nodiscard]] Frame raw(std::size_t begin) {
    return frame_of(begin, input_.take(std::min<std::size_t>(input_.u8(), input_.left())));
  }
  [[nodiscard]] Frame packet_to(Ipv4Address to) {
    std::array<std::uint8_t, 64> packet{0x45, 0, 0, 64};
    std::ranges::copy(to.bytes(), packet.begin() + 16);
    return frame_of(kHeadroom, ConstBytes(packet).first(64));
  }
  [[nodiscard]] Frame packet_to(const Ipv6Address& to) {
    std::array<std::uint8_t, 64> packet{};
    wire::Ipv6Header{.source = address6(),
                     .destination = to,
                     .payload_length = 24,
                     .next_header = input_.u8(),
                     .hop_limit = 64}
        .emit(packet);
    return frame_of(kHeadroom, packet);
  }
  [[nodiscard]] Frame discovery() {
    wire::NdMessage message;
    const std::uint8_t pick = input_.u8();
    message.type = pick % 2 == 0 ? wire::NdType::neighbour_solicitation
                                 : wire::NdType::neighbour_advertisement;
    message.is_solicited = (pick & 2) != 0;
    message.overrides = (pick & 4) != 0;
    message.source = address6();
    message.destination = address6();
    message.target = address6();
    if ((pick & 8) != 0) message.source_link_layer = hardware();
    if ((pick & 16) != 0) message.target_link_layer = hardware();
    std::array<std::uint8_t, wire::NdMessage::kMaxEmitted + wire::kLinkLayerOptionSize> bytes{};
    return frame_of(kHeadroom, ConstBytes(bytes).first(message.emit(bytes)));
  }
  [[nodiscard]] static Frame encapsulated(Frame packet) {
    if (packet) {
      wire::emit_encapsulation(wire::EtherType::ipv6, packet.prepend(wire::kEncapsulationSize));
    }
    return packet;
  }
  [[nodiscard]] Frame arp() {
    wire::Arp message;
    message.operation =
        input_.u8() % 2 == 0 ? wire::ArpOperation::request : wire::ArpOperation::reply;
    message.sender_hardware = hardware();
    message.sender_protocol = address();
    message.target_protocol = address();
    std::array<std::uint8_t, wire::kEncapsulationSize + wire::Arp::kSize> bytes{};
    wire::emit_encapsulation(wire::EtherType::arp, bytes.data());
    message.emit(MutableBytes(bytes).subspan(wire::kEncapsulationSize));
    return frame_of(0, bytes);
  }
  [[nodiscard]] Frame mutated(Frame frame) {
    if (!frame) return frame;
    const std::size_t at = input_.u8() % frame.size();
    frame.bytes()[at] = input_.u8();
    if (input_.u8() % 4 == 0) frame.window(0, at);
    return frame;
  }

  // --- Stimuli ---------------------------------------------------------------------------------
  void send(Frame frame) {
    if (frame) link_.from_host({&frame, 1}, now_);
  }
  void receive(Frame frame) {
    if (!frame) return;
    Incoming datagram;
    datagram.frame = std::move(frame);
    datagram.source_lid = Lid(input_.u8() % 4);
    const std::uint8_t sender = input_.u8();
    datagram.source_qpn = Qpn(sender % 7U);
    datagram.has_grh = input_.u8() % 2 == 0;
    if (datagram.has_grh) datagram.source_gid = gid(sender % 11);
    datagram.destination_gid =
        datagram.source_qpn == Qpn(3) ? gid(1) : wire::broadcast_gid(kDefaultPKey);
    link_.from_fabric({&datagram, 1}, now_);
  }
  void respond_path() {
    if (paths_.empty())
      return link_.on_response({wire::SaRequestId(input_.u8()), SaFailure{}}, now_);
    const auto request = paths_.back();
    paths_.pop_back();
    wire::PathRecord record = request.record;
    record.dlid = Lid(input_.u8() % 4);
    record.mtu = input_.u8() % 8;
    record.hop_limit = input_.u8() % 2;
    if (input_.u8() % 4 == 0) return link_.on_response({request.id, SaFailure{}}, now_);
    link_.on_response({request.id, record}, now_);
  }
  void respond_join() {
    if (joins_.empty())
      return link_.on_response({wire::SaRequestId(input_.u8()), SaFailure{}}, now_);
    const auto request = joins_.back();
    joins_.pop_back();
    const std::uint8_t kind = input_.u8() % 8;
    if (kind == 0) return link_.on_response({request.id, SaFailure{}}, now_);
    if (kind == 1 || kind == 2) {
      const SaFailure none(kind == 1 ? wire::SaStatus::insufficient_components
                                     : wire::SaStatus::no_records);
      return link_.on_response({request.id, none}, now_);
    }
    wire::McMemberRecord record = request.record;
    record.mlid = Lid(static_cast<std::uint16_t>(0xbfff + input_.u8() % 4));
    record.mtu = input_.u8() % 7;
    record.qkey = QKey(input_.u8() % 2);
    record.join_state =
        kind == 3 ? wire::McMemberRecord::kSendOnlyNonMember : wire::McMemberRecord::kFullMember;
    link_.on_response({request.id, record}, now_);
  }
  /// The link detaches from the broadcast group even if it was not attached.
  void refuse_attachment() {
    if (attached_.empty()) return;
    auto at = attached_.begin();
    std::advance(at, input_.u8() % attached_.size());
    const Gid mgid = at->first;
    if (mgid != wire::broadcast_gid(config_.pkey, wire::scope_of(mgid))) attached_.erase(at);
    link_.on_attach_failed(mgid, now_);
  }
  void reach_deadline() {
    if (link_.next_deadline() == kNever) return;
    now_ = std::max(now_, link_.next_deadline());
    link_.tick(now_);
    require(link_.next_deadline() > now_);
  }
  void pass(Duration time) {
    now_ += time;
    link_.tick(now_);
    require(link_.next_deadline() > now_);
  }
  void change_port() {
    const std::uint8_t pick = input_.u8();
    port_.active = pick % 8 != 0;
    port_.sm_known = pick % 16 != 1;
    port_.lid = Lid(1 + pick / 16 % 2);
    port_.gid = gid(static_cast<std::uint8_t>(1 + (pick % 32 == 5)));
    port_.pkey_index.reset();
    if (pick % 16 != 3) port_.pkey_index = static_cast<std::uint16_t>(pick / 32 % 2);
    link_.on_port(port_, now_);
  }
  void change_host() {
    view_.addresses.clear();
    for (std::uint8_t left = input_.u8() % 4; left > 0; --left) {
      view_.addresses.push_back({address(), static_cast<std::uint8_t>(input_.u8() % 33)});
    }
    link_.on_host_changed(view_, now_);
  }

  // --- Events of the link -----------------------------------------------------------------------
  void drain() {
    for (const Event& event : std::exchange(link_.events(), {})) {
      std::visit([this](const auto& what) { on(what); }, event);
    }
    if (link_.sends().size() > 8) link_.sends().clear();
    link_.to_host().clear();
  }
  void on(const wire::SaRequest& request) {
    if (const auto* path = std::get_if<wire::PathQuery>(&request.query)) {
      paths_.push_back({request.id, path->record});
      require(paths_.size() <= config_.limits.path_requests);
    } else if (const auto* join = std::get_if<wire::JoinQuery>(&request.query)) {
      joins_.push_back({request.id, join->record});
    } else if (const auto* lookup = std::get_if<wire::LookupQuery>(&request.query)) {
      joins_.push_back({request.id, lookup->record});
    }
  }
  void on(const HostGroupsChanged&) {}
  void on(const RedirectReceived&) {}
  void on(const ArpPolicyUsed&) {}
  void on(const ArpReplyCheck& check) { link_.reply_to_arp(check.request, now_); }
  void on(const ConfigureQueuePair&) {}
  void on(const AttachGroup& group) { require(attached_[group.mgid].insert(group.mlid).second); }
  void on(const DetachGroup& group) {
    const auto at = attached_.find(group.mgid);
    require(at != attached_.end());
    require(at->second.erase(group.mlid) == 1);
    if (at->second.empty()) attached_.erase(at);
  }
  void on(const SetMtu& mtu) { require(mtu.bytes >= 252); }
  void on(const SetCarrier& carrier) {
    require(carrier_ != carrier.on);
    carrier_ = carrier.on;
  }

  void check() {
    std::size_t parked = 0;
    std::size_t seen = 0;
    std::size_t unused_pins = 0;
    for (std::optional<NeighbourCursor> at = NeighbourCursor{}; at;) {
      const NeighbourPage page = link_.list(*at, 4, now_);
      for (const NeighbourInfo& entry : page.entries) {
        parked += entry.parked;
        if (entry.state == NeighbourState::pinned) {
          ++unused_pins;
        } else {
          ++seen;
        }
        // An entry has the GID that its address is pinned to.
        if (entry.pinned && entry.hardware) require(entry.hardware->gid == *entry.pinned);
      }
      at = page.next;
    }
    for (const GroupInfo& group : link_.groups()) parked += group.parked;
    require(seen == link_.neighbour_count());
    require(seen <= config_.limits.neighbours);
    require(unused_pins <= config_.limits.pins);
    require(parked <= config_.limits.parked + config_.limits.parked_replies);
    require(pool_.available() + parked + link_.sends().size() == pool_.capacity());
    require(carrier_ == (link_.state() == LinkState::up));
  }

  static Config small(bool is_strict) {
    Config config;
    config.creation.allowed = true;
    config.strict_arp = is_strict;
    config.limits = {.neighbours = 8,
                     .unresolved = 4,
                     .parked_per_neighbour = 2,
                     .parked = 6,
                     .parked_replies = 3,
                     .pins = 3,
                     .paths = 6,
                     .path_requests = 2,
                     .announcements = 3,
                     .solicitations = 20};
    return config;
  }

  ByteReader input_;
  Config config_ = small(input_.u8() % 4 == 0);
  HostView view_{{{Ipv4Address(0x0a000001), 24}}};
  FakeAddressHandles handles_;
  FramePool pool_{40, kSlot};
  Logger log_{"link", std::make_shared<spdlog::sinks::null_sink_st>()};
  TimePoint now_{std::chrono::seconds(1)};
  Link link_{config_, {handles_, pool_, pool_, log_, HashKey(1, 2)}, Qpn(0x100), 1};
  PortStatus port_;
  std::vector<Outstanding<wire::PathRecord>> paths_;
  std::vector<Outstanding<wire::McMemberRecord>> joins_;
  std::map<Gid, std::set<Lid>> attached_;
  bool carrier_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Script({data, size}).run();
  return 0;
}
