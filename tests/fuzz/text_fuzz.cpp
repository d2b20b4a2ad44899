// Addresses, names and lists in text, as they come in control messages, in files and from
// operators. What is accepted is the same after it is written and parsed again.
#include <algorithm>
#include <string>
#include <string_view>

#include "control/connection.hpp"
#include "control/filter.hpp"
#include "control/neighbour_file.hpp"
#include "cost.hpp"
#include "ipoib/address.hpp"
#include "ipoib/ip.hpp"
#include "require.hpp"
#include "softib/core/name.hpp"
#include "softib/fabric/folder.hpp"
#include "softib/subnet/partition.hpp"

using namespace ipoib;

namespace {

constexpr std::uint64_t kMaxCost = 100'000;

template <class Value>
void fuzz_value(std::string_view text) {
  const auto value = Value::parse(text);
  if (!value) return;
  const auto again = Value::parse(value->to_string());
  require(again && *again == *value);
}

void fuzz_addresses(std::string_view text) {
  fuzz_value<Gid>(text);
  fuzz_value<HwAddress>(text);
  fuzz_value<Ipv4Address>(text);
  fuzz_value<Ipv6Address>(text);
  if (const auto address = parse_ip_address(text)) {
    require(parse_ip_address(to_string(*address)) == address);
  }
  if (const auto hardware = control::parse_hardware(text)) {
    require(control::parse_hardware(hardware->to_string()) == hardware);
  }
}

void fuzz_filters(std::string_view text) {
  if (const auto prefix = control::parse_prefix(text)) {
    const auto bits = family(prefix->address) == IpFamily::v4 ? 32 : 128;
    require(prefix->length <= bits && prefix->contains(prefix->address));
    require(control::parse_prefix(control::to_string(*prefix)) == prefix);
  }
  const auto states = control::parse_states(text);
  if (!states) return require(!states.error().message.empty());
  for (const auto& state : *states) {
    require(std::ranges::find(control::kNeighbourStates, state) != control::kNeighbourStates.end());
  }
}

/// An interface's name is a folder's name, so none leads elsewhere.
void fuzz_names(std::string_view text) {
  if (control::is_interface_name(text)) {
    require(text.find('/') == text.npos && text != "." && text != ".." && text.size() < 16);
  }
  if (softib::is_valid_name(text)) {
    require(text.find('/') == text.npos && text.front() != '.' && !text.empty());
  }
  if (const auto hca = softib::fabric::HcaName::parse(text)) {
    require(softib::is_valid_name(hca->name));
  }
}

void fuzz_partition(std::string_view text) {
  const auto partition = softib::subnet::parse_partition(text);
  if (!partition) return require(!partition.error().message.empty());
  require(partition->pkey.is_full() && partition->pkey.is_valid());
  for (const auto& member : partition->members) require(softib::is_valid_name(member.hca));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const CostLimit limit(kMaxCost);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  fuzz_addresses(text);
  fuzz_filters(text);
  fuzz_names(text);
  fuzz_partition(text);
  return 0;
}
