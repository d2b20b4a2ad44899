// Feeds the communication manager with MADs in each state of its connections, calls of its user,
// time and deaths of peers. An input is a list of steps: a byte that selects the action, and its
// arguments; a short input is continued with zeroes.
#include <algorithm>
#include <set>

#include "cost.hpp"
#include "require.hpp"
#include "softib/cm/communication_manager.hpp"
#include "wire/cm_ip_header.hpp"

using namespace ipoib;
using namespace softib;
using namespace softib::cm;

namespace {

constexpr std::size_t kMaxSteps = 256;
constexpr std::uint64_t kMaxCost = 100'000;
constexpr std::size_t kMaxSent = 4 * kMaxSteps;  ///< messages that one step may cause
constexpr std::size_t kKinds = kMessages;
constexpr wire::ServiceId kService{0x1061234};
constexpr std::uint32_t kSlot = 1;
constexpr std::uint32_t kEpoch = 2;

template <std::size_t kIndex = 0>
wire::CmMessage message_of_kind(std::size_t kind) {
  if constexpr (kIndex + 1 < kKinds) {
    if (kind != kIndex) return message_of_kind<kIndex + 1>(kind);
  }
  return std::variant_alternative_t<kIndex, wire::CmMessage>();
}

class Subject {
 public:
  Subject() {
    ours_.lid = Lid(4), theirs_.lid = Lid(8);
    ours_.port_guid = Guid(4), theirs_.port_guid = Guid(8);
    ours_.pkeys[0] = theirs_.pkeys[0] = kDefaultPKey;
    (void)manager_.listen(kService);
    (void)manager_.listen(wire::ServiceId(0x1110000), ~std::uint64_t{0xffff});
  }

  void step(ByteReader& in) {
    {
      const CostLimit limit(kMaxCost);
      switch (in.u8() % 8) {
        case 0:
          now_ += std::chrono::milliseconds(in.u16());
          manager_.on_time(now_);
          require(manager_.next_deadline() > now_);
          break;
        case 1:
          call(in);
          break;
        case 2:
          begin(in);
          break;
        case 3:
          manager_.process_gone({theirs_.lid, Gid()}, 0, in.u8() % 4, in.u8() % 4, now_);
          break;
        default:
          receive(in);
          break;
      }
    }
    check_output();
  }

  /// The end of all connections, whatever state they are in.
  void finish() {
    std::vector<Handle> handles;
    manager_.for_each_connection([&](const auto& one) { handles.push_back(one.handle()); });
    handles.insert(handles.end(), handles_.begin(), handles_.end());
    for (const Handle handle : handles) manager_.destroy(handle, now_);
    check_output();
    while (manager_.next_deadline() != kNever) {
      now_ = manager_.next_deadline();
      manager_.on_time(now_);
      require(manager_.take_events().empty());
      check_output();
    }
    require(manager_.connection_count() == 0 && manager_.pending_requests() == 0);
    require(manager_.resolution_count() == 0);
  }

 private:
  /// One that the user has, or had.
  [[nodiscard]] Handle some_handle(ByteReader& in) {
    const std::size_t which = in.u8();
    return handles_.empty() ? Handle(static_cast<std::uint32_t>(which))
                            : handles_[which % handles_.size()];
  }

  [[nodiscard]] wire::PathRecord path() const {
    wire::PathRecord path;
    path.sgid = ours_.gid(), path.dgid = theirs_.gid();
    path.slid = ours_.lid, path.dlid = theirs_.lid;
    path.pkey = kDefaultPKey;
    path.mtu = 4;
    path.lifetime = 16;
    return path;
  }

  void begin(ByteReader& in) {
    const std::uint8_t how = in.u8();
    if (how % 4 == 0) {
      const auto handle =
          manager_.resolve({.service_id = kService}, path(),
                           {std::chrono::milliseconds(in.u8()), how / 4U}, ours_, now_);
      handles_.push_back(*handle);
      return;
    }
    wire::CmReq req;
    req.service_id = kService;
    req.qpn = Qpn(how % 8U);
    req.transport = static_cast<wire::CmTransport>(how >> 3 & 3);
    req.remote_response_timeout = in.u8();
    req.max_cm_retries = how >> 5;
    if (const auto handle = manager_.connect(req, path(), ours_, now_)) handles_.push_back(*handle);
  }

  void call(ByteReader& in) {
    const std::uint8_t which = in.u8();
    const Handle handle = some_handle(in);
    switch (which % 9) {
      case 0:
        return (void)manager_.accept(handle, {.qpn = Qpn(which / 9U % 8)}, now_);
      case 1:
        return (void)manager_.confirm(handle, {});
      case 2:
        return (void)manager_.reject(handle, {}, now_);
      case 3:
        return (void)manager_.prepare_mra(handle, {});
      case 4:
        return (void)manager_.communication_established(handle);
      case 5:
        return (void)manager_.disconnect(handle, {}, now_);
      case 6:
        return (void)manager_.forget(handle);
      case 7:
        return (void)manager_.answer(handle, {}, now_);
      default:
        manager_.destroy(handle, now_);
        if (is_owned(handle)) ended_.insert(handle);
        return;
    }
  }
  [[nodiscard]] bool is_owned(Handle handle) const {
    return std::ranges::find(handles_, handle) != handles_.end();
  }

  /// A message that fits a connection, with some bytes changed.
  void receive(ByteReader& in) {
    wire::CmMad mad{in.u8(), message_of_kind(in.u8() % kKinds)};
    const CommId theirs(in.u8() % 4U);
    const Handle ours = some_handle(in);
    std::visit(
        [&](auto& message) {
          if constexpr (requires { message.local_id; }) message.local_id = theirs;
          if constexpr (requires { message.remote_id; }) message.remote_id = ours;
          if constexpr (requires { message.service_id; }) message.service_id = kService;
          if constexpr (requires { message.remote_qpn; }) message.remote_qpn = Qpn(theirs.value());
          if constexpr (requires { message.primary; }) {
            message.primary = path_of_req(path(), 16);
            std::swap(message.primary.local_gid, message.primary.remote_gid);
            std::swap(message.primary.local_lid, message.primary.remote_lid);
            message.mtu = 4;
            message.qpn = Qpn(theirs.value());
          }
        },
        mad.message);
    if (auto* const sidr = std::get_if<wire::CmSidrReq>(&mad.message)) sidr->request_id = theirs;
    if (auto* const sidr = std::get_if<wire::CmSidrRep>(&mad.message)) sidr->request_id = ours;
    auto packet = Route{theirs_.lid, ours_.lid, {}, kDefaultPKey, std::nullopt}.packet(mad);
    const std::size_t changes = in.u8() % 8;
    for (std::size_t i = 0; i < changes; ++i) {
      const std::uint8_t at = in.u8();
      packet.mad[at] = in.u8();
    }
    require_stable<wire::CmMad>(packet.mad);
    require_stable<wire::CmIpHeader>(ConstBytes(packet.mad).subspan(164, 92));
    manager_.receive(packet, ours_, now_);
  }

  void check_output() {
    const auto sent = manager_.take_outgoing();
    require(sent.size() <= kMaxSent);
    for (const auto& packet : sent) {
      require(packet.dlid == theirs_.lid && packet.slid == ours_.lid);
      require(wire::CmMad::parse(packet.mad).has_value());
    }
    for (const auto& event : manager_.take_events()) {
      const bool is_new = std::holds_alternative<ConnectionRequested>(event.what) ||
                          std::holds_alternative<ServiceRequested>(event.what);
      if (is_new) {
        handles_.push_back(event.handle);
      } else {
        require(is_owned(event.handle));
      }
      require(!ended_.contains(event.handle));
      const bool is_last = std::holds_alternative<Rejected>(event.what) ||
                           std::holds_alternative<Unanswered>(event.what) ||
                           std::holds_alternative<TimeWaitOver>(event.what) ||
                           std::holds_alternative<ServiceResolved>(event.what);
      if (is_last) ended_.insert(event.handle);
      if (is_last) require(manager_.connection(event.handle) == nullptr);
    }
  }

  PortAttributes ours_;
  PortAttributes theirs_;
  CommunicationManager manager_{{Guid(1), kSlot, kEpoch, 15}};
  std::vector<Handle> handles_;
  std::set<Handle> ended_;
  TimePoint now_{std::chrono::seconds(1)};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ByteReader in({data, size});
  Subject subject;
  for (std::size_t i = 0; i < kMaxSteps && in.left() > 0; ++i) subject.step(in);
  subject.finish();
  return 0;
}
