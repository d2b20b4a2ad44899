// Records of the fabric file with any words: what is decoded is a valid node or group, and the same
// after it is encoded and decoded again.
#include <cstring>
#include <optional>

#include "cost.hpp"
#include "require.hpp"
#include "softib/core/name.hpp"
#include "softib/fabric/fabric_layout.hpp"

using namespace softib;
using ipoib::require;

namespace {

constexpr std::uint64_t kMaxCost = 50'000;

template <class Record>
typename Record::Value words_of(ipoib::ConstBytes bytes) {
  typename Record::Value words{};
  std::memcpy(words.data(), bytes.data(), std::min(bytes.size(), sizeof words));
  return words;
}

void look_at_node(ipoib::ConstBytes bytes) {
  const auto node = fabric::decode(words_of<fabric::PublishedNode>(bytes));
  if (!node) return;
  require(is_valid_name(node->name));
  require(node->port.number >= 1 && node->port.number <= kMaxHcaPorts);
  require(node->port.lmc <= ipoib::kMaxLmc);
  const auto words = fabric::encode(*node);
  const auto again = fabric::decode(words);
  require(again && again->name == node->name && fabric::encode(*again) == words);
}

void look_at_group(ipoib::ConstBytes bytes) {
  const auto group = fabric::decode(words_of<fabric::PublishedGroup>(bytes));
  require(group.receivers.count() <= kMaxNodes);
  require(fabric::decode(fabric::encode(group)) == group);
}

}  // namespace

/// | node or group 8 | words |
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const ipoib::CostLimit limit(kMaxCost);
  const ipoib::ConstBytes bytes(data + 1, size - 1);
  data[0] % 2 == 0 ? look_at_node(bytes) : look_at_group(bytes);
  return 0;
}
