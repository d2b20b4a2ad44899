#include "erf/capture_messages.hpp"

namespace ipoib::erf {

namespace {
constexpr std::size_t kHeaderSize = 8;
}

void CaptureRecord::emit_header(std::size_t size, MutableBytes to) const {
  ByteWriter writer(to);
  writer.u32(static_cast<std::uint32_t>(size));
  writer.u8(is_received ? 1 : 0);
  writer.zeros(3);
  writer.u64(static_cast<std::uint64_t>(nanoseconds));
}

void CaptureMessage::clear() {
  bytes_.resize(kHeaderSize);
  records_ = 0;
}

bool CaptureMessage::add(ConstBytes record) {
  if (bytes_.size() + record.size() > kMaxCaptureMessage) return false;
  bytes_.insert(bytes_.end(), record.begin(), record.end());
  ++records_;
  return true;
}

ConstBytes CaptureMessage::finish(std::uint64_t lost) {
  store_be(bytes_.data(), lost);
  return bytes_;
}

CaptureMessageReader::CaptureMessageReader(ConstBytes bytes) : reader_(bytes) {
  lost_ = reader_.u64();
}

std::optional<CaptureRecord> CaptureMessageReader::next() {
  if (!reader_.ok() || reader_.left() == 0) return std::nullopt;
  CaptureRecord record;
  const auto size = reader_.u32();
  record.is_received = reader_.u8() != 0;
  reader_.skip(3);
  record.nanoseconds = static_cast<std::int64_t>(reader_.u64());
  record.packet = reader_.take(size);
  if (!reader_.ok()) return std::nullopt;
  return record;
}

}  // namespace ipoib::erf
