#include "softib/cli/view_data.hpp"

#include <array>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <cstdio>

#include "ipoib/number.hpp"
#include "softib/cli/real_subnet.hpp"
#include "softib/cli/topology_view.hpp"
#include "softib/control/client.hpp"
#include "softib/control/protocol.hpp"
#include "softib/subnetd/subnet_json.hpp"
#include "softib/topology/layout.hpp"
#include "softib/topology/net_loader.hpp"

namespace softib::cli {

namespace json = boost::json;
using ipoib::Error;
using ipoib::Result;

namespace {

json::object layout_json(const topology::Topology& topology) {
  const auto layout = topology::lay_out(topology);
  json::object switches;
  for (std::size_t i = 0; i < topology.switches.size(); ++i) {
    switches[topology.switches[i].name] = json::array{layout.switches[i].x, layout.switches[i].y};
  }
  json::object hcas;
  for (std::size_t i = 0; i < topology.hcas.size(); ++i) {
    hcas[topology.hcas[i].name] =
        json::array{layout.hcas[i].x, layout.hcas[i].y, layout.name_angles[i]};
  }
  return {{"width", layout.width},
          {"height", layout.height},
          {"switch_width", layout.switch_width},
          {"switches", std::move(switches)},
          {"hcas", std::move(hcas)}};
}

std::string text_of_mlid(Lid mlid) {
  std::array<char, 8> text{};
  (void)std::snprintf(text.data(), text.size(), "0x%04x", mlid.value());
  return text.data();
}

json::array ports_json(const PortSet& ports) {
  json::array out;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (ports[i]) out.emplace_back(i + 1);
  }
  return out;
}

/// The answer to a question of tables that a file does not have.
Error no_tables() {
  return Error{
      ENOENT,
      "the output of ibnetdiscover has no forwarding tables: see those of a switch with ibroute"};
}

}  // namespace

// --- A subnet of softib --------------------------------------------------------------------------

Result<fabric::Fabric> SubnetViewData::fabric() {
  auto fabric = fabric::Fabric::open(folder_.fabric(), fabric_ ? &*fabric_ : nullptr);
  if (fabric) fabric_ = *fabric;
  return fabric;
}

Result<std::string> SubnetViewData::subnet() {
  const auto now = Clock::now();
  if (!line_.empty() && now - asked_ < kMostDataAge) return line_;
  auto line = control::send_request(folder_, control::emit(control::Show{}));
  if (line) {
    if (const auto error = control::error_of(*line)) return *error;
    line_ = std::move(*line);
    asked_ = now;
    return line_;
  }
  line_.clear();
  const auto fabric = this->fabric();
  if (!fabric) return line.error();
  return json::serialize(subnetd::subnet_json(*fabric, folder_));
}

Result<json::object> SubnetViewData::layout() {
  if (const auto text = subnet(); !text) return text.error();
  if (!line_.empty()) {
    const auto subnet = control::parse_subnet(line_);
    if (!subnet) return subnet.error();
    layout_ = layout_json(topology_of(*subnet).file.topology);
  }
  if (layout_.empty()) {
    return Error{EAGAIN,
                 "the subnet process does not run, and did not when this page began: start it "
                 "(softib subnet)"};
  }
  return layout_;
}

Result<json::object> SubnetViewData::switch_tables(std::string_view name) {
  const auto fabric = this->fabric();
  if (!fabric) return fabric.error();
  for (SwitchIndex at = 0; at < fabric->size(); ++at) {
    const auto node = fabric->switch_node(at);
    if (!node || node->name != name) continue;
    json::array lft;
    for (std::size_t i = 1; i < subnet::kUnicastLids; ++i) {
      const Lid lid(static_cast<std::uint16_t>(i));
      if (const auto port = fabric->exit(at, lid)) lft.push_back(json::array{i, *port});
    }
    json::array mft;
    for (std::size_t i = 0; i < kMaxGroups; ++i) {
      const auto mlid = subnet::group_lid(i);
      const auto exits = fabric->exits(at, mlid);
      if (exits.any()) mft.push_back({{"mlid", text_of_mlid(mlid)}, {"ports", ports_json(exits)}});
    }
    return json::object{{"name", node->name}, {"lft", std::move(lft)}, {"mft", std::move(mft)}};
  }
  return Error{ENOENT, "no such switch"};
}

Result<json::object> SubnetViewData::group_exits(std::string_view mlid) {
  const bool has_prefix = mlid.starts_with("0x");
  const auto number =
      has_prefix ? ipoib::parse_number<std::uint16_t>(mlid.substr(2), 16) : std::nullopt;
  const Lid lid(number.value_or(0));
  if (!subnet::is_group(lid)) return Error{ENOENT, "no such group"};
  const auto fabric = this->fabric();
  if (!fabric) return fabric.error();
  json::array exits;
  for (SwitchIndex at = 0; at < fabric->size(); ++at) {
    const auto ports = fabric->exits(at, lid);
    const auto node = fabric->switch_node(at);
    if (ports.any() && node) {
      exits.push_back({{"switch", node->name}, {"ports", ports_json(ports)}});
    }
  }
  return json::object{{"mlid", text_of_mlid(lid)}, {"exits", std::move(exits)}};
}

// --- Files of a real subnet ----------------------------------------------------------------------

Result<void> FileViewData::read() {
  std::error_code ignored;
  const auto time_of = [&](const std::string& path) {
    const bool is_file = !path.empty() && path != "-";
    return is_file ? std::filesystem::last_write_time(path, ignored)
                   : std::filesystem::file_time_type();
  };
  const Times times{time_of(ibnetdiscover_), time_of(perfquery_)};
  if (read_ == times) return {};
  const auto text = topology::read_source(ibnetdiscover_);
  if (!text) return text.error();
  std::string counters;
  if (!perfquery_.empty()) {
    const auto read = topology::read_source(perfquery_);
    if (!read) return read.error();
    counters = *read;
  }
  const auto real = real_subnet(*text, ibnetdiscover_, counters);
  if (!real) return real.error();
  subnet_ = json::serialize(real->subnet);
  layout_ = layout_json(real->topology);
  read_ = times;
  return {};
}

Result<std::string> FileViewData::subnet() {
  if (const auto done = read(); !done) return done.error();
  return subnet_;
}

Result<json::object> FileViewData::layout() {
  if (const auto done = read(); !done) return done.error();
  return layout_;
}

Result<json::object> FileViewData::switch_tables(std::string_view /*name*/) { return no_tables(); }

Result<json::object> FileViewData::group_exits(std::string_view /*mlid*/) { return no_tables(); }

}  // namespace softib::cli
