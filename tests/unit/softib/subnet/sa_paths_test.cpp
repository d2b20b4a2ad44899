// PathRecord queries (IBA 15.2.5.16). Expected statuses and values are those of OpenSM.
#include "sa_client.hpp"
#include "softib/subnet/sa_request.hpp"
#include "subnet_snapshot.hpp"
#include "wire/path_record.hpp"

namespace softib::subnet {
namespace {

using ipoib::wire::PathRecord;
using ipoib::wire::SaStatus;
using ipoib::wire::Selector;
namespace attribute = ipoib::wire::attribute;
namespace method = ipoib::wire::method;

/// The components that IPoIB uses.
constexpr std::uint64_t kIpoibComponents = PathRecord::kDgid | PathRecord::kSgid |
                                           PathRecord::kReversible | PathRecord::kNumbPath |
                                           PathRecord::kPKey;

class SaPaths : public ::testing::Test {
 protected:
  SaPaths() {
    wanted.sgid = a.gid();
    wanted.dgid = b.gid();
    wanted.reversible = true;
    wanted.numb_path = 1;
    wanted.pkey = ipoib::kDefaultPKey;
  }
  SaReply get(std::uint64_t mask) {
    return a.send_request(method::kGet, attribute::kPathRecord, mask, wanted).value();
  }
  std::vector<PathRecord> table(std::uint64_t mask) {
    const auto reply = a.send_request(method::kGetTable, attribute::kPathRecord, mask, wanted);
    EXPECT_TRUE(reply && reply->status() == SaStatus::ok);
    EXPECT_EQ(reply->header.mad.method, 0x92) << "SubnAdmGetTableResp()";
    return reply->records<PathRecord>();
  }

  Subnet subnet;
  SaClient a{subnet, "a"};
  SaClient b{subnet, "b"};
  PathRecord wanted;
};

TEST_F(SaPaths, ByBothGids) {
  const auto reply = get(kIpoibComponents);
  ASSERT_EQ(reply.status(), SaStatus::ok);
  const auto path = PathRecord::parse(reply.data).value();
  EXPECT_EQ(path.dgid, b.gid());
  EXPECT_EQ(path.sgid, a.gid());
  EXPECT_EQ(path.dlid, b.port().lid);
  EXPECT_EQ(path.slid, a.port().lid);
  EXPECT_EQ(path.pkey, ipoib::kDefaultPKey);
  EXPECT_EQ(path.hop_limit, 0);
  EXPECT_EQ(path.flow_label, 0U);
  EXPECT_TRUE(path.reversible);
  // The bytes of MTU, rate (40 Gb/s) and lifetime, each with selector "exactly".
  EXPECT_EQ(reply.data[54], 0x84);
  EXPECT_EQ(reply.data[55], 0x87);
  EXPECT_EQ(reply.data[56], 0x92);
}

TEST_F(SaPaths, UnknownGidHasNoRecord) {
  wanted.dgid = Gid(Gid::kLinkLocalPrefix, Guid(0x1234));
  EXPECT_EQ(get(kIpoibComponents).status(), SaStatus::no_records);
  EXPECT_TRUE(table(kIpoibComponents).empty());
}

TEST_F(SaPaths, UnsharedPKeyHasNoRecord) {
  wanted.pkey = PKey(0x8012);
  EXPECT_EQ(get(kIpoibComponents).status(), SaStatus::no_records);
  ASSERT_TRUE(subnet.set_membership(a.index(), PKey(0x12), Membership::limited));
  ASSERT_TRUE(subnet.set_membership(b.index(), PKey(0x12), Membership::limited));
  EXPECT_EQ(get(kIpoibComponents).status(), SaStatus::no_records) << "two limited members";
  ASSERT_TRUE(subnet.set_membership(b.index(), PKey(0x12), Membership::full));
  EXPECT_EQ(get(kIpoibComponents).status(), SaStatus::ok);
}

/// IBA 15.4.1: the requester must be allowed to communicate with both ends.
TEST_F(SaPaths, BetweenOtherPortsNeedAPKeyThatTheRequesterSharesWithBoth) {
  SaClient c(subnet, "c");
  const auto is_shown_to_c = [&] {
    return c.send_request(method::kGet, attribute::kPathRecord,
                          PathRecord::kDgid | PathRecord::kSgid, wanted)
               ->status() == SaStatus::ok;
  };
  EXPECT_TRUE(is_shown_to_c());
  // a and b still share the default partition; c is not in it with full membership, and they are
  // limited members.
  for (const auto* port : {&a, &b}) {
    ASSERT_TRUE(subnet.set_membership(port->index(), ipoib::kDefaultPKey, Membership::limited));
    ASSERT_TRUE(subnet.set_membership(port->index(), PKey(0x12), Membership::full));
  }
  ASSERT_TRUE(subnet.set_membership(c.index(), ipoib::kDefaultPKey, Membership::limited));
  EXPECT_FALSE(is_shown_to_c()) << "c shares no partition with a and b";
  ASSERT_TRUE(subnet.set_membership(c.index(), PKey(0x13), Membership::full));
  ASSERT_TRUE(subnet.set_membership(a.index(), PKey(0x13), Membership::limited));
  EXPECT_FALSE(is_shown_to_c()) << "with a alone";
  ASSERT_TRUE(subnet.set_membership(b.index(), PKey(0x13), Membership::limited));
  EXPECT_TRUE(is_shown_to_c());
}

TEST_F(SaPaths, ByLids) {
  wanted.slid = a.port().lid;
  wanted.dlid = b.port().lid;
  const auto path = PathRecord::parse(get(PathRecord::kSlid | PathRecord::kDlid).data).value();
  EXPECT_EQ(path.sgid, a.gid());
  EXPECT_EQ(path.dgid, b.gid());
}

TEST_F(SaPaths, GidAndLidOfOneEndMustMatch) {
  wanted.dlid = a.port().lid;
  EXPECT_EQ(get(kIpoibComponents | PathRecord::kDlid).status(), SaStatus::request_invalid);
  EXPECT_EQ(get(kIpoibComponents).status(), SaStatus::ok) << "the LID is not asked for";
  wanted.dlid = b.port().lid;
  EXPECT_EQ(get(kIpoibComponents | PathRecord::kDlid).status(), SaStatus::ok);
}

TEST_F(SaPaths, WildcardsInATable) {
  SaClient c(subnet, "c");
  const std::size_t ports = 5;  // the SM, a, b, c, the switch
  EXPECT_EQ(table(PathRecord::kSgid).size(), ports);
  EXPECT_EQ(table(PathRecord::kDgid).size(), ports);
  EXPECT_EQ(table(PathRecord::kSgid | PathRecord::kDgid).size(), 1U);
  EXPECT_EQ(table(0).size(), ports * ports);
  wanted.numb_path = 0;
  EXPECT_TRUE(table(PathRecord::kSgid | PathRecord::kNumbPath).empty());
}

TEST_F(SaPaths, GetReturnsOneOfMany) {
  const auto reply = get(PathRecord::kSgid);
  EXPECT_EQ(reply.status(), SaStatus::ok);
  EXPECT_EQ(PathRecord::parse(reply.data)->sgid, a.gid());
}

TEST_F(SaPaths, ReversePathIsEqual) {
  wanted.sgid = b.gid();
  wanted.dgid = a.gid();
  const auto path = PathRecord::parse(get(kIpoibComponents).data).value();
  EXPECT_EQ(path.dlid, a.port().lid);
  EXPECT_EQ(path.slid, b.port().lid);
}

TEST_F(SaPaths, HasTheServiceLevelThatIsWanted) {
  wanted.sl = ipoib::ServiceLevel(5);
  EXPECT_EQ(PathRecord::parse(get(kIpoibComponents | PathRecord::kSl).data)->sl.value(), 5);
  EXPECT_EQ(PathRecord::parse(get(kIpoibComponents).data)->sl.value(), 0) << "it is not named";
}

TEST_F(SaPaths, LoopbackPath) {
  wanted.dgid = a.gid();
  const auto path = PathRecord::parse(get(kIpoibComponents).data).value();
  EXPECT_EQ(path.dlid, path.slid);
  EXPECT_EQ(path.lifetime, 0);
}

/// Selectors of one of the values of a path.
class SaPathSelectors : public SaPaths {
 protected:
  struct Row {
    Selector selector;
    std::uint8_t value;
    std::uint8_t given;  ///< in the record; 0: no record
  };
  void expect(std::uint64_t components, Selector PathRecord::*selector,
              std::uint8_t PathRecord::*value, const std::vector<Row>& rows) {
    for (const auto& row : rows) {
      SCOPED_TRACE(testing::Message() << int(row.selector) << ' ' << int(row.value));
      wanted.*selector = row.selector;
      wanted.*value = row.value;
      const auto reply = get(kIpoibComponents | components);
      ASSERT_EQ(reply.status(), row.given != 0 ? SaStatus::ok : SaStatus::no_records);
      if (row.given == 0) continue;
      EXPECT_EQ((*PathRecord::parse(reply.data)).*value, row.given);
    }
    // One component selects nothing without the other.
    const auto low = components & ~(components - 1);
    for (const auto one : {low, components ^ low}) {
      wanted.*selector = rows[1].selector;
      wanted.*value = rows[1].value;
      EXPECT_EQ(get(kIpoibComponents | one).status(), SaStatus::ok);
    }
  }
};

TEST_F(SaPathSelectors, OfTheMtu) {
  constexpr auto kMask = PathRecord::kMtuSelector | PathRecord::kMtu;
  expect(kMask, &PathRecord::mtu_selector, &PathRecord::mtu,
         {{Selector::greater, 3, 4},
          {Selector::greater, 4, 0},
          {Selector::less, 5, 4},
          {Selector::less, 4, 3},
          {Selector::less, 1, 0},
          {Selector::exactly, 4, 4},
          {Selector::exactly, 2, 2},
          {Selector::exactly, 5, 0},
          {Selector::largest, 1, 4}});
  wanted.mtu = 6;
  EXPECT_EQ(get(kIpoibComponents | kMask).status(), SaStatus::request_invalid);
}

TEST_F(SaPathSelectors, OfTheRateCompareRatesNotCodes) {
  constexpr auto kMask = PathRecord::kRateSelector | PathRecord::kRate;
  expect(kMask, &PathRecord::rate_selector, &PathRecord::rate,
         {{Selector::greater, 5, 7},  // more than 5 Gb/s: the port's 40
          {Selector::greater, 7, 0},  // more than 40
          {Selector::less, 7, 4},     // less than 40: 30
          {Selector::less, 8, 7},     // less than 60: 40
          {Selector::less, 2, 0},     // less than 2.5
          {Selector::exactly, 7, 7},  // 40
          {Selector::exactly, 3, 0},  // 10, not the rate of the ports
          {Selector::largest, 2, 7}});
  wanted.rate = 1;
  EXPECT_EQ(get(kIpoibComponents | kMask).status(), SaStatus::request_invalid);
}

TEST_F(SaPathSelectors, OfTheLifetime) {
  expect(PathRecord::kLifetimeSelector | PathRecord::kLifetime, &PathRecord::lifetime_selector,
         &PathRecord::lifetime,
         {{Selector::greater, 17, 18},
          {Selector::greater, 18, 0},
          {Selector::less, 19, 18},
          {Selector::less, 18, 17},
          {Selector::less, 1, 0},
          {Selector::exactly, 18, 18},
          {Selector::exactly, 2, 2},
          {Selector::exactly, 19, 0},
          {Selector::largest, 1, 18}});
}

/// A query of a multicast group is for members, and for the parameters that the group has.
TEST_F(SaPaths, MulticastPath) {
  auto group = member::record(Gid::parse("ff12:a01c::1").value(), a.gid());
  group.sl = ServiceLevel(2);
  group.flow_label = 0x12345;
  group.hop_limit = 9;
  group.traffic_class = 0x20;
  const auto created =
      a.send_request(method::kSet, attribute::kMcMemberRecord, member::kCreate, group);
  ASSERT_EQ(created->status(), SaStatus::ok);
  wanted.dgid = group.mgid;
  wanted.numb_path = 5;
  wanted.pkey = PKey(0x12);
  wanted.qos_class = 3;
  wanted.mtu_selector = wanted.rate_selector = wanted.lifetime_selector = Selector::largest;
  const auto reply = get(PathRecord::kDgid | PathRecord::kSgid);
  EXPECT_EQ(reply.header.attribute_offset, PathRecord::kSize / 8);
  const auto path = PathRecord::parse(reply.data).value();
  EXPECT_EQ(path.dlid, Lid(0xc001));
  EXPECT_EQ(path.mtu, 4);
  EXPECT_EQ(path.rate, 3);
  EXPECT_EQ(path.lifetime, 18);
  EXPECT_EQ(path.pkey, ipoib::kDefaultPKey);
  EXPECT_EQ(path.sl, ServiceLevel(2));
  EXPECT_EQ(path.flow_label, 0x12345U);
  EXPECT_EQ(path.hop_limit, 9);
  EXPECT_EQ(path.traffic_class, 0x20);
  EXPECT_EQ(path.numb_path, 1);
  EXPECT_EQ(path.qos_class, 0);
  for (const auto selector : {path.mtu_selector, path.rate_selector, path.lifetime_selector}) {
    EXPECT_EQ(selector, Selector::exactly);
  }
  EXPECT_FALSE(path.reversible);

  constexpr auto kMask = PathRecord::kDgid | PathRecord::kSgid | PathRecord::kSlid |
                         PathRecord::kDlid | PathRecord::kPKey | PathRecord::kSl |
                         PathRecord::kFlowLabel | PathRecord::kHopLimit | PathRecord::kTrafficClass;
  auto same = path;
  same.slid = a.port().lid;
  wanted = same;
  EXPECT_EQ(get(kMask).status(), SaStatus::ok);
  for (const auto change : std::initializer_list<void (*)(PathRecord&, const SaClient&)>{
           [](auto& x, const auto& other) { x.sgid = other.gid(); },  // not a member
           [](auto& x, const auto& other) { x.slid = other.port().lid; },
           [](auto& x, const auto&) { x.slid = Lid(0x999); },
           [](auto& x, const auto&) { x.dlid = Lid(0xc000); },
           [](auto& x, const auto&) { x.pkey = PKey(0x8012); },
           [](auto& x, const auto&) { x.sl = ServiceLevel(3); },
           [](auto& x, const auto&) { x.flow_label = 1; },
           [](auto& x, const auto&) { x.hop_limit = 8; },
           [](auto& x, const auto&) { x.traffic_class = 0; },
           [](auto& x, const auto&) { x.dgid = Gid::parse("ff12:a01c::2").value(); }}) {
    wanted = same;
    change(wanted, b);
    EXPECT_EQ(get(kMask).status(), SaStatus::no_records);
  }
}

TEST_F(SaPaths, PortThatIsDownHasNoPath) {
  ASSERT_TRUE(subnet.set_port_state(b.index(), PortState::down));
  EXPECT_EQ(get(kIpoibComponents).status(), SaStatus::no_records);
}

TEST_F(SaPaths, MtuIsThatOfThePorts) {
  SubnetConfig config;
  config.mtu = 5;
  Subnet large(config);
  SaClient c(large, "c");
  wanted.sgid = wanted.dgid = c.gid();
  const auto reply = c.send_request(method::kGet, attribute::kPathRecord, kIpoibComponents, wanted);
  EXPECT_EQ(PathRecord::parse(reply->data)->mtu, 5);
}

TEST_F(SaPaths, MtuAndRateAreTheSmallerOnesOfBothPorts) {
  auto snapshot = snapshot_of(subnet);
  for (auto& entry : snapshot.nodes) {
    if (entry.index == b.index()) entry.node.port.width = 1;  // 10 Gb/s
  }
  Subnet after;
  after.adopt(snapshot, kStart);
  ASSERT_TRUE(after.set_mtu(b.index(), 2));
  SaClient other(after, "a");
  for (int i = 0; i < 2; ++i) {
    const auto reply =
        other.send_request(method::kGet, attribute::kPathRecord, kIpoibComponents, wanted);
    const auto path = PathRecord::parse(reply->data).value();
    EXPECT_EQ(path.mtu, 2);
    EXPECT_EQ(path.rate, 3);
    std::swap(wanted.sgid, wanted.dgid);
  }
}

TEST_F(SaPaths, PKeyWithoutANumberHasNoRecord) {
  for (const std::uint16_t pkey : {std::uint16_t{0}, std::uint16_t{0x8000}}) {
    wanted.pkey = PKey(pkey);
    EXPECT_EQ(get(kIpoibComponents).status(), SaStatus::no_records) << pkey;
  }
}

TEST_F(SaPaths, LidOfNoPortHasNoRecord) {
  const auto mask = kIpoibComponents | PathRecord::kDlid;
  wanted.dlid = b.port().lid;
  EXPECT_EQ(get(mask).status(), SaStatus::ok);
  wanted.dlid = Lid(0x999);
  EXPECT_EQ(get(mask).status(), SaStatus::no_records) << "also with the GID of a port";
}

TEST_F(SaPaths, SetAndDeleteAreNotSupported) {
  for (const auto what :
       {attribute::kPathRecord, attribute::kNodeRecord, attribute::kPortInfoRecord}) {
    for (const auto how : {method::kSet, method::kDelete}) {
      EXPECT_EQ(a.send_request(how, what, kIpoibComponents, wanted)->status(),
                SaStatus::unsupported_method_attribute);
    }
  }
}

TEST_F(SaPaths, TooLargeTableIsRefused) {
  // 400 nodes have 160 801 paths of 64 bytes.
  for (int i = 0; i < 400; ++i) ASSERT_TRUE(subnet.add_hca("n" + std::to_string(i)));
  const auto reply = a.send_request(method::kGetTable, attribute::kPathRecord, 0, wanted);
  EXPECT_EQ(reply->status(), SaStatus::no_resources);
  EXPECT_EQ(subnet.counters().over_limit, 1U);
  RecordTable records(400'000);
  while (!records.is_full()) records.add(wanted);
  const auto bytes = records.bytes().size();
  records.add(wanted);
  records.add(ConstBytes(std::vector<std::uint8_t>(PathRecord::kSize)));
  EXPECT_EQ(records.bytes().size(), bytes) << "no record fits any more";
}

class SaPathsOfManyLids : public ::testing::Test {
 protected:
  SaPathsOfManyLids() {
    wanted.sgid = a.gid();
    wanted.dgid = b.gid();
  }
  static SubnetConfig config() {
    SubnetConfig config;
    config.lmc = 1;
    return config;
  }
  /// The pairs of LIDs, as offsets from the base LIDs.
  std::vector<std::pair<int, int>> pairs(std::uint64_t mask, std::uint8_t how = method::kGetTable) {
    const auto reply = a.send_request(how, attribute::kPathRecord, mask, wanted).value();
    EXPECT_EQ(reply.status(), SaStatus::ok);
    std::vector<std::pair<int, int>> found;
    const auto add = [&](const PathRecord& path) {
      found.emplace_back(path.slid.value() - a.port().lid.value(),
                         path.dlid.value() - b.port().lid.value());
    };
    if (how == method::kGet) {
      add(PathRecord::parse(reply.data).value());
    } else {
      for (const auto& path : reply.records<PathRecord>()) add(path);
    }
    return found;
  }
  using Pairs = std::vector<std::pair<int, int>>;

  Subnet subnet{config()};
  SaClient a{subnet, "a"};
  SaClient b{subnet, "b"};
  PathRecord wanted;
};

TEST_F(SaPathsOfManyLids, TableHasEachPairOfLidsDisjointOnesFirst) {
  EXPECT_EQ(pairs(PathRecord::kSgid | PathRecord::kDgid), (Pairs{{0, 0}, {1, 1}, {0, 1}, {1, 0}}));
}

TEST_F(SaPathsOfManyLids, NumbPathLimitsThePaths) {
  wanted.numb_path = 3;
  const auto mask = PathRecord::kSgid | PathRecord::kDgid | PathRecord::kNumbPath;
  EXPECT_EQ(pairs(mask), (Pairs{{0, 0}, {1, 1}, {0, 1}}));
  EXPECT_EQ(pairs(mask, method::kGet), (Pairs{{0, 0}})) << "SubnAdmGet() returns one";
}

TEST_F(SaPathsOfManyLids, GivenLidIsUsed) {
  wanted.slid = Lid(static_cast<std::uint16_t>(a.port().lid.value() + 1));
  const auto mask = PathRecord::kSgid | PathRecord::kDgid | PathRecord::kSlid;
  EXPECT_EQ(pairs(mask), (Pairs{{1, 0}, {1, 1}}));
  wanted.dlid = Lid(static_cast<std::uint16_t>(b.port().lid.value() + 1));
  EXPECT_EQ(pairs(mask | PathRecord::kDlid), (Pairs{{1, 1}}));
}

}  // namespace
}  // namespace softib::subnet
