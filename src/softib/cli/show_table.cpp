#include "softib/cli/show_table.hpp"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "wire/mc_member_record.hpp"

namespace softib::cli {

namespace json = boost::json;

namespace {

using ipoib::table::Table;

using ipoib::table::Align;

constexpr std::array<std::pair<std::string_view, Section>, 5> kSections{
    {{"nodes", Section::nodes},
     {"switches", Section::switches},
     {"partitions", Section::partitions},
     {"groups", Section::groups},
     {"counters", Section::counters}}};

/// A member of any type as text; "-" if there is none.
std::string text(const json::object& object, std::string_view key) {
  const auto* value = object.if_contains(key);
  if (value == nullptr) return "-";
  if (value->is_string()) return std::string(value->get_string());
  return json::serialize(*value);
}

const json::array& list(const json::object& object, std::string_view key) {
  static const json::array kNothing;
  const auto* value = object.if_contains(key);
  return value != nullptr && value->is_array() ? value->get_array() : kNothing;
}

template <class Describe>
std::string join(const json::array& values, Describe&& describe) {
  std::string out;
  for (const auto& value : values) {
    if (!out.empty()) out += ' ';
    out += describe(value);
  }
  return out.empty() ? "-" : out;
}

std::string plain(const json::value& value) {
  return value.is_string() ? std::string(value.get_string()) : json::serialize(value);
}

std::string member(const json::value& value) {
  using State = ipoib::wire::McMemberRecord;
  const auto& object = value.as_object();
  const auto* state = object.if_contains("join_state");
  const auto bits = state != nullptr ? state->to_number<unsigned>() : 0;
  std::string how;
  const auto note = [&](unsigned bit, std::string_view what) {
    if ((bits & bit) == 0) return;
    how += how.empty() ? "" : "+";
    how += what;
  };
  note(State::kFullMember, "full");
  note(State::kNonMember, "non");
  note(State::kSendOnlyNonMember, "send-only");
  note(State::kSendOnlyFullMember, "send-only-full");
  const std::string name =
      text(object, "hca") + (object.contains("port") ? '[' + text(object, "port") + ']' : "");
  return how == "full" ? name : name + "(" + how + ")";
}

/// The LIDs of a node: "5", or "4-7" with an LMC.
std::string lids(const json::object& node) {
  const auto number = [&](std::string_view key) {
    const auto* const value = node.if_contains(key);
    return value != nullptr && value->is_number() ? value->to_number<unsigned>() : 0U;
  };
  const unsigned lid = number("lid");
  const unsigned last = lid + (1U << number("lmc")) - 1;
  return last == lid ? std::to_string(lid) : std::to_string(lid) + '-' + std::to_string(last);
}

/// The name of a node: that of its HCA, with the port if the HCA has two.
std::string name_of(const json::object& node) {
  const auto* const ports = node.if_contains("ports");
  const bool has_two = ports != nullptr && ports->is_number() && ports->to_number<unsigned>() > 1;
  return text(node, "name") + (has_two ? '[' + text(node, "port") + ']' : "");
}

/// The rate in Gb/s: "40", "2.5"; "-" if there is none.
std::string gbits(const json::object& object) {
  const auto* const value = object.if_contains("rate_mbps");
  if (value == nullptr || !value->is_number()) return "-";
  const auto mbps = value->to_number<unsigned>();
  const auto tenths = mbps % 1000 / 100;
  return std::to_string(mbps / 1000) + (tenths == 0 ? "" : "." + std::to_string(tenths));
}

/// A value of link_faults: a share, the delay, or the seed.
std::string fault(std::string_view name, std::uint64_t value) {
  if (name == "delay") return std::to_string(value) + "ms";
  if (name == "seed") return std::to_string(value);
  return std::to_string(value / 100) + '.' + std::to_string(100 + value % 100).substr(1) + '%';
}

/// The faults of a node's link: "loss=1.50% delay=5ms".
std::string faults(const json::object& node) {
  const auto* const value = node.if_contains("link_faults");
  if (value == nullptr || !value->is_object()) return "-";
  std::string out;
  for (const auto& [key, number] : value->get_object()) {
    const auto amount = number.is_number() ? number.to_number<std::uint64_t>() : 0;
    if (amount == 0) continue;
    if (!out.empty()) out += ' ';
    const std::string_view name = key == "cm_loss" ? "cm-loss" : std::string_view(key);
    out += std::string(name) + '=' + fault(name, amount);
  }
  return out.empty() ? "-" : out;
}

Table nodes(const json::object& subnet) {
  const auto& all = list(subnet, "nodes");
  const bool has_faults = std::any_of(
      all.begin(), all.end(), [](const auto& value) { return faults(value.as_object()) != "-"; });
  std::vector<ipoib::table::Column> columns{{"LID"},       {"NODE"},   {"STATE"},
                                            {"MTU"},       {"GBIT/S"}, {"GID"},
                                            {"ADDRESSES"}, {"P_KEYS"}, {"PROCESSES"}};
  if (has_faults) columns.push_back({"LINK FAULTS"});
  Table table(std::move(columns));
  for (const auto& value : all) {
    const auto& node = value.as_object();
    std::vector<std::string> row{lids(node),
                                 name_of(node),
                                 text(node, "state"),
                                 text(node, "mtu"),
                                 gbits(node),
                                 text(node, "gid"),
                                 join(list(node, "addresses"), plain),
                                 join(list(node, "pkeys"), plain),
                                 join(list(node, "processes"), [](const json::value& one) {
                                   return text(one.as_object(), "pid");
                                 })};
    if (has_faults) row.push_back(faults(node));
    table.add(std::move(row));
  }
  return table;
}

/// A row for each cable.
Table switches(const json::object& subnet) {
  Table table({{"SWITCH"},
               {"LID", Align::right},
               {"PORT", Align::right},
               {"STATE"},
               {"TO"},
               {"SENT", Align::right},
               {"DISCARDS", Align::right}});
  for (const auto& value : list(subnet, "switches")) {
    const auto& at = value.as_object();
    for (const auto& each : list(at, "ports")) {
      const auto& port = each.as_object();
      const bool is_cable = port.contains("to");
      const auto* const ports = port.if_contains("hca_ports");
      const bool is_named = is_cable || (ports != nullptr && *ports != 1);
      table.add({text(at, "name"), text(at, "lid"), text(port, "port"), text(port, "state"),
                 text(port, is_cable ? "to" : "hca") +
                     (is_named ? '[' + text(port, is_cable ? "to_port" : "hca_port") + ']' : ""),
                 text(port, "sent_packets"), text(port, "discards")});
    }
  }
  return table;
}

Table partitions(const json::object& subnet) {
  Table table({{"PARTITION"}, {"MEMBERS"}});
  for (const auto& value : list(subnet, "partitions")) {
    const auto& partition = value.as_object();
    std::string members = join(list(partition, "members"), [](const json::value& one) {
      return text(one.as_object(), "hca") + "(" + text(one.as_object(), "membership") + ")";
    });
    const std::string others = text(partition, "others");
    const bool is_named = members != "-";
    if (others != "none") members = (is_named ? members + " others(" : "all(") + others + ")";
    table.add({text(partition, "pkey"), members});
  }
  return table;
}

Table groups(const json::object& subnet) {
  Table table({{"MLID"}, {"GROUP"}, {"P_KEY"}, {"Q_KEY"}, {"MTU"}, {"GBIT/S"}, {"MEMBERS"}});
  for (const auto& value : list(subnet, "groups")) {
    const auto& group = value.as_object();
    // Groups from the fabric file have receivers only.
    const bool has_members = group.contains("members");
    const auto& members = list(group, has_members ? "members" : "receivers");
    table.add({text(group, "mlid"), text(group, "mgid"), text(group, "pkey"), text(group, "qkey"),
               text(group, "mtu"), gbits(group),
               has_members ? join(members, member) : join(members, plain)});
  }
  return table;
}

/// Adds a row for each counter that is not 0.
void add_counters(Table& table, const std::string& whose, const json::object& counters) {
  for (const auto& [key, value] : counters) {
    const std::string number = json::serialize(value);
    if (number != "0") table.add({whose, std::string(key), number});
  }
}

Table counters(const json::object& subnet) {
  Table table({{"NODE"}, {"COUNTER"}, {"VALUE"}});
  if (const auto* sa = subnet.if_contains("sa"); sa != nullptr && sa->is_object()) {
    add_counters(table, "SM and SA", sa->get_object());
  }
  if (const auto* control = subnet.if_contains("control");
      control != nullptr && control->is_object()) {
    add_counters(table, "control socket", control->get_object());
  }
  for (const auto& value : list(subnet, "nodes")) {
    const auto& node = value.as_object();
    const auto* counted = node.if_contains("counters");
    if (counted != nullptr && counted->is_object()) {
      add_counters(table, name_of(node), counted->get_object());
    }
  }
  return table;
}

std::uint64_t counter(const json::object& node, std::string_view prefix) {
  const auto* const counters = node.if_contains("counters");
  if (counters == nullptr || !counters->is_object()) return 0;
  std::uint64_t sum = 0;
  for (const auto& [key, value] : counters->get_object()) {
    const bool counts = std::string_view(key).starts_with(prefix) && value.is_number();
    if (counts) sum += value.to_number<std::uint64_t>();
  }
  return sum;
}

/// Shortens a name so that it and the columns that are never omitted fit into kBriefWidth.
std::string brief_name(std::string name) {
  constexpr std::size_t kMost = 40;
  if (name.size() <= kMost) return name;
  return name.substr(0, kMost - 3) + "...";
}

Table brief_nodes(const json::object& subnet) {
  Table table({{"LID"},
               {"NODE"},
               {"STATE"},
               {"MTU", Align::right, 2},
               {"GBIT/S", Align::right, 1},
               {"PROCESSES", Align::right, 5},
               {"SENT", Align::right, 3},
               {"RECEIVED", Align::right, 4},
               {"DROPPED", Align::right}});
  for (const auto& value : list(subnet, "nodes")) {
    const auto& node = value.as_object();
    table.add({lids(node), brief_name(name_of(node)), text(node, "state"), text(node, "mtu"),
               gbits(node), std::to_string(list(node, "processes").size()),
               std::to_string(counter(node, "sent_packets")),
               std::to_string(counter(node, "received_packets")),
               std::to_string(counter(node, "drop_"))});
  }
  return table;
}

Table brief_partitions(const json::object& subnet) {
  Table table({{"PARTITION"}, {"FULL", Align::right}, {"LIMITED", Align::right}, {"OTHERS"}});
  for (const auto& value : list(subnet, "partitions")) {
    const auto& partition = value.as_object();
    const auto& members = list(partition, "members");
    const auto number_of = [&](std::string_view membership) {
      return std::to_string(std::count_if(members.begin(), members.end(), [&](const auto& one) {
        return text(one.as_object(), "membership") == membership;
      }));
    };
    table.add({text(partition, "pkey"), number_of("full"), number_of("limited"),
               text(partition, "others")});
  }
  return table;
}

Table brief_groups(const json::object& subnet) {
  Table table({{"MLID"}, {"GROUP"}, {"P_KEY"}, {"MTU", Align::right}, {"MEMBERS", Align::right}});
  for (const auto& value : list(subnet, "groups")) {
    const auto& group = value.as_object();
    const auto& members = list(group, group.contains("members") ? "members" : "receivers");
    table.add({text(group, "mlid"), text(group, "mgid"), text(group, "pkey"), text(group, "mtu"),
               std::to_string(members.size())});
  }
  return table;
}

/// A row for each switch; nothing for the only switch of a subnet.
Table brief_switches(const json::object& subnet) {
  Table table({{"LID"},
               {"SWITCH"},
               {"STATE"},
               {"HCAS", Align::right},
               {"CABLES", Align::right},
               {"DOWN", Align::right},
               {"SENT", Align::right},
               {"DISCARDS", Align::right}});
  const auto& all = list(subnet, "switches");
  if (all.size() < 2) return table;
  for (const auto& value : all) {
    const auto& at = value.as_object();
    const auto& ports = list(at, "ports");
    const auto number_of = [&](auto is_counted) {
      return std::to_string(std::ranges::count_if(
          ports, [&](const json::value& port) { return is_counted(port.as_object()); }));
    };
    const auto sum_of = [&](std::string_view key) {
      std::uint64_t sum = 0;
      for (const auto& port : ports) {
        const auto* const counted = port.as_object().if_contains(key);
        if (counted != nullptr) sum += counted->to_number<std::uint64_t>();
      }
      return std::to_string(sum);
    };
    table.add({text(at, "lid"), brief_name(text(at, "name")), text(at, "state"),
               number_of([](const json::object& port) { return port.contains("hca"); }),
               number_of([](const json::object& port) { return port.contains("to"); }),
               number_of([](const json::object& port) { return text(port, "state") == "down"; }),
               sum_of("sent_packets"), sum_of("discards")});
  }
  return table;
}

Table table_of(const json::object& subnet, Section section) {
  switch (section) {
    case Section::nodes:
      return nodes(subnet);
    case Section::switches:
      return switches(subnet);
    case Section::partitions:
      return partitions(subnet);
    case Section::groups:
      return groups(subnet);
    case Section::counters:
      return counters(subnet);
  }
  return nodes(subnet);
}

std::string heading(const json::object& subnet) {
  const bool is_running = text(subnet, "running") == "true";
  return "subnet " + text(subnet, "subnet") + " in " + text(subnet, "folder") +
         (is_running ? "\n" : ": its process is not running\n");
}

}  // namespace

std::optional<Section> parse_section(std::string_view text) {
  for (const auto& [name, section] : kSections) {
    if (name == text) return section;
  }
  return std::nullopt;
}

std::string show_brief(const json::object& subnet, std::size_t width) {
  std::string out = heading(subnet);
  for (const Table& table : {brief_nodes(subnet), brief_switches(subnet), brief_partitions(subnet),
                             brief_groups(subnet)}) {
    if (!table.empty()) out += '\n' + table.text(std::min(width, kBriefWidth));
  }
  return out;
}

std::string show_wide(const json::object& subnet, std::size_t width) {
  std::string out = heading(subnet);
  for (const auto& [name, section] : kSections) {
    const Table table = table_of(subnet, section);
    if (!table.empty()) out += '\n' + table.wide_text(width);
  }
  return out;
}

std::string show_section(const json::object& subnet, Section section, std::size_t width) {
  return table_of(subnet, section).wide_text(width);
}

json::object json_of_section(const json::object& subnet, Section section) {
  json::object out;
  const auto copy = [&](std::string_view key) {
    if (const auto* const value = subnet.if_contains(key)) out[key] = *value;
  };
  for (const auto* key : {"subnet", "folder", "running", "sm"}) copy(key);
  switch (section) {
    case Section::nodes:
      copy("nodes");
      break;
    case Section::switches:
      copy("switches");
      break;
    case Section::partitions:
      copy("partitions");
      break;
    case Section::groups:
      copy("groups");
      break;
    case Section::counters:
      for (const auto* key : {"sa", "control"}) copy(key);
      auto& counted = out["nodes"].emplace_array();
      for (const auto& value : list(subnet, "nodes")) {
        const auto& node = value.as_object();
        counted.push_back({{"name", text(node, "name")}, {"counters", node.at("counters")}});
      }
      break;
  }
  return out;
}

}  // namespace softib::cli
