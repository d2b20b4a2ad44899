// An in-memory MadPort: records what is sent, delivers what a test puts in.
#pragma once

#include <deque>
#include <utility>
#include <vector>

#include "ipoib/mad_port.hpp"
#include "ipoib/random.hpp"
#include "sa/sa_client.hpp"
#include "wire/class_port_info.hpp"
#include "wire/mad.hpp"
#include "wire/sa_status.hpp"

namespace ipoib::sa {

/// Transaction ids that are the same in each run.
inline RandomSource random_from(std::uint64_t seed) {
  return [random = Random(seed)]() mutable { return static_cast<std::uint32_t>(random.next()); };
}

class MemoryMadPort : public MadPort {
 public:
  struct Sent {
    MadDestination to;
    std::vector<std::uint8_t> mad;
    Duration timeout;

    [[nodiscard]] wire::SaHeader header() const { return *wire::SaHeader::parse(mad); }
  };

  Result<void> send(const MadDestination& to, ConstBytes mad, Duration timeout) override {
    if (refusing) return Error{11, "the send queue is full"};
    sent.push_back({to, {mad.begin(), mad.end()}, timeout});
    return {};
  }
  std::optional<ReceivedMad> receive() override {
    if (inbox.empty()) return std::nullopt;
    auto mad = std::move(inbox.front());
    inbox.pop_front();
    return mad;
  }

  MadSource source() override { return from; }

  /// Responds to a request with `status` and `record`.
  template <class Record>
  void respond(const Sent& request, std::uint16_t status, const Record& record) {
    auto header = request.header();
    header.mad.method = header.mad.method == wire::method::kDelete ? wire::method::kDeleteResp
                                                                   : wire::method::kGetResp;
    header.mad.status = status;
    // The layer below uses the high half, and does not always clear it.
    header.mad.transaction_id |= std::uint64_t{0xabcd} << 32;
    ReceivedMad mad{.bytes = std::vector<std::uint8_t>(wire::kMadSize), .from = request.to};
    header.emit(mad.bytes);
    record.emit(MutableBytes(mad.bytes).subspan(wire::kSaHeaderSize));
    inbox.push_back(std::move(mad));
  }
  /// Responds with a reassembled table: records at multiples of `stride` bytes, or none.
  void respond_table(const Sent& request, ConstBytes records, std::size_t stride) {
    auto header = request.header();
    header.mad.method = wire::method::kGetTableResp;
    header.attribute_offset = static_cast<std::uint16_t>(stride / 8);
    ReceivedMad mad{.bytes = std::vector<std::uint8_t>(wire::kSaHeaderSize), .from = request.to};
    header.emit(mad.bytes);
    mad.bytes.insert(mad.bytes.end(), records.begin(), records.end());
    inbox.push_back(std::move(mad));
  }
  /// As in the kernel, only the common header of the request comes back.
  void time_out(const Sent& request) {
    const auto header = request.mad.begin();
    inbox.push_back({.timed_out = true, .bytes = {header, header + wire::kMadHeaderSize}});
  }

  /// Redirects to another address (IBA 13.5.2).
  void redirect(const Sent& request, const wire::ClassPortInfo::Address& to) {
    wire::ClassPortInfo info;
    info.redirect = to;
    respond(request, static_cast<std::uint16_t>(wire::SaStatus::redirect), info);
  }

  MadSource from{.pkeys = {kDefaultPKey, PKey(0x8012)}};
  std::vector<Sent> sent;
  std::deque<ReceivedMad> inbox;
  bool refusing = false;
};

}  // namespace ipoib::sa
