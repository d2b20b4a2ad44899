// What a daemon that takes over checks, with the kernel's TUNs and TAPs.
#include "daemon/handover_checks.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <memory>
#include <stdexcept>
#include <vector>

#include "daemon/interfaces/interface_mark.hpp"
#include "linux/tun_device.hpp"
#include "tests/unit/linux/namespace_fixture.hpp"

namespace ipoib::daemon::handover::checks_tests {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr Guid kPort{0x0002c90300000001};
constexpr Guid kOtherPort{0x0002c90300000002};
constexpr PKey kRed{0x8001};
constexpr MacAddress kMac{0x0200'0000'0001};

class HandoverChecks : public test::NamespaceTest {
 protected:
  /// A descriptor of a new interface of the daemon.
  FileDescriptor make(const std::string& name, std::optional<MacAddress> mac = {}) {
    devices.push_back(linux::TunDevice::open(
                          {.name = name, .mark = to_string(InterfaceMark{name, kPort}), .mac = mac})
                          .value());
    return FileDescriptor(::dup(devices.back()->descriptor()));
  }
  void hand_over(PKey pkey, FileDescriptor device) {
    handover.interfaces[pkey] = {.tun = std::move(device)};
  }
  void expect_names_to_fit(Guid port = kPort) {
    EXPECT_NO_THROW(check_names(handover, port, options, changes, own));
  }
  void expect_another_name(const std::string& text) {
    EXPECT_THAT([this] { check_names(handover, kPort, options, changes, own); },
                ThrowsMessage<std::runtime_error>(HasSubstr(text)));
  }

  std::vector<std::unique_ptr<linux::TunDevice>> devices;
  Handover handover{.connection = Connection(FileDescriptor()), .offer = {}, .interfaces = {}};
  Options options;
  OperatorChanges changes;
  const linux::NetworkNamespace own = linux::NetworkNamespace::open("").value();
};

TEST_F(HandoverChecks, AnInterfaceThatHasGoneIsRefused) {
  hand_over(kDefaultPKey, make("ib0"));
  EXPECT_NO_THROW(find_homes(handover, own));
  hand_over(kRed, FileDescriptor(::open("/dev/net/tun", O_RDWR | O_CLOEXEC)));
  EXPECT_THAT([this] { find_homes(handover, own); },
              ThrowsMessage<std::runtime_error>(testing::StrEq(
                  "the running ipoibd hands over an interface that has gone: end it, and start "
                  "this one without --takeover")));
}

TEST_F(HandoverChecks, APartitionThatWasAVlanStaysOne) {
  hand_over(kDefaultPKey, make("ib0", kMac));
  hand_over(kRed, FileDescriptor(::dup(devices[0]->descriptor())));
  options.vlans = {{kRed, VlanId(7)}};
  EXPECT_NO_THROW(check_vlans(handover, options));
  options.vlans.clear();
  EXPECT_THAT([this] { check_vlans(handover, options); },
              ThrowsMessage<std::runtime_error>(HasSubstr("has the partition 0x8001 as a VLAN")));
}

TEST_F(HandoverChecks, APartitionWithAnInterfaceOfItsOwnBecomesNoVlan) {
  hand_over(kDefaultPKey, make("ib0", kMac));
  hand_over(kRed, make("ib0.8001"));
  EXPECT_NO_THROW(check_vlans(handover, options));
  options.vlans = {{kRed, VlanId(7)}};
  const auto says = HasSubstr("does not have the partition 0x8001 as a VLAN");
  EXPECT_THAT([this] { check_vlans(handover, options); }, ThrowsMessage<std::runtime_error>(says));
  handover.interfaces.erase(kDefaultPKey);
  EXPECT_THAT([this] { check_vlans(handover, options); }, ThrowsMessage<std::runtime_error>(says))
      << "nor without the TAP that would carry it";
}

TEST_F(HandoverChecks, AnInterfaceKeepsItsName) {
  hand_over(kDefaultPKey, make("ib0"));
  expect_names_to_fit();
  ip("link set ib0 down");
  ip("link set ib0 name renamed");
  expect_names_to_fit();  // by the operator
  options.interface = "ibx";
  expect_another_name("the partition 0xffff ib0, not ibx");
  expect_names_to_fit(kOtherPort);  // whose interfaces have other marks
  options.pkeys = {kRed};
  expect_names_to_fit();  // not wanted
  options.pkeys = {kRed, kDefaultPKey};
  expect_another_name("ib0, not ibx");
  options.vlans = {{kDefaultPKey, VlanId(7)}};
  expect_names_to_fit();  // which a VLAN has from its TAP
}

TEST_F(HandoverChecks, TheNameIsLookedForWhereTheInterfaceIs) {
  hand_over(kDefaultPKey, make("ib0"));
  options.interface = "ibx";
  handover.interfaces[kDefaultPKey].home = std::make_shared<const linux::NetworkNamespace>(
      linux::NetworkNamespace::open("/proc/thread-self/ns/net").value());
  ASSERT_EQ(::unshare(CLONE_NEWNET), 0);
  expect_another_name("ib0, not ibx");
  handover.interfaces[kDefaultPKey].home = nullptr;
  expect_names_to_fit();  // there is none here
}

}  // namespace
}  // namespace ipoib::daemon::handover::checks_tests
