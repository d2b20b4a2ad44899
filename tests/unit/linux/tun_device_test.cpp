// TunDevice with the kernel's TUN driver.
#include "linux/tun_device.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/ethtool.h>
#include <linux/if.h>
#include <linux/if_arp.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <linux/sockios.h>
#include <netlink/netlink.h>
#include <netlink/route/link.h>
#include <netlink/route/link/inet6.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <numeric>
#include <set>
#include <utility>

#include "linux/link_settings.hpp"
#include "linux/tun_holder.hpp"
#include "linux/virtio_header.hpp"
#include "tests/support/emulator.hpp"
#include "tests/support/failing_calls.hpp"
#include "tests/unit/linux/namespace_fixture.hpp"
#include "wire/checksum.hpp"
#include "wire/ethernet.hpp"
#include "wire/ipv4.hpp"

namespace ipoib::linux {
namespace {

constexpr std::size_t kHeadroom = 4;

using Socket = std::unique_ptr<nl_sock, decltype(&nl_socket_free)>;
using KernelLink = std::unique_ptr<rtnl_link, decltype(&rtnl_link_put)>;

/// Returns the kernel's description of an interface; null if it does not exist.
KernelLink kernel_link(const std::string& name) {
  const Socket socket(nl_socket_alloc(), &nl_socket_free);
  nl_connect(socket.get(), NETLINK_ROUTE);
  rtnl_link* link = nullptr;
  rtnl_link_get_kernel(socket.get(), 0, name.c_str(), &link);
  return {link, &rtnl_link_put};
}

bool has_carrier(const std::string& name) {
  return (rtnl_link_get_flags(kernel_link(name).get()) & IFF_LOWER_UP) != 0;
}

const std::string kMark = "ipoibd-ib0-0002c90300000001";

std::unique_ptr<TunDevice> open_tun() {
  auto tun = TunDevice::open({.name = "ib0", .mark = kMark});
  EXPECT_TRUE(tun) << tun.error().message;
  return tun ? std::move(*tun) : nullptr;
}

class TunDeviceTest : public test::NamespaceTest {
 protected:
  FramePool packets{8, 2048};
  FramePool large{8, 65536 + 64};
  const HostPools pools{packets, large};
};

TEST_F(TunDeviceTest, CreatesAnInterfaceThatIsUpWithoutCarrier) {
  const auto tun = open_tun();
  const auto link = kernel_link("ib0");
  ASSERT_NE(link, nullptr);
  EXPECT_EQ(tun->name(), "ib0");
  EXPECT_EQ(tun->interface_index(), rtnl_link_get_ifindex(link.get()));
  EXPECT_FALSE(tun->adopted());
  EXPECT_EQ(rtnl_link_get_arptype(link.get()), unsigned{ARPHRD_INFINIBAND});
  EXPECT_NE(rtnl_link_get_flags(link.get()) & IFF_UP, 0U);
  EXPECT_EQ(rtnl_link_get_txqlen(link.get()), TunOptions().queue_length);
  EXPECT_FALSE(has_carrier("ib0"));
}

TEST_F(TunDeviceTest, SaysWhichCallOfTheKernelHasFailed) {
  SKIP_UNDER_EMULATOR("has no filters of system calls");
  const auto outcomes = test::outcomes_if_each_fails({SYS_openat, SYS_socket, SYS_ioctl}, EIO, [] {
    const auto tun = TunDevice::open({.name = "ib0", .mark = kMark});
    return tun ? testing::PrintToString((*tun)->warnings()) : tun.error().message;
  });
  const std::string why = ": Input/output error";
  const std::string settings = "ioctl: cannot read the settings of ib0" + why;
  const std::string flags = "ioctl: cannot change the flags of ib0" + why;
  const std::string netlink = "cannot open a netlink socket" + why;
  EXPECT_THAT(
      outcomes,
      testing::ElementsAre(
          "openat: /dev/net/tun" + why, "socket: cannot open a socket" + why,
          "socket: {}",  // to look for an interface of another process, which is optional
          "ioctl: interface ib0" + why, settings,
          "ioctl: cannot set the link type of ib0" + why + "; ip link set ib0 down, then try again",
          "ioctl: cannot set the carrier of ib0" + why,
          "ioctl: cannot set the header size of ib0" + why, "ioctl: {}",  // fewer offloads
          "socket: {}", "socket: { \"" + netlink + "\" }", settings, flags,
          "openat: {}",  // without IPv6
          "openat: /proc/sys/net/ipv6/conf/ib0/accept_dad" + why, "socket: " + netlink, settings,
          flags,
          "socket: { \"" + netlink +
              "; the next ipoibd will refuse the interface as one of others\" }"));
}

/// An ordinary user has privileges only in namespaces of his own, where the kernel refuses some
/// ioctls.
TEST(TunDeviceOfAnOrdinaryUser, IsConfiguredInAUserNamespace) {
  SKIP_UNDER_EMULATOR("passes few messages of netlink on");
  if (::access("/dev/net/tun", R_OK | W_OK) != 0) GTEST_SKIP() << "needs /dev/net/tun";
  enum Outcome { kDone, kFailed, kNoNamespace };
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) _exit(kNoNamespace);
    const auto tun = TunDevice::open({.name = "ib0"});
    EXPECT_TRUE(tun) << tun.error().message;
    if (!tun) _exit(kFailed);
    EXPECT_TRUE((*tun)->warnings().empty()) << (*tun)->warnings().front();
    EXPECT_EQ(rtnl_link_get_txqlen(kernel_link("ib0").get()), TunOptions().queue_length);
    EXPECT_TRUE((*tun)->set_mtu(2044));
    _exit(::testing::Test::HasFailure() ? kFailed : kDone);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNoNamespace) GTEST_SKIP() << "needs user namespaces";
  EXPECT_EQ(WEXITSTATUS(status), kDone);
}

TEST_F(TunDeviceTest, AQueueThatTheKernelRefusesIsAWarning) {
  const auto tun = TunDevice::open({.name = "ib0", .queue_length = UINT32_MAX});
  ASSERT_TRUE(tun) << tun.error().message;
  ASSERT_EQ((*tun)->warnings().size(), 1U);
  EXPECT_NE((*tun)->warnings()[0].find("txqueuelen"), std::string::npos);
}

TEST_F(TunDeviceTest, CreatesATapWithThatAddress) {
  constexpr MacAddress kMac{0x0203'0012'abcd};
  auto tap = TunDevice::open({.name = "ib0", .mark = kMark, .mac = kMac});
  ASSERT_TRUE(tap) << tap.error().message;
  (*tap)->keep();
  const auto link = kernel_link("ib0");
  ASSERT_NE(link, nullptr);
  EXPECT_EQ(rtnl_link_get_arptype(link.get()), unsigned{ARPHRD_ETHER});
  std::array<char, 32> address{};
  nl_addr2str(rtnl_link_get_addr(link.get()), address.data(), address.size());
  EXPECT_EQ(std::string(address.data()), kMac.to_string());

  tap->reset();
  EXPECT_FALSE(TunDevice::open({.name = "ib0", .mark = kMark})) << "a TAP is no TUN";
  constexpr MacAddress kOther{0x0200'0000'0077};
  auto adopted = TunDevice::open({.name = "ib0", .mark = kMark, .mac = kOther});
  ASSERT_TRUE(adopted) << adopted.error().message;
  nl_addr2str(rtnl_link_get_addr(kernel_link("ib0").get()), address.data(), address.size());
  EXPECT_EQ(std::string(address.data()), kMac.to_string()) << "an adopted one keeps its address";
  const FileDescriptor copy(::dup((*adopted)->descriptor()));
  EXPECT_FALSE(TunDevice::take(FileDescriptor(::dup(copy.get())), 0, {.name = "ib0"}));
  EXPECT_TRUE(TunDevice::take(FileDescriptor(::dup(copy.get())), 0, {.name = "ib0", .mac = kMac}));
}

/// Without the virtio header, packets would be misread.
TEST_F(TunDeviceTest, DoesNotTakeATunOfAnotherProgram) {
  const FileDescriptor other(::open("/dev/net/tun", O_RDWR | O_CLOEXEC));
  ifreq request{};
  std::string("ib0").copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  ASSERT_EQ(::ioctl(other.get(), TUNSETIFF, &request), 0);
  EXPECT_FALSE(TunDevice::take(FileDescriptor(::dup(other.get())), 0, {.name = "ib0"}));
}

/// The operator may have set it down.
TEST_F(TunDeviceTest, TakesNothingElse) {
  const auto why = [](FileDescriptor device, const TunOptions& options) {
    return TunDevice::take(std::move(device), 0, options).error().message;
  };
  EXPECT_THAT(why(FileDescriptor(::open("/dev/null", O_RDWR | O_CLOEXEC)), {.name = "ib0"}),
              testing::StartsWith("the other daemon hands over something else than a TUN: "));
  const auto tun = open_tun();
  EXPECT_EQ(why(FileDescriptor(::dup(tun->descriptor())),
                {.name = "ib0", .mac = MacAddress(0x0200'0000'0001)}),
            "interface ib0: the other daemon hands over another kind than a TAP: give it the same "
            "--ethernet");
  EXPECT_EQ(TunDevice::open({.name = ""}).error().message,
            "the interface cannot have the name \"\": 1 to 15 characters are needed");
}

TEST_F(TunDeviceTest, ATakenInterfaceStaysAsItIs) {
  const auto tun = open_tun();
  ASSERT_TRUE(tun->set_carrier(true));
  ip("link set ib0 down");
  const auto taken = TunDevice::take(FileDescriptor(::dup(tun->descriptor())), 0, {.name = "ib0"});
  ASSERT_TRUE(taken);
  EXPECT_FALSE((*taken)->is_up());
}

TEST_F(TunDeviceTest, ATakenInterfaceKeepsItsCarrier) {
  const auto tun = open_tun();
  ASSERT_TRUE(tun->set_carrier(true));
  const auto taken = TunDevice::take(FileDescriptor(::dup(tun->descriptor())), 0, {.name = "ib0"});
  ASSERT_TRUE(taken);
  EXPECT_TRUE(has_carrier("ib0"));
}

TEST_F(TunDeviceTest, TheMtuOfATakenInterfaceIsNotTheOperators) {
  const auto tun = open_tun();
  ASSERT_TRUE(tun->set_mtu(2044));
  const auto taken =
      TunDevice::take(FileDescriptor(::dup(tun->descriptor())), 2044, {.name = "ib0"});
  ASSERT_TRUE(taken);
  EXPECT_TRUE((*taken)->set_mtu(4092));
  EXPECT_EQ(rtnl_link_get_mtu(kernel_link("ib0").get()), 4092U);
  ip("link set ib0 mtu 1500");
  const auto next =
      TunDevice::take(FileDescriptor(::dup(tun->descriptor())), 4092, {.name = "ib0"});
  ASSERT_TRUE(next);
  EXPECT_TRUE((*next)->set_mtu(2044));
  EXPECT_EQ(rtnl_link_get_mtu(kernel_link("ib0").get()), 1500U) << "this one is";
}

TEST_F(TunDeviceTest, DiscardsATap) {
  TunDevice::open({.name = "ib0", .mark = kMark, .mac = MacAddress(0x0200'0000'0001)})
      .value()
      ->keep();
  EXPECT_NE(kernel_link("ib0"), nullptr) << "it is persistent";
  EXPECT_TRUE(TunDevice::discard(kMark));
  EXPECT_EQ(kernel_link("ib0"), nullptr);
}

TEST_F(TunDeviceTest, PreventsALinkLocalAddressByTheKernel) {
  const auto tun = open_tun();
  std::uint8_t mode = 0xff;
  ASSERT_EQ(rtnl_link_inet6_get_addr_gen_mode(kernel_link("ib0").get(), &mode), 0);
  EXPECT_EQ(mode, rtnl_link_inet6_str2addrgenmode("none"));
}

TEST_F(TunDeviceTest, SetsCarrierAndMtu) {
  const auto tun = open_tun();
  EXPECT_TRUE(tun->set_carrier(true));
  EXPECT_TRUE(has_carrier("ib0"));
  EXPECT_TRUE(tun->set_carrier(false));
  EXPECT_FALSE(has_carrier("ib0"));
  EXPECT_TRUE(tun->set_mtu(4092));
  EXPECT_EQ(rtnl_link_get_mtu(kernel_link("ib0").get()), 4092U);
  EXPECT_TRUE(tun->set_mtu(2044));
  EXPECT_EQ(rtnl_link_get_mtu(kernel_link("ib0").get()), 2044U);
  const auto refused = tun->set_mtu(70000);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("70000"), std::string::npos);
}

TEST_F(TunDeviceTest, ShowsTheSpeed) {
  const auto tun = open_tun();
  ip("link set ib0 down");
  ip("link set ib0 name ibmgmt");
  ip("link add ib0 type veth peer name other");
  EXPECT_TRUE(tun->set_carrier(true));
  ip("link set ibmgmt up");
  tun->set_speed(40000);
  ifreq request{};
  ethtool_cmd settings{};
  settings.cmd = ETHTOOL_GSET;
  std::strcpy(request.ifr_name, "ibmgmt");
  request.ifr_data = reinterpret_cast<char*>(&settings);
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(ioctl(socket.get(), SIOCETHTOOL, &request), 0);
  EXPECT_EQ(ethtool_cmd_speed(&settings), 40000U);
}

TEST_F(TunDeviceTest, OperatorsSmallerMtuIsKept) {
  const auto tun = open_tun();
  EXPECT_TRUE(tun->set_mtu(2044));
  ip("link set ib0 mtu 1500");
  for (const auto& [allowed, becomes] : {std::pair{2044U, 1500U}, {1020U, 1020U}, {4092U, 1500U}}) {
    EXPECT_TRUE(tun->set_mtu(allowed));
    EXPECT_EQ(rtnl_link_get_mtu(kernel_link("ib0").get()), becomes) << "the operator's";
  }
  ip("link set ib0 mtu 3000");
  EXPECT_TRUE(tun->set_mtu(2044));
  EXPECT_EQ(rtnl_link_get_mtu(kernel_link("ib0").get()), 2044U)
      << "the operator's is larger than the link allows";
}

TEST_F(TunDeviceTest, SetsTheMtuOfARenamedInterfaceAndNotOfAnotherWithItsOldName) {
  const auto tun = open_tun();
  ip("link set ib0 down");
  ip("link set ib0 name ibmgmt");
  ip("link add ib0 mtu 1400 type veth peer name other");
  EXPECT_TRUE(tun->set_mtu(2044));
  EXPECT_EQ(rtnl_link_get_mtu(kernel_link("ibmgmt").get()), 2044U);
  EXPECT_EQ(rtnl_link_get_mtu(kernel_link("ib0").get()), 1400U);
}

TEST_F(TunDeviceTest, OutlivesItsProcessWithAddressesAndIsAdopted) {
  int index = 0;
  {
    const auto tun = open_tun();
    tun->keep();
    index = tun->interface_index();
    ASSERT_TRUE(tun->set_carrier(true));
    ip("addr add 10.9.0.1/24 dev ib0");
  }
  EXPECT_FALSE(has_carrier("ib0"));
  ip("link set ib0 down");
  const auto tun = open_tun();
  EXPECT_TRUE(tun->adopted());
  EXPECT_EQ(tun->interface_index(), index);
  ip("addr show dev ib0 | grep -q 10.9.0.1/24");
  EXPECT_EQ(rtnl_link_get_flags(kernel_link("ib0").get()) & IFF_UP, 0U)
      << "the flags of an adopted interface are kept";
}

TEST_F(TunDeviceTest, AnInterfaceOfOthersIsNeitherUsedNorRemoved) {
  ip("tuntap add ib0 mode tun");
  ip("tuntap add ib1 mode tap");
  ip("link property add dev ib1 altname ipoibd-ib1-0002c90300000002");
  for (const char* const name : {"ib0", "ib1", "lo"}) {
    const auto refused = TunDevice::open({.name = name, .mark = kMark});
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code, EEXIST) << refused.error().message;
    EXPECT_NE(kernel_link(name), nullptr);
  }
  EXPECT_TRUE(TunDevice::discard(kMark));
  EXPECT_TRUE(TunDevice::discard(""));
  EXPECT_NE(kernel_link("ib0"), nullptr);
}

TEST_F(TunDeviceTest, DisappearsIfItIsNotKept) {
  ASSERT_TRUE(open_tun());
  EXPECT_EQ(kernel_link("ib0"), nullptr);
}

TEST_F(TunDeviceTest, IsAdoptedUnderItsNewName) {
  const TunOptions options{.name = "ib0", .mark = kMark};
  TunDevice::open(options).value()->keep();
  ip("link set ib0 down");
  ip("link set ib0 name ibmgmt");
  const auto tun = TunDevice::open(options);
  ASSERT_TRUE(tun) << tun.error().message;
  EXPECT_TRUE((*tun)->adopted());
  EXPECT_EQ((*tun)->name(), "ibmgmt");
  EXPECT_EQ(kernel_link("ib0"), nullptr);
}

TEST_F(TunDeviceTest, KnowsItsCurrentName) {
  const auto tun = open_tun();
  EXPECT_EQ(tun->current_name(), "ib0");
  ip("link set ib0 down");
  ip("link set ib0 name ibmgmt");
  EXPECT_EQ(tun->current_name(), "ibmgmt");
  EXPECT_EQ(tun->name(), "ib0");
  ip("link del ibmgmt");
  EXPECT_EQ(tun->current_name(), "ib0") << "it has none any more";
}

TEST_F(TunDeviceTest, KnowsItsNetworkNamespace) {
  const auto tun = open_tun();
  const auto inode = [](const char* path) {
    struct stat found {};
    return ::stat(path, &found) == 0 ? found.st_ino : 0;
  };
  const auto here = inode("/proc/thread-self/ns/net");
  const auto where = [&] {
    return TunDevice::namespace_of(tun->descriptor()).value().run([&] {
      return inode("/proc/thread-self/ns/net");
    });
  };
  const auto is_here = [&] {
    return TunDevice::namespace_of(tun->descriptor())
        .value()
        .is_same_as(NetworkNamespace::open("").value());
  };
  EXPECT_EQ(where(), here);
  EXPECT_TRUE(is_here());
  ASSERT_EQ(unshare(CLONE_NEWNET), 0);
  EXPECT_FALSE(is_here());
  const auto elsewhere = inode("/proc/thread-self/ns/net");
  EXPECT_EQ(where(), here) << "not the thread's";
  EXPECT_EQ(inode("/proc/thread-self/ns/net"), elsewhere) << "the thread returns";
}

TEST_F(TunDeviceTest, DisappearsAfterRemove) {
  {
    const auto tun = open_tun();
    tun->keep();
    tun->remove();
    EXPECT_NE(kernel_link("ib0"), nullptr);
  }
  EXPECT_EQ(kernel_link("ib0"), nullptr);
}

TEST_F(TunDeviceTest, IsDiscarded) {
  open_tun()->keep();
  ASSERT_NE(kernel_link("ib0"), nullptr);
  EXPECT_TRUE(TunDevice::discard(kMark));
  EXPECT_EQ(kernel_link("ib0"), nullptr);
  EXPECT_TRUE(TunDevice::discard(kMark));
  EXPECT_EQ(kernel_link("ib0"), nullptr) << "none is left that did not exist";
}

TEST_F(TunDeviceTest, IsNotDiscardedWhileAProcessHasIt) {
  const auto tun = open_tun();
  const auto discarded = TunDevice::discard(kMark);
  ASSERT_FALSE(discarded);
  EXPECT_EQ(discarded.error().code, EBUSY);
  const auto holder = "process " + std::to_string(::getpid()) + " (";
  EXPECT_NE(discarded.error().message.find(holder), std::string::npos) << discarded.error().message;
  EXPECT_NE(kernel_link("ib0"), nullptr);
}

TEST_F(TunDeviceTest, AlternativeNamesAreListedWithTheCurrentNames) {
  const auto tun = TunDevice::open({.name = "ib0", .mark = "ipoibd-ib0-1"});
  const auto other = TunDevice::open({.name = "ib1", .mark = "ipoibd-ib1-1"});
  ASSERT_TRUE(tun && other);
  ip("link set ib1 name ibmgmt");
  ip("link property add dev ib0 altname second");
  const auto names = alternative_names();
  ASSERT_TRUE(names) << names.error().message;
  std::set<std::pair<std::string, std::string>> found;
  for (const auto& [interface, alternative] : *names) found.emplace(interface, alternative);
  const std::set<std::pair<std::string, std::string>> wanted{
      {"ib0", "ipoibd-ib0-1"}, {"ib0", "second"}, {"ibmgmt", "ipoibd-ib1-1"}};
  EXPECT_EQ(found, wanted);
}

TEST_F(TunDeviceTest, ItsHolderIsFoundInThisNamespaceOnly) {
  EXPECT_EQ(find_tun_holder("ib0"), std::nullopt);
  auto tun = open_tun();
  const auto holder = find_tun_holder("ib0");
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->pid, ::getpid());
  EXPECT_TRUE(std::string_view("unit_linux_kernel").starts_with(holder->command));
  EXPECT_FALSE(holder->command.empty());
  EXPECT_EQ(find_tun_holder("ib"), std::nullopt);
  tun->keep();
  tun.reset();
  EXPECT_EQ(find_tun_holder("ib0"), std::nullopt) << "the interface is there, but not open";
}

TEST_F(TunDeviceTest, KnowsWhetherItIsUp) {
  const auto tun = open_tun();
  EXPECT_TRUE(tun->is_up());
  ip("link set ib0 down");
  EXPECT_FALSE(tun->is_up());
  ip("link set ib0 name ibmgmt");
  ip("link set ibmgmt up");
  EXPECT_TRUE(tun->is_up()) << "under its new name";
  ip("link del ibmgmt");
  EXPECT_FALSE(tun->is_up());
}

TEST_F(TunDeviceTest, RefusesAnInterfaceInUse) {
  const auto tun = open_tun();
  const auto second = TunDevice::open({.name = "ib0", .mark = kMark});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, EBUSY);
  EXPECT_NE(second.error().message.find("--takeover"), std::string::npos);
}

TEST_F(TunDeviceTest, RefusesAnInterfaceOfAnotherKind) {
  const auto tun = TunDevice::open({.name = "lo"});
  ASSERT_FALSE(tun);
  EXPECT_EQ(tun.error().code, EEXIST);
  ip("link property add dev lo altname " + kMark);
  const auto marked = TunDevice::open({.name = "ib0", .mark = kMark});
  ASSERT_FALSE(marked);
  EXPECT_EQ(marked.error().code, EINVAL);
}

TEST_F(TunDeviceTest, ReadsPacketsOfTheHost) {
  const auto tun = open_tun();
  ASSERT_TRUE(tun->set_carrier(true));
  ip("addr add 10.9.0.1/24 dev ib0");
  const FileDescriptor sender(socket(AF_INET, SOCK_DGRAM, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(9);
  inet_pton(AF_INET, "10.9.0.2", &to.sin_addr);
  const std::string payload = "hello";
  ASSERT_EQ(sendto(sender.get(), payload.data(), payload.size(), 0,
                   reinterpret_cast<const sockaddr*>(&to), sizeof(to)),
            5);

  std::vector<Frame> frames;
  // Skip IPv6 packets that the kernel sends by itself.
  std::optional<wire::Ipv4Header> header;
  EXPECT_TRUE(tun->read(pools, kHeadroom, frames, 0));
  EXPECT_TRUE(frames.empty()) << "a limit of 0";
  while (!header && test::wait_readable(tun->descriptor())) {
    frames.clear();
    ASSERT_TRUE(tun->read(pools, kHeadroom, frames, 1));
    ASSERT_EQ(frames.size(), 1U);
    header = wire::Ipv4Header::parse(std::as_const(frames[0]).bytes());
  }
  ASSERT_TRUE(header);
  EXPECT_EQ(header->destination.to_string(), "10.9.0.2");
  EXPECT_EQ(frames[0].size(), 20 + 8 + payload.size());
  EXPECT_EQ(frames[0].headroom(), kHeadroom);
  EXPECT_EQ(packets.capacity() - packets.available(), 1U) << "small packets use small frames";
  EXPECT_EQ(wire::InternetChecksum()
                .add_pseudo_header(header->source, header->destination, wire::kUdp, 13)
                .add(std::as_const(frames[0]).bytes().subspan(20))
                .value(),
            0)
      << "TunDevice completes a partial checksum";
}

TEST_F(TunDeviceTest, ReadsNothingWithoutAPacket) {
  const auto tun = open_tun();
  std::vector<Frame> frames;
  ip("link set ib0 down");
  EXPECT_FALSE(tun->read(pools, kHeadroom, frames, 4));
  EXPECT_TRUE(frames.empty());
}

TEST_F(TunDeviceTest, ReadWithoutAFreeFrameDoesNotReportEmpty) {
  const auto tun = open_tun();
  std::vector<Frame> frames;
  for (FramePool* const pool : {&packets, &large}) {
    std::vector<Frame> taken;
    while (pool->available() > 0) taken.push_back(pool->take());
    EXPECT_TRUE(tun->read(pools, kHeadroom, frames, 4));
    EXPECT_TRUE(frames.empty());
  }
}

/// Sends a datagram to 10.9.0.2; with a segment size by UDP segmentation.
void send_udp(std::size_t size, int segment = 0) {
  const FileDescriptor sender(socket(AF_INET, SOCK_DGRAM, 0));
  constexpr int kUdpSegment = 103;  // UDP_SEGMENT of linux/udp.h
  if (segment != 0) {
    ASSERT_EQ(setsockopt(sender.get(), IPPROTO_UDP, kUdpSegment, &segment, sizeof segment), 0);
  }
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(9);
  inet_pton(AF_INET, "10.9.0.2", &to.sin_addr);
  const std::string payload(size, 'x');
  ASSERT_EQ(sendto(sender.get(), payload.data(), payload.size(), 0,
                   reinterpret_cast<const sockaddr*>(&to), sizeof(to)),
            static_cast<ssize_t>(payload.size()));
}

TEST_F(TunDeviceTest, FramesOfATapHaveTheirHeaderBeforeThePacket) {
  constexpr MacAddress kMac{0x0203'0012'abcd};
  constexpr MacAddress kNextHop{0x0600'0000'0001};
  constexpr std::size_t kRoom = 16;
  const auto tap = TunDevice::open({.name = "ib0", .mac = kMac}).value();
  ASSERT_TRUE(tap->set_carrier(true));
  ip("addr add 10.9.0.1/24 dev ib0");
  ip("neigh add 10.9.0.2 lladdr " + kNextHop.to_string() + " dev ib0 nud permanent");
  send_udp(5);

  // Skip packets that the kernel sends by itself.
  std::vector<Frame> frames;
  wire::EthernetHeader header;
  while (header.destination != kNextHop && test::wait_readable(tap->descriptor())) {
    frames.clear();
    ASSERT_TRUE(tap->read(pools, kRoom, frames, 1));
    ASSERT_EQ(frames.size(), 1U);
    header = wire::EthernetHeader::parse(std::as_const(frames[0]).bytes().data() -
                                         wire::EthernetHeader::kSize);
  }
  ASSERT_EQ(header.destination, kNextHop);
  EXPECT_EQ(header.source, kMac);
  EXPECT_TRUE(is_type(header, wire::EtherType::ipv4));
  const auto packet = std::as_const(frames[0]).bytes();
  EXPECT_EQ(frames[0].headroom(), kRoom);
  EXPECT_EQ(wire::ip_version(packet), 4);
  EXPECT_TRUE(tap->write(packet)) << "with the header before it";
}

TEST_F(TunDeviceTest, AFrameHoldsAPacketOfItsSize) {
  const auto tun = open_tun();
  constexpr std::size_t kRoom = 2048 - kHeadroom;
  ASSERT_TRUE(tun->set_mtu(kRoom + 1));
  ASSERT_TRUE(tun->set_carrier(true));
  ip("addr add 10.9.0.1/24 dev ib0");
  for (const std::size_t size : {kRoom, kRoom + 1}) {
    send_udp(size - 28);
    std::vector<Frame> frames;
    const auto found = [&] { return std::ranges::find(frames, size, &Frame::size); };
    while (found() == frames.end() && test::wait_readable(tun->descriptor())) {
      frames.clear();
      (void)tun->read(pools, kHeadroom, frames, 1);
    }
    ASSERT_NE(found(), frames.end()) << size;
    EXPECT_EQ(large.capacity() - large.available(), size == kRoom ? 0U : 1U) << size;
  }
}

TEST_F(TunDeviceTest, LimitsTheLargePacketsOfARead) {
  const auto tun = open_tun();
  if (!tun->accepts(Segmentation::Kind::udp))
    GTEST_SKIP() << "needs UDP segmentation offload (Linux 6.2)";
  ASSERT_TRUE(tun->set_mtu(2044));
  ASSERT_TRUE(tun->set_carrier(true));
  ip("addr add 10.9.0.1/24 dev ib0");
  for (int i = 0; i < 6; ++i) send_udp(40'500, 1000);
  std::size_t found = 0;
  std::vector<Frame> frames;
  while (found < 6 && test::wait_readable(tun->descriptor())) {
    frames.clear();
    (void)tun->read(pools, kHeadroom, frames, 8);
    const auto now = static_cast<std::size_t>(std::ranges::count_if(frames, &Frame::is_large));
    EXPECT_LE(now, 4U) << "more do not fit into the cache";
    found += now;
  }
  EXPECT_EQ(found, 6U);
}

/// With UDP segmentation; a TCP connection would work as well, but needs a peer.
TEST_F(TunDeviceTest, ReadsALargePacketAtOnce) {
  const auto tun = open_tun();
  if (!tun->accepts(Segmentation::Kind::udp))
    GTEST_SKIP() << "needs UDP segmentation offload (Linux 6.2)";
  ASSERT_TRUE(tun->set_mtu(2044));
  ASSERT_TRUE(tun->set_carrier(true));
  ip("addr add 10.9.0.1/24 dev ib0");
  const std::string payload(40'500, 'x');
  send_udp(payload.size(), 1000);
  std::vector<Frame> frames;
  const auto large_one = [&] { return std::ranges::find_if(frames, &Frame::is_large); };
  while (large_one() == frames.end() && test::wait_readable(tun->descriptor())) {
    (void)tun->read(pools, kHeadroom, frames, 8);
  }
  ASSERT_NE(large_one(), frames.end());
  const Frame& frame = *large_one();
  EXPECT_EQ(frame.size(), 28 + payload.size());
  EXPECT_EQ(frame.segmentation(), (Segmentation{Segmentation::Kind::udp, 20, 28, 1000}));
  EXPECT_EQ(frame.datagrams(), 41U);
  EXPECT_TRUE(std::ranges::all_of(frame.bytes().subspan(28), [](auto c) { return c == 'x'; }));
}

TEST_F(TunDeviceTest, LeavesSegmentationToTheHostOnRequest) {
  const auto tun = TunDevice::open({.name = "ib0", .large_packets = false});
  ASSERT_TRUE(tun) << tun.error().message;
  ip("-d link show dev ib0 | grep -q tun");
  EXPECT_EQ(std::system("ethtool -k ib0 | grep -q 'tcp-segmentation-offload: off'"), 0);
}

TEST_F(TunDeviceTest, LimitsSegmentsToTheQueueLength) {
  const auto tun = open_tun();
  ip("-d link show dev ib0 | grep -q 'gso_max_segs 64 '");
  EXPECT_EQ(std::system("ethtool -k ib0 | grep -q 'tcp-segmentation-offload: on'"), 0);
}

TEST_F(TunDeviceTest, WritesPacketsToTheHost) {
  const auto tun = open_tun();
  ASSERT_TRUE(tun->set_carrier(true));
  ip("addr add 10.9.0.1/24 dev ib0");
  const FileDescriptor receiver(socket(AF_INET, SOCK_DGRAM, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(4242);
  inet_pton(AF_INET, "10.9.0.1", &at.sin_addr);
  ASSERT_EQ(bind(receiver.get(), reinterpret_cast<const sockaddr*>(&at), sizeof(at)), 0);

  std::array<std::uint8_t, 32> packet{0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10,  9,   0,   2,
                                      10,   9, 0, 1,  0, 9, 0, 0, 0,  12, 0, 0, 'p', 'i', 'n', 'g'};
  store_be<std::uint16_t>(&packet[22], 4242);
  store_be(&packet[10], wire::internet_checksum(ConstBytes(packet).first(20)));
  EXPECT_TRUE(tun->write(packet));
  ASSERT_TRUE(test::wait_readable(receiver.get()));
  std::array<char, 16> text{};
  EXPECT_EQ(recv(receiver.get(), text.data(), text.size(), 0), 4);
  EXPECT_EQ(std::string(text.data(), 4), "ping");
}

/// Offsets in the header of a large packet count from the beginning of the Ethernet frame. A packet
/// socket shows which the kernel has understood.
TEST_F(TunDeviceTest, WritesALargePacketToATap) {
  const auto tap = TunDevice::open({.name = "ib0", .mac = MacAddress(0x0200'0000'0001)}).value();
  ASSERT_TRUE(tap->accepts(Segmentation::Kind::tcp));
  ASSERT_TRUE(tap->set_carrier(true));
  const FileDescriptor listener(socket(AF_PACKET, SOCK_RAW, htons(ETH_P_IP)));
  const int enable = 1;
  ASSERT_EQ(setsockopt(listener.get(), SOL_PACKET, PACKET_VNET_HDR, &enable, sizeof enable), 0);

  constexpr std::size_t kEthernet = wire::EthernetHeader::kSize;
  constexpr std::uint16_t kSegment = 1000;
  std::vector<std::uint8_t> frame(kEthernet + 40 + 3 * std::size_t{kSegment}, 'x');
  const std::array<std::uint8_t, kEthernet + 40> headers{
      2,    0, 0, 0, 0, 1, 2, 0, 0,  0, 0, 2, 8,   0,                     // Ethernet
      0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0, 10,  9, 0, 2, 10, 9, 0, 1,  // IPv4
      0,    9, 0, 9, 0, 0, 0, 0, 0,  0, 0, 0, 0x50};                      // TCP
  std::ranges::copy(headers, frame.begin());
  const auto packet = ConstBytes(frame).subspan(kEthernet);
  store_be(&frame[kEthernet + 2], static_cast<std::uint16_t>(packet.size()));
  store_be(&frame[kEthernet + 10], wire::internet_checksum(packet.first(20)));
  const std::array pieces{packet.first(40 + kSegment), packet.subspan(40 + kSegment)};
  ASSERT_TRUE(tap->write_large(pieces, {Segmentation::Kind::tcp, 20, 40, kSegment}));

  ASSERT_TRUE(test::wait_readable(listener.get()));
  VirtioHeader header;
  std::vector<std::uint8_t> received(frame.size() + 1);
  const std::array into{iovec{&header, sizeof header}, iovec{received.data(), received.size()}};
  ASSERT_EQ(readv(listener.get(), into.data(), into.size()),
            static_cast<ssize_t>(sizeof header + frame.size()));
  received.pop_back();
  EXPECT_EQ(received, frame);
  EXPECT_EQ(header.gso_type, virtio::kTcpOverIpv4);
  EXPECT_EQ(header.gso_size, kSegment);
  EXPECT_EQ(header.csum_start, kEthernet + 20);
  EXPECT_EQ(header.csum_offset, 16);
}

TEST_F(TunDeviceTest, ReportsAWriteThatTheHostRefuses) {
  const auto tun = open_tun();
  ip("link set ib0 down");
  const std::array<std::uint8_t, 20> packet{0x45, 0, 0, 20};
  EXPECT_FALSE(tun->write(packet));
  EXPECT_FALSE(tun->is_gone());
}

TEST_F(TunDeviceTest, NoticesThatItsInterfaceWasDeleted) {
  const auto tun = open_tun();
  ip("link del ib0");
  std::vector<Frame> frames;
  EXPECT_FALSE(tun->read(pools, kHeadroom, frames, 1));
  EXPECT_TRUE(tun->is_gone());
  EXPECT_FALSE(TunDevice::namespace_of(tun->descriptor()));
}

TEST_F(TunDeviceTest, NoticesTheDeletionWhenItWrites) {
  const auto tun = open_tun();
  ip("link del ib0");
  const std::array<std::uint8_t, 20> packet{0x45, 0, 0, 20};
  EXPECT_FALSE(tun->write(packet));
  EXPECT_TRUE(tun->is_gone());
}

TEST_F(TunDeviceTest, NoticesTheDeletionWhenItIsConfigured) {
  const auto tun = open_tun();
  ip("link del ib0");
  EXPECT_TRUE(tun->set_mtu(2044)) << "it has no MTU that could be wrong";
  EXPECT_TRUE(tun->is_gone());
  EXPECT_TRUE(tun->set_carrier(false));
}

}  // namespace
}  // namespace ipoib::linux
