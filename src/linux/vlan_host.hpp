// The mirror of the host's configuration in a VLAN of a TAP, which is empty: whatever has an
// address there is a station behind the TAP, also an interface of the host.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "linux/host_mirror.hpp"
#include "linux/wake_up.hpp"

namespace ipoib::linux {

class VlanHost final : public HostMirror {
 public:
  /// `mac` is the source of what the daemon itself sends to the VLAN.
  VlanHost(std::string name, MacAddress mac) : name_(std::move(name)), mac_(mac) {}

  [[nodiscard]] int descriptor() const override { return never_.descriptor(); }
  [[nodiscard]] Pending take_events() override { return Pending::none; }
  void expect_change() override {}
  void expect_routes() override {}
  [[nodiscard]] Result<std::optional<HostView>> update() override {
    if (std::exchange(is_known_, true)) return std::optional<HostView>();
    return std::optional(HostView{.mac = mac_});
  }
  [[nodiscard]] bool interface_exists() const override { return true; }
  [[nodiscard]] bool permits_reply(Ipv4Address /*target*/, Ipv4Address /*sender*/) override {
    return false;
  }
  [[nodiscard]] bool check_arp_policy() override { return false; }
  [[nodiscard]] const std::string& interface_name() const override { return name_; }
  void set_interface_name(const std::string& name) override { name_ = name; }
  [[nodiscard]] bool link_local_is_duplicate() const override { return false; }
  void set_link_local(const Ipv6Address& /*address*/) override {}

 private:
  std::string name_;
  const MacAddress mac_;
  WakeUp never_;
  bool is_known_ = false;
};

}  // namespace ipoib::linux
