// SA requests, and their responses as tables of records.
#pragma once

#include <cassert>
#include <cstdint>
#include <span>
#include <vector>

#include "softib/core/mad_packet.hpp"
#include "softib/subnet/subnet_types.hpp"
#include "wire/mad.hpp"
#include "wire/sa_status.hpp"

namespace softib::subnet {

/// Maximum size of a response in bytes of records; longer tables are refused.
inline constexpr std::size_t kMaxTableBytes = 8U << 20;
/// The SM_Key of trusted requests (IBA 15.4.1), OpenSM's default.
inline constexpr std::uint64_t kSmKey = 1;

struct SaRequest {
  ipoib::wire::SaHeader header;
  ConstBytes record;  ///< the data after the header, kSaDataSize bytes
  NodeIndex requester = 0;
  const Node& from;  ///< the requester

  [[nodiscard]] bool has(std::uint64_t components) const {
    return (header.component_mask & components) == components;
  }
  [[nodiscard]] bool is_table() const {
    return header.mad.method == ipoib::wire::method::kGetTable;
  }
  /// Trusted requests may read the records of other ports.
  [[nodiscard]] bool is_trusted() const { return header.sm_key != 0; }
};

/// Records of one type, laid out in units of 8 bytes (IBA 15.2.1.1).
class RecordTable {
 public:
  explicit RecordTable(std::size_t record_size)
      : stride_(std::size_t{8} * ipoib::wire::attribute_offset(record_size)) {}

  template <class Record>
  void add(const Record& record) {
    assert(Record::kSize <= stride_);
    if (is_full()) return;
    bytes_.resize(bytes_.size() + stride_);
    record.emit(std::span(bytes_).last(stride_).first(Record::kSize));
  }
  void add(ConstBytes record) {
    assert(record.size() <= stride_);
    if (is_full()) return;
    bytes_.insert(bytes_.end(), record.begin(), record.end());
    bytes_.resize((bytes_.size() + stride_ - 1) / stride_ * stride_);
  }
  [[nodiscard]] std::size_t size() const { return bytes_.size() / stride_; }
  /// Whether no record fits any more; the request is then refused.
  [[nodiscard]] bool is_full() const { return bytes_.size() + stride_ > kMaxTableBytes; }
  [[nodiscard]] std::uint16_t attribute_offset() const {
    return static_cast<std::uint16_t>(stride_ / 8);
  }
  [[nodiscard]] const std::vector<std::uint8_t>& bytes() const { return bytes_; }

 private:
  std::size_t stride_;
  std::vector<std::uint8_t> bytes_;
};

struct SaResponse {
  SaResponse(ipoib::wire::SaStatus error) : status(error), records(8) {}
  SaResponse(RecordTable found) : status(ipoib::wire::SaStatus::ok), records(std::move(found)) {}

  ipoib::wire::SaStatus status;
  RecordTable records;
};

/// Whether the components selected by `mask` are equal in both records. `widths` are the widths of
/// the record's components in bits, in the order of the bits of the mask.
[[nodiscard]] bool components_equal(ConstBytes left, ConstBytes right, std::uint64_t mask,
                                    std::span<const std::uint16_t> widths);

}  // namespace softib::subnet
