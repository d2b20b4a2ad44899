// A client of the emulated SA for tests: builds requests of a port and reads the responses.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "softib/subnet/subnet.hpp"
#include "wire/mad.hpp"
#include "wire/mc_member_record.hpp"
#include "wire/mgid.hpp"
#include "wire/sa_status.hpp"

namespace softib::subnet {

inline constexpr ipoib::TimePoint kStart{std::chrono::hours(1)};
/// LID of the SM's port if the LMC is 0.
inline constexpr Lid kSmLid{1};

struct SaReply {
  ipoib::wire::SaHeader header;
  std::vector<std::uint8_t> data;  ///< the data after the header, of all segments

  [[nodiscard]] ipoib::wire::SaStatus status() const {
    return static_cast<ipoib::wire::SaStatus>(header.mad.status);
  }
  template <class Record>
  [[nodiscard]] std::vector<Record> records() const {
    std::vector<Record> found;
    EXPECT_EQ(header.attribute_offset,
              data.empty() ? 0 : ipoib::wire::attribute_offset(Record::kSize));
    const std::size_t stride = std::size_t{header.attribute_offset} * 8;
    for (std::size_t at = 0; stride != 0 && at + stride <= data.size(); at += stride) {
      const auto record = Record::parse(ConstBytes(data).subspan(at, stride));
      EXPECT_TRUE(record.has_value());
      if (record) found.push_back(*record);
    }
    return found;
  }
};

/// A port of the subnet.
class SaClient {
 public:
  SaClient(Subnet& subnet, const std::string& name) : subnet_(subnet) {
    const auto added = subnet.add_hca(name);
    EXPECT_TRUE(added.has_value());
    index_ = added.value();
  }

  [[nodiscard]] NodeIndex index() const { return index_; }
  [[nodiscard]] const Node& node() const { return *subnet_.node(index_); }
  [[nodiscard]] const PortAttributes& port() const { return subnet_.node(index_)->port; }
  [[nodiscard]] Gid gid() const { return port().gid(); }
  void trust(bool trusted) { sm_key_ = trusted ? 1 : 0; }

  [[nodiscard]] MadPacket packet() const {
    MadPacket packet;
    packet.slid = port().lid;
    packet.dlid = port().sm_lid;
    packet.pkey = port().pkeys[0];
    packet.source = packet.destination = ipoib::wire::kGsiQpn;
    packet.qkey = ipoib::wire::kGsiQKey;
    return packet;
  }
  [[nodiscard]] ipoib::wire::SaHeader header(std::uint8_t method, std::uint16_t attribute,
                                             std::uint64_t mask = 0) {
    ipoib::wire::SaHeader header;
    header.mad.management_class = ipoib::wire::mgmt_class::kSubnAdm;
    header.mad.class_version = 2;
    header.mad.method = method;
    header.mad.attribute_id = attribute;
    header.mad.transaction_id = ++transaction_;
    header.sm_key = sm_key_;
    header.component_mask = mask;
    return header;
  }
  template <class Record>
  [[nodiscard]] MadPacket request(const ipoib::wire::SaHeader& header, const Record& record) const {
    MadPacket out = packet();
    header.emit(out.mad);
    record.emit(std::span(out.mad).subspan(ipoib::wire::kSaHeaderSize));
    return out;
  }

  /// Sends a request, acknowledges the segments of the response with a window of `window`, and
  /// returns the whole response.
  template <class Record>
  std::optional<SaReply> send_request(std::uint8_t method, std::uint16_t attribute,
                                      std::uint64_t mask, const Record& record,
                                      std::uint32_t window = 4) {
    return send_request(header(method, attribute, mask), record, window);
  }
  template <class Record>
  std::optional<SaReply> send_request(const ipoib::wire::SaHeader& header, const Record& record,
                                      std::uint32_t window = 4) {
    subnet_.receive(request(header, record), kStart);
    std::optional<SaReply> reply;
    for (auto packets = subnet_.take_outgoing(); !packets.empty();
         packets = subnet_.take_outgoing()) {
      for (const auto& packet : packets) take(packet, header.mad.transaction_id, window, reply);
    }
    return reply;
  }

 private:
  void take(const MadPacket& packet, std::uint64_t transaction, std::uint32_t window,
            std::optional<SaReply>& reply) {
    namespace wire = ipoib::wire;
    const auto header = wire::SaHeader::parse(packet.mad);
    ASSERT_TRUE(header.has_value());
    if (header->mad.transaction_id != transaction) return;
    EXPECT_EQ(header->sm_key, 0U);
    EXPECT_EQ(packet.dlid, port().lid);
    EXPECT_EQ(packet.qkey, wire::kGsiQKey);
    const auto data = ConstBytes(packet.mad).subspan(wire::kSaHeaderSize);
    if (!reply) reply = SaReply{*header, {}};
    if (!header->rmpp.is_active()) {
      reply->data.assign(data.begin(), data.end());
      return;
    }
    ASSERT_EQ(header->rmpp.type, wire::RmppType::data);
    std::size_t size = data.size();
    const bool is_last = (header->rmpp.flags & wire::RmppHeader::kLast) != 0;
    if (is_last) size = header->rmpp.data2 - 20;
    reply->data.insert(reply->data.end(), data.begin(),
                       data.begin() + static_cast<std::ptrdiff_t>(size));
    const std::uint32_t number = header->rmpp.data1;
    if (!is_last && number != 1 && (number - 1) % window != 0) return;
    wire::SaHeader ack = *header;
    ack.mad.method &= 0x7f;
    ack.rmpp.type = wire::RmppType::ack;
    ack.rmpp.flags = wire::RmppHeader::kActive;
    ack.rmpp.data2 = number + window;
    MadPacket out = this->packet();
    ack.emit(out.mad);
    subnet_.receive(out, kStart);
  }

  Subnet& subnet_;
  NodeIndex index_ = 0;
  std::uint64_t sm_key_ = 0;
  std::uint64_t transaction_ = 0;
};

/// The broadcast group of the default partition.
inline Gid broadcast() { return ipoib::wire::broadcast_gid(ipoib::kDefaultPKey); }

/// MCMemberRecord requests like those of IPoIB.
namespace member {
using ipoib::wire::McMemberRecord;

inline constexpr std::uint64_t kJoin = McMemberRecord::kMgid | McMemberRecord::kPortGid |
                                       McMemberRecord::kPKey | McMemberRecord::kJoinState;
inline constexpr std::uint64_t kCreate =
    kJoin | McMemberRecord::kQKey | McMemberRecord::kMtuSelector | McMemberRecord::kMtu |
    McMemberRecord::kTrafficClass | McMemberRecord::kRateSelector | McMemberRecord::kRate |
    McMemberRecord::kSl | McMemberRecord::kFlowLabel | McMemberRecord::kHopLimit;

inline McMemberRecord record(const Gid& mgid, const Gid& port, std::uint8_t join_state = 1) {
  McMemberRecord record;
  record.mgid = mgid;
  record.port_gid = port;
  record.qkey = QKey(0x0b1b);
  record.mtu = 4;
  record.pkey = ipoib::kDefaultPKey;
  record.rate = 3;
  record.join_state = join_state;
  return record;
}
}  // namespace member

}  // namespace softib::subnet
