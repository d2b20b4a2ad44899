// A link with arbitrary packets, datagrams, responses, notices, times and events. The input is a
// script: a byte selects the next step, the bytes after it are its arguments. One half of the
// inputs has limits so small that all of them are reached; the other one has room for more
// neighbours than stay in the processor's caches, so that batches are looked up in advance. No
// frame is lost, no limit is exceeded, no group is attached twice, no deadline is reported twice,
// and no step costs far more than usual.
#include <spdlog/sinks/null_sink.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "cost.hpp"
#include "ipoib/log.hpp"
#include "ipoib/overloaded.hpp"
#include "link_packets.hpp"
#include "tests/on_link.hpp"
#include "tests/support/address_handles.hpp"
#include "wire/arp.hpp"

using namespace ipoib;
using namespace ipoib::link;
using fuzz::Packets;
using fuzz::Pools;
using wire::SaFailure;

namespace {

template <class Record>
struct Outstanding {
  wire::SaRequestId id;
  Record record;
};

constexpr std::size_t kMaxSteps = 1000;
constexpr std::size_t kStepsPerCheck = 16;  ///< of everything
constexpr std::size_t kBatch = 128;         ///< as a pump's

// Work, each for one packet or for one entry of the tables.
constexpr std::uint64_t kPacketCost = 60'000;
constexpr std::uint64_t kEntryCost = 6'000;

constexpr Ipv4Address kOwn(0x0a000001);  // until the host changes it

/// Limits that are all reached.
constexpr Limits kSmall{.neighbours = 8,
                        .unresolved = 4,
                        .parked_bytes_per_neighbour = 20'000,
                        .parked_first = 1,
                        .parked = 6,
                        .parked_bytes = 40'000,
                        .parked_replies = 3,
                        .pins = 3,
                        .paths = 6,
                        .path_requests = 2,
                        .pending = 4,
                        .paths_per_source = 5,
                        .host_groups = 5,
                        .send_groups = 4,
                        .routed_groups = 3,
                        .group_requests = 2,
                        .announcements = 3,
                        .solicitations = 20,
                        .arp_reply_checks = 8,
                        .icmp_errors = 8};
/// More neighbours than NeighbourTable looks up without LookAhead.
constexpr Limits kLarge{.neighbours = 700,
                        .unresolved = 650,
                        .parked_bytes_per_neighbour = 20'000,
                        .parked_first = 2,
                        .parked = 64,
                        .parked_replies = 16,
                        .pins = 3,
                        .paths = 64,
                        .pending = 600,
                        .paths_per_source = 1000,
                        .host_groups = 16,
                        .send_groups = 16,
                        .routed_groups = 16,
                        .announcements = 8,
                        .solicitations = 2000};

Pools& pools(bool is_large) {
  static Pools small(40);
  static Pools large(3 * kBatch + kLarge.parked + kLarge.parked_replies);
  return is_large ? large : small;
}

class Script {
 public:
  explicit Script(ConstBytes input) : input_(input) {
    handles_.records = false;
    view_.addresses = {{kOwn, 16}};
    view_.tables = test::all_on_link();
    port_.active = port_.sm_known = true;
    port_.lid = Lid(1);
    port_.gid = Packets::gid(1);
    port_.pkey_index = 0;
    link_.on_host_changed(view_, now_);
    link_.on_port(port_, now_);
    drain();
  }

  void run() {
    for (std::size_t step = 0; step < kMaxSteps && input_.left() > 0; ++step) {
      const CostLimit limit(kEntryCost, 16 + link_.neighbour_count() + kBatch);
      do_step(input_.u8());
      drain();
      require(link_.neighbour_count() <= config_.limits.neighbours);
      require(carrier_ == (link_.state() == LinkState::up));
      if (step % kStepsPerCheck == 0) check();
    }
    check();
    link_.shut_down(now_);
    drain();
    link_.sends().clear();
    link_.to_host().clear();
    require(!carrier_ && attached_.empty());
    require(pools_.available() == pools_.capacity());
  }

 private:
  void do_step(std::uint8_t what) {
    if (what % 32 < 16) return do_packets(what % 16);
    switch (what % 16) {
      case 0:
      case 1:
        return respond_path();
      case 2:
      case 3:
        return respond_join();
      case 4:
        return reach_deadline();
      case 5:
        return pass(std::chrono::milliseconds(input_.u16()));
      case 6:
        return change_port();
      case 7:
        return change_queue_pair();
      case 8:
        return link_.on_host_changed(view_ = packets_.host_view(), now_);
      case 9:
        return (void)link_.set_permanent(packets_.ip(), packets_.hardware(), now_);
      case 10:
        return administrate();
      case 11:
        return notify();
      case 12:
        return respond_table();
      case 13:
        return post_sends(input_.u8());
      case 14:
        handles_.refuses = input_.u8() % 4 == 0;
        return;
      case 15:
        return link_.on_client_reregister(now_);
    }
  }
  void do_packets(std::uint8_t what) {
    switch (what) {
      case 0:
        return send(packets_.ipv4_packet(packets_.ipv4()));
      case 1:
        return send(packets_.ipv6_packet(packets_.ipv6()));
      case 2:
        return send(packets_.odd_packet());
      case 3:
        return send(packets_.large_packet());
      case 4:
        return send(packets_.discovery());
      case 5:
        return send(packets_.packet());
      case 6:
      case 7:
        return receive(packets_.arp());
      case 8:
        return receive(Packets::encapsulated(packets_.discovery()));
      case 9:
        return receive(packets_.mutated(packets_.arp()));
      case 10:
        return receive(packets_.raw(0));
      case 11:
        return receive(Packets::encapsulated(packets_.packet()));
      case 12:
        return send_batch();
      case 13:
        return receive_batch();
      case 14:
        return send_to_many();
      case 15:
        return receive_from_many();
    }
  }

  // --- Packets ---------------------------------------------------------------------------------
  void send(Frame frame) {
    std::vector<Frame> batch;
    if (frame) batch.push_back(std::move(frame));
    send(batch);
  }
  void receive(Frame frame) {
    std::vector<Incoming> batch;
    if (frame) batch.push_back(datagram(std::move(frame)));
    receive(batch);
  }
  void send(std::vector<Frame>& batch) {
    const CostLimit limit(kPacketCost, batch.size() + 1);
    link_.from_host(batch, now_);
  }
  void receive(std::vector<Incoming>& batch) {
    const CostLimit limit(kPacketCost, batch.size() + 1);
    link_.from_fabric(batch, now_);
  }
  void send_batch() {
    std::vector<Frame> batch;
    for (std::size_t left = input_.u8() % kBatch; left > 0 && input_.left() > 0; --left) {
      if (Frame frame = packets_.packet()) batch.push_back(std::move(frame));
    }
    send(batch);
  }
  void receive_batch() {
    std::vector<Incoming> batch;
    for (std::size_t left = input_.u8() % kBatch; left > 0 && input_.left() > 0; --left) {
      Frame frame =
          input_.u8() % 2 == 0 ? packets_.arp() : Packets::encapsulated(packets_.packet());
      if (frame) batch.push_back(datagram(std::move(frame)));
    }
    receive(batch);
  }
  /// Addresses that follow each other: | count 8 | first 16 | distance 8 |.
  template <class Make>
  void for_many(Make make) {
    const std::size_t count = 1 + input_.u8() % kBatch;
    const std::uint32_t first = input_.u16() % 1024;
    const std::uint32_t distance = input_.u8() % 4U;
    for (std::uint32_t i = 0; i < count; ++i) {
      make(Ipv4Address(0x0a000100U + (first + i * distance) % 1024));
    }
  }
  void send_to_many() {
    std::vector<Frame> batch;
    for_many([&](Ipv4Address to) {
      if (Frame frame = packets_.ipv4_packet(to)) batch.push_back(std::move(frame));
    });
    send(batch);
  }
  /// Their ARP messages, or packets; each from the port that it says.
  void receive_from_many() {
    std::vector<Incoming> batch;
    const std::uint8_t how = input_.u8();
    for_many([&](Ipv4Address from) {
      const HwAddress sender{0, Qpn(7),
                             Packets::gid(static_cast<std::uint8_t>(from.number() % 11))};
      Frame frame = how % 4 == 0 ? Packets::encapsulated(packets_.ipv4_packet(from))
                                 : packets_.arp_of(sender, from, kOwn, how % 4 == 1);
      if (!frame) return;
      if (how % 4 == 0) std::ranges::copy(from.bytes(), frame.bytes().begin() + kHeadroom + 12);
      batch.emplace_back();
      batch.back().frame = std::move(frame);
      batch.back().source_lid = Lid(2);
      batch.back().source_qpn = sender.qpn;
    });
    receive(batch);
  }
  [[nodiscard]] Incoming datagram(Frame frame) {
    Incoming datagram;
    datagram.frame = std::move(frame);
    datagram.source_lid = Lid(input_.u8() % 4);
    const std::uint8_t sender = input_.u8();
    datagram.source_qpn = Qpn(sender % 7U);
    const std::uint8_t route = input_.u8();
    datagram.has_grh = route % 2 == 0;
    if (datagram.has_grh) datagram.source_gid = Packets::gid(sender % 11);
    datagram.destination_gid = route < 32   ? Packets::gid(1)
                               : route < 64 ? packets_.mgid()
                                            : wire::broadcast_gid(kDefaultPKey);
    datagram.frame.set_checksums_valid(route % 8 == 0);
    return datagram;
  }

  // --- The SA ----------------------------------------------------------------------------------
  /// The response to a request that was answered before, or never made.
  void fail_unknown() {
    const wire::SaRequestId id(input_.u8());
    const auto is_id = [id](const auto& request) { return request.id == id; };
    const bool is_outstanding = std::ranges::any_of(paths_, is_id) ||
                                std::ranges::any_of(joins_, is_id) ||
                                std::ranges::find(tables_, id) != tables_.end();
    if (!is_outstanding) link_.on_response({id, SaFailure{}}, now_);
  }
  void respond_path() {
    if (paths_.empty()) return fail_unknown();
    const auto request = paths_.back();
    paths_.pop_back();
    wire::PathRecord record = request.record;
    record.dlid = Lid(input_.u8() % 4);
    const std::uint8_t how = input_.u8();
    record.mtu = how % 8;
    record.hop_limit = how / 8 % 2;
    if (how / 16 % 4 == 0) return link_.on_response({request.id, SaFailure{}}, now_);
    link_.on_response({request.id, record}, now_);
  }
  void respond_join() {
    if (joins_.empty()) return fail_unknown();
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
    const std::uint8_t how = input_.u8();
    record.mlid = Lid(static_cast<std::uint16_t>(0xbfff + how % 4));
    record.mtu = how / 4 % 7;
    record.qkey = QKey(how / 128);
    record.join_state =
        kind == 3 ? wire::McMemberRecord::kSendOnlyNonMember : wire::McMemberRecord::kFullMember;
    link_.on_response({request.id, record}, now_);
  }
  /// The groups that routers forward.
  void respond_table() {
    if (tables_.empty()) return fail_unknown();
    const auto request = tables_.back();
    tables_.pop_back();
    const std::uint8_t count = input_.u8();
    if (count % 16 == 15) return link_.on_response({request, SaFailure{}}, now_);
    wire::McMemberTable table(count % 16);
    for (auto& record : table) record.mgid = packets_.mgid();
    link_.on_response({request, table}, now_);
  }
  /// A report of the SA about a port or a group.
  void notify() {
    wire::Notice notice;
    notice.trap_number = static_cast<std::uint16_t>(63 + input_.u8() % 6);
    notice.gid = input_.u8() % 2 == 0 ? packets_.mgid() : packets_.gid();
    link_.on_notice(notice, now_);
  }

  // --- Time, port, host ------------------------------------------------------------------------
  void reach_deadline() {
    if (link_.next_deadline() != kNever) tick(std::max(now_, link_.next_deadline()));
  }
  void pass(Duration time) { tick(now_ + time); }
  /// A tick leaves some of many timers to the next one, which comes at once.
  void tick(TimePoint to) {
    constexpr int kMostTicks = 16;
    now_ = to;
    int ticks = 0;
    do {
      require(++ticks <= (is_large_ ? kMostTicks : 1));
      link_.tick(now_);
    } while (link_.next_deadline() <= now_);
  }
  void change_port() {
    const std::uint8_t pick = input_.u8();
    port_.active = pick % 8 != 0;
    port_.sm_known = pick % 16 != 1;
    port_.lid = Lid(1 + pick / 16 % 2);
    port_.gid = Packets::gid(static_cast<std::uint8_t>(1 + (pick % 32 == 5)));
    port_.lmc = pick % 32 == 7 ? 1 : 0;
    port_.grh_required = pick % 32 == 9;
    port_.pkey_index.reset();
    if (pick % 16 != 3) port_.pkey_index = static_cast<std::uint16_t>(pick / 32 % 2);
    link_.on_port(port_, now_);
  }
  void change_queue_pair() {
    const std::uint8_t pick = input_.u8();
    if (pick % 4 == 0) return link_.on_setup_failed(now_);
    if (pick % 4 == 1) return refuse_attachment(pick / 4);
    link_.on_queue_pair(Qpn(0x100U + pick), now_);
  }
  /// The link detaches from the broadcast group even if it was not attached.
  void refuse_attachment(std::size_t which) {
    if (attached_.empty()) return;
    auto at = attached_.begin();
    std::advance(at, which % attached_.size());
    const Gid mgid = at->first;
    if (mgid != wire::broadcast_gid(config_.pkey, wire::scope_of(mgid))) attached_.erase(at);
    link_.on_attach_failed(mgid, now_);
  }
  void administrate() {
    const std::uint8_t pick = input_.u8();
    if (pick == 0) return (void)link_.flush();
    if (pick % 2 == 0) return (void)link_.remove(packets_.ip());
    (void)link_.pin(packets_.ip(), packets_.gid());
  }
  /// The device takes the first ones.
  void post_sends(std::size_t count) {
    auto& sends = link_.sends();
    const auto posted = static_cast<std::ptrdiff_t>(std::min(count, sends.size()));
    sends.erase(sends.begin(), sends.begin() + posted);
    seen_sends_ -= std::min(seen_sends_, static_cast<std::size_t>(posted));
  }

  // --- Output of the link ----------------------------------------------------------------------
  void drain() {
    for (const Event& event : std::exchange(link_.events(), {})) {
      std::visit([this](const auto& what) { on(what); }, event);
    }
    auto& sends = link_.sends();
    seen_sends_ = std::min(seen_sends_, sends.size());
    for (; seen_sends_ < sends.size(); ++seen_sends_) check_datagram(sends[seen_sends_]);
    if (sends.size() > (is_large_ ? kBatch : 8)) post_sends(sends.size());
    for (const Frame& packet : link_.to_host()) check_packet(packet.bytes());
    link_.to_host().clear();
  }
  static void check_datagram(const Outgoing& datagram) {
    require(datagram.to != nullptr && datagram.frame);
    require(wire::parse_encapsulation(datagram.frame.bytes()).has_value());
    require(datagram.frame.datagrams() <= kMaxSegments);
    require(datagram.frame.datagram_size() <= wire::kEncapsulationSize + 4092);
  }
  /// A packet for the host, whose kernel would not understand link-layer options.
  static void check_packet(ConstBytes packet) {
    require(wire::ip_version(packet) == 4 || wire::ip_version(packet) == 6);
    const auto message = wire::NdMessage::parse(packet);
    require(!message || (!message->source_link_layer && !message->target_link_layer));
  }
  void on(const wire::SaRequest& request) {
    std::visit(Overloaded{
                   [&](const wire::PathQuery& path) {
                     paths_.push_back({request.id, path.record});
                     require(paths_.size() <= config_.limits.path_requests);
                   },
                   [&](const wire::JoinQuery& join) {
                     joins_.push_back({request.id, join.record});
                   },
                   [&](const wire::LookupQuery& lookup) {
                     joins_.push_back({request.id, lookup.record});
                   },
                   [&](const wire::GroupsQuery&) { tables_.push_back(request.id); },
                   [](const auto&) {},
               },
               request.query);
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
      const NeighbourPage page = link_.list(*at, is_large_ ? 128 : 4, now_);
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
    const Limits& limits = config_.limits;
    const auto groups = link_.groups();
    for (const GroupInfo& group : groups) parked += group.parked;
    // The broadcast and the two all-nodes groups, too.
    require(groups.size() <= 3 + limits.host_groups + limits.send_groups + limits.routed_groups);
    require(seen == link_.neighbour_count());
    require(unused_pins <= limits.pins);
    require(parked <= limits.parked + limits.parked_replies);
    require(pools_.available() + parked + link_.unrouted_count() + link_.sends().size() ==
            pools_.capacity());
  }

  static Config make_config(std::uint8_t how) {
    Config config;
    config.creation.allowed = true;
    config.strict_arp = how % 4 == 0;
    config.limits = how / 4 % 2 == 0 ? kSmall : kLarge;
    return config;
  }

  ByteReader input_;
  const Config config_ = make_config(input_.u8());
  const bool is_large_ = config_.limits.neighbours == kLarge.neighbours;
  Pools& pools_ = pools(is_large_);
  Packets packets_{input_, pools_};
  HostView view_;
  FakeAddressHandles handles_;
  Logger log_{"link", std::make_shared<spdlog::sinks::null_sink_st>()};
  TimePoint now_{std::chrono::seconds(1)};
  Link link_{config_, {handles_, pools_.frames, pools_.frames, log_, HashKey(1, 2)}, Qpn(0x100), 1};
  PortStatus port_;
  std::vector<Outstanding<wire::PathRecord>> paths_;
  std::vector<Outstanding<wire::McMemberRecord>> joins_;
  std::vector<wire::SaRequestId> tables_;
  std::map<Gid, std::set<Lid>> attached_;
  std::size_t seen_sends_ = 0;  ///< that have been checked
  bool carrier_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Script({data, size}).run();
  return 0;
}
