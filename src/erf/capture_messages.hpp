// Packets on their way to the process that captures them, in messages (SOCK_SEQPACKET):
//
//   | packets left out since the last message 8 | record | record | ...
//   record: | size of the packet 4 | 1 if received 1 | 0 3 | nanoseconds since 1970 8 | packet |
//
// A packet goes from LRH to padding. A message that does not fit into the connection's queue is
// left out as a whole, and the next one says how many packets that were. A daemon sends them to
// `ibarp capture`, each process of an emulated subnet to `softib capture`.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ipoib/bytes.hpp"

namespace ipoib::erf {

/// Bytes of a message; the largest packet fits in many times.
inline constexpr std::size_t kMaxCaptureMessage = 64U << 10;
inline constexpr std::size_t kCaptureRecordHeader = 16;

struct CaptureRecord {
  bool is_received = false;
  std::int64_t nanoseconds = 0;  ///< since 1970
  ConstBytes packet;
  /// Writes the header of the record of a packet of `size` bytes.
  void emit_header(std::size_t size, MutableBytes to) const;
};

/// A message under construction.
class CaptureMessage {
 public:
  CaptureMessage() { clear(); }
  void clear();
  /// Appends a record with its header. Returns false if it does not fit: send the message first.
  [[nodiscard]] bool add(ConstBytes record);
  [[nodiscard]] std::size_t records() const { return records_; }
  /// The whole message.
  [[nodiscard]] ConstBytes finish(std::uint64_t lost);

 private:
  std::vector<std::uint8_t> bytes_;
  std::size_t records_ = 0;
};

/// Reads a message; `bytes` outlive it.
class CaptureMessageReader {
 public:
  explicit CaptureMessageReader(ConstBytes bytes);
  [[nodiscard]] std::uint64_t lost() const { return lost_; }
  /// The next record; nullopt after the last one, or if the rest is malformed.
  [[nodiscard]] std::optional<CaptureRecord> next();
  [[nodiscard]] bool ok() const { return reader_.ok(); }

 private:
  ByteReader reader_;
  std::uint64_t lost_ = 0;
};

}  // namespace ipoib::erf
