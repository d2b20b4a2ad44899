// What `softib show --cm` makes of the file of another user's process: any words and names. Nothing
// that is printed has other than printable characters, and an ID that parses keeps its value.
//
// | program 32 bytes | unlisted 64 | entries, each of 9 words of 64 bits |
#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cctype>

#include "ipoib/bytes.hpp"
#include "require.hpp"
#include "softib/cli/cm_view.hpp"
#include "softib/rdma_cm/id_status.hpp"

using namespace ipoib;
using namespace softib;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ByteReader in(ConstBytes(data, size));
  fabric::CmTable table;
  for (const auto byte : in.take(std::min(in.left(), fabric::kMaxProgramName))) {
    table.program += static_cast<char>(byte);
  }
  const auto word = [&] { return in.left() >= sizeof(std::uint64_t) ? in.u64() : 0; };
  table.unlisted = word();
  while (in.left() >= sizeof(fabric::CmEntry)) {
    fabric::CmEntry entry;
    for (auto& each : entry) each = word();
    table.entries.push_back(entry);
    if (const auto id = rdma_cm::IdStatus::parse(entry)) {
      require(rdma_cm::IdStatus::parse(id->words())->words() == id->words());
    }
  }
  for (auto& counter : table.counters) counter = word();
  const auto shown = cli::cm_process_json("a", 1, table);
  const auto text = cli::cm_text({{"processes", boost::json::array{shown}}});
  require(std::ranges::all_of(
      text, [](char each) { return each == '\n' || (each >= ' ' && each <= '~'); }));
  (void)boost::json::serialize(shown);
  return 0;
}
