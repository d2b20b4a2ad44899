#include "wire/acm.hpp"

#include <gtest/gtest.h>
#include <infiniband/sa.h>

#include <cstring>

namespace ipoib::wire::acm {
namespace {

/// The layout of rdma-core's acm.h, which has no installed header.
struct HostHeader {
  std::uint8_t version;
  std::uint8_t opcode;
  std::uint8_t status;
  std::uint8_t data[3];
  std::uint16_t length;
  std::uint64_t tid;
};
struct HostEntry {
  std::uint32_t flags;
  std::uint16_t type;
  std::uint16_t reserved;
  union {
    std::uint8_t address[64];
    ibv_path_record path;
  } info;
};
static_assert(sizeof(HostHeader) == kHeaderSize && sizeof(HostEntry) == kEntrySize);

enum : std::uint32_t { kSource = 1, kDestination = 2, kNoDelay = 1U << 30 };
enum : std::uint16_t { kName = 1, kIpv4 = 2, kIpv6 = 3, kPath = 16 };

const IpAddress kOwn = *parse_ip_address("10.44.0.1");
const IpAddress kPeer = *parse_ip_address("10.44.0.2");
const IpAddress kOwn6 = *parse_ip_address("fd01::1");
const IpAddress kPeer6 = *parse_ip_address("fd01::2");

/// A message as librdmacm makes it.
class Message {
 public:
  Message() {
    header_.version = 1;
    header_.opcode = 1;
    header_.length = kHeaderSize;
    header_.tid = 0x0102030405060708;
    header_.data[0] = 7;
  }
  Message& add(std::uint32_t flags, std::uint16_t type, const IpAddress& address = {}) {
    HostEntry entry{};
    entry.flags = flags;
    entry.type = type;
    std::visit([&](const auto& a) { std::memcpy(entry.info.address, a.bytes().data(), a.kSize); },
               address);
    entries_.push_back(entry);
    header_.length = static_cast<std::uint16_t>(header_.length + kEntrySize);
    return *this;
  }
  Message& add(std::uint32_t flags, const IpAddress& address) {
    return add(flags, std::holds_alternative<Ipv4Address>(address) ? kIpv4 : kIpv6, address);
  }
  HostHeader& header() { return header_; }
  [[nodiscard]] std::vector<std::uint8_t> bytes() const {
    std::vector<std::uint8_t> out(kHeaderSize + entries_.size() * kEntrySize);
    std::memcpy(out.data(), &header_, kHeaderSize);
    if (!entries_.empty()) {
      std::memcpy(&out[kHeaderSize], entries_.data(), entries_.size() * kEntrySize);
    }
    return out;
  }
  [[nodiscard]] std::optional<std::size_t> size() const {
    return message_size(Header(bytes().data(), kHeaderSize));
  }
  [[nodiscard]] std::variant<Wanted, Status> parsed() const {
    const auto all = bytes();
    return parse(all);
  }
  [[nodiscard]] Status refused() const {
    const auto all = parsed();
    const auto* const status = std::get_if<Status>(&all);
    return status != nullptr ? *status : Status::success;
  }

 private:
  HostHeader header_{};
  std::vector<HostEntry> entries_;
};

Wanted wanted(const Message& message) { return std::get<Wanted>(message.parsed()); }

TEST(Acm, RequestsOfLibrdmacm) {
  EXPECT_EQ(wanted(Message().add(kDestination, kPeer)), (Wanted{kPeer, {}, false}));
  EXPECT_EQ(wanted(Message().add(kSource, kOwn).add(kDestination, kPeer)),
            (Wanted{kPeer, kOwn, false}));
  EXPECT_EQ(wanted(Message().add(kDestination | kNoDelay, kPeer6).add(kSource, kOwn6)),
            (Wanted{kPeer6, kOwn6, true}));
  EXPECT_EQ(wanted(Message().add(kDestination, kPeer).add(0, kPath)), (Wanted{kPeer, {}, false}))
      << "with the attributes of a path";
}

TEST(Acm, RefusesRequestsThatItCannotAnswer) {
  EXPECT_EQ(Message().refused(), Status::destination_type);
  EXPECT_EQ(Message().add(kSource, kOwn).refused(), Status::destination_type);
  EXPECT_EQ(Message().add(0, kPath).refused(), Status::destination_type) << "by GIDs";
  EXPECT_EQ(Message().add(kDestination, kName).refused(), Status::destination_type);
  EXPECT_EQ(Message().add(kDestination, kPath).refused(), Status::destination_type);
  EXPECT_EQ(Message().add(kSource, kName).add(kDestination, kPeer).refused(), Status::source_type);
  EXPECT_EQ(Message().add(kSource, kOwn6).add(kDestination, kPeer).refused(), Status::source_type);
  EXPECT_EQ(Message().add(kSource, kOwn).add(kSource, kOwn).add(kDestination, kPeer).refused(),
            Status::source_address);
  EXPECT_EQ(Message().add(kDestination, kPeer).add(kDestination, kPeer).refused(),
            Status::destination_address);
  Message counters;
  counters.header().opcode = 2;
  EXPECT_EQ(counters.refused(), Status::invalid);
}

TEST(Acm, SizeOfAMessage) {
  EXPECT_EQ(Message().size(), kHeaderSize);
  Message full;
  for (std::size_t i = 0; i < kMaxEntries; ++i) full.add(0, kPath);
  EXPECT_EQ(full.size(), kMaxMessage);
  EXPECT_EQ(full.add(0, kPath).size(), std::nullopt);
  for (const int length : {0, 15, 17, 87, 89, 0xffff}) {
    Message message;
    message.header().length = static_cast<std::uint16_t>(length);
    EXPECT_EQ(message.size(), std::nullopt) << length;
  }
  Message counters;  // its length has the byte order of the network
  counters.header().opcode = 2;
  EXPECT_EQ(counters.size(), std::nullopt);
  counters.header().length = htobe16(kHeaderSize + 8);
  EXPECT_EQ(counters.size(), kHeaderSize + 8);
  for (const int opcode : {0, 4, 0x81, 0x11}) {
    Message message;
    message.header().opcode = static_cast<std::uint8_t>(opcode);
    EXPECT_EQ(message.size(), std::nullopt) << opcode;
  }
  Message newer;
  newer.header().version = 2;
  EXPECT_EQ(newer.size(), std::nullopt);
}

HostHeader header_of(const std::vector<std::uint8_t>& bytes) {
  HostHeader out{};
  std::memcpy(&out, bytes.data(), sizeof out);
  return out;
}

HostEntry entry_of(const std::vector<std::uint8_t>& bytes, std::size_t number) {
  HostEntry out{};
  std::memcpy(&out, bytes.data() + kHeaderSize + number * kEntrySize, sizeof out);
  return out;
}

TEST(Acm, RefusalsEchoTheHeader) {
  const auto request = Message().add(kDestination, kPeer).bytes();
  const auto bytes = refusal(Header(request.data(), kHeaderSize), Status::timed_out);
  ASSERT_EQ(bytes.size(), kHeaderSize);
  const auto header = header_of(bytes);
  EXPECT_EQ(header.version, 1);
  EXPECT_EQ(header.opcode, 0x81);
  EXPECT_EQ(header.status, 6);
  EXPECT_EQ(header.data[0], 0);
  EXPECT_EQ(header.length, kHeaderSize);
  EXPECT_EQ(header.tid, 0x0102030405060708U);
  Message counters;
  counters.header().opcode = 2;
  const auto other = counters.bytes();
  EXPECT_EQ(header_of(refusal(Header(other.data(), kHeaderSize), Status::invalid)).length,
            htobe16(kHeaderSize));
}

TEST(Acm, AnswersHaveThePathAndTheSource) {
  Found found;
  found.path.dgid = Gid(Gid::kLinkLocalPrefix, Guid(2));
  found.path.sgid = Gid(Gid::kLinkLocalPrefix, Guid(1));
  found.path.dlid = Lid(7);
  found.path.slid = Lid(3);
  found.path.reversible = true;
  found.path.numb_path = 1;
  found.path.pkey = PKey(0x8001);
  found.path.mtu = 4;
  found.path.rate = 3;
  found.path.lifetime = 18;
  const auto request = Message().add(kDestination, kPeer).bytes();
  const Header header(request.data(), kHeaderSize);
  auto bytes = answer(header, found);
  ASSERT_EQ(bytes.size(), kHeaderSize + kEntrySize);
  EXPECT_EQ(header_of(bytes).length, bytes.size());
  EXPECT_EQ(header_of(bytes).status, 0);
  const auto path = entry_of(bytes, 0);
  EXPECT_EQ(path.type, kPath);
  EXPECT_EQ(path.flags,
            std::uint32_t{IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL});
  EXPECT_EQ(path.info.path.dlid, htobe16(7));
  EXPECT_EQ(path.info.path.slid, htobe16(3));
  EXPECT_EQ(path.info.path.pkey, htobe16(0x8001));
  EXPECT_EQ(path.info.path.reversible_numpath, 0x81);
  EXPECT_EQ(path.info.path.mtu, 2 << 6 | 4);
  EXPECT_EQ(path.info.path.packetlifetime, 2 << 6 | 18);

  found.source = kOwn6;
  bytes = answer(header, found);
  ASSERT_EQ(bytes.size(), kHeaderSize + 2 * kEntrySize);
  const auto source = entry_of(bytes, 1);
  EXPECT_EQ(source.type, kIpv6);
  EXPECT_EQ(source.flags, kSource);
  EXPECT_EQ(std::memcmp(source.info.address, std::get<Ipv6Address>(kOwn6).bytes().data(), 16), 0);
}

}  // namespace
}  // namespace ipoib::wire::acm
