// Prints stations as a table or JSON.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "color.hpp"
#include "json.hpp"
#include "run.hpp"
#include "table/table.hpp"
#include "text.hpp"

namespace ipoib::ibarp {
namespace {

namespace json = boost::json;
using table::Align;
using table::Table;

}  // namespace

json::object as_json(const std::string& interface, const ibarp_station& station) {
  return {{"interface", interface},           {"address", text_of(station.address)},
          {"mac", mac_text(station.mac)},     {"state", static_cast<const char*>(station.state)},
          {"served", station.is_served != 0}, {"idle_ms", station.idle_ms}};
}

std::string stations(const std::vector<StationListing>& listings, const Command& command) {
  json::array all;
  Table table({{"ADDRESS"}, {"DEV"}, {"STATE"}, {"IDLE", Align::right}, {"SERVED"}, {"MAC"}});
  for (const auto& [interface, stations] : listings) {
    for (const ibarp_station& station : stations) {
      if (command.json) {
        all.push_back(as_json(interface, station));
        continue;
      }
      table.add({ink_address(station.address.family, text_of(station.address)),
                 ink(Ink::interface, interface), ink_state(station.state), age(station.idle_ms),
                 station.is_served != 0 ? "yes" : "no",
                 ink(Ink::link_layer, mac_text(station.mac))});
    }
  }
  if (command.json) return json::serialize(all) + "\n";
  return command.wide ? table.wide_text(command.width) : table.text(command.width);
}

}  // namespace ipoib::ibarp
