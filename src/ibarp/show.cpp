// Prints entries as a brief table; with all columns as a table or, if that is too wide, as blocks;
// like arp -a; as JSON.
#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>

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

bool has_hardware(const ibarp_entry& entry) { return (entry.flags & IBARP_HAS_HARDWARE) != 0; }
bool has_path(const ibarp_entry& entry) { return (entry.flags & IBARP_HAS_PATH) != 0; }
bool has_mac(const ibarp_entry& entry) { return (entry.flags & IBARP_HAS_MAC) != 0; }
bool is_pinned(const ibarp_entry& entry) { return (entry.flags & IBARP_IS_PINNED) != 0; }

std::string address_of(const ibarp_entry& entry) {
  return ink_address(entry.address.family, text_of(entry.address));
}

/// A pin determines the GID, even without an entry.
std::string gid_of(const ibarp_entry& entry) {
  const std::string gid = ink(Ink::link_layer, gid_text(entry.hardware.gid));
  if (is_pinned(entry)) return gid + " pinned";
  return has_hardware(entry) ? gid : "-";
}

/// The columns of the brief table. With the addresses of most networks, all of them fit 80
/// characters.
Table brief_table(const std::vector<Listing>& listings) {
  Table table({{"ADDRESS"},
               {"DEV"},
               {"STATE"},
               {"IDLE", Align::right, 3},
               {"DLID", Align::left, 4},
               {"QPN", Align::left, 2},
               {"GID", Align::left, 1}});
  for (const auto& [interface, entries] : listings) {
    for (const ibarp_entry& entry : entries) {
      const bool known = has_hardware(entry);
      table.add({address_of(entry), ink(Ink::interface, interface), ink_state(entry.state),
                 age(entry.idle_ms), has_path(entry) ? lid_text(entry.dlid) : "-",
                 known ? hexadecimal(entry.hardware.qpn, 6) : "-", gid_of(entry)});
    }
  }
  return table;
}

Table wide_table(const std::vector<Listing>& listings) {
  std::vector<table::Column> columns{{"ADDRESS"},
                                     {"DEV"},
                                     {"STATE"},
                                     {"IDLE", Align::right},
                                     {"DLID"},
                                     {"QPN"},
                                     {"GID"},
                                     {"FLAGS"},
                                     {"SL", Align::right},
                                     {"MTU", Align::right},
                                     {"RATE", Align::right},
                                     {"USES", Align::right},
                                     {"REFS", Align::right},
                                     {"WAIT", Align::right},
                                     {"LLADDR"}};
  const bool has_macs = std::ranges::any_of(listings, [](const Listing& listing) {
    return std::ranges::any_of(listing.entries, has_mac);
  });
  if (has_macs) columns.push_back({"MAC"});
  Table table(std::move(columns));
  for (const auto& [interface, entries] : listings) {
    for (const ibarp_entry& entry : entries) {
      const ibarp_hardware& hardware = entry.hardware;
      const bool known = has_hardware(entry);
      const bool path = has_path(entry);
      std::vector<std::string> row{address_of(entry),
                                   ink(Ink::interface, interface),
                                   ink_state(entry.state),
                                   age(entry.idle_ms),
                                   path ? lid_text(entry.dlid) : "-",
                                   known ? hexadecimal(hardware.qpn, 6) : "-",
                                   gid_of(entry),
                                   known ? hexadecimal(hardware.flags, 2) : "-",
                                   path ? std::to_string(entry.sl) : "-",
                                   path ? std::to_string(entry.path_mtu) : "-",
                                   path ? rate(entry.rate_mbps) : "-",
                                   std::to_string(entry.uses),
                                   std::to_string(entry.references),
                                   std::to_string(entry.waiting),
                                   known ? ink(Ink::link_layer, text_of(hardware)) : "-"};
      if (has_macs) row.push_back(has_mac(entry) ? ink(Ink::link_layer, mac_text(entry.mac)) : "-");
      table.add(std::move(row));
    }
  }
  return table;
}

std::string as_block(const std::string& interface, const ibarp_entry& entry) {
  const std::string indent = "    ";
  std::string out = address_of(entry) + "  " + ink(Ink::interface, interface) + "  " +
                    ink_state(entry.state) + "\n";
  if (has_hardware(entry)) {
    out += indent + "lladdr " + ink(Ink::link_layer, text_of(entry.hardware)) + "\n";
    out += indent + "flags " + hexadecimal(entry.hardware.flags, 2) + "  qpn " +
           hexadecimal(entry.hardware.qpn, 6) + "  gid " + gid_of(entry) + "\n";
  } else if (is_pinned(entry)) {
    out += indent + "gid " + gid_of(entry) + "\n";
  }
  if (has_mac(entry)) out += indent + "mac " + ink(Ink::link_layer, mac_text(entry.mac)) + "\n";
  if (has_path(entry)) {
    out += indent + "dlid " + lid_text(entry.dlid) + "  sl " + std::to_string(entry.sl) + "  mtu " +
           std::to_string(entry.path_mtu) + "  rate " + rate(entry.rate_mbps) + "\n";
  }
  out += indent + "idle " + age(entry.idle_ms) + "  uses " + std::to_string(entry.uses) +
         "  references " + std::to_string(entry.references) + "  waiting " +
         std::to_string(entry.waiting) + "\n";
  return out;
}

std::string as_arp(const std::string& interface, const ibarp_entry& entry, bool names) {
  std::string out =
      (names ? name_of(entry.address) : "?") + " (" + text_of(entry.address) + ") at ";
  out += has_hardware(entry) ? text_of(entry.hardware) + " [infiniband]" : "<incomplete>";
  if (std::string(entry.state) == "permanent") out += " PERM";
  return out + " on " + interface + "\n";
}

}  // namespace

json::object as_json(const std::string& interface, const ibarp_entry& entry) {
  json::object out{{"address", text_of(entry.address)},
                   {"interface", interface},
                   {"state", static_cast<const char*>(entry.state)}};
  if (has_hardware(entry)) {
    out["lladdr"] = text_of(entry.hardware);
    out["flags"] = entry.hardware.flags;
    out["qpn"] = entry.hardware.qpn;
    out["gid"] = gid_text(entry.hardware.gid);
  }
  if (is_pinned(entry)) out["pinned_gid"] = gid_text(entry.hardware.gid);
  if (has_mac(entry)) out["mac"] = mac_text(entry.mac);
  if (has_path(entry)) {
    out["path"] = {{"dlid", entry.dlid},
                   {"sl", entry.sl},
                   {"mtu", entry.path_mtu},
                   {"rate_mbps", entry.rate_mbps}};
  }
  out["idle_ms"] = entry.idle_ms;
  out["uses"] = entry.uses;
  out["references"] = entry.references;
  out["waiting"] = entry.waiting;
  return out;
}

Listing look_up(const Client& client, const Command& command) {
  const ibarp_filter& filter = command.filter;
  const bool has_conditions = filter.family != 0 || filter.states[0] != '\0';
  if (!command.address || has_conditions) return {client.interface(), client.entries(filter)};
  ibarp_entry entry{};
  entry.size = sizeof(entry);
  const int result = ibarp_get(client.get(), &*command.address, &entry);
  if (result == -ENOENT) return {client.interface(), {}};
  client.check(result);
  return {client.interface(), {entry}};
}

std::string show(const std::vector<Listing>& listings, const Command& command) {
  json::array all;
  std::string lines;
  bool empty = true;
  for (const auto& [interface, entries] : listings) {
    for (const ibarp_entry& entry : entries) {
      empty = false;
      if (command.json) all.push_back(as_json(interface, entry));
      if (command.bsd) lines += as_arp(interface, entry, command.names);
    }
  }
  if (command.json) return json::serialize(all) + "\n";
  if (command.bsd) {
    return empty && !command.host.empty() ? command.host + " -- no entry\n" : lines;
  }
  if (empty) return "";
  if (!command.wide) return brief_table(listings).text(command.width);
  const Table table = wide_table(listings);
  if (table.width() <= command.width) return table.text();
  for (const auto& [interface, entries] : listings) {
    for (const ibarp_entry& entry : entries) lines += as_block(interface, entry);
  }
  return table::fold(lines, command.width);
}

}  // namespace ipoib::ibarp
