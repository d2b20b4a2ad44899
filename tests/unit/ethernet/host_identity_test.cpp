#include "ethernet/host_identity.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ipoib::ethernet::host_identity_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr MacAddress kMac{0x0200'0000'0001};
constexpr MacAddress kOther{0x0200'0000'0002};
constexpr Ipv4Address kOwn{0x0a2c0001};
constexpr Ipv4Address kLocal{0xc0a80001};
constexpr Ipv4Address kRouted{0x0a640000};
constexpr Ipv4Address kProxied{0x0a2c0009};
constexpr Ipv4Address kGroup{0xef010203};
const Ipv6Address kOther6 = *Ipv6Address::parse("fd44::2");
const Ipv6Address kOtherLinkLocal = *Ipv6Address::parse("fe80::2");

HostView full_view() {
  HostView view;
  view.mac = kMac;
  view.macs = {kOther};
  view.addresses = {{kOwn, 24}};
  view.local = {{kLocal, 32}, {kRouted, 24}};
  view.link_addresses = {{kOther, kOther6}, {kOther, kOtherLinkLocal}};
  view.groups = {kGroup};
  view.proxied = {kProxied};
  return view;
}

TEST(HostIdentity, HasWhatTheViewSays) {
  HostIdentity host;
  EXPECT_TRUE(host.is_mac(kOther)) << "as long as none is known";
  EXPECT_THAT(host.update(full_view()), IsEmpty());
  EXPECT_EQ(host.mac(), kMac);
  EXPECT_FALSE(host.is_mac(kOther));
  EXPECT_TRUE(host.is_other_mac(kOther));
  EXPECT_TRUE(host.is_own(kOwn));
  EXPECT_TRUE(host.is_broadcast(Ipv4Address(0x0a2c00ff)));
  for (const IpAddress& local : {IpAddress(kOwn), IpAddress(kLocal),
                                 IpAddress(Ipv4Address(0x0a6400ff)), IpAddress(kOther6)}) {
    EXPECT_TRUE(host.is_local(local));
  }
  EXPECT_FALSE(host.is_local(kOtherLinkLocal)) << "on that interface only";
  EXPECT_FALSE(host.is_own(kLocal));
  EXPECT_TRUE(host.is_in_group(kGroup));
  EXPECT_TRUE(host.is_proxy_for(kProxied));
  EXPECT_FALSE(host.is_proxy_for(kLocal));
  EXPECT_TRUE(host.has(kOther, kOther6));
}

TEST(HostIdentity, ForgetsWhatTheNextViewDoesNotSay) {
  HostIdentity host;
  (void)host.update(full_view());
  HostView next;
  next.link_addresses = {{kOther, kOtherLinkLocal}};
  next.arp.proxy = true;
  EXPECT_THAT(host.update(next), ElementsAre(LinkAddress{kOther, kOther6}));
  EXPECT_EQ(host.mac(), kMac) << "which the kernel has not told again";
  EXPECT_FALSE(host.is_other_mac(kOther));
  EXPECT_FALSE(host.is_broadcast(Ipv4Address(0x0a2c00ff)));
  for (const IpAddress& gone :
       {IpAddress(kOwn), IpAddress(kLocal), IpAddress(kRouted), IpAddress(kOther6)}) {
    EXPECT_FALSE(host.is_local(gone));
  }
  EXPECT_FALSE(host.is_in_group(kGroup));
  EXPECT_TRUE(host.is_proxy_for(kLocal)) << "for all";
  EXPECT_THAT(host.update({}), ElementsAre(LinkAddress{kOther, kOtherLinkLocal}));
  EXPECT_FALSE(host.is_proxy_for(kProxied));
}

}  // namespace
}  // namespace ipoib::ethernet::host_identity_test
