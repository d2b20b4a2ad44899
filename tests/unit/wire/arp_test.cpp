#include "wire/arp.hpp"

#include "golden.hpp"

namespace ipoib::wire {
namespace {

template <class Message>
struct Sample {
  Message message;
  std::vector<std::uint8_t> bytes;
};

Sample<Arp> infiniband() {
  return {{.operation = ArpOperation::reply,
           .sender_hardware = {0, Qpn(0x401), *Gid::parse("fe80::2:c903:0:1")},
           .sender_protocol = Ipv4Address(0x0a2c0001),
           .target_hardware = {0x80, Qpn(0xabcdef), *Gid::parse("fe80::2:c903:0:102")},
           .target_protocol = Ipv4Address(0x0a2c0002)},
          from_hex("0020 0800 14 04 0002"
                   "00000401 fe80000000000000 0002c90300000001  0a2c0001"
                   "80abcdef fe80000000000000 0002c90300000102  0a2c0002")};
}

Sample<EthernetArp> ethernet() {
  return {{.operation = ArpOperation::request,
           .sender_hardware = MacAddress(0x02c9'0300'0001),
           .sender_protocol = Ipv4Address(0x0a2c0001),
           .target_hardware = {},
           .target_protocol = Ipv4Address(0x0a2c0002)},
          from_hex("0001 0800 06 04 0001"
                   "02c903000001 0a2c0001"
                   "000000000000 0a2c0002")};
}

void for_both(const auto& check) {
  check(infiniband());
  check(ethernet());
}

TEST(Arp, HasTheLayoutOfItsRfc) {
  for_both([]<class Message>(const Sample<Message>& sample) {
    EXPECT_EQ(sample.bytes.size(), Message::kSize);
    expect_golden(sample.message, sample.bytes);
    expect_stable<Message>(sample.bytes);
  });
}

TEST(Arp, ReadsTheSenderOfAReverseRequest) {
  auto bytes = ethernet().bytes;
  EXPECT_EQ(reverse_request_sender(bytes), std::nullopt) << "a request";
  bytes[7] = 3;
  EXPECT_EQ(reverse_request_sender(bytes), MacAddress(0x02c9'0300'0001));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(reverse_request_sender(ConstBytes(bytes).first(size)), std::nullopt);
  }
  for (std::size_t at = 0; at < 8; ++at) {
    auto other = bytes;
    other[at] ^= 1;
    EXPECT_EQ(reverse_request_sender(other), std::nullopt) << at;
  }
}

TEST(Arp, RefusesEveryTruncation) {
  for_both([]<class Message>(const Sample<Message>& sample) {
    expect_truncations_refused<Message>(sample.bytes);
  });
}

TEST(Arp, IgnoresTrailingBytes) {
  for_both([]<class Message>(Sample<Message> sample) {
    sample.bytes.resize(60, 0x55);
    EXPECT_EQ(Message::parse(sample.bytes), sample.message);
  });
}

TEST(Arp, RefusesOtherHardwareAndProtocols) {
  // Every byte before the addresses is checked: types, lengths and operation.
  for_both([]<class Message>(const Sample<Message>& sample) {
    for (std::size_t at = 0; at < 8; ++at) {
      auto other = sample.bytes;
      other[at] ^= 0x10;
      EXPECT_FALSE(Message::parse(other)) << "byte " << at;
    }
  });
}

TEST(Arp, RefusesTheHardwareOfTheOther) {
  auto bytes = infiniband().bytes;
  bytes[1] = ethernet().bytes[1];
  EXPECT_FALSE(Arp::parse(bytes));
  bytes = ethernet().bytes;
  bytes[1] = infiniband().bytes[1];
  EXPECT_FALSE(EthernetArp::parse(bytes));
}

TEST(Arp, RefusesOperationsOfOtherProtocols) {
  for_both([]<class Message>(const Sample<Message>& sample) {
    for (const std::uint8_t operation : std::initializer_list<std::uint8_t>{0, 3, 4, 8, 255}) {
      auto other = sample.bytes;
      other[7] = operation;
      EXPECT_FALSE(Message::parse(other)) << int{operation};
    }
  });
}

}  // namespace
}  // namespace ipoib::wire
