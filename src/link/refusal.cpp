#include "link/refusal.hpp"

#include "wire/sa_status.hpp"

namespace ipoib::link {

std::string describe(const Refusal& refusal) {
  if (!refusal.status) {
    return refusal.why.empty() ? "no answer from the subnet administrator" : refusal.why;
  }
  std::string text = "refused: " + std::string(wire::name(*refusal.status));
  const std::string_view cause = wire::likely_cause(*refusal.status);
  if (!cause.empty()) text += " (" + std::string(cause) + ")";
  return text;
}

}  // namespace ipoib::link
