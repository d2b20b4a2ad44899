// Net files of ibsim and ibnetdiscover, of which some parts can be included. What is accepted is
// valid, and reads back equal after it was written; an error and a remark name the file, and a line
// that exists. All that can be made of a topology can be made of it.
#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <vector>

#include "cost.hpp"
#include "require.hpp"
#include "softib/topology/check.hpp"
#include "softib/topology/guids.hpp"
#include "softib/topology/net_file.hpp"
#include "softib/topology/net_writer.hpp"
#include "softib/topology/picture.hpp"
#include "softib/topology/summary.hpp"

using namespace softib::topology;
using ipoib::require;

namespace {

/// Each byte, of the text or of a file that is included again, may cost this much.
constexpr std::uint64_t kMaxCostOfByte = 2'000;

/// The number at the beginning of the text, which is skipped with the colon behind it.
std::size_t take_number(std::string_view& text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  require(error == std::errc());
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  require(text.starts_with(":"));
  text.remove_prefix(1);
  return number;
}

void check_message(std::string_view message, const std::vector<std::string_view>& parts) {
  require(std::ranges::all_of(message, [](char c) { return c >= ' ' && c <= '~'; }));
  const std::size_t part = take_number(message);
  require(part < parts.size());
  const std::size_t line = take_number(message);
  require(line >= 1 && line <= 1 + static_cast<std::size_t>(std::ranges::count(parts[part], '\n')));
  const std::size_t column = take_number(message);
  require(column >= 1 && column <= kMaxNetLine + 1);
  require(message.starts_with(" ") && message.size() > 4);
}

/// Port GUIDs of ports without a cable are not in any format.
Topology writable(Topology topology) {
  std::vector<std::array<bool, softib::kMaxHcaPorts>> used(topology.hcas.size());
  for (const auto& cable : topology.cables) {
    for (const auto& end : {cable.a, cable.b}) {
      if (!end.is_switch) used[end.index][end.port - 1U] = true;
    }
  }
  for (std::size_t i = 0; i < topology.hcas.size(); ++i) {
    for (std::size_t port = 0; port < softib::kMaxHcaPorts; ++port) {
      if (!used[i][port]) topology.hcas[i].port_guids[port] = softib::Guid();
    }
  }
  return topology;
}

void check_topology(const Topology& topology) {
  require(check(topology).has_value());
  require(canonical(topology) == topology);
  const Topology wanted = writable(topology);
  if (!check(wanted)) return;  // a port has the GUID that another one would follow with
  const auto again = parse_net(write_net(wanted), "0");
  require(again.has_value() && again->topology == wanted && again->remarks.empty());
  const Topology all = with_guids(wanted, 0);
  require(check(all).has_value());
  const auto discovered = parse_net(write_ibnetdiscover(all, {}), "0");
  require(discovered.has_value() && discovered->topology.cables.size() == all.cables.size());
  const auto summary = summarize(topology);
  require(summary.cables == topology.cables.size());
  require(!write_svg(topology, "t").empty() && !write_dot(topology, "t").empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Bytes 0 separate files, whose names are their numbers.
  std::vector<std::string_view> parts;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  for (;;) {
    const auto end = std::min(rest.find('\0'), rest.size());
    parts.push_back(rest.substr(0, end));
    if (end == rest.size()) break;
    rest.remove_prefix(end + 1);
  }
  std::size_t bytes = parts[0].size();
  const auto include = [&](const std::string& /*includer*/, const std::string& path) {
    const std::size_t part = path[0] >= '0' && path[0] <= '9' ? path[0] - '0' : parts.size();
    if (part >= parts.size()) return ipoib::Result<IncludedFile>(ipoib::Error{2, "no such part"});
    bytes += parts[part].size();
    return ipoib::Result<IncludedFile>(
        IncludedFile{std::to_string(part), std::string(parts[part])});
  };
  const auto before = ipoib::work_done();
  const auto file = parse_net(parts[0], "0", include);
  require(ipoib::work_done() - before <= kMaxCostOfByte * (bytes + 100));
  if (!file) {
    check_message(file.error().message, parts);
    return 0;
  }
  require(file->remarks.size() <= kMaxRemarks);
  for (const auto& remark : file->remarks) check_message(remark, parts);
  check_topology(file->topology);
  return 0;
}
