#include "daemon/authority.hpp"

#include <algorithm>
#include <random>
#include <stdexcept>

#include "daemon/interface_plan.hpp"
#include "daemon/roce_authority.hpp"
#include "daemon/sa_authority.hpp"

namespace ipoib::daemon {

namespace {

/// What would be waited for in vain: the table of a RoCE port does not change.
void check_partitions(const verbs::Device& device, const Options& options) {
  const auto table = device.query().value().pkeys;
  for (const PKey wanted : options.pkeys) {
    if (verbs::find_partition(table, wanted)) continue;
    throw std::runtime_error("--pkey " + list_of({&wanted, 1}) +
                             ": a RoCE port is in no partition but " + list_of(table));
  }
}

}  // namespace

std::unique_ptr<Authority> make_authority(const verbs::Device& device, const Options& options,
                                          Logging& logs) {
  if (device.link_layer() == verbs::LinkLayer::roce) {
    check_partitions(device, options);
    return std::make_unique<RoceAuthority>(options.link.creation, *logs.sa);
  }
  return std::make_unique<SaAuthority>(verbs::UmadPort::open(device.name(), device.port()).value(),
                                       *logs.sa, std::random_device()());
}

}  // namespace ipoib::daemon
