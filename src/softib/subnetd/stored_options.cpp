#include "softib/subnetd/stored_options.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_to.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <set>
#include <span>

#include "ipoib/write_all.hpp"
#include "softib/control/protocol.hpp"
#include "softib/core/name.hpp"
#include "softib/fabric/shared_file.hpp"
#include "softib/topology/check.hpp"
#include "wire/sa_values.hpp"

namespace softib::subnetd {

namespace json = boost::json;
using ipoib::Error;
using ipoib::Result;
using subnet::Management;
using subnet::Partition;
using subnet::SubnetConfig;

namespace {

constexpr int kVersion = 5;

json::object stored_form(const Partition& partition) {
  json::array members;
  for (const auto& member : partition.members) {
    members.push_back({{"hca", member.hca}, {"membership", control::name(member.membership)}});
  }
  return {{"pkey", subnet::pkey_text(partition.pkey)},
          {"others", control::name(partition.others)},
          {"mtu", partition.mtu == 0 ? 0 : ipoib::wire::mtu_bytes(partition.mtu)},
          {"rate", partition.rate},
          {"broadcast_group", partition.broadcast_group},
          {"members", std::move(members)}};
}

json::object stored_form(const topology::End& end) {
  return {{"switch", end.is_switch}, {"index", end.index}, {"port", end.port}};
}

json::object stored_form(const topology::Topology& topology) {
  json::array switches;
  for (const auto& each : topology.switches) {
    switches.push_back({{"name", each.name},
                        {"description", each.description},
                        {"guid", each.guid.value()},
                        {"ports", each.ports}});
  }
  json::array hcas;
  for (const auto& each : topology.hcas) {
    json::array guids;
    for (const auto& guid : each.port_guids) guids.emplace_back(guid.value());
    hcas.push_back({{"name", each.name},
                    {"description", each.description},
                    {"guid", each.guid.value()},
                    {"ports", each.ports},
                    {"port_guids", std::move(guids)}});
  }
  json::array cables;
  for (const auto& each : topology.cables) {
    cables.push_back({{"a", stored_form(each.a)},
                      {"b", stored_form(each.b)},
                      {"width", each.width},
                      {"speed", each.speed},
                      {"extended_speed", each.extended_speed}});
  }
  return {
      {"switches", std::move(switches)}, {"hcas", std::move(hcas)}, {"cables", std::move(cables)}};
}

json::object stored_form(const SubnetConfig& config) {
  json::array partitions;
  for (const auto& partition : config.partitions) partitions.push_back(stored_form(partition));
  json::array port_mtus;
  for (const auto& port : config.port_mtus) {
    port_mtus.push_back(
        {{"hca", port.hca}, {"port", port.port}, {"mtu", ipoib::wire::mtu_bytes(port.mtu)}});
  }
  json::value topology;
  if (config.topology) topology = stored_form(*config.topology);
  return {{"version", kVersion},
          {"topology", std::move(topology)},
          {"roce", config.roce},
          {"sm", config.management == Management::own ? "own" : "none"},
          {"mtu", ipoib::wire::mtu_bytes(config.mtu)},
          {"lmc", config.lmc},
          {"grh_required", config.grh_required},
          {"seed", config.seed},
          {"partitions", std::move(partitions)},
          {"port_mtus", std::move(port_mtus)}};
}

/// The functions below read members of known names and types and throw for others; the comparison
/// in parse_options() finds values that they have not understood.
subnet::Membership membership_of(const json::value& value) {
  return control::parse_membership(json::value_to<std::string>(value))
      .value_or(subnet::Membership::none);
}

Partition partition_of(const json::object& object) {
  Partition partition;
  const auto key = json::value_to<std::string>(object.at("pkey"));
  partition.pkey = PKey(static_cast<std::uint16_t>(std::strtoul(key.c_str(), nullptr, 16)));
  partition.others = membership_of(object.at("others"));
  partition.mtu = ipoib::wire::mtu_code(json::value_to<std::uint32_t>(object.at("mtu")));
  partition.rate = json::value_to<std::uint8_t>(object.at("rate"));
  partition.broadcast_group = object.at("broadcast_group").as_bool();
  for (const auto& value : object.at("members").as_array()) {
    const auto& member = value.as_object();
    partition.members.push_back(
        {json::value_to<std::string>(member.at("hca")), membership_of(member.at("membership"))});
  }
  return partition;
}

template <class Number>
Number number_of(const json::object& object, const char* key) {
  return json::value_to<Number>(object.at(key));
}

topology::End end_of(const json::value& value) {
  const auto& object = value.as_object();
  return {object.at("switch").as_bool(), number_of<std::uint16_t>(object, "index"),
          number_of<std::uint8_t>(object, "port")};
}

topology::Topology topology_of(const json::object& object) {
  topology::Topology topology;
  const auto text = [](const json::object& of, const char* key) {
    return json::value_to<std::string>(of.at(key));
  };
  for (const auto& value : object.at("switches").as_array()) {
    const auto& each = value.as_object();
    topology.switches.push_back({text(each, "name"), text(each, "description"),
                                 Guid(number_of<std::uint64_t>(each, "guid")),
                                 number_of<std::uint8_t>(each, "ports")});
  }
  for (const auto& value : object.at("hcas").as_array()) {
    const auto& each = value.as_object();
    topology::Hca hca{text(each, "name"),
                      text(each, "description"),
                      Guid(number_of<std::uint64_t>(each, "guid")),
                      number_of<std::uint8_t>(each, "ports"),
                      {}};
    for (std::size_t i = 0; i < hca.port_guids.size(); ++i) {
      hca.port_guids[i] =
          Guid(json::value_to<std::uint64_t>(each.at("port_guids").as_array().at(i)));
    }
    topology.hcas.push_back(std::move(hca));
  }
  for (const auto& value : object.at("cables").as_array()) {
    const auto& each = value.as_object();
    topology.cables.push_back(
        {end_of(each.at("a")), end_of(each.at("b")), number_of<std::uint8_t>(each, "width"),
         number_of<std::uint8_t>(each, "speed"), number_of<std::uint8_t>(each, "extended_speed")});
  }
  return topology;
}

SubnetConfig config_of(const json::object& object) {
  SubnetConfig config;
  if (const auto& topology = object.at("topology"); !topology.is_null()) {
    config.topology = topology_of(topology.as_object());
  }
  config.roce = json::value_to<std::string>(object.at("roce"));
  if (object.at("sm").as_string() == "none") config.management = Management::external_sm;
  config.mtu = ipoib::wire::mtu_code(json::value_to<std::uint32_t>(object.at("mtu")));
  config.lmc = json::value_to<std::uint8_t>(object.at("lmc"));
  config.grh_required = object.at("grh_required").as_bool();
  config.seed = json::value_to<std::uint64_t>(object.at("seed"));
  config.partitions.clear();
  for (const auto& value : object.at("partitions").as_array()) {
    config.partitions.push_back(partition_of(value.as_object()));
  }
  for (const auto& value : object.at("port_mtus").as_array()) {
    const auto bytes = json::value_to<std::uint32_t>(value.at("mtu"));
    config.port_mtus.push_back({json::value_to<std::string>(value.at("hca")),
                                ipoib::wire::mtu_code(bytes),
                                json::value_to<std::uint8_t>(value.at("port"))});
  }
  return config;
}

bool is_valid(const Partition& partition) {
  const auto& members = partition.members;
  std::set<std::string_view> names;
  for (const auto& member : members) names.insert(member.hca);
  return partition.pkey.is_valid() && partition.pkey.is_full() &&
         ipoib::wire::rate_mbps(partition.rate) != 0 &&
         members.size() <= subnet::kMaxNamedMembers && names.size() == members.size() &&
         std::all_of(members.begin(), members.end(),
                     [](const auto& member) { return is_valid_name(member.hca); });
}

bool are_valid(const std::vector<subnet::PortMtu>& ports) {
  std::set<std::pair<std::string_view, std::uint8_t>> names;
  for (const auto& port : ports) names.emplace(port.hca, port.port);
  return ports.size() <= kMaxNodes && names.size() == ports.size() &&
         std::ranges::all_of(ports, [](const auto& port) {
           return is_valid_name(port.hca) && port.port >= 1 && port.port <= kMaxHcaPorts &&
                  ipoib::wire::mtu_bytes(port.mtu) != 0;
         });
}

/// Whether a configuration is one that the options of softib subnet can give.
bool is_valid(const SubnetConfig& config) {
  const auto& partitions = config.partitions;
  std::set<std::uint16_t> keys;
  for (const auto& partition : partitions) keys.insert(partition.pkey.value());
  return (config.mtu == 4 || config.mtu == 5) && config.roce.size() <= kMaxNodeName &&
         config.lmc <= ipoib::kMaxLmc && !partitions.empty() &&
         partitions.size() <= subnet::kMaxPartitions && keys.size() == partitions.size() &&
         keys.contains(ipoib::kDefaultPKey.value()) && subnet::check_mtus(partitions, config.mtu) &&
         are_valid(config.port_mtus) && (!config.topology || topology::check(*config.topology)) &&
         std::all_of(partitions.begin(), partitions.end(),
                     [](const auto& partition) { return is_valid(partition); });
}

Error unusable(const fabric::SubnetFolder& folder, const std::string& why) {
  return Error{EINVAL, "the options of the earlier process in " + folder.options() +
                           " are not usable: " + why +
                           "; give the options of the subnet, or end it with `softib stop`"};
}

Result<std::string> read_file(int file) {
  std::string text(kMaxStoredOptions + 1, '\0');
  std::size_t size = 0;
  for (;;) {
    const ssize_t more = ::pread(file, text.data() + size, text.size() - size, off_t(size));
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) return Error{errno, std::string("cannot be read: ") + std::strerror(errno)};
    if (more == 0) break;
    size += static_cast<std::size_t>(more);
  }
  if (size > kMaxStoredOptions) return Error{EFBIG, "the file is too long"};
  text.resize(size);
  return text;
}

}  // namespace

std::string emit_options(const SubnetConfig& config) {
  return json::serialize(stored_form(config)) + '\n';
}

Result<SubnetConfig> parse_options(std::string_view text) {
  boost::system::error_code error;
  const json::value value = json::parse(text, error);
  if (error || !value.is_object()) return Error{EINVAL, "not a JSON object"};
  const auto* const version = value.get_object().if_contains("version");
  if (version == nullptr || *version != kVersion) {
    return Error{EINVAL, "they are of another version of softib"};
  }
  try {
    auto config = config_of(value.get_object());
    if (json::value(stored_form(config)) == value && is_valid(config)) return config;
  } catch (const std::exception&) {
    // The exception says that a member is missing, or has another type.
  }
  return Error{EINVAL, "a value is missing, or is none that softib writes"};
}

Result<std::optional<SubnetConfig>> read_options(const fabric::SubnetFolder& folder) {
  const auto file = fabric::open_shared(folder.options(), fabric::IfMissing::fail);
  if (!file && file.error().code == ENOENT) return std::optional<SubnetConfig>();
  if (!file) return unusable(folder, file.error().message);
  const auto text = read_file(file->get());
  if (!text) return unusable(folder, text.error().message);
  const auto config = parse_options(*text);
  if (!config) return unusable(folder, config.error().message);
  return std::optional(*config);
}

Result<void> write_options(const fabric::SubnetFolder& folder, const SubnetConfig& config) {
  const std::string draft = folder.options() + ".new";
  const auto failure = [&](int code) {
    return Error{code,
                 "cannot store the options in " + folder.options() + ": " + std::strerror(code)};
  };
  ::unlink(draft.c_str());  // left by a process that was killed
  const auto file = fabric::open_shared(draft, fabric::IfMissing::create);
  if (!file) return failure(file.error().code);
  const std::string text = emit_options(config);
  const auto written = ipoib::write_all(file->get(), std::as_bytes(std::span(text)));
  if (written.code != 0) return failure(written.code);
  if (::rename(draft.c_str(), folder.options().c_str()) != 0) return failure(errno);
  return {};
}

}  // namespace softib::subnetd
