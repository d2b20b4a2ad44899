#include "daemon/interfaces/interface_mark.hpp"

#include <spdlog/fmt/fmt.h>

#include "ipoib/number.hpp"

namespace ipoib::daemon {

namespace {
constexpr std::string_view kPrefix = "ipoibd-";
constexpr std::size_t kGuidDigits = 16;
}  // namespace

std::string to_string(const InterfaceMark& mark) {
  return fmt::format("{}{}-{:016x}", kPrefix, mark.name, mark.port.value());
}

/// A name may contain dashes, so the GUID is looked for from the end.
std::optional<InterfaceMark> parse_mark(std::string_view alternative) {
  if (!alternative.starts_with(kPrefix)) return std::nullopt;
  alternative.remove_prefix(kPrefix.size());
  if (alternative.size() < kGuidDigits + 2) return std::nullopt;
  const auto digits = alternative.substr(alternative.size() - kGuidDigits);
  const auto name = alternative.substr(0, alternative.size() - kGuidDigits - 1);
  const auto guid = ipoib::parse_number<std::uint64_t>(digits, 16);
  if (!guid || alternative[name.size()] != '-') return std::nullopt;
  return InterfaceMark{std::string(name), Guid(*guid)};
}

}  // namespace ipoib::daemon
