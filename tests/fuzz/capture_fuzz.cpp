// Messages of the processes of a subnet to the one that captures it: any bytes, of several
// processes. What is written stays a sequence of whole records, each packet is there once and in
// the order of its time, and what waits is bounded.
#include <chrono>
#include <cstdint>
#include <limits>
#include <vector>

#include "cost.hpp"
#include "erf/capture_format.hpp"
#include "erf/capture_messages.hpp"
#include "require.hpp"
#include "softib/cli/capture_order.hpp"

namespace {

using ipoib::ConstBytes;
using ipoib::require;
using softib::cli::CaptureOrder;

constexpr std::uint64_t kMaxCost = 2'000'000;
constexpr std::size_t kMaxRecords = 8;

/// Half of the messages are built: a byte for the number of records, then for each a size, a time
/// and whether it was received.
std::vector<std::uint8_t> built(ipoib::ByteReader& in) {
  ipoib::erf::CaptureMessage message;
  const std::size_t count = in.u8() % kMaxRecords;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t size = in.u16() % (softib::cli::kMostPacket + 2);
    std::vector<std::uint8_t> record(ipoib::erf::kCaptureRecordHeader);
    ipoib::erf::CaptureRecord{(in.u8() & 1) != 0, std::int64_t{in.u16()}, {}}.emit_header(size,
                                                                                          record);
    record.resize(record.size() + size, in.u8());
    (void)message.add(record);
  }
  const auto bytes = message.finish(in.u8());
  return {bytes.begin(), bytes.end()};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ipoib::CostLimit limit(kMaxCost);
  ipoib::ByteReader in({data, size});
  CaptureOrder order;
  std::vector<std::uint8_t> file;
  std::int64_t last = std::numeric_limits<std::int64_t>::min();
  const auto visit = [&](const CaptureOrder::Packet& packet) {
    using std::chrono::nanoseconds;
    using std::chrono::system_clock;
    require(packet.bytes.size() >= softib::cli::kLeastPacket &&
            packet.bytes.size() <= softib::cli::kMostPacket);
    require(packet.when >= last);
    last = packet.when;
    const auto before = file.size();
    ipoib::erf::append_record(
        file, packet.bytes,
        packet.is_received ? ipoib::erf::Direction::received : ipoib::erf::Direction::sent,
        system_clock::time_point(
            std::chrono::duration_cast<system_clock::duration>(nanoseconds(packet.when))));
    const auto record = ConstBytes(file).subspan(before);
    require(ipoib::erf::complete_size(record, record.size()) == record.size());
    require(ipoib::erf::complete_size(record, record.size() - 1) == 0);
    file.resize(before);
    return true;
  };
  while (in.left() > 0) {
    const bool is_built = (in.u8() & 1) != 0;
    if (is_built) {
      const auto message = built(in);
      (void)order.add(message);
    } else {
      const auto raw = in.take(in.u8());
      if (in.ok()) (void)order.add(raw);
    }
  }
  order.take(std::numeric_limits<std::int64_t>::max(), visit);
  return 0;
}
