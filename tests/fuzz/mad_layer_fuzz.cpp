// Feeds the MAD layer below umad_recv() with packets, sends and time. An input is a list of steps:
// a byte that selects the action, and its arguments; a short input is continued with zeroes.
#include <algorithm>

#include "cost.hpp"
#include "require.hpp"
#include "softib/core/mad_route.hpp"
#include "softib/umad/mad_layer.hpp"

using namespace ipoib;
using namespace softib;

namespace {

constexpr std::size_t kMaxSteps = 256;
constexpr std::uint64_t kMaxCost = 200'000;
constexpr std::size_t kMaxSent = 512;  ///< packets that one step may cause
constexpr std::uint32_t kEpoch = 1;
constexpr std::uint32_t kPlace = 2;
constexpr NodeIndex kNode = 3;

class Subject {
 public:
  Subject() {
    port_.lid = Lid(2);
    port_.pkeys[0] = kDefaultPKey;
    // A client with RMPP, a server with RMPP, a client with user RMPP, and a vendor agent.
    add(wire::mgmt_class::kSubnAdm, 1, false, 0);
    add(wire::mgmt_class::kSubnAdm, 1, false, ~0ULL);
    add(wire::mgmt_class::kSubnAdm, 1, true, 0);
    add(0x32, 1, false, ~0ULL);
    add(wire::mgmt_class::kSubnDirected, 0, false, 0);
  }

  void step(ByteReader& in) {
    const CostLimit limit(kMaxCost);
    switch (in.u8() % 4) {
      case 0: {
        now_ += std::chrono::milliseconds(in.u16());
        layer_.on_time(now_);
        break;
      }
      case 1:
        send(in);
        break;
      default:
        receive(in);
        break;
    }
    check_output();
  }

 private:
  void add(std::uint8_t management_class, std::uint8_t rmpp, bool user_rmpp,
           std::uint64_t methods) {
    umad::Registration registration;
    registration.management_class = management_class;
    registration.class_version = management_class == wire::mgmt_class::kSubnAdm ? 2 : 1;
    registration.oui = 0x001405;
    registration.rmpp_version = rmpp;
    registration.user_rmpp = user_rmpp;
    registration.methods = umad::methods_of({methods, methods});
    agents_.push_back(layer_.add_agent(registration, {}).value());
  }

  void send(ByteReader& in) {
    umad::MadAddress to;
    const auto agent = agents_[in.u8() % agents_.size()];
    to.lid = Lid(in.u16());
    to.qpn = Qpn(in.u8() & 1);
    to.pkey_index = in.u8();
    const umad::RetryPolicy retry{std::chrono::milliseconds(in.u8()) - std::chrono::milliseconds(1),
                                  in.u8() % 4U};
    const std::size_t size = in.u16() % 2048;
    std::vector<std::uint8_t> mad(size);
    std::ranges::copy(in.take(std::min(size, in.left())), mad.begin());
    (void)layer_.send(agent, to, mad, retry, port_, now_);
  }

  void receive(ByteReader& in) {
    MadPacket packet;
    packet.slid = Lid(in.u8());
    packet.dlid = port_.lid;
    packet.source = packet.destination = Qpn(in.u8() & 1);
    packet.pkey = kDefaultPKey;
    packet.qkey = wire::kGsiQKey;
    const std::uint8_t route = in.u8();
    std::ranges::copy(in.take(std::min(packet.mad.size(), in.left())), packet.mad.begin());
    // Random transaction ids rarely name an agent.
    if (auto header = wire::MadHeader::parse(packet.mad); header && route != 0) {
      const MadRoute to{kNode, kPlace, kEpoch, agents_[route % agents_.size()]};
      header->transaction_id = std::uint64_t{to.high_half()} << 32 | (route >> 4);
      header->emit(packet.mad);
    }
    layer_.receive(packet, port_, now_);
  }

  /// Checks the output of the layer.
  void check_output() {
    const auto sent = layer_.take_outgoing();
    require(sent.size() <= kMaxSent);
    for (const auto& packet : sent) {
      std::array<std::uint8_t, MadPacket::kMaxPacketSize> bytes;
      const auto emitted = packet.emit(bytes);
      require(packet.destination.value() > 1 || MadPacket::parse(emitted).has_value());
    }
    for (const auto& received : layer_.take_received()) {
      require(std::ranges::find(agents_, received.agent) != agents_.end());
      require(received.mad.size() >= wire::kMadHeaderSize);
    }
    for (const auto why : layer_.take_drops()) require(!fabric::name(why).empty());
    require(layer_.next_deadline() > now_ || layer_.next_deadline() == kNever ||
            (layer_.on_time(now_), layer_.next_deadline() > now_));
  }

  PortAttributes port_;
  umad::MadLayer layer_{MadRoute{kNode, kPlace, kEpoch, 0}};
  std::vector<std::uint32_t> agents_;
  TimePoint now_{std::chrono::seconds(1)};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ByteReader in({data, size});
  Subject subject;
  for (std::size_t i = 0; i < kMaxSteps && in.left() > 0; ++i) subject.step(in);
  return 0;
}
