// Multicast groups: as a table, as JSON.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "run.hpp"
#include "text.hpp"

namespace ipoib::cli {

namespace json = boost::json;

namespace {

json::object as_json(const std::string& interface, const ibarp_group& group) {
  json::object out{{"interface", interface},
                   {"mgid", gid_text(group.mgid)},
                   {"mlid", group.mlid},
                   {"membership", static_cast<const char*>(group.membership)},
                   {"waiting", group.waiting}};
  if (group.address.family != 0) out["address"] = text_of(group.address);
  return out;
}

}  // namespace

std::string groups(const std::vector<GroupListing>& listings, const Command& command) {
  using Align = Table::Align;
  json::array all;
  Table table({{"GROUP"}, {"DEV"}, {"MEMBERSHIP"}, {"MLID"}, {"WAIT", Align::right}, {"MGID"}});
  for (const auto& [interface, groups] : listings) {
    for (const ibarp_group& group : groups) {
      all.push_back(as_json(interface, group));
      table.add({group.address.family != 0 ? text_of(group.address) : "-", interface,
                 group.membership, group.mlid != 0 ? hexadecimal(group.mlid, 4) : "-",
                 std::to_string(group.waiting), gid_text(group.mgid)});
    }
  }
  return command.json ? json::serialize(all) + "\n" : table.text();
}

}  // namespace ipoib::cli
