// Sends many valid and invalid requests to the SA and prints one line per response. Values that
// differ between subnets (GIDs, GUIDs, LIDs, the rate of the ports) are printed by name, so that
// the output for two SAs can be compared: see sa_responses_like_opensm.py.
//
// Usage: sa_responses --peer GID, where GID is that of the SM's port.
#include <iostream>
#include <numeric>
#include <string>

#include "sa_request.hpp"
#include "wire/class_port_info.hpp"
#include "wire/mgid.hpp"
#include "wire/notice.hpp"
#include "wire/sa_records.hpp"

namespace {

using namespace ipoib;
using namespace ipoib::test;
using wire::McMemberRecord;
using wire::Selector;
namespace attribute = wire::attribute;
namespace method = wire::method;

constexpr PKey kRed{0x8012};      // its group's MTU is beyond the port's
constexpr PKey kForeign{0x9234};  // in no port's table
constexpr std::uint64_t kTrusted = 1;
/// Requests for McMemberRecords: complete ones, each changed in one place.
class Members {
 public:
  static constexpr std::uint64_t kJoin = McMemberRecord::kMgid | McMemberRecord::kPortGid |
                                         McMemberRecord::kPKey | McMemberRecord::kJoinState;
  static constexpr std::uint64_t kCreate =
      kJoin | McMemberRecord::kQKey | McMemberRecord::kMtuSelector | McMemberRecord::kMtu |
      McMemberRecord::kTrafficClass | McMemberRecord::kRateSelector | McMemberRecord::kRate |
      McMemberRecord::kSl | McMemberRecord::kFlowLabel | McMemberRecord::kHopLimit;

  explicit Members(Client& client) : client_(client) {}

  [[nodiscard]] McMemberRecord record(const Gid& mgid, std::uint8_t state = 1) const {
    McMemberRecord record;
    record.mgid = mgid;
    record.port_gid = client_.gid;
    record.qkey = QKey(0x0b1b);
    record.mtu = 4;
    record.pkey = kDefaultPKey;
    record.rate = 3;
    record.join_state = state;
    return record;
  }
  template <class Change>
  void set(const std::string& what, const Gid& mgid, std::uint64_t mask, Change&& change) {
    auto record = this->record(mgid);
    change(record);
    request(client_, "set " + what, method::kSet, attribute::kMcMemberRecord, mask, record);
  }
  void set(const std::string& what, const Gid& mgid, std::uint64_t mask) {
    set(what, mgid, mask, [](McMemberRecord&) {});
  }
  template <class Change>
  void leave(const std::string& what, const Gid& mgid, Change&& change,
             std::uint64_t mask = kJoin) {
    auto record = this->record(mgid);
    change(record);
    request(client_, "leave " + what, method::kDelete, attribute::kMcMemberRecord, mask, record);
  }
  template <class Change>
  void query(const std::string& what, std::uint8_t how, std::uint64_t mask, Change&& change,
             std::uint64_t sm_key = 0) {
    McMemberRecord record;
    change(record);
    request(client_, "query " + what, how, attribute::kMcMemberRecord, mask, record, sm_key);
  }

  void existing_group();
  void selectors();
  void ports();
  void new_groups();
  void values_of_new_groups();
  void leaving();
  void queries();

 private:
  Client& client_;
  const Gid broadcast_ = wire::broadcast_gid(kDefaultPKey);
};

Gid group(std::uint32_t number) {
  return wire::multicast_gid(Ipv4Address(0xe0000100 + number), kDefaultPKey);
}
Gid plain(std::uint8_t number) {
  auto bytes = Gid::parse("ff12:a01c::").value().bytes();
  bytes[15] = number;
  return Gid(bytes);
}

void Members::existing_group() {
  using Record = McMemberRecord;
  set("join", broadcast_, kJoin);
  set("join again", broadcast_, kJoin);
  set("without P_Key", broadcast_, kJoin & ~std::uint64_t{Record::kPKey});
  for (const auto missing : {Record::kMgid, Record::kPortGid, Record::kJoinState}) {
    set("without component " + hex(missing), broadcast_, kJoin & ~std::uint64_t{missing});
  }
  for (int state = 0; state <= 15; ++state) {
    set("state " + std::to_string(state), broadcast_, kJoin,
        [&](Record& r) { r.join_state = static_cast<std::uint8_t>(state); });
  }
  set("all that is given agrees", broadcast_, kCreate);
  set("other Q_Key", broadcast_, kCreate, [](Record& r) { r.qkey = QKey(5); });
  set("limited P_Key", broadcast_, kCreate, [](Record& r) { r.pkey = PKey(0x7fff); });
  set("other P_Key", broadcast_, kCreate, [](Record& r) { r.pkey = kRed; });
  set("invalid P_Key", broadcast_, kCreate, [](Record& r) { r.pkey = PKey(0x8000); });
  set("other class", broadcast_, kCreate, [](Record& r) { r.traffic_class = 1; });
  set("other SL", broadcast_, kCreate, [](Record& r) { r.sl = ServiceLevel(1); });
  set("other flow", broadcast_, kCreate, [](Record& r) { r.flow_label = 1; });
  set("other hop limit", broadcast_, kCreate, [](Record& r) { r.hop_limit = 1; });
  set("other lifetime", broadcast_, kCreate | Record::kLifetime | Record::kLifetimeSelector,
      [](Record& r) { r.lifetime = 1; });
  set("other scope", broadcast_, kCreate | Record::kScope, [](Record& r) { r.scope = 5; });
  set("other MLID", broadcast_, kCreate | Record::kMlid, [](Record& r) { r.mlid = Lid(0xc123); });
}

void Members::selectors() {
  using Record = McMemberRecord;
  for (const int selector : {0, 1, 2, 3}) {
    for (const int value : {0, 1, 3, 4, 5, 6}) {
      set("MTU " + std::to_string(selector) + "," + std::to_string(value), broadcast_, kCreate,
          [&](Record& r) {
            r.mtu_selector = static_cast<Selector>(selector);
            r.mtu = static_cast<std::uint8_t>(value);
          });
    }
    for (const int value : {1, 2, 3, 5, 10, 63}) {
      set("rate " + std::to_string(selector) + "," + std::to_string(value), broadcast_, kCreate,
          [&](Record& r) {
            r.rate_selector = static_cast<Selector>(selector);
            r.rate = static_cast<std::uint8_t>(value);
          });
    }
  }
}

void Members::ports() {
  using Record = McMemberRecord;
  set("MTU without selector", broadcast_, kJoin | Record::kMtu, [](Record& r) { r.mtu = 5; });
  set("unknown port", broadcast_, kJoin,
      [](Record& r) { r.port_gid = Gid(Gid::kLinkLocalPrefix, Guid(0xdead)); });
  set("other prefix", broadcast_, kJoin,
      [&](Record& r) { r.port_gid = Gid(0xfec0000000000000, client_.gid.guid()); });
  set("proxy of the peer", broadcast_, kJoin, [&](Record& r) { r.port_gid = client_.peer(); });
  set("group beyond the port's MTU", wire::broadcast_gid(kRed), kJoin,
      [](Record& r) { r.pkey = kRed; });
}

void Members::new_groups() {
  using Record = McMemberRecord;
  set("new group", group(1), kCreate);
  set("new group from nothing", group(2), kJoin);
  for (const auto missing :
       {Record::kQKey, Record::kTrafficClass, Record::kPKey, Record::kFlowLabel, Record::kSl,
        Record::kHopLimit, Record::kMtu, Record::kMtuSelector, Record::kRateSelector}) {
    set("new group without " + hex(missing), group(3), kCreate & ~std::uint64_t{missing});
    leave("it", group(3), [](Record&) {});
  }
  for (int state = 0; state <= 15; ++state) {
    const auto set_state = [&](Record& r) { r.join_state = static_cast<std::uint8_t>(state); };
    set("new group, state " + std::to_string(state), group(4), kCreate, set_state);
    leave("it", group(4), set_state);
  }
  set("new group, other Q_Key", group(5), kCreate, [](Record& r) { r.qkey = QKey(7); });
  set("new group, other MTU", group(5), kCreate, [](Record& r) { r.mtu = 3; });
  leave("it", group(5), [](Record&) {});
  const Gid wider = Gid::parse("ff15:401b:ffff::e000:101").value();
  set("new group of another scope", wider, kCreate);
  const Gid ours = wire::multicast_gid(Ipv4Address(0xe0000101), kRed);
  set("new group of the other partition", ours, kCreate, [](Record& r) { r.pkey = kRed; });
  const Gid foreign = wire::multicast_gid(Ipv4Address(0xe0000101), kForeign);
  set("new group of no partition", foreign, kCreate, [](Record& r) { r.pkey = kForeign; });
  set("broadcast group of no partition", wire::broadcast_gid(kForeign), kCreate,
      [](Record& r) { r.pkey = kForeign; });
  set("MGID chosen by the SA", Gid(), kCreate);
  for (const auto* text : {"fe80::1", "ff32:1::1", "ff12:a01b::1", "ff15:a01b::1", "ff02::1",
                           "ff12:401b:7fff::1", "ff12:601b:ffff::1"}) {
    set(std::string("new group ") + text, Gid::parse(text).value(), kCreate);
  }
}

void Members::values_of_new_groups() {
  using Record = McMemberRecord;
  for (const int selector : {0, 1, 2, 3}) {
    for (const int value : {1, 3, 4, 5}) {
      set("new MTU " + std::to_string(selector) + "," + std::to_string(value), plain(1), kCreate,
          [&](Record& r) {
            r.mtu_selector = static_cast<Selector>(selector);
            r.mtu = static_cast<std::uint8_t>(value);
          });
      leave("it", plain(1), [](Record&) {});
    }
    for (const int value : {2, 3, 5, 10}) {
      // "Less than 120 Gb/s" and "more than 10" depend on the port.
      if ((selector == 1 && value == 10) || (selector == 0 && value == 3)) continue;
      set("new rate " + std::to_string(selector) + "," + std::to_string(value), plain(2), kCreate,
          [&](Record& r) {
            r.rate_selector = static_cast<Selector>(selector);
            r.rate = static_cast<std::uint8_t>(value);
          });
      leave("it", plain(2), [](Record&) {});
    }
  }
  set("new MLID", plain(3), kCreate | Record::kMlid, [](Record& r) { r.mlid = Lid(0xc100); });
  set("new scope", plain(4), kCreate | Record::kScope, [](Record& r) { r.scope = 5; });
}

void Members::leaving() {
  using Record = McMemberRecord;
  const auto state = [](int value) {
    return [value](Record& r) { r.join_state = static_cast<std::uint8_t>(value); };
  };
  set("to be left", plain(7), kCreate, state(1));
  set("to be left, too", plain(7), kJoin, state(4));
  leave("a state that is not there", plain(7), state(2));
  leave("more than is there", plain(7), state(7));
  leave("nothing", plain(7), state(0));
  leave("send-only", plain(7), state(4));
  leave("full", plain(7), state(1));
  leave("full, again", plain(7), state(1));
  leave("a group that is not there", plain(99), state(1));
  leave("for another port", broadcast_, [&](Record& r) { r.port_gid = client_.peer(); });
  leave("for an unknown port", broadcast_,
        [](Record& r) { r.port_gid = Gid(Gid::kLinkLocalPrefix, Guid(0xdead)); });
  leave("with another prefix", broadcast_,
        [&](Record& r) { r.port_gid = Gid(0xfec0000000000000, client_.gid.guid()); });
  leave("without components", broadcast_, state(1), McMemberRecord::kMgid);
}

void Members::queries() {
  using Record = McMemberRecord;
  const auto nothing = [](Record&) {};
  const auto by_mgid = [&](Record& r) { r.mgid = broadcast_; };
  for (const std::uint8_t how : {method::kGet, method::kGetTable}) {
    const std::string form = how == method::kGet ? "one " : "all ";
    for (const std::uint64_t key : {std::uint64_t{0}, kTrusted}) {
      const std::string whose = form + (key != 0 ? "trusted " : "");
      query(whose + "by MGID", how, Record::kMgid, by_mgid, key);
      query(
          whose + "by MGID and my port", how, Record::kMgid | Record::kPortGid,
          [&](Record& r) { r.mgid = broadcast_, r.port_gid = client_.gid; }, key);
      query(
          whose + "by MGID and unknown port", how, Record::kMgid | Record::kPortGid,
          [&](Record& r) {
            r.mgid = broadcast_;
            r.port_gid = Gid(Gid::kLinkLocalPrefix, Guid(0xdead));
          },
          key);
      query(
          whose + "by MLID", how, Record::kMlid, [](Record& r) { r.mlid = Lid(0xc000); }, key);
      query(
          whose + "by MLID of none", how, Record::kMlid, [](Record& r) { r.mlid = Lid(0xcfff); },
          key);
      query(
          whose + "by P_Key", how, Record::kPKey, [](Record& r) { r.pkey = kRed; }, key);
      query(
          whose + "by Q_Key of none", how, Record::kQKey, [](Record& r) { r.qkey = QKey(9); }, key);
      query(
          whose + "by state", how, Record::kMgid | Record::kJoinState,
          [&](Record& r) { r.mgid = broadcast_, r.join_state = 1; }, key);
      query(
          whose + "by scope", how, Record::kMgid | Record::kScope,
          [&](Record& r) { r.mgid = broadcast_, r.scope = 5; }, key);
      query(
          whose + "by larger MTU", how, Record::kMtu | Record::kMtuSelector,
          [](Record& r) { r.mtu = 4, r.mtu_selector = Selector::greater; }, key);
    }
  }
  query("one of many", method::kGet, 0, nothing);
  query("with a wrong key", method::kGet, Record::kMgid, by_mgid, 7);
}

void services(Client& client) {
  using wire::ServiceRecord;
  constexpr std::uint64_t kRid =
      ServiceRecord::kServiceId | ServiceRecord::kGid | ServiceRecord::kPKey;
  ServiceRecord service;
  service.service_id = 0x1000000000000042;
  service.gid = client.gid;
  service.pkey = kDefaultPKey;
  service.lease = 3600;
  service.key[0] = 7;
  service.name[0] = 'x';
  std::iota(service.data.begin(), service.data.end(), std::uint8_t{1});
  const auto send = [&](const std::string& what, std::uint8_t how, std::uint64_t mask,
                        const ServiceRecord& record, std::uint64_t sm_key = 0) {
    request(client, what, how, attribute::kServiceRecord, mask, record, sm_key);
  };
  send("no service", method::kGet, 0, {});
  send("services, none", method::kGetTable, 0, {});
  send("announce without GID", method::kSet, ServiceRecord::kServiceId, service);
  send("announce", method::kSet, kRid | ServiceRecord::kLease, service);
  send("service", method::kGet, ServiceRecord::kServiceId, service);
  send("service, trusted", method::kGet, ServiceRecord::kServiceId, service, kTrusted);
  send("announce again", method::kSet, kRid, service);
  send("services", method::kGetTable, 0, {});
  send("services by name", method::kGetTable, ServiceRecord::kName, service);
  auto other = service;
  other.name[0] = 'y';
  other.pkey = kForeign;
  send("services by another name", method::kGetTable, ServiceRecord::kName, other);
  send("announce in a foreign partition", method::kSet, kRid, other);
  send("withdraw", method::kDelete, kRid, service);
  send("withdraw again", method::kDelete, kRid, service);
}

void other_records(Client& client) {
  wire::NodeRecord node;
  node.lid = client.lid;
  request(client, "my node", method::kGet, attribute::kNodeRecord, wire::NodeRecord::kLid, node);
  request(client, "any node", method::kGet, attribute::kNodeRecord, 0, node);
  node.lid = Lid(0x1234);
  request(client, "no node", method::kGet, attribute::kNodeRecord, wire::NodeRecord::kLid, node);
  wire::PortInfoRecord port;
  port.lid = client.lid;
  request(client, "my port", method::kGet, attribute::kPortInfoRecord, wire::PortInfoRecord::kLid,
          port);
  wire::InformInfo info;
  info.type = 3;
  info.producer_type = 4;
  const auto inform = [&](const std::string& what) {
    request(client, what + std::to_string(info.trap_number), method::kSet, attribute::kInformInfo,
            0, info);
  };
  for (info.trap_number = wire::trap::kInService; info.trap_number <= wire::trap::kGroupDeleted;
       ++info.trap_number) {
    info.subscribe = true;
    info.qpn = Qpn(0);
    inform("subscribe to ");
    inform("subscribe again to ");
    info.subscribe = false;
    inform("unsubscribe QP0 from ");
    info.qpn = wire::kGsiQpn;
    inform("unsubscribe from ");
    inform("unsubscribe again from ");
  }
  request(client, "class", method::kGet, attribute::kClassPortInfo, 0, wire::ClassPortInfo());
}

}  // namespace

int main(int argc, char** argv) {
  const auto gid = argc == 3 && std::string_view(argv[1]) == "--peer" ? ipoib::Gid::parse(argv[2])
                                                                      : std::nullopt;
  if (!gid) {
    std::cerr << "usage: sa_responses --peer GID\n";
    return 2;
  }
  Client client(*gid);
  Members members(client);
  members.existing_group();
  members.selectors();
  members.ports();
  members.new_groups();
  members.values_of_new_groups();
  members.leaving();
  members.queries();
  request_paths(client);
  services(client);
  other_records(client);
  return 0;
}
