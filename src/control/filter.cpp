#include "control/filter.hpp"

#include <algorithm>
#include <cerrno>

#include "ipoib/number.hpp"

namespace ipoib::control {

bool Filter::matches(const IpAddress& address, std::string_view state) const {
  if (family && *family != ipoib::family(address)) return false;
  if (prefix && !prefix->contains(address)) return false;
  return states.empty() || std::find(states.begin(), states.end(), state) != states.end();
}

std::optional<IpPrefix> parse_prefix(std::string_view text) {
  const auto slash = text.find('/');
  const auto address = parse_ip_address(text.substr(0, slash));
  if (!address) return std::nullopt;
  const unsigned bits = family(*address) == IpFamily::v4 ? 32 : 128;
  unsigned length = bits;
  if (slash != std::string_view::npos) {
    const auto number = parse_number<unsigned>(text.substr(slash + 1));
    if (!number || *number > bits) return std::nullopt;
    length = *number;
  }
  return IpPrefix{*address, static_cast<std::uint8_t>(length)};
}

std::string to_string(const IpPrefix& prefix) {
  return ipoib::to_string(prefix.address) + "/" + std::to_string(prefix.length);
}

Result<std::vector<std::string>> parse_states(std::string_view text) {
  std::vector<std::string> states;
  for (;;) {
    const auto comma = text.find(',');
    const std::string name(text.substr(0, comma));
    if (std::find(kNeighbourStates.begin(), kNeighbourStates.end(), name) ==
        kNeighbourStates.end()) {
      std::string known;
      for (const auto each : kNeighbourStates)
        known += (known.empty() ? "" : ", ") + std::string(each);
      return Error{EINVAL, "there is no state \"" + name + "\"; the states are " + known};
    }
    states.push_back(name);
    if (comma == std::string_view::npos) return states;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace ipoib::control
