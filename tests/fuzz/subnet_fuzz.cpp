// Arbitrary MADs, operator commands and time steps for a subnet with nodes and groups, with its own
// or an external SM. The subnet counts each MAD once, forwards to active nodes only, respects its
// limits, and can be adopted at any time.
#include <array>

#include "cost.hpp"
#include "require.hpp"
#include "softib/core/mad_route.hpp"
#include "softib/subnet/smp.hpp"
#include "softib/subnet/subnet.hpp"
#include "subnet_snapshot.hpp"
#include "wire/mad.hpp"
#include "wire/mgid.hpp"

namespace {

using namespace softib;
using ipoib::require;

constexpr NodeIndex kNodes = 12;
constexpr std::uint64_t kMaxCost = 5'000'000;

class Target {
 public:
  explicit Target(subnet::Management management) : config_(config(management)), subnet_(config_) {
    for (NodeIndex i = 1; i < kNodes; ++i) {
      require(subnet_.add_hca("n" + std::to_string(i)).has_value());
    }
  }

  /// One step: | step 8 | node 8 | bytes |.
  void step(ConstBytes data) {
    if (data.size() < 2) return;
    const ipoib::CostLimit limit(kMaxCost);
    const auto who = static_cast<NodeIndex>(data[1] % (kNodes + 1));
    const auto rest = data.subspan(2);
    switch (data[0] % 10) {
      case 0:
        (void)subnet_.set_port_state(who, static_cast<PortState>(1 + data[0] / 10 % 4));
        break;
      case 1:
        (void)subnet_.set_membership(who, PKey(static_cast<std::uint16_t>(1 + data[0] / 64)),
                                     static_cast<subnet::Membership>(data[0] / 16 % 3));
        break;
      case 2:
        now_ += std::chrono::milliseconds(data[0] * 100);
        subnet_.on_time(now_);
        break;
      case 3:
        if (data[0] > 200) (void)subnet_.restart_sm(now_);
        if (data[0] < 50) (void)subnet_.remove_hca(who);
        if (data[0] < 100) (void)subnet_.add_hca("n" + std::to_string(who));
        break;
      case 4:
        (void)subnet_.set_lid(who, Lid(static_cast<std::uint16_t>(1 + data[0] / 8)));
        break;
      default:
        send(data[0], who, rest);
        break;
    }
    check();
  }

  void check_adoption() const {
    const auto snapshot = subnet::snapshot_of(subnet_);
    subnet::Subnet other(config_);
    other.adopt(snapshot, now_);
    require(subnet::snapshot_of(other).nodes.size() == snapshot.nodes.size());
    for (const auto& group : snapshot.groups) {
      require(other.forwarding(group.mlid) == group.forwarding);
    }
  }

 private:
  static subnet::SubnetConfig config(subnet::Management management) {
    subnet::SubnetConfig config;
    config.management = management;
    config.partitions =
        subnet::make_partitions({"0x7fff=full", "1=limited", "2=full:n1,n2"}).value();
    return config;
  }

  void send(std::uint8_t how, NodeIndex who, ConstBytes bytes) {
    MadPacket packet;
    const subnet::Node* from = subnet_.node(who);
    packet.slid = from != nullptr ? from->port.lid : Lid(who);
    packet.dlid = subnet_.node(0)->port.lid;
    packet.source = packet.destination = Qpn(1);
    packet.qkey = ipoib::wire::kGsiQKey;
    std::copy_n(bytes.begin(), std::min(bytes.size(), packet.mad.size()), packet.mad.begin());
    if ((how & 0x80) != 0) make_valid_sa(packet, how);
    if ((how & 0xc0) == 0x40) make_valid_smp(packet, how, who);
    subnet_.receive(packet, now_);
    ++sent_;
  }

  /// Gets a MAD past the checks that random bytes do not pass.
  void make_valid_sa(MadPacket& packet, std::uint8_t how) {
    namespace attribute = ipoib::wire::attribute;
    constexpr std::array<std::uint8_t, 4> kMethods{1, 2, 0x12, 0x15};
    constexpr std::array<std::uint16_t, 6> kAttributes{
        attribute::kMcMemberRecord, attribute::kPathRecord,     attribute::kMcMemberRecord,
        attribute::kInformInfo,     attribute::kPortInfoRecord, attribute::kNodeRecord};
    auto& mad = packet.mad;
    mad[0] = 1;
    mad[1] = ipoib::wire::mgmt_class::kSubnAdm;
    mad[2] = 2;
    const bool is_control = (mad[26] & 1) != 0 && mad[25] == 2;
    if (is_control) return;
    mad[3] = kMethods[mad[3] % kMethods.size()];
    const std::uint16_t kind = kAttributes[mad[17] % kAttributes.size()];
    ipoib::store_be(&mad[16], kind);
    mad[26] = 0;
    ipoib::store_be(&mad[36], std::uint64_t{(how & 0x40) != 0 ? 1U : 0U});
    if (kind == attribute::kMcMemberRecord) make_valid_member(packet);
  }
  void make_valid_member(MadPacket& packet) {
    auto& mad = packet.mad;
    mad[48 + 7] |= 3;
    const subnet::Node* node = subnet_.node(mad[56 + 31] % kNodes);
    if (node == nullptr) return;
    const Gid group = ipoib::wire::multicast_gid(ipoib::Ipv4Address(std::uint32_t{mad[56 + 15]}),
                                                 ipoib::kDefaultPKey);
    std::copy(group.bytes().begin(), group.bytes().end(), mad.begin() + 56);
    const Gid gid = node->port.gid();
    std::copy(gid.bytes().begin(), gid.bytes().end(), mad.begin() + 56 + 16);
    ipoib::store_be(&mad[56 + 32], std::uint32_t{0x0b1b});
    ipoib::store_be(&mad[56 + 40], std::uint16_t{0xffff});
  }
  static void make_valid_smp(MadPacket& packet, std::uint8_t how, NodeIndex who) {
    constexpr std::array<std::uint16_t, 8> kAttributes{0x10, 0x12, 0x14, 0x15,
                                                       0x16, 0x19, 0x1b, 0x20};
    packet.destination = Qpn(0);
    packet.mad[0] = 1;
    packet.mad[1] = (how & 1) != 0 ? 0x81 : 0x01;
    packet.mad[2] = 1;
    packet.mad[3] = (how & 4) != 0 ? 2 : 1;
    if ((how & 8) != 0) packet.mad[3] = subnet::smp_method::kTrapRepress;
    const MadRoute route{who, packet.mad[8] % QpnLayout::kSlots, 1, 1};
    if ((how & 8) == 0) ipoib::store_be(&packet.mad[8], route.high_half());
    ipoib::store_be(&packet.mad[16], kAttributes[packet.mad[17] % kAttributes.size()]);
    // Valid routes: to the switch, or through it.
    if ((how & 16) != 0) {
      ipoib::store_be(&packet.mad[4], std::uint32_t{packet.mad[7] % 3U});
      packet.mad[129] = 1;
      packet.mad[130] %= kNodes + 2;
    }
    if ((how & 1) == 0) packet.dlid = Lid(packet.mad[4]);
    if ((how & 2) != 0) ipoib::store_be(&packet.mad[32], std::uint32_t{0xffffffff});
  }

  void check() {
    const auto& counters = subnet_.counters();
    const std::uint64_t counted =
        counters.answered + counters.passed_on + counters.rmpp_control +
        counters.report_acknowledged + counters.drop_malformed + counters.drop_response +
        counters.drop_source + counters.drop_qkey + counters.drop_pkey + counters.drop_sm_key +
        counters.drop_m_key + counters.drop_destination + counters.drop_gid;
    require(counted == sent_);
    for (const auto& packet : subnet_.take_outgoing()) {
      std::array<std::uint8_t, MadPacket::kMaxPacketSize> bytes;
      (void)packet.emit(bytes);
    }
    for (const auto& passed : subnet_.take_forwarded_mads())
      require(subnet_.node(passed.to) != nullptr);
    (void)subnet_.take_changes();
    NodeSet active;
    for (NodeIndex i = 0; i <= kNodes; ++i) {
      const subnet::Node* node = subnet_.node(i);
      active[i] = node != nullptr && node->port.state == PortState::active;
    }
    for (const auto& group : subnet_.groups()) require((group.receivers & ~active).none());
  }

  const subnet::SubnetConfig config_;
  subnet::Subnet subnet_;
  ipoib::TimePoint now_{std::chrono::hours(1)};
  std::uint64_t sent_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kMaxSteps = 64;
  ipoib::ByteReader reader({data, size});
  Target target((reader.u8() & 1) != 0 ? subnet::Management::external_sm : subnet::Management::own);
  for (std::size_t i = 0; i < kMaxSteps && reader.left() > 1; ++i) {
    const std::size_t length = reader.u16() % 300;
    target.step(reader.take(std::min(length, reader.left())));
  }
  target.check_adoption();
  return 0;
}
