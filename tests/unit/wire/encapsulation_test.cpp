#include "wire/encapsulation.hpp"

#include "golden.hpp"

namespace ipoib::wire {
namespace {

TEST(Encapsulation, CarriesTheFourTypesOfRfc4391) {
  EXPECT_EQ(parse_encapsulation(from_hex("0800 0000")), EtherType::ipv4);
  EXPECT_EQ(parse_encapsulation(from_hex("0806 0000")), EtherType::arp);
  EXPECT_EQ(parse_encapsulation(from_hex("8035 0000")), EtherType::rarp);
  EXPECT_EQ(parse_encapsulation(from_hex("86dd 0000")), EtherType::ipv6);
  EXPECT_FALSE(parse_encapsulation(from_hex("88ca 0000")));
  EXPECT_FALSE(parse_encapsulation(from_hex("0008 0000")));
}

TEST(Encapsulation, IgnoresTheReservedFieldOnReceipt) {
  EXPECT_EQ(parse_encapsulation(from_hex("0800 ffff 45")), EtherType::ipv4);
}

TEST(Encapsulation, SendsAReservedFieldOfZero) {
  std::vector<std::uint8_t> to(kEncapsulationSize, 0xee);
  emit_encapsulation(EtherType::arp, to.data());
  EXPECT_EQ(to, from_hex("0806 0000"));
}

TEST(Encapsulation, RefusesEveryTruncation) {
  const auto frame = from_hex("0800 0000");
  for (std::size_t size = 0; size < frame.size(); ++size) {
    EXPECT_FALSE(parse_encapsulation(ConstBytes(frame).first(size)));
  }
}

}  // namespace
}  // namespace ipoib::wire
