#include "softib/topology/shapes.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include "ipoib/number.hpp"
#include "softib/topology/check.hpp"

namespace softib::topology {

namespace {

using ipoib::Error;
using ipoib::Result;
using Numbers = std::vector<unsigned>;

constexpr unsigned kMaxNumber = 1024;  ///< of a specification

/// Adds switches, hosts and cables. Owns the topology until it is finished.
class Builder {
 public:
  std::uint16_t add_switch(std::string name, unsigned ports) {
    topology_.switches.push_back({std::move(name), {}, Guid(), static_cast<std::uint8_t>(ports)});
    return static_cast<std::uint16_t>(topology_.switches.size() - 1);
  }

  /// The next hosts, each at a port of the switch, from `first_port` on.
  void add_hosts(std::uint16_t at, unsigned first_port, unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      const auto host = static_cast<std::uint16_t>(topology_.hcas.size());
      topology_.hcas.push_back({"host-" + std::to_string(host + 1), {}, Guid(), 1, {}});
      topology_.cables.push_back({{false, host, 1}, end(at, first_port + i)});
    }
  }

  void connect(std::uint16_t a, unsigned port_a, std::uint16_t b, unsigned port_b) {
    topology_.cables.push_back({end(a, port_a), end(b, port_b)});
  }

  Topology finish() { return canonical(std::move(topology_)); }

 private:
  static End end(std::uint16_t index, unsigned port) {
    return {true, index, static_cast<std::uint8_t>(port)};
  }
  Topology topology_;
};

std::string numbered(const char* kind, std::size_t index) {
  return std::string(kind) + "-" + std::to_string(index + 1);
}

Topology two_level_tree(unsigned ports) {
  Builder out;
  const unsigned half = ports / 2;
  for (unsigned leaf = 0; leaf < ports; ++leaf) {
    out.add_hosts(out.add_switch(numbered("leaf", leaf), ports), 1, half);
  }
  for (unsigned spine = 0; spine < half; ++spine) {
    const auto index = out.add_switch(numbered("spine", spine), ports);
    for (unsigned leaf = 0; leaf < ports; ++leaf) {
      out.connect(static_cast<std::uint16_t>(leaf), half + 1 + spine, index, leaf + 1);
    }
  }
  return out.finish();
}

Topology three_level_tree(unsigned ports) {
  Builder out;
  const unsigned half = ports / 2;
  const unsigned leaves = ports * half;
  for (unsigned leaf = 0; leaf < leaves; ++leaf) {
    out.add_hosts(out.add_switch(numbered("leaf", leaf), ports), 1, half);
  }
  for (unsigned spine = 0; spine < leaves; ++spine) {
    const auto index = out.add_switch(numbered("spine", spine), ports);
    const unsigned pod = spine / half;
    const unsigned place = spine % half;
    for (unsigned leaf = 0; leaf < half; ++leaf) {
      out.connect(static_cast<std::uint16_t>(pod * half + leaf), half + 1 + place, index, leaf + 1);
    }
  }
  for (unsigned core = 0; core < half * half; ++core) {
    const auto index = out.add_switch(numbered("core", core), ports);
    for (unsigned pod = 0; pod < ports; ++pod) {
      // The spine at the same place of each pod.
      const auto spine = static_cast<std::uint16_t>(leaves + pod * half + core / half);
      out.connect(spine, half + 1 + core % half, index, pod + 1);
    }
  }
  return out.finish();
}

std::optional<Topology> fat_tree(const Numbers& given, const Numbers& /*rest*/) {
  const unsigned ports = given[0];
  const unsigned levels = given.size() > 1 ? given[1] : 3;
  if (ports < 2 || ports % 2 != 0) return std::nullopt;
  if (levels == 2 && ports * ports / 2 <= kMaxHcas) return two_level_tree(ports);
  if (levels == 3 && ports * ports / 2 * ports / 2 <= kMaxHcas) return three_level_tree(ports);
  return std::nullopt;
}

std::optional<Topology> torus(const Numbers& sizes, const Numbers& rest) {
  if (sizes.size() < 2 || sizes.size() > 3 || rest.size() > 1) return std::nullopt;
  const unsigned hosts = rest.empty() ? 1 : rest[0];
  std::size_t switches = 1;
  for (const unsigned size : sizes) {
    if (size < 2) return std::nullopt;
    switches *= size;
  }
  const unsigned ports = static_cast<unsigned>(2 * sizes.size()) + hosts;
  if (switches > kMaxSwitches || switches * hosts > kMaxHcas || ports > kMaxSwitchPorts) {
    return std::nullopt;
  }
  Builder out;
  for (std::size_t i = 0; i < switches; ++i) {
    std::string name = "switch";
    std::size_t stride = switches;
    for (const unsigned size : sizes) {
      stride /= size;
      name += '-' + std::to_string(i / stride % size + 1);
    }
    out.add_hosts(out.add_switch(std::move(name), ports), ports - hosts + 1, hosts);
  }
  for (std::size_t i = 0; i < switches; ++i) {
    std::size_t stride = switches;
    for (unsigned dimension = 0; dimension < sizes.size(); ++dimension) {
      const unsigned size = sizes[dimension];
      stride /= size;
      const std::size_t at = i / stride % size;
      const std::size_t next = i + ((at + 1) % size) * stride - at * stride;
      if (size == 2 && at == 1) continue;
      out.connect(static_cast<std::uint16_t>(i), 2 * dimension + 1,
                  static_cast<std::uint16_t>(next), 2 * dimension + 2);
    }
  }
  return out.finish();
}

std::optional<Topology> dragonfly(const Numbers& given, const Numbers& /*rest*/) {
  const unsigned switches = given[0];
  const unsigned hosts = given[1];
  const unsigned global = given[2];
  const unsigned most_groups = switches * global + 1;
  const unsigned groups = given.size() > 3 ? given[3] : most_groups;
  const unsigned ports = hosts + switches - 1 + global;
  if (switches < 1 || groups < 1 || groups > most_groups || ports < 1 || ports > kMaxSwitchPorts ||
      std::size_t{groups} * switches > kMaxSwitches ||
      std::size_t{groups} * switches * hosts > kMaxHcas) {
    return std::nullopt;
  }
  Builder out;
  for (unsigned i = 0; i < groups * switches; ++i) {
    const auto name = numbered("group", i / switches) + numbered("-switch", i % switches);
    out.add_hosts(out.add_switch(name, ports), 1, hosts);
  }
  const auto index = [&](unsigned group, unsigned number) {
    return static_cast<std::uint16_t>(group * switches + number);
  };
  for (unsigned group = 0; group < groups; ++group) {
    for (unsigned a = 0; a < switches; ++a) {
      for (unsigned b = a + 1; b < switches; ++b) {
        out.connect(index(group, a), hosts + b, index(group, b), hosts + a + 1);
      }
    }
    // The cables of a group go to the others in order, `global` at each switch.
    for (unsigned other = group + 1; other < groups; ++other) {
      const unsigned first_port = hosts + switches;
      const unsigned here = other - 1;
      out.connect(index(group, here / global), first_port + here % global,
                  index(other, group / global), first_port + group % global);
    }
  }
  return out.finish();
}

std::optional<Topology> line(const Numbers& given, const Numbers& /*rest*/) {
  const unsigned switches = given[0];
  const unsigned hosts = given.size() > 1 ? given[1] : 1;
  const unsigned ports = hosts + 2;
  if (switches < 1 || switches > kMaxSwitches || ports > kMaxSwitchPorts ||
      std::size_t{switches} * hosts > kMaxHcas) {
    return std::nullopt;
  }
  Builder out;
  for (unsigned i = 0; i < switches; ++i) {
    const auto index = out.add_switch(numbered("switch", i), ports);
    out.add_hosts(index, 3, hosts);
    if (i > 0) out.connect(static_cast<std::uint16_t>(i - 1), 2, index, 1);
  }
  return out.finish();
}

std::optional<Topology> star(const Numbers& given, const Numbers& /*rest*/) {
  if (given[0] < 1 || given[0] > kMaxSwitchPorts) return std::nullopt;
  Builder out;
  out.add_hosts(out.add_switch("switch-1", given[0]), 1, given[0]);
  return out.finish();
}

struct Shape {
  std::string_view name;
  std::size_t least_numbers;
  std::size_t most_numbers;
  bool has_sizes;  ///< AxBxC before the other numbers
  std::string_view grammar;
  std::optional<Topology> (*make)(const Numbers& numbers, const Numbers& rest);
};

constexpr std::array kShapes{
    Shape{"fat-tree", 1, 2, false,
          "fat-tree:K[,LEVELS] with an even number of ports K, and 2 levels (K at most 90) or 3 (K "
          "at most 24)",
          fat_tree},
    Shape{"torus", 2, 3, true,
          "torus:AxB[xC][,HOSTS] with sizes of at least 2, at most 1024 switches of 254 ports, and "
          "at most 4095 hosts",
          torus},
    Shape{"dragonfly", 3, 4, false,
          "dragonfly:A,P,H[,GROUPS] with A switches in a group, P hosts and H cables to other "
          "groups at each switch, at most A*H + 1 groups, at most 1024 switches of 254 ports, and "
          "at most 4095 hosts",
          dragonfly},
    Shape{"line", 1, 2, false,
          "line:N[,HOSTS] with at most 1024 switches of 254 ports, and at most 4095 hosts", line},
    Shape{"star", 1, 1, false, "star:N with 1 to 254 hosts", star},
};
static_assert(kMaxSwitches == 1024 && kMaxHcas == 4095 && kMaxSwitchPorts == 254,
              "the texts say so");

const Shape* find(std::string_view specification) {
  const auto colon = specification.find(':');
  if (colon == std::string_view::npos) return nullptr;
  const auto found = std::ranges::find(kShapes, specification.substr(0, colon), &Shape::name);
  return found == kShapes.end() ? nullptr : &*found;
}

/// Numbers of at most kMaxNumber; nullopt if the text is anything else.
std::optional<Numbers> parse_numbers(std::string_view text, char separator) {
  Numbers out;
  for (;;) {
    const auto end = std::min(text.find(separator), text.size());
    const auto number = ipoib::parse_number<unsigned>(text.substr(0, end));
    if (!number || *number > kMaxNumber) return std::nullopt;
    out.push_back(*number);
    if (end == text.size()) return out;
    text.remove_prefix(end + 1);
  }
}

std::optional<Topology> make(const Shape& shape, std::string_view text) {
  Numbers rest;
  std::optional<Numbers> numbers;
  if (shape.has_sizes) {
    const auto comma = text.find(',');
    numbers = parse_numbers(text.substr(0, comma), 'x');
    if (comma != std::string_view::npos) {
      const auto behind = parse_numbers(text.substr(comma + 1), ',');
      if (!behind) return std::nullopt;
      rest = *behind;
    }
  } else {
    numbers = parse_numbers(text, ',');
  }
  if (!numbers || numbers->size() < shape.least_numbers || numbers->size() > shape.most_numbers) {
    return std::nullopt;
  }
  return shape.make(*numbers, rest);
}

}  // namespace

bool is_shape(std::string_view specification) { return find(specification) != nullptr; }

ipoib::Result<Topology> make_shape(std::string_view specification) {
  const Shape* const shape = find(specification);
  if (shape == nullptr) {
    std::string all;
    for (const auto& each : kShapes) {
      all += (all.empty() ? "" : ", ") + std::string(each.name) + ":...";
    }
    return Error{EINVAL,
                 "'" + std::string(specification) + "' is no shape, nor a file; shapes are " + all};
  }
  auto topology = make(*shape, specification.substr(shape->name.size() + 1));
  if (topology) return std::move(*topology);
  return Error{EINVAL, "'" + std::string(specification) + "' is wrong; expected " +
                           std::string(shape->grammar)};
}

}  // namespace softib::topology
