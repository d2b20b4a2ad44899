// Metrics of the interfaces, for Prometheus: see man/ibarp.8, "Metrics".
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "host_bytes.hpp"
#include "metrics/exporter.hpp"
#include "metrics/families.hpp"
#include "run.hpp"
#include "text.hpp"

namespace ipoib::ibarp {

using metrics::Families;
using metrics::Labels;
using metrics::with;

namespace {

constexpr std::array<std::string_view, 11> kLinkStates{
    "up",        "joining",      "no_pkey",   "no_subnet_manager", "no_gid",   "port_armed",
    "port_init", "port_polling", "port_down", "stopped",           "no_device"};

void add_gauge(Families& to, const Labels& labels, const ibarp_counter& gauge) {
  constexpr std::string_view kByState = "neighbours_";
  const std::string name = gauge.name;
  const auto value = static_cast<double>(gauge.value);
  if (name == "neighbours") return;  // the sum of those by state
  if (name.starts_with(kByState)) {
    return to.gauge("ipoib_neighbours", "Entries of the neighbour cache, by state.",
                    with(labels, "state", name.substr(kByState.size())), value);
  }
  to.gauge("ipoib_" + name, name + " of ibarp(8), Counters.", labels, value);
}

/// `drops` is the name of the family for dropped packets.
void add_counter(Families& to, const std::string& drops, const Labels& labels,
                 const ibarp_counter& counter) {
  const std::string name = counter.name;
  if (counter.is_gauge != 0) return add_gauge(to, labels, counter);
  if (counter.is_drop != 0) {
    return to.drops(drops, "ibarp(8), Counters", labels, name, counter.value);
  }
  to.counter("ipoib_" + name + "_total", name + " of ibarp(8), Counters.", labels, counter.value);
}

/// Whether a counter is that of a port, and so is the same for all interfaces of a daemon.
bool is_of_port(std::string_view name) {
  return name.starts_with("sa_") || name.starts_with("drop_sa_") || name.starts_with("drop_port_");
}

/// Counters of ports. Several daemons may serve a port; each has counted what is its own.
class PortCounters {
 public:
  /// Adds the counters of an interface; further interfaces of its daemon have the same ones.
  void add(const ibarp_info& info, const std::vector<ibarp_counter>& counters) {
    const Port port(info.device, info.port);
    if (!seen_.emplace(port, info.pid).second) return;
    for (const ibarp_counter& counter : counters) {
      if (!is_of_port(counter.name)) continue;
      const auto [sum, is_new] = sums_[port].try_emplace(counter.name, counter);
      if (!is_new) sum->second.value += counter.value;
    }
  }

  void append(Families& to) const {
    for (const auto& [port, counters] : sums_) {
      const Labels labels{{"device", port.first}, {"port", std::to_string(port.second)}};
      for (const auto& [name, counter] : counters) {
        add_counter(to, "ipoib_port_drops_total", labels, counter);
      }
    }
  }

 private:
  using Port = std::pair<std::string, std::uint32_t>;

  std::set<std::pair<Port, std::uint32_t>> seen_;  ///< with the daemon's process
  std::map<Port, std::map<std::string, ibarp_counter>> sums_;
};

void add_info(Families& to, const Labels& labels, const ibarp_info& info) {
  Labels all = labels;
  all.insert(all.end(), {{"device", info.device},
                         {"port", std::to_string(info.port)},
                         {"pkey", info.pkey != 0 ? hexadecimal(info.pkey, 4) : ""},
                         {"gid", gid_text(info.hardware.gid)},
                         {"version", info.version}});
  to.gauge("ipoib_info", "The interface; the value is always 1.", all, 1);
  const std::string state = info.state;
  to.gauge("ipoib_carrier", "Whether the interface can send and receive.", labels,
           state == "up" ? 1 : 0);
  to.gauge("ipoib_admin_up", "Whether the interface is administratively up.", labels,
           info.admin_up != 0 ? 1 : 0);
  to.states("ipoib_link_state", "State of the bring-up.", labels, kLinkStates, state);
  if (info.membership[0] != '\0') {
    to.gauge("ipoib_limited_member", "Whether the port is a limited member of the partition.",
             labels, is_limited(info) ? 1 : 0);
  }
  if (info.host_mtu != 0) {
    to.gauge("ipoib_host_mtu_bytes", "The MTU of the network interface.", labels, info.host_mtu);
  }
  to.gauge("ipoib_mtu_bytes", "Bytes of the largest IP packet; 0 before the first bring-up.",
           labels, info.mtu);
}

void add_groups(Families& to, const Labels& labels, const std::vector<ibarp_group>& groups) {
  std::map<std::string, unsigned> by_membership;
  for (const ibarp_group& group : groups) ++by_membership[group.membership];
  for (const auto& [membership, count] : by_membership) {
    to.gauge("ipoib_groups", "Multicast groups, by membership.",
             with(labels, "membership", membership), count);
  }
}

void add_histograms(Families& to, const Labels& labels, const std::vector<Histogram>& histograms) {
  for (const Histogram& each : histograms) {
    std::string name = each.name;
    if (name.ends_with("_time")) name.resize(name.size() - std::string_view("_time").size());
    to.histogram("ipoib_" + name + "_seconds", each.name + " of ibarp(8), Metrics.", labels,
                 each.bounds_ns, each.counts, each.sum_ns);
  }
}

class Collector {
 public:
  void add(const std::string& interface) {
    const Labels labels{{"interface", interface}};
    bool responds = false;
    try {
      const Client client(interface);
      const ibarp_info info = client.info();
      responds = true;
      add_info(families_, labels, info);
      if (info.state != std::string_view("no_device")) add_figures(client, labels, info);
    } catch (const Failure& failure) {
      problems_.emplace_back(failure.what());
    }
    families_.gauge("ipoib_up", "Whether the ipoibd of the interface responds.", labels,
                    responds ? 1 : 0);
  }

  [[nodiscard]] Metrics finish(std::size_t interfaces) && {
    families_.gauge("ipoib_interfaces", "Interfaces of ipoibd in the network namespace.", {},
                    static_cast<double>(interfaces));
    ports_.append(families_);
    return {std::move(families_), std::move(problems_)};
  }

 private:
  void add_figures(const Client& client, const Labels& labels, const ibarp_info& info) {
    const auto counters = client.counters();
    for (const ibarp_counter& counter : counters) {
      if (!is_of_port(counter.name)) add_counter(families_, "ipoib_drops_total", labels, counter);
    }
    ports_.add(info, counters);
    if (const auto bytes = bytes_.find(client.interface()); bytes != bytes_.end()) {
      families_.counter("ipoib_rx_bytes_total", "Bytes of the IP packets to the host.", labels,
                        bytes->second.received);
      families_.counter("ipoib_tx_bytes_total", "Bytes of the IP packets from the host.", labels,
                        bytes->second.sent);
    }
    add_groups(families_, labels, client.groups());
    add_histograms(families_, labels, client.histograms());
  }

  const std::map<std::string, HostBytes> bytes_ = read_host_bytes();
  Families families_;
  PortCounters ports_;
  std::vector<std::string> problems_;
};

}  // namespace

Metrics collect_metrics(const Command& command) {
  const auto interfaces = interfaces_named(command.device);
  Collector collector;
  for (const std::string& interface : interfaces) collector.add(interface);
  return std::move(collector).finish(interfaces.size());
}

/// The first line of a file, which only its owner may be able to read.
std::string read_password(const std::string& path) {
  const auto fail = [&path](const std::string& why) {
    return Failure(kFailed, "--password-file " + path + ": " + why);
  };
  struct stat status {};
  std::ifstream file(path);
  if (!file || ::stat(path.c_str(), &status) != 0)
    throw fail(std::string("cannot be read: ") + std::strerror(errno));
  if ((status.st_mode & S_IRWXO) != 0) throw fail("others may read it: chmod o= " + path);
  std::string password;
  std::getline(file, password);
  if (password.empty()) throw fail("has no password; openssl rand -hex 32 makes one");
  return password;
}

/// What is wrong with an interface is in the metrics, so a request logs nothing.
void serve_metrics(const Command& command) {
  const auto address = metrics::ListenAddress::parse(command.serve);
  if (!address) throw Failure(kUsage, address.error().message);
  const auto password =
      command.password_file.empty() ? std::string() : read_password(command.password_file);
  const auto served = metrics::serve(
      *address, password, [&command] { return collect_metrics(command).families; },
      [](const std::string& url) { std::fprintf(stderr, "ibarp: serving %s\n", url.c_str()); });
  if (!served) throw Failure(kFailed, served.error().message);
}

}  // namespace ipoib::ibarp
