// Management datagrams: the headers, and every record type after them.
#include <algorithm>

#include "cost.hpp"
#include "require.hpp"
#include "wire/class_port_info.hpp"
#include "wire/mad.hpp"
#include "wire/notice.hpp"
#include "wire/sa_records.hpp"

using namespace ipoib;

namespace {

constexpr std::uint64_t kMaxCost = 20'000;
constexpr std::size_t kMaxSize = 1024;

void look_at_records(ConstBytes bytes) {
  require_stable<wire::PathRecord>(bytes);
  require_stable<wire::McMemberRecord>(bytes);
  require_stable<wire::NodeInfo>(bytes);
  require_stable<wire::NodeRecord>(bytes);
  require_stable<wire::PortInfo>(bytes);
  require_stable<wire::PortInfoRecord>(bytes);
  require_stable<wire::ServiceRecord>(bytes);
  require_stable<wire::Notice>(bytes);
  require_stable<wire::InformInfo>(bytes);
  require_stable<wire::ClassPortInfo>(bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ConstBytes mad(data, std::min(size, kMaxSize));
  const CostLimit limit(kMaxCost);
  require_stable<wire::MadHeader>(mad);
  require_stable<wire::RmppHeader>(mad);
  require_stable<wire::SaHeader>(mad);
  look_at_records(mad);
  look_at_records(mad.subspan(std::min(mad.size(), wire::kSaHeaderSize)));
  return 0;
}
