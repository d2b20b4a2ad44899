// What operators see and change.
#include <cerrno>
#include <set>

#include "tests/unit/link/link_fixture.hpp"

namespace ipoib::link {
namespace {

using Admin = LinkFixture;

TEST_F(Admin, EntryShowsAddressPathAgeAndReferences) {
  bring_up();
  resolve_peer();
  now += 3s;
  send(kPeer);
  now += 2s;
  const auto info = link->get(kPeer, now);
  ASSERT_TRUE(info);
  EXPECT_EQ(info->address, IpAddress(kPeer));
  EXPECT_EQ(info->hardware, kPeerHw);
  EXPECT_EQ(info->path->dlid, Lid(7));
  EXPECT_EQ(info->path->mtu, 2048U);
  EXPECT_EQ(info->path->rate, 3);
  EXPECT_FALSE(info->path->needs_refresh);
  EXPECT_EQ(info->used, Duration(2s));
  EXPECT_EQ(info->confirmed, Duration(5s));
  EXPECT_EQ(info->references, 2U) << "the path, and the unposted send";
  EXPECT_EQ(info->parked, 0U);
}

TEST_F(Admin, EntryCountsThePacketsOfTheHost) {
  bring_up();
  send(kPeer);
  send(kPeer);
  EXPECT_EQ(link->get(kPeer, now)->uses, 2U) << "parked ones, too";
  link->remove(kPeer);
  resolve_peer();
  const auto before = link->get(kPeer, now)->uses;
  for (int i = 0; i < 5; ++i) send(kPeer);
  EXPECT_EQ(link->get(kPeer, now)->uses, before + 5);
  receive_arp(arp_from_peer(wire::ArpOperation::request));
  EXPECT_EQ(link->get(kPeer, now)->uses, before + 5) << "the reply is none of the host";
}

TEST_F(Admin, EntryWithoutAddressShowsParkedFrames) {
  bring_up();
  send(kPeer);
  send(kPeer);
  const auto info = link->get(kPeer, now);
  EXPECT_EQ(info->state, NeighbourState::incomplete);
  EXPECT_EQ(info->parked, 2U);
  EXPECT_FALSE(info->hardware);
  EXPECT_FALSE(info->path);
  EXPECT_FALSE(info->confirmed);
}

TEST_F(Admin, ListHasEachEntryOnce) {
  bring_up();
  for (std::uint32_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(link->set_permanent(Ipv4Address(0x0a2d0000 + i), hardware(0x22, 2), now));
  }
  std::set<IpAddress> seen;
  std::size_t pages = 0;
  std::optional<NeighbourCursor> at = NeighbourCursor{};
  while (at) {
    const NeighbourPage page = link->list(*at, 64, now);
    EXPECT_LE(page.entries.size(), 80U);
    for (const NeighbourInfo& entry : page.entries) EXPECT_TRUE(seen.insert(entry.address).second);
    at = page.next;
    ++pages;
    // Entries created and removed meanwhile do not affect the others.
    (void)link->set_permanent(Ipv4Address(static_cast<std::uint32_t>(0x0a2e0000 + pages)),
                              hardware(0x22, 2), now);
    link->remove(Ipv4Address(static_cast<std::uint32_t>(0x0a2e0000 + pages)));
  }
  EXPECT_EQ(seen.size(), 1000U);
  EXPECT_GE(pages, 1000U / 80U);
}

TEST_F(Admin, ListFromBeyondTheEndIsEmpty) {
  bring_up();
  const NeighbourPage page = link->list(NeighbourCursor{0xffffffff}, 64, now);
  EXPECT_TRUE(page.entries.empty());
  EXPECT_FALSE(page.next);
}

TEST_F(Admin, RejectsPermanentEntryThatIsNoNeighbour) {
  bring_up();
  const HwAddress peer = hardware(0x22, 2);
  EXPECT_EQ(link->set_permanent(kOwnIp, peer, now).error().code, EINVAL);
  EXPECT_EQ(link->set_permanent(kAllNodes, peer, now).error().code, EINVAL);
  EXPECT_EQ(link->set_permanent(Ipv4Address(0x0a2c00ff), peer, now).error().code, EINVAL);
  EXPECT_EQ(link->set_permanent(Ipv6Address{}, peer, now).error().code, EINVAL);
  EXPECT_EQ(link->set_permanent(kPeer, hardware(0, 2), now).error().code, EINVAL);
  EXPECT_EQ(link->set_permanent(kPeer, HwAddress{}, now).error().code, EINVAL);
  EXPECT_EQ(link->neighbour_count(), 0U);
}

TEST_F(Admin, RejectsPermanentEntryInAFullTable) {
  config.limits.neighbours = 1;
  bring_up();
  EXPECT_TRUE(link->set_permanent(kPeer, hardware(0x22, 2), now));
  EXPECT_EQ(link->set_permanent(Ipv4Address(0x0a2c0003), hardware(0x22, 2), now).error().code,
            ENOBUFS);
  EXPECT_TRUE(link->set_permanent(kPeer, hardware(0x23, 2), now)) << "replaces an existing entry";
}

TEST_F(Admin, FlushKeepsPermanentEntries) {
  bring_up();
  resolve_peer();
  send(Ipv4Address(0x0a2c0063));
  ASSERT_TRUE(link->set_permanent(Ipv4Address(0x0a2c0064), hardware(0x22, 2), now));
  EXPECT_EQ(link->flush(), 2U);
  EXPECT_EQ(link->neighbour_count(), 1U);
  EXPECT_EQ(count(Counter::drop_neighbour_removed), 1U) << "the parked frame";
}

TEST_F(Admin, PinIsShownWithAndWithoutAnEntry) {
  bring_up();
  ASSERT_TRUE(link->pin(kPeer, kPeerHw.gid));
  auto info = link->get(kPeer, now);
  ASSERT_TRUE(info);
  EXPECT_EQ(info->state, NeighbourState::pinned);
  EXPECT_EQ(info->pinned, kPeerHw.gid);
  EXPECT_FALSE(info->hardware);
  resolve_peer();
  EXPECT_TRUE(link->list({}, 10, now).entries.empty()) << "the list has the pins at its end";
  info = link->get(kPeer, now);
  EXPECT_EQ(info->state, NeighbourState::reachable);
  EXPECT_EQ(info->hardware, kPeerHw);
  EXPECT_EQ(info->pinned, kPeerHw.gid);
  EXPECT_TRUE(link->remove(kPeer));
  EXPECT_FALSE(link->get(kPeer, now));
}

TEST_F(Admin, PinRemovesAnEntryWithAnotherGid) {
  bring_up();
  resolve_peer();
  ASSERT_TRUE(link->pin(kPeer, kPeerHw.gid));
  EXPECT_EQ(state_of(kPeer), "reachable");
  ASSERT_TRUE(link->pin(kPeer, port_gid(9)));
  EXPECT_EQ(state_of(kPeer), "pinned");
  ASSERT_TRUE(link->set_permanent(kPeer, kPeerHw, now));
  EXPECT_EQ(link->get(kPeer, now)->pinned, std::nullopt) << "a permanent entry ends the pin";
  ASSERT_TRUE(link->pin(kPeer, kPeerHw.gid));
  EXPECT_EQ(state_of(kPeer), "pinned") << "and a pin ends the permanent entry";
}

TEST_F(Admin, PinsOutliveTheirEntries) {
  bring_up();
  ASSERT_TRUE(link->pin(kPeer, kPeerHw.gid));
  resolve_peer();
  EXPECT_EQ(link->flush(), 1U);
  EXPECT_EQ(state_of(kPeer), "pinned");
  resolve_peer();
  EXPECT_TRUE(link->remove_entry(kPeer));
  EXPECT_FALSE(link->remove_entry(kPeer));
  EXPECT_EQ(state_of(kPeer), "pinned");
  port.active = false;
  link->on_port(port, now);
  EXPECT_EQ(state_of(kPeer), "pinned");
}

TEST_F(Admin, RejectsInvalidPins) {
  config.limits.pins = 2;
  bring_up();
  EXPECT_EQ(link->pin(kOwnIp, port_gid(2)).error().code, EINVAL);
  EXPECT_EQ(link->pin(kAllNodes, port_gid(2)).error().code, EINVAL);
  EXPECT_EQ(link->pin(kPeer, Gid()).error().code, EINVAL);
  EXPECT_EQ(link->pin(kPeer, broadcast()).error().code, EINVAL);
  EXPECT_TRUE(link->pin(kPeer, port_gid(2)));
  EXPECT_TRUE(link->pin(Ipv4Address(0x0a2c0003), port_gid(2)));
  EXPECT_EQ(link->pin(Ipv4Address(0x0a2c0004), port_gid(2)).error().code, ENOBUFS);
  EXPECT_TRUE(link->pin(kPeer, port_gid(3))) << "replaces a pin";
}

TEST_F(Admin, ListHasEachPinOnceWhileItsEntryComesAndGoes) {
  bring_up();
  for (std::uint32_t i = 0; i < 300; ++i) {
    ASSERT_TRUE(link->pin(Ipv4Address(0x0a2d0000 + i), port_gid(2)));
    ASSERT_TRUE(link->set_permanent(Ipv4Address(0x0a2e0000 + i), hardware(0x22, 2), now));
  }
  send(Ipv4Address(0x0a2d0000));
  std::set<IpAddress> seen;
  std::uint32_t pages = 0;
  std::optional<NeighbourCursor> at = NeighbourCursor{};
  while (at) {
    const NeighbourPage page = link->list(*at, 64, now);
    for (const NeighbourInfo& entry : page.entries) EXPECT_TRUE(seen.insert(entry.address).second);
    at = page.next;
    send(Ipv4Address(0x0a2d0000 + 29 * ++pages));
    link->remove_entry(Ipv4Address(0x0a2d0000 + 29 * (pages - 1)));
  }
  EXPECT_EQ(seen.size(), 600U);
}

TEST_F(Admin, RemoveReturnsWhetherThereWasAnEntry) {
  bring_up();
  resolve_peer();
  EXPECT_TRUE(link->remove(kPeer));
  EXPECT_FALSE(link->remove(kPeer));
  EXPECT_FALSE(link->remove(Ipv6Address{}));
}

TEST_F(Admin, EachCounterHasAUniqueName) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kCounterCount; ++i) {
    const auto counter = static_cast<Counter>(i);
    EXPECT_TRUE(names.insert(name(counter)).second) << name(counter);
    EXPECT_EQ(is_drop(counter), name(counter).starts_with("drop_")) << name(counter);
  }
  EXPECT_EQ(name(Counter::drop_path_failed), "drop_path_failed");
  EXPECT_EQ(name(Counter::carrier_losses), "carrier_losses");
}

TEST_F(Admin, IdleNeighboursCostNoTicks) {
  config.silence_check = 1h;
  bring_up();
  for (std::uint32_t i = 0; i < 1000; ++i) {
    wire::Arp request = arp_from_peer(wire::ArpOperation::request);
    request.sender_protocol = Ipv4Address(0x0a2d0000 + i);
    receive_arp(request, broadcast());
    grant_paths();
    forget();
  }
  ASSERT_EQ(link->neighbour_count(), 1000U);
  tick_to(now + 5s);
  EXPECT_GT(link->next_deadline(), now + 1min);
}

}  // namespace
}  // namespace ipoib::link
