#include "softib/cli/show_table.hpp"

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <string_view>
#include <vector>

#include "table/table.hpp"
#include "wire/mc_member_record.hpp"

namespace softib::cli {

namespace json = boost::json;

namespace {

using ipoib::table::Table;

/// Prints nothing for an empty table.
std::string print_section(const Table& table) { return table.empty() ? "" : "\n" + table.text(); }

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
  const std::string name = text(object, "hca");
  return how == "full" ? name : name + "(" + how + ")";
}

/// "5", or "4-7" with an LMC.
std::string lids(const json::object& node) {
  const auto number = [&](std::string_view key) {
    const auto* const value = node.if_contains(key);
    return value != nullptr && value->is_number() ? value->to_number<unsigned>() : 0U;
  };
  const unsigned lid = number("lid");
  const unsigned last = lid + (1U << number("lmc")) - 1;
  return last == lid ? std::to_string(lid) : std::to_string(lid) + '-' + std::to_string(last);
}

/// The rate in Gb/s: "40", "2.5"; "-" if there is none.
std::string gbits(const json::object& object) {
  const auto* const value = object.if_contains("rate_mbps");
  if (value == nullptr || !value->is_number()) return "-";
  const auto mbps = value->to_number<unsigned>();
  const auto tenths = mbps % 1000 / 100;
  return std::to_string(mbps / 1000) + (tenths == 0 ? "" : "." + std::to_string(tenths));
}

std::string nodes(const json::object& subnet) {
  Table table(
      {{"LID"}, {"NODE"}, {"STATE"}, {"MTU"}, {"GBIT/S"}, {"GID"}, {"P_KEYS"}, {"PROCESSES"}});
  for (const auto& value : list(subnet, "nodes")) {
    const auto& node = value.as_object();
    table.add({lids(node), text(node, "name"), text(node, "state"), text(node, "mtu"), gbits(node),
               text(node, "gid"), join(list(node, "pkeys"), plain),
               join(list(node, "processes"),
                    [](const json::value& one) { return text(one.as_object(), "pid"); })});
  }
  return table.text();
}

std::string partitions(const json::object& subnet) {
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
  return print_section(table);
}

std::string groups(const json::object& subnet) {
  Table table({{"MLID"}, {"GROUP"}, {"P_KEY"}, {"Q_KEY"}, {"MTU"}, {"GBIT/S"}, {"MEMBERS"}});
  for (const auto& value : list(subnet, "groups")) {
    const auto& group = value.as_object();
    // The fabric file has receivers only.
    const bool has_members = group.contains("members");
    const auto& members = list(group, has_members ? "members" : "receivers");
    table.add({text(group, "mlid"), text(group, "mgid"), text(group, "pkey"), text(group, "qkey"),
               text(group, "mtu"), gbits(group),
               has_members ? join(members, member) : join(members, plain)});
  }
  return print_section(table);
}

/// Adds a row for each counter that is not 0.
void add_counters(Table& table, const std::string& whose, const json::object& counters) {
  for (const auto& [key, value] : counters) {
    const std::string number = json::serialize(value);
    if (number != "0") table.add({whose, std::string(key), number});
  }
}

std::string counters(const json::object& subnet) {
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
      add_counters(table, text(node, "name"), counted->get_object());
    }
  }
  return print_section(table);
}

}  // namespace

std::string show_table(const json::object& subnet) {
  const bool is_running = text(subnet, "running") == "true";
  std::string out = "subnet " + text(subnet, "subnet") + " in " + text(subnet, "folder");
  out += is_running ? "\n\n" : ": its process is not running\n\n";
  return out + nodes(subnet) + partitions(subnet) + groups(subnet) + counters(subnet);
}

}  // namespace softib::cli
