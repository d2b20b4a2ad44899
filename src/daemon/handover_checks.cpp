#include "daemon/handover_checks.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>

#include "daemon/interfaces/interface_mark.hpp"
#include "linux/link_settings.hpp"
#include "linux/tun_device.hpp"

namespace ipoib::daemon::handover {

namespace {

/// Returns the name with which the interface of a TUN was created; it may have been renamed since.
std::optional<std::string> first_name_of(int tun, Guid port) {
  const auto current = linux::TunDevice::name_of(tun);
  const auto names = linux::alternative_names();
  if (!names) return std::nullopt;
  for (const auto& [interface, alternative] : *names) {
    const auto mark = interface == current ? parse_mark(alternative) : std::nullopt;
    if (mark && mark->port == port) return mark->name;
  }
  return std::nullopt;
}

}  // namespace

/// A VLAN comes with the descriptor of the TAP that carries it.
void check_vlans(const Handover& handover, const Options& options) {
  const auto name_of = [](const HandedInterface& one) {
    return linux::TunDevice::name_of(one.tun.get());
  };
  const auto trunk = handover.interfaces.find(base_partition(options.pkeys));
  for (const auto& each : handover.interfaces) {
    const bool is_vlan = options.vlans.contains(each.first);
    const bool was_vlan = trunk != handover.interfaces.end() && each.first != trunk->first &&
                          name_of(each.second) == name_of(trunk->second);
    if (is_vlan == was_vlan) continue;
    throw std::runtime_error("the running ipoibd " +
                             std::string(was_vlan ? "has" : "does not have") + " the partition " +
                             list_of({&each.first, 1}) +
                             " as a VLAN: start with the same --vlan, or stop it first");
  }
}

void find_homes(Handover& handover, const linux::NetworkNamespace& own) {
  for (auto& [pkey, interface] : handover.interfaces) {
    auto home = linux::TunDevice::namespace_of(interface.tun.get());
    if (!home) {
      throw std::runtime_error(
          "the running ipoibd hands over an interface that has gone: end it, and start this one "
          "without --takeover");
    }
    if (home->is_same_as(own)) continue;
    interface.home = std::make_shared<const linux::NetworkNamespace>(std::move(*home));
  }
}

void check_names(const Handover& handover, Guid port, const Options& options,
                 OperatorChanges& changes, const linux::NetworkNamespace& own) {
  const InterfacePlan plan(options.pkeys, options.interface, changes, options.vlans);
  for (const auto& [pkey, interface] : handover.interfaces) {
    const bool is_wanted = options.pkeys.empty() || std::ranges::count(options.pkeys, pkey) > 0;
    if (!is_wanted || options.vlans.contains(pkey)) continue;
    const auto& home = interface.home ? *interface.home : own;
    const auto before = home.run([&] { return first_name_of(interface.tun.get(), port); });
    if (!before || *before == plan.name_of(pkey)) continue;
    throw std::runtime_error("the running ipoibd calls the interface of the partition " +
                             list_of({&pkey, 1}) + " " + *before + ", not " + plan.name_of(pkey) +
                             ": start with the same --name, or stop it first");
  }
}

}  // namespace ipoib::daemon::handover
