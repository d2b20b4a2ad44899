#include "daemon/sa_backend.hpp"

#include <algorithm>
#include <random>
#include <stdexcept>

#include "daemon/interface_plan.hpp"
#include "daemon/roce_sa.hpp"
#include "daemon/subnet_sa.hpp"
#include "ipoib/pkey_table.hpp"
#include "verbs/umad_port.hpp"

namespace ipoib::daemon {

namespace {

/// Rejects options that a RoCE port can never satisfy: its P_Key table does not change, and the
/// index of a later address is unknown.
void check_options(const verbs::PortSnapshot& port, const Options& options) {
  for (const PKey wanted : options.pkeys) {
    if (find_partition(port.pkeys, wanted)) continue;
    throw std::runtime_error("--pkey " + list_of({&wanted, 1}) +
                             ": the only partitions of the RoCE port are " + list_of(port.pkeys));
  }
  if (options.gid_index && port.gid.is_zero()) {
    throw std::runtime_error("--gid-index " + std::to_string(*options.gid_index) +
                             ": the port has no RoCE v2 GID that is an IPv6 address");
  }
}

}  // namespace

std::unique_ptr<SaBackend> make_sa_backend(const verbs::Device& device, const Options& options,
                                           Logging& logs) {
  if (device.link_layer() == verbs::LinkLayer::roce) {
    check_options(device.query().value(), options);
    return std::make_unique<RoceSa>(options.link.creation, *logs.sa);
  }
  if (options.gid_index) throw std::runtime_error("--gid-index is for RoCE ports");
  return std::make_unique<SubnetSa>(verbs::UmadPort::open(device.name(), device.port()).value(),
                                    *logs.sa, std::random_device()());
}

}  // namespace ipoib::daemon
