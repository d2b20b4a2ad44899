// The file of static neighbours. What is accepted is accepted again in its canonical form, with the
// same meaning; an error names the file and a line that exists.
#include <algorithm>
#include <charconv>

#include "control/neighbour_file.hpp"
#include "cost.hpp"
#include "require.hpp"

using namespace ipoib;
using namespace ipoib::control;

namespace {

constexpr std::uint64_t kMaxCost = 100'000;

std::string text_of(const StaticNeighbour& entry) {
  const auto* const gid = std::get_if<Gid>(&entry.to);
  return (gid != nullptr ? gid->to_string() : std::get<HwAddress>(entry.to).to_string()) + " " +
         to_string(entry.address) + " " + entry.interface + "\n";
}

void check_error(const std::string& message, std::string_view text) {
  require(message.starts_with("f:"));
  std::size_t line = 0;
  const char* const begin = message.data() + 2;
  const auto [end, error] = std::from_chars(begin, message.data() + message.size(), line);
  require(error == std::errc() && end != begin && *end == ':');
  require(line >= 1 && line <= 1 + static_cast<std::size_t>(std::ranges::count(text, '\n')));
  require(std::ranges::all_of(message, [](char c) { return c >= ' ' && c <= '~'; }));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const CostLimit limit(kMaxCost);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto parsed = parse_neighbours(text, "f");
  if (!parsed) {
    check_error(parsed.error().message, text);
    return 0;
  }
  require(parsed->size() <= kMaxStaticNeighbours);
  std::string again;
  for (const auto& entry : *parsed) again += text_of(entry);
  const auto second = parse_neighbours(again, "f");
  require(second.has_value() && *second == *parsed);
  return 0;
}
