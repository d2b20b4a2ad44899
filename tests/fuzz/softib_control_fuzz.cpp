// Parses request and response lines of softib's control socket. A valid request must survive being
// emitted and parsed again. Half of the lines are built as requests, which random bytes rarely are.
#include <array>
#include <string>
#include <string_view>

#include "cost.hpp"
#include "require.hpp"
#include "softib/control/protocol.hpp"

namespace {

using namespace softib::control;

constexpr std::uint64_t kMaxCost = 100'000;

void try_line(std::string_view line) {
  const auto request = parse_request(line);
  (void)parse_response(line);
  if (!request) return;
  std::string once = emit(*request);
  ipoib::require(once.ends_with('\n'));
  once.pop_back();
  const auto again = parse_request(once);
  ipoib::require(again.has_value() && emit(*again) == once + '\n');
}

/// Builds a request: the first byte selects the command, and '|' separates the members.
std::string shape(std::string_view text) {
  constexpr std::array<std::string_view, 17> kCommands{
      "set-mtu",       "set-hca",    "show",     "set-port",         "set-lid",
      "set-partition", "restart-sm", "set-link", "delete-partition", "move-pkey",
      "fail-qps",      "x",          "stop",     "set-cable",        "change-cable",
      "set-switch",    "capture"};
  constexpr std::array<std::string_view, 25> kMembers{
      "hca",    "state",     "lid",       "pkey",    "membership", "mtu",     "index",
      "loss",   "duplicate", "reorder",   "delay",   "corrupt",    "cm_loss", "seed",
      "qpn",    "from",      "from_port", "to",      "to_port",    "width",   "speed",
      "switch", "id",        "hcas",      "overruns"};
  std::string line = "{\"command\":\"";
  line += text.empty() ? "" : kCommands[static_cast<unsigned char>(text[0]) % kCommands.size()];
  line += '"';
  text.remove_prefix(text.empty() ? 0 : 1);
  for (const auto member : kMembers) {
    const auto end = text.find('|');
    line += ",\"" + std::string(member) + "\":" + std::string(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (text.empty()) break;
  }
  return line + "}";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ipoib::CostLimit limit(kMaxCost);
  const std::string text(data, data + size);
  try_line(text);
  try_line(shape(text));
  return 0;
}
