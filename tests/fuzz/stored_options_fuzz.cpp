// The stored options of a subnet, as a faulty process might leave them: what is accepted is what
// would be written for it.
#include <string_view>

#include "cost.hpp"
#include "require.hpp"
#include "softib/subnetd/stored_options.hpp"

using namespace softib;
using ipoib::require;

namespace {
constexpr std::uint64_t kMaxCost = 2'000'000;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ipoib::CostLimit limit(kMaxCost);
  const auto config =
      subnetd::parse_options(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!config) {
    require(config.error().code != 0 && !config.error().message.empty());
    return 0;
  }
  require(config->partitions.size() <= subnet::kMaxPartitions && !config->partitions.empty());
  const std::string text = subnetd::emit_options(*config);
  const auto again = subnetd::parse_options(text);
  require(again.has_value() && subnetd::emit_options(*again) == text);
  return 0;
}
