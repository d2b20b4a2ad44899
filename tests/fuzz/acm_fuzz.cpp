// What a local program sends on ibacm's socket: messages, one after the other.
#include "cost.hpp"
#include "require.hpp"
#include "wire/acm.hpp"

using namespace ipoib;
using namespace ipoib::wire;

namespace {

constexpr std::uint64_t kMaxCost = 20'000;

void answer(acm::Header header, ConstBytes message) {
  const auto parsed = acm::parse(message);
  acm::Found found;
  std::vector<std::uint8_t> out;
  if (const auto* const wanted = std::get_if<acm::Wanted>(&parsed)) {
    require(!wanted->source || wanted->source->index() == wanted->destination.index());
    if (!wanted->source) found.source = wanted->destination;
    out = acm::answer(header, found);
    require(out.size() == acm::kHeaderSize + (found.source ? 2 : 1) * acm::kEntrySize);
  } else {
    require(std::get<acm::Status>(parsed) != acm::Status::success);
    out = acm::refusal(header, std::get<acm::Status>(parsed));
    require(out.size() == acm::kHeaderSize);
  }
  require(out.size() <= acm::kMaxMessage);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const CostLimit limit(kMaxCost);
  ConstBytes rest(data, size);
  while (rest.size() >= acm::kHeaderSize) {
    const auto header = rest.first<acm::kHeaderSize>();
    const auto whole = acm::message_size(header);
    if (!whole || *whole > rest.size()) break;
    require(*whole >= acm::kHeaderSize && *whole <= acm::kMaxMessage);
    answer(header, rest.first(*whole));
    rest = rest.subspan(*whole);
  }
  return 0;
}
