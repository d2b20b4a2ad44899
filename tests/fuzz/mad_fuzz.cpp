// Management datagrams: the headers, and every record type after them.
#include "require.hpp"
#include "wire/mad.hpp"
#include "wire/notice.hpp"
#include "wire/sa_records.hpp"

using namespace ipoib;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ConstBytes mad(data, size);
  require_stable<wire::MadHeader>(mad);
  require_stable<wire::RmppHeader>(mad);
  require_stable<wire::SaHeader>(mad);
  for (const ConstBytes record : {mad, mad.subspan(std::min(size, wire::kSaHeaderSize))}) {
    require_stable<wire::PathRecord>(record);
    require_stable<wire::McMemberRecord>(record);
    require_stable<wire::NodeInfo>(record);
    require_stable<wire::NodeRecord>(record);
    require_stable<wire::PortInfo>(record);
    require_stable<wire::PortInfoRecord>(record);
    require_stable<wire::ServiceRecord>(record);
    require_stable<wire::Notice>(record);
    require_stable<wire::InformInfo>(record);
  }
  return 0;
}
