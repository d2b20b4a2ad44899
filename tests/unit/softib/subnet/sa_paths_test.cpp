// PathRecord queries (IBA 15.2.5.16); statuses and values as OpenSM gives them.
#include "sa_client.hpp"
#include "wire/path_record.hpp"

namespace softib::subnet {
namespace {

using ipoib::wire::PathRecord;
using ipoib::wire::SaStatus;
using ipoib::wire::Selector;
namespace attribute = ipoib::wire::attribute;
namespace method = ipoib::wire::method;

/// What IPoIB asks for.
constexpr std::uint64_t kUsual = PathRecord::kDgid | PathRecord::kSgid | PathRecord::kReversible |
                                 PathRecord::kNumbPath | PathRecord::kPKey;

class SaPaths : public ::testing::Test {
 protected:
  SaPaths() {
    asked.sgid = a.gid();
    asked.dgid = b.gid();
    asked.reversible = true;
    asked.numb_path = 1;
    asked.pkey = ipoib::kDefaultPKey;
  }
  SaReply get(std::uint64_t mask) {
    return a.ask(method::kGet, attribute::kPathRecord, mask, asked).value();
  }
  std::vector<PathRecord> table(std::uint64_t mask) {
    const auto reply = a.ask(method::kGetTable, attribute::kPathRecord, mask, asked);
    EXPECT_TRUE(reply && reply->status() == SaStatus::ok);
    return reply->records<PathRecord>();
  }

  Subnet subnet;
  SaClient a{subnet, "a"};
  SaClient b{subnet, "b"};
  PathRecord asked;
};

TEST_F(SaPaths, ByBothGids) {
  const auto reply = get(kUsual);
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
  // The octets of MTU, rate (40 Gb/s here) and lifetime, each "exactly".
  EXPECT_EQ(reply.data[54], 0x84);
  EXPECT_EQ(reply.data[55], 0x87);
  EXPECT_EQ(reply.data[56], 0x92);
}

TEST_F(SaPaths, AnUnknownGidIsNoRecord) {
  asked.dgid = Gid(Gid::kLinkLocalPrefix, Guid(0x1234));
  EXPECT_EQ(get(kUsual).status(), SaStatus::no_records);
  EXPECT_TRUE(table(kUsual).empty());
}

TEST_F(SaPaths, APKeyThatIsNotSharedIsNoRecord) {
  asked.pkey = PKey(0x8012);
  EXPECT_EQ(get(kUsual).status(), SaStatus::no_records);
  ASSERT_TRUE(subnet.set_membership(a.index(), PKey(0x12), Membership::limited));
  ASSERT_TRUE(subnet.set_membership(b.index(), PKey(0x12), Membership::limited));
  EXPECT_EQ(get(kUsual).status(), SaStatus::no_records) << "two limited members";
  ASSERT_TRUE(subnet.set_membership(b.index(), PKey(0x12), Membership::full));
  EXPECT_EQ(get(kUsual).status(), SaStatus::ok);
}

TEST_F(SaPaths, ByLids) {
  asked.slid = a.port().lid;
  asked.dlid = b.port().lid;
  const auto path = PathRecord::parse(get(PathRecord::kSlid | PathRecord::kDlid).data).value();
  EXPECT_EQ(path.sgid, a.gid());
  EXPECT_EQ(path.dgid, b.gid());
}

TEST_F(SaPaths, GidAndLidOfOneEndHaveToAgree) {
  asked.dlid = a.port().lid;
  EXPECT_EQ(get(kUsual | PathRecord::kDlid).status(), SaStatus::request_invalid);
  asked.dlid = b.port().lid;
  EXPECT_EQ(get(kUsual | PathRecord::kDlid).status(), SaStatus::ok);
}

TEST_F(SaPaths, WildcardsInATable) {
  SaClient c(subnet, "c");
  const std::size_t ports = 5;  // the SM, a, b, c, the switch
  EXPECT_EQ(table(PathRecord::kSgid).size(), ports);
  EXPECT_EQ(table(PathRecord::kDgid).size(), ports);
  EXPECT_EQ(table(PathRecord::kSgid | PathRecord::kDgid).size(), 1U);
  EXPECT_EQ(table(0).size(), ports * ports);
  asked.numb_path = 0;
  EXPECT_TRUE(table(PathRecord::kSgid | PathRecord::kNumbPath).empty());
}

TEST_F(SaPaths, GetReturnsOneOfMany) {
  const auto reply = get(PathRecord::kSgid);
  EXPECT_EQ(reply.status(), SaStatus::ok);
  EXPECT_EQ(PathRecord::parse(reply.data)->sgid, a.gid());
}

TEST_F(SaPaths, TheWayBack) {
  asked.sgid = b.gid();
  asked.dgid = a.gid();
  const auto path = PathRecord::parse(get(kUsual).data).value();
  EXPECT_EQ(path.dlid, a.port().lid);
  EXPECT_EQ(path.slid, b.port().lid);
}

TEST_F(SaPaths, ToOneself) {
  asked.dgid = a.gid();
  const auto path = PathRecord::parse(get(kUsual).data).value();
  EXPECT_EQ(path.dlid, path.slid);
  EXPECT_EQ(path.lifetime, 0);
}

struct SelectorCase {
  Selector selector;
  std::uint8_t value;
  std::uint8_t given;  ///< 0: no record
};

TEST_F(SaPaths, MtuSelectors) {
  constexpr auto kMask = kUsual | PathRecord::kMtuSelector | PathRecord::kMtu;
  for (const auto& [selector, value, given] :
       std::vector<SelectorCase>{{Selector::greater, 3, 4},
                                 {Selector::greater, 4, 0},
                                 {Selector::less, 5, 4},
                                 {Selector::less, 4, 3},
                                 {Selector::less, 1, 0},
                                 {Selector::exactly, 4, 4},
                                 {Selector::exactly, 2, 2},
                                 {Selector::exactly, 5, 0},
                                 {Selector::largest, 1, 4}}) {
    asked.mtu_selector = selector;
    asked.mtu = value;
    const auto reply = get(kMask);
    EXPECT_EQ(reply.status(), given != 0 ? SaStatus::ok : SaStatus::no_records);
    if (given == 0) continue;
    EXPECT_EQ(PathRecord::parse(reply.data)->mtu, given);
  }
  asked.mtu = 6;
  EXPECT_EQ(get(kMask).status(), SaStatus::request_invalid);
}

TEST_F(SaPaths, RateSelectorsGoByTheRateNotTheCode) {
  constexpr auto kMask = kUsual | PathRecord::kRateSelector | PathRecord::kRate;
  for (const auto& [selector, value, given] :
       std::vector<SelectorCase>{{Selector::greater, 5, 7},  // more than 5 Gb/s: the port's 40
                                 {Selector::greater, 7, 0},  // more than 40
                                 {Selector::less, 7, 4},     // less than 40: 30
                                 {Selector::less, 8, 7},     // less than 60: 40
                                 {Selector::less, 2, 0},     // less than 2.5
                                 {Selector::exactly, 7, 7},  // 40
                                 {Selector::exactly, 3, 0},  // 10 is not what the ports have
                                 {Selector::largest, 2, 7}}) {
    asked.rate_selector = selector;
    asked.rate = value;
    const auto reply = get(kMask);
    EXPECT_EQ(reply.status(), given != 0 ? SaStatus::ok : SaStatus::no_records) << int{value};
    if (given == 0) continue;
    EXPECT_EQ(PathRecord::parse(reply.data)->rate, given);
  }
  asked.rate = 1;
  EXPECT_EQ(get(kMask).status(), SaStatus::request_invalid);
}

TEST_F(SaPaths, ToAGroup) {
  const auto joined = a.ask(method::kSet, attribute::kMcMemberRecord, member::kJoin,
                            member::record(broadcast(), a.gid()));
  ASSERT_EQ(joined->status(), SaStatus::ok);
  asked.dgid = broadcast();
  const auto path = PathRecord::parse(get(PathRecord::kDgid | PathRecord::kSgid).data).value();
  EXPECT_EQ(path.dlid, Lid(0xc000));
  EXPECT_EQ(path.mtu, 4);
  EXPECT_EQ(path.rate, 3);
  asked.sgid = b.gid();  // no member
  EXPECT_EQ(get(PathRecord::kDgid | PathRecord::kSgid).status(), SaStatus::no_records);
}

TEST_F(SaPaths, APortThatIsDownHasNoPath) {
  ASSERT_TRUE(subnet.set_port_state(b.index(), PortState::down));
  EXPECT_EQ(get(kUsual).status(), SaStatus::no_records);
}

TEST_F(SaPaths, MtuIsThatOfThePorts) {
  SubnetConfig config;
  config.mtu = 5;
  Subnet large(config);
  SaClient c(large, "c");
  asked.sgid = asked.dgid = c.gid();
  const auto reply = c.ask(method::kGet, attribute::kPathRecord, kUsual, asked);
  EXPECT_EQ(PathRecord::parse(reply->data)->mtu, 5);
}

TEST_F(SaPaths, OnlySetAndDeleteAreNotForPaths) {
  const auto reply = a.ask(method::kSet, attribute::kPathRecord, kUsual, asked);
  EXPECT_EQ(reply->status(), SaStatus::unsupported_method_attribute);
}

TEST_F(SaPaths, ATableBeyondItsBoundIsRefused) {
  // 400 nodes have 160 801 paths between them, of 64 octets each.
  for (int i = 0; i < 400; ++i) ASSERT_TRUE(subnet.add_hca("n" + std::to_string(i)));
  const auto reply = a.ask(method::kGetTable, attribute::kPathRecord, 0, asked);
  EXPECT_EQ(reply->status(), SaStatus::no_resources);
  EXPECT_EQ(subnet.counters().over_limit, 1U);
}

class SaPathsOfManyLids : public ::testing::Test {
 protected:
  SaPathsOfManyLids() {
    asked.sgid = a.gid();
    asked.dgid = b.gid();
  }
  static SubnetConfig config() {
    SubnetConfig config;
    config.lmc = 1;
    return config;
  }
  /// The pairs of LIDs, as distances from the first of each port.
  std::vector<std::pair<int, int>> pairs(std::uint64_t mask, std::uint8_t how = method::kGetTable) {
    const auto reply = a.ask(how, attribute::kPathRecord, mask, asked).value();
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
  PathRecord asked;
};

TEST_F(SaPathsOfManyLids, ATableHasEachPairThoseThatShareNothingFirst) {
  EXPECT_EQ(pairs(PathRecord::kSgid | PathRecord::kDgid), (Pairs{{0, 0}, {1, 1}, {0, 1}, {1, 0}}));
}

TEST_F(SaPathsOfManyLids, NumbPathBoundsThem) {
  asked.numb_path = 3;
  const auto mask = PathRecord::kSgid | PathRecord::kDgid | PathRecord::kNumbPath;
  EXPECT_EQ(pairs(mask), (Pairs{{0, 0}, {1, 1}, {0, 1}}));
  EXPECT_EQ(pairs(mask, method::kGet), (Pairs{{0, 0}})) << "SubnAdmGet() is for one";
}

TEST_F(SaPathsOfManyLids, ALidThatIsNamedIsTheOne) {
  asked.slid = Lid(static_cast<std::uint16_t>(a.port().lid.value() + 1));
  const auto mask = PathRecord::kSgid | PathRecord::kDgid | PathRecord::kSlid;
  EXPECT_EQ(pairs(mask), (Pairs{{1, 0}, {1, 1}}));
  asked.dlid = Lid(static_cast<std::uint16_t>(b.port().lid.value() + 1));
  EXPECT_EQ(pairs(mask | PathRecord::kDlid), (Pairs{{1, 1}}));
}

}  // namespace
}  // namespace softib::subnet
