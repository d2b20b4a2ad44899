// Path record requests: by either end, and with each condition on their values.
#include "sa_request.hpp"
#include "wire/mgid.hpp"

namespace ipoib::test {

namespace {

using wire::PathRecord;
using wire::Selector;
namespace attribute = wire::attribute;
namespace method = wire::method;

constexpr PKey kRed{0x8012};
constexpr PKey kForeign{0x9234};  // in no port's table

/// Requests for a path, each changed in one place.
class Paths {
 public:
  static constexpr std::uint64_t kUsual = PathRecord::kDgid | PathRecord::kSgid |
                                          PathRecord::kReversible | PathRecord::kNumbPath |
                                          PathRecord::kPKey;
  explicit Paths(Client& client) : client_(client) {}

  template <class Change>
  void get(const std::string& what, std::uint64_t mask, Change&& change) {
    PathRecord record;
    record.sgid = client_.gid;
    record.dgid = client_.peer();
    record.slid = client_.lid;
    record.dlid = client_.sm_lid;
    record.reversible = true;
    record.numb_path = 1;
    record.pkey = kDefaultPKey;
    change(record);
    for (const std::uint8_t how : {method::kGet, method::kGetTable}) {
      request(client_, (how == method::kGet ? "path " : "paths ") + what, how,
              attribute::kPathRecord, mask, record);
    }
  }

  void ends();
  void values();

 private:
  Client& client_;
};

void Paths::ends() {
  using Record = PathRecord;
  const auto same = [](Record&) {};
  const Gid unknown(Gid::kLinkLocalPrefix, Guid(0xdead));
  get("usual", kUsual, same);
  get("by GIDs alone", Record::kDgid | Record::kSgid, same);
  get("by LIDs", Record::kDlid | Record::kSlid, same);
  get("by all", kUsual | Record::kDlid | Record::kSlid, same);
  get("the way back", kUsual, [](Record& r) { std::swap(r.sgid, r.dgid); });
  get("to myself", kUsual, [](Record& r) { r.dgid = r.sgid; });
  get("to an unknown port", kUsual, [&](Record& r) { r.dgid = unknown; });
  get("from an unknown port", kUsual, [&](Record& r) { r.sgid = unknown; });
  get("to an unknown LID", Record::kDlid | Record::kSlid, [](Record& r) { r.dlid = Lid(0x1234); });
  get("to another prefix", kUsual,
      [](Record& r) { r.dgid = Gid(0xfec0000000000000, r.dgid.guid()); });
  get("GID and LID disagree", kUsual | Record::kDlid, [](Record& r) { r.dlid = r.slid; });
  get("to the broadcast group", Record::kDgid | Record::kSgid,
      [](Record& r) { r.dgid = wire::broadcast_gid(kDefaultPKey); });
  get("to no group", Record::kDgid | Record::kSgid,
      [](Record& r) { r.dgid = Gid::parse("ff12:a01c::99").value(); });
}

void Paths::values() {
  using Record = PathRecord;
  get("other partition", kUsual, [](Record& r) { r.pkey = kRed; });
  get("limited P_Key", kUsual, [](Record& r) { r.pkey = PKey(0x7fff); });
  get("no partition", kUsual, [](Record& r) { r.pkey = kForeign; });
  get("not reversible", kUsual, [](Record& r) { r.reversible = false; });
  get("no paths", kUsual, [](Record& r) { r.numb_path = 0; });
  get("SL", kUsual | Record::kSl, [](Record& r) { r.sl = ServiceLevel(3); });
  get("flow, hops, class", kUsual | Record::kFlowLabel | Record::kHopLimit | Record::kTrafficClass,
      [](Record& r) { r.flow_label = 5, r.hop_limit = 6, r.traffic_class = 7; });
  for (const int selector : {0, 1, 2, 3}) {
    for (const int value : {0, 1, 3, 4, 5, 6}) {
      get("MTU " + std::to_string(selector) + "," + std::to_string(value),
          kUsual | Record::kMtuSelector | Record::kMtu, [&](Record& r) {
            r.mtu_selector = static_cast<Selector>(selector);
            r.mtu = static_cast<std::uint8_t>(value);
          });
    }
    for (const int value : {1, 2, 5, 10, 63}) {
      // "Less than 120 Gb/s" and the like depend on the ports.
      if (selector == 1 && value == 10) continue;
      get("rate " + std::to_string(selector) + "," + std::to_string(value),
          kUsual | Record::kRateSelector | Record::kRate, [&](Record& r) {
            r.rate_selector = static_cast<Selector>(selector);
            r.rate = static_cast<std::uint8_t>(value);
          });
    }
    for (const int value : {0, 1, 17, 18, 19}) {
      get("lifetime " + std::to_string(selector) + "," + std::to_string(value),
          kUsual | Record::kLifetimeSelector | Record::kLifetime, [&](Record& r) {
            r.lifetime_selector = static_cast<Selector>(selector);
            r.lifetime = static_cast<std::uint8_t>(value);
          });
    }
  }
}

}  // namespace

void request_paths(Client& client) {
  Paths paths(client);
  paths.ends();
  paths.values();
}

}  // namespace ipoib::test
