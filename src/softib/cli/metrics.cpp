#include "softib/cli/metrics.hpp"

#include <array>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <string>
#include <string_view>

namespace softib::cli {

namespace json = boost::json;
using ipoib::metrics::Families;
using ipoib::metrics::Labels;
using ipoib::metrics::with;

namespace {

constexpr std::array<std::string_view, 5> kPortStates{"active", "armed", "init", "down", "failed"};

std::string string_of(const json::object& from, std::string_view key) {
  const json::value* const value = from.if_contains(key);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

std::uint64_t number(const json::value& value) {
  return value.is_number() ? value.to_number<std::uint64_t>() : 0;
}

/// Calls `use` with each object of an array, which may be missing.
template <class Use>
void for_each(const json::object& from, std::string_view key, Use use) {
  const json::value* const all = from.if_contains(key);
  if (all == nullptr || !all->is_array()) return;
  for (const json::value& each : all->get_array()) {
    if (each.is_object()) use(each.get_object());
  }
}

std::size_t count(const json::object& from, std::string_view key) {
  const json::value* const all = from.if_contains(key);
  return all != nullptr && all->is_array() ? all->get_array().size() : 0;
}

/// `prefix` is "softib_port_" or "softib_sa_".
void add_counters(Families& to, const std::string& prefix, const Labels& labels,
                  const json::object& counters) {
  for (const auto& [key, value] : counters) {
    const std::string name(key);
    if (name.starts_with("drop_")) {
      to.drops(prefix + "drops_total", "softib(1)", labels, name, number(value));
    } else {
      to.counter(prefix + name + "_total", name + " of softib(1).", labels, number(value));
    }
  }
}

void add_node(Families& to, const Labels& of_subnet, const json::object& node) {
  const auto value_of = [&node](std::string_view key) {
    const json::value* const value = node.if_contains(key);
    return value != nullptr ? static_cast<double>(number(*value)) : 0;
  };
  const Labels labels = with(with(of_subnet, "hca", string_of(node, "name")), "port",
                             std::to_string(static_cast<unsigned>(value_of("port"))));
  Labels all = labels;
  for (const char* const each : {"node_guid", "port_guid", "gid"})
    all.push_back({each, string_of(node, each)});
  to.gauge("softib_port_info", "The port of an HCA; the value is always 1.", all, 1);
  to.states("softib_port_state", "State of the port.", labels, kPortStates,
            string_of(node, "state"));
  to.gauge("softib_port_lid", "LID; 0 if it has none.", labels, value_of("lid"));
  to.gauge("softib_port_mtu_bytes", "MTU of the port.", labels, value_of("mtu"));
  to.gauge("softib_port_rate_bytes_per_second", "Rate of the port.", labels,
           value_of("rate_mbps") * 1e6 / 8);
  to.gauge("softib_port_processes", "Processes that use the HCA.", labels,
           static_cast<double>(count(node, "processes")));
  if (const auto* const counters = node.if_contains("counters");
      counters != nullptr && counters->is_object()) {
    add_counters(to, "softib_port_", labels, counters->get_object());
  }
}

}  // namespace

Families subnet_metrics(const json::object& subnet) {
  Families out;
  const Labels labels{{"subnet", string_of(subnet, "subnet")}};
  const json::value* const running = subnet.if_contains("running");
  const bool is_running = running != nullptr && running->is_bool() && running->get_bool();
  out.gauge("softib_up", "Whether the subnet process runs.", labels, is_running ? 1 : 0);
  for_each(subnet, "nodes", [&](const json::object& node) { add_node(out, labels, node); });
  for_each(subnet, "partitions", [&](const json::object& partition) {
    out.gauge("softib_partition_members", "HCAs that are named as members of a partition.",
              with(labels, "pkey", string_of(partition, "pkey")),
              static_cast<double>(count(partition, "members")));
  });
  out.gauge("softib_groups", "Multicast groups.", labels,
            static_cast<double>(count(subnet, "groups")));
  for (const std::string part : {"sa", "control"}) {
    const auto* const counters = subnet.if_contains(part);
    if (counters == nullptr || !counters->is_object()) continue;
    add_counters(out, "softib_" + part + "_", labels, counters->get_object());
  }
  return out;
}

}  // namespace softib::cli
