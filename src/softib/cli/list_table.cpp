#include "softib/cli/list_table.hpp"

#include <array>
#include <boost/json/object.hpp>
#include <utility>

namespace softib::cli {

namespace json = boost::json;
using ipoib::table::Align;
using ipoib::table::Table;

std::string duration_text(std::uint64_t seconds) {
  constexpr std::array<std::pair<std::uint64_t, char>, 3> kUnits{
      {{86400, 'd'}, {3600, 'h'}, {60, 'm'}}};
  for (const auto& [size, letter] : kUnits) {
    if (seconds >= size) return std::to_string(seconds / size) + letter;
  }
  return std::to_string(seconds) + 's';
}

std::string list_table(const std::vector<KnownSubnet>& subnets, std::size_t width) {
  Table table({{"SUBNET"},
               {"PID", Align::right},
               {"UPTIME", Align::right, 2},
               {"HCAS", Align::right, 1},
               {"PROGRAMS", Align::right, 4},
               {"OWNER", Align::left, 3},
               {"FOLDER"}});
  for (const auto& subnet : subnets) {
    table.add({subnet.folder.name(), subnet.pid == 0 ? "-" : std::to_string(subnet.pid),
               subnet.uptime ? duration_text(*subnet.uptime) : "-", std::to_string(subnet.hcas),
               std::to_string(subnet.programs.size()), subnet.owner, subnet.folder.path()});
  }
  return table.text(width);
}

json::array list_json(const std::vector<KnownSubnet>& subnets) {
  json::array all;
  for (const auto& subnet : subnets) {
    json::array programs;
    for (const int pid : subnet.programs) programs.emplace_back(pid);
    all.push_back({{"subnet", subnet.folder.name()},
                   {"folder", subnet.folder.path()},
                   {"owner", subnet.owner},
                   {"running", subnet.pid != 0},
                   {"pid", subnet.pid != 0 ? json::value(subnet.pid) : json::value()},
                   {"uptime", subnet.uptime ? json::value(*subnet.uptime) : json::value()},
                   {"hcas", subnet.hcas},
                   {"programs", std::move(programs)}});
  }
  return all;
}

}  // namespace softib::cli
