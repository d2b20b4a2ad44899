#include "daemon/port/sa_backend.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/options/interface_plan.hpp"
#include "daemon/port/roce_sa.hpp"
#include "daemon/port/subnet_sa.hpp"
#include "ipoib/log.hpp"
#include "ipoib/pkey_table.hpp"
#include "ipoib/random_bits.hpp"
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
    throw std::runtime_error(
        "--gid-index " + std::to_string(*options.gid_index) +
        ": the port has no RoCE v2 GID there that is an IPv6 address; leave the "
        "option out, or see gid_attrs/types of the port in /sys");
  }
}

/// Without a shared folder the daemon works, but its leaves affect other daemons on the port.
SharedMemberships share_memberships(const std::optional<std::string>& port, Logger& log) {
  const auto folder = SharedMemberships::default_folder();
  const auto alone = [&log](std::string_view why) {
    log.warn("{}; when this daemon ends, others on the port may lose their multicast groups", why);
    return SharedMemberships();
  };
  if (!folder) return alone(folder.error().message);
  if (!port) return alone("the port cannot be identified");
  auto shared = SharedMemberships::open(*folder, *port);
  return shared ? std::move(*shared) : alone(shared.error().message);
}

}  // namespace

std::unique_ptr<SaBackend> make_sa_backend(const verbs::Device& device, const Options& options,
                                           Logging& logs) {
  if (device.link_layer() == verbs::LinkLayer::roce) {
    check_options(device.query().value(), options);
    return std::make_unique<RoceSa>(options.link.creation, *logs.sa);
  }
  if (options.gid_index) throw std::runtime_error("--gid-index is for RoCE ports: leave it out");
  auto mads = verbs::UmadPort::open(device.name(), device.port()).value();
  auto memberships = share_memberships(mads->identity(), *logs.sa);
  return std::make_unique<SubnetSa>(std::move(mads), std::move(memberships), *logs.sa,
                                    random_bits(),
                                    [] { return static_cast<std::uint32_t>(random_bits()); });
}

}  // namespace ipoib::daemon
