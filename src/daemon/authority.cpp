#include "daemon/authority.hpp"

#include <algorithm>
#include <random>
#include <stdexcept>

#include "daemon/interface_plan.hpp"
#include "daemon/roce_authority.hpp"
#include "daemon/sa_authority.hpp"
#include "ipoib/pkey_table.hpp"

namespace ipoib::daemon {

namespace {

/// What would be waited for in vain: the P_Key table of a RoCE port does not change, and an address
/// that comes later has an index that nobody knows yet.
void check_choices(const verbs::PortSnapshot& port, const Options& options) {
  for (const PKey wanted : options.pkeys) {
    if (find_partition(port.pkeys, wanted)) continue;
    throw std::runtime_error("--pkey " + list_of({&wanted, 1}) +
                             ": a RoCE port is in no partition but " + list_of(port.pkeys));
  }
  if (options.gid_index && port.gid.is_zero()) {
    throw std::runtime_error("--gid-index " + std::to_string(*options.gid_index) +
                             ": there is no GID of RoCE v2 that is an IPv6 address");
  }
}

}  // namespace

std::unique_ptr<Authority> make_authority(const verbs::Device& device, const Options& options,
                                          Logging& logs) {
  if (device.link_layer() == verbs::LinkLayer::roce) {
    check_choices(device.query().value(), options);
    return std::make_unique<RoceAuthority>(options.link.creation, *logs.sa);
  }
  if (options.gid_index) throw std::runtime_error("--gid-index is for RoCE ports");
  return std::make_unique<SaAuthority>(verbs::UmadPort::open(device.name(), device.port()).value(),
                                       *logs.sa, std::random_device()());
}

}  // namespace ipoib::daemon
