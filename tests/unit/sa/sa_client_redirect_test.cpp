// Redirection (IBA 13.5.2): another address serves the SA class.
#include <gmock/gmock.h>

#include "sa_client_fixture.hpp"

namespace ipoib::sa {
namespace {

using Address = wire::ClassPortInfo::Address;

class Redirection : public SaClientTest {
 protected:
  Redirection() {
    client->set_sm(kSm, now);
    other_address.lid = Lid(9);
    other_address.sl = ServiceLevel(3);
    other_address.pkey = PKey(0x8012);
    other_address.qpn = Qpn(0x123);
    other_address.qkey = QKey(0x80015555);
  }
  void redirect() { redirect(other_address); }
  void redirect(const Address& to) {
    port.redirect(port.sent.back(), to);
    client->on_readable(now);
  }
  [[nodiscard]] const MadDestination& last() const { return port.sent.back().to; }

  Address other_address;
  const MadDestination other_destination{Lid(9),     ServiceLevel(3),  1,
                                         Qpn(0x123), QKey(0x80015555), {}};
};

TEST_F(Redirection, AppliesToTheRequestAndLaterOnes) {
  ask_path(1);
  EXPECT_EQ(last(), kSm);
  redirect();
  EXPECT_EQ(last(), other_destination);
  EXPECT_EQ(port.sent.size(), 2U) << "at once";
  respond(SaStatus::ok, path());
  EXPECT_EQ(client->responses().size(), 1U);
  ask_join(2);
  EXPECT_EQ(last(), other_destination);
  EXPECT_EQ(client->counters().redirects, 1U);
}

TEST_F(Redirection, LateResponsesOfTheOldAddressAreUnmatched) {
  ask_path(1);
  redirect();
  port.respond(port.sent[0], 0, path());
  client->on_readable(now);
  EXPECT_TRUE(client->responses().empty());
  EXPECT_EQ(client->counters().unmatched_mads, 1U);
}

TEST_F(Redirection, MayBeAClassPortInfo) {
  ask_path(1);
  port.redirect(port.sent.back(), other_address);
  auto header = *wire::SaHeader::parse(port.inbox.back().bytes);
  header.mad.attribute_id = wire::attribute::kClassPortInfo;
  header.emit(port.inbox.back().bytes);
  client->on_readable(now);
  EXPECT_EQ(last(), other_destination);
}

TEST_F(Redirection, WithoutAPKeyKeepsTheOldOne) {
  other_address.pkey = PKey(0);
  ask_path(1);
  redirect();
  EXPECT_EQ(last().pkey_index, kSm.pkey_index);
}

TEST_F(Redirection, PrefersTheFullMemberPKey) {
  port.from.pkeys = {kDefaultPKey, PKey(0x0012), PKey(0x8012)};
  ask_path(1);
  redirect();
  EXPECT_EQ(last().pkey_index, 2);
}

TEST_F(Redirection, UsesAGlobalRouteOnlyToAnotherSubnet) {
  other_address.gid = *Gid::parse("fe80::10:9");
  ask_path(1);
  redirect();
  EXPECT_EQ(last(), other_destination) << "its GID has our prefix";
  other_address.gid = *Gid::parse("fec0::10:9");
  other_address.flow_label = 0x12345;
  other_address.traffic_class = 7;
  redirect();
  ASSERT_TRUE(last().global);
  EXPECT_EQ(last().global->dgid, other_address.gid);
  EXPECT_EQ(last().global->flow_label, 0x12345U);
  EXPECT_EQ(last().global->traffic_class, 7);
  EXPECT_GT(last().global->hop_limit, 1);
}

TEST_F(Redirection, HasAGlobalRouteIfThePortRequiresAGrh) {
  MadDestination sm = kSm;
  sm.global = GlobalRoute{.dgid = Gid(Gid::kLinkLocalPrefix, kSaGuid), .hop_limit = 1};
  client->set_sm(sm, now);
  ask_path(1);
  EXPECT_EQ(last(), sm);
  other_address.gid = *Gid::parse("fe80::10:9");
  redirect();
  EXPECT_EQ(last().global, (GlobalRoute{.dgid = other_address.gid, .hop_limit = 1}));
  other_address.gid = Gid();
  redirect();
  EXPECT_EQ(failure().status, SaStatus::redirect) << "without a GID it cannot be sent";
}

TEST_F(Redirection, UnusableOneIsAFailure) {
  const auto bad = [this](auto change) {
    Address to = other_address;
    change(to);
    ask_path(1);
    const auto before = port.sent.size();
    redirect(to);
    const auto why = failure();
    EXPECT_EQ(why.status, SaStatus::redirect);
    EXPECT_THAT(why.text(), testing::HasSubstr("redirect"));
    EXPECT_EQ(port.sent.size(), before);
  };
  bad([](Address& to) { to.lid = Lid(0); });
  bad([](Address& to) { to.lid = Lid(0xc000); });
  bad([](Address& to) { to.qpn = Qpn(0); });
  bad([](Address& to) { to.pkey = PKey(0x8013); });
  port.from.pkeys.clear();
  bad([](Address&) {});
  EXPECT_EQ(client->counters().redirects, 0U);
  ask_path(2);
  EXPECT_EQ(last(), kSm);
}

TEST_F(Redirection, CountsAsAnAttempt) {
  Address back = other_address;
  back.lid = Lid(10);
  ask_path(1);
  for (unsigned i = 0; i < config.path.attempts; ++i) {
    ASSERT_TRUE(client->responses().empty());
    redirect(i % 2 == 0 ? other_address : back);
  }
  EXPECT_EQ(failure().status, SaStatus::redirect);
  EXPECT_EQ(port.sent.size(), config.path.attempts);
  EXPECT_EQ(client->next_deadline(), kNever);
}

TEST_F(Redirection, EndsWhenTheSubnetManagerChanges) {
  ask_path(1);
  redirect();
  client->set_sm(kOtherSm, now);
  EXPECT_EQ(last(), kOtherSm) << "the request in flight";
  ask_path(2);
  EXPECT_EQ(last(), kOtherSm);
}

TEST_F(Redirection, EndsOnATimeout) {
  ask_path(1);
  redirect();
  time_out();
  advance();
  EXPECT_EQ(last(), kSm);
  respond(SaStatus::ok, path());
  EXPECT_EQ(client->counters().records, 1U);
}

TEST_F(Redirection, ReportsAreAcceptedFromTheNewAddress) {
  ask_path(1);
  redirect();
  wire::SaHeader header;
  header.mad.management_class = wire::mgmt_class::kSubnAdm;
  header.mad.class_version = 2;
  header.mad.method = wire::method::kReport;
  header.mad.attribute_id = wire::attribute::kNotice;
  for (const auto& from : {other_destination, kSm, kOtherSm}) {
    ReceivedMad mad{.bytes = std::vector<std::uint8_t>(wire::kMadSize), .from = from};
    header.emit(mad.bytes);
    wire::Notice().emit(MutableBytes(mad.bytes).subspan(wire::kSaHeaderSize));
    port.inbox.push_back(std::move(mad));
  }
  client->on_readable(now);
  EXPECT_EQ(client->notices().size(), 2U) << "but not from others";
}

}  // namespace
}  // namespace ipoib::sa
