// Prints multicast groups and their members as tables or JSON.
#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_from.hpp>
#include <cerrno>
#include <utility>

#include "color.hpp"
#include "json.hpp"
#include "run.hpp"
#include "table/table.hpp"
#include "text.hpp"

namespace ipoib::ibarp {

namespace json = boost::json;
using table::Align;
using table::Table;

namespace {

constexpr std::array<std::pair<std::uint32_t, const char*>, 4> kJoinStates{
    {{IBARP_FULL_MEMBER, "full"},
     {IBARP_NON_MEMBER, "non-member"},
     {IBARP_SEND_ONLY_NON_MEMBER, "send-only"},
     {IBARP_SEND_ONLY_FULL_MEMBER, "send-only-full"}}};

/// The names of the join states that a port has; there may be several.
std::vector<std::string> names_of(std::uint32_t join_state) {
  std::vector<std::string> out;
  for (const auto& [bit, name] : kJoinStates) {
    if ((join_state & bit) != 0) out.emplace_back(name);
  }
  return out;
}

json::object line_as_json(const std::string& interface, const GroupLine& line) {
  json::object out = as_json(interface, line.group);
  if (!line.members) return out;
  json::array& members = out["members"].emplace_array();
  for (const ibarp_member& member : *line.members) {
    members.push_back({{"gid", gid_text(member.port_gid)},
                       {"join", json::value_from(names_of(member.join_state))}});
  }
  return out;
}

template <class Use>
void for_each_group(const std::vector<GroupListing>& listings, Use use) {
  for (const auto& listing : listings) {
    for (const GroupLine& line : listing.groups) use(listing.interface, line);
  }
}

Table group_table(const std::vector<GroupListing>& listings) {
  Table table({{"GROUP"},
               {"DEV"},
               {"MEMBERSHIP"},
               {"MEMBERS", Align::right, 3},
               {"MLID", Align::left, 2},
               {"WAIT", Align::right, 1},
               {"MGID"}});
  for_each_group(listings, [&](const std::string& interface, const GroupLine& line) {
    const ibarp_group& group = line.group;
    const bool is_known = group.address.family != 0;
    table.add({is_known ? ink_address(group.address.family, text_of(group.address)) : "-",
               ink(Ink::interface, interface), ink_state(group.membership),
               line.members ? std::to_string(line.members->size()) : "-", lid_text(group.mlid),
               std::to_string(group.waiting), gid_text(group.mgid)});
  });
  return table;
}

Table member_table(const std::vector<GroupListing>& listings) {
  Table table({{"GROUP"}, {"DEV"}, {"PORT"}, {"JOINED"}, {"MGID", Align::left, 1}});
  for_each_group(listings, [&](const std::string& interface, const GroupLine& line) {
    if (!line.members) return;
    const std::string mgid = gid_text(line.group.mgid);
    const std::string group = line.group.address.family != 0 ? text_of(line.group.address) : mgid;
    for (const ibarp_member& member : *line.members) {
      std::string joined;
      for (const auto& name : names_of(member.join_state)) {
        joined += (joined.empty() ? "" : "+") + name;
      }
      table.add({group, interface, gid_text(member.port_gid), joined, mgid});
    }
  });
  return table;
}

}  // namespace

json::object as_json(const std::string& interface, const ibarp_group& group) {
  json::object out{{"interface", interface},
                   {"mgid", gid_text(group.mgid)},
                   {"membership", static_cast<const char*>(group.membership)},
                   {"waiting", group.waiting}};
  if (group.mlid != 0) out["mlid"] = hexadecimal(group.mlid, 4);
  if (group.address.family != 0) out["address"] = text_of(group.address);
  return out;
}

const ibarp_group* find_group(const std::vector<ibarp_group>& groups,
                              const ibarp_address& address) {
  const auto found = std::ranges::find_if(groups, [&](const ibarp_group& group) {
    return group.address.family == address.family &&
           std::ranges::equal(group.address.bytes, address.bytes);
  });
  return found == groups.end() ? nullptr : &*found;
}

/// Stops asking for members after the first failure, since each request may take seconds.
GroupListing list_groups(const Client& client, const Command& command) {
  GroupListing out{client.interface(), {}, {}};
  bool ask = true;
  for (const ibarp_group& group : client.groups()) {
    auto& line = out.groups.emplace_back(GroupLine{group, std::nullopt});
    if (!ask) continue;
    std::vector<ibarp_member> members;
    const int result = client.members(group, members);
    ask = result == 0;
    if (ask) line.members = std::move(members);
    // Users other than root get no message unless they have asked for the members.
    if (!ask && (result != -EPERM || command.members)) {
      out.members_unknown = ibarp_error(client.get());
    }
  }
  return out;
}

std::string groups(const std::vector<GroupListing>& listings, const Command& command) {
  if (!command.json) {
    const Table table = command.members ? member_table(listings) : group_table(listings);
    return command.wide ? table.wide_text(command.width) : table.text(command.width);
  }
  json::array all;
  for_each_group(listings, [&](const std::string& interface, const GroupLine& line) {
    all.push_back(line_as_json(interface, line));
  });
  return json::serialize(all) + "\n";
}

}  // namespace ipoib::ibarp
