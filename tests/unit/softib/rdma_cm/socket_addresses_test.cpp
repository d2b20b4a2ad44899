#include "softib/rdma_cm/socket_addresses.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstring>

namespace softib::rdma_cm {
namespace {

ipoib::ConstBytes bytes_of(const sockaddr_storage& storage) {
  return {reinterpret_cast<const std::uint8_t*>(&storage), sizeof storage};
}

TEST(SocketAddresses, Ipv4IsThatOfTheCLibrary) {
  sockaddr_storage storage{};
  auto& in = reinterpret_cast<sockaddr_in&>(storage);
  in.sin_family = AF_INET;
  in.sin_port = htons(7174);
  in.sin_addr.s_addr = htonl(0x7f4d0001);
  const Address address = IpEndpoint{ipoib::Ipv4Address(0x7f4d0001), 7174};
  EXPECT_EQ(read_address(bytes_of(storage)), address);
  sockaddr_storage written;
  EXPECT_EQ(write_address(address, written), sizeof in);
  EXPECT_EQ(std::memcmp(&written, &storage, sizeof storage), 0);
}

TEST(SocketAddresses, Ipv6IsThatOfTheCLibrary) {
  sockaddr_storage storage{};
  auto& in = reinterpret_cast<sockaddr_in6&>(storage);
  in.sin6_family = AF_INET6;
  in.sin6_port = htons(9);
  in.sin6_flowinfo = htonl(0x12345);
  in.sin6_scope_id = 3;
  ::inet_pton(AF_INET6, "fd77::1", &in.sin6_addr);
  const Address address = IpEndpoint{*ipoib::Ipv6Address::parse("fd77::1"), 9, 0x12345, 3};
  EXPECT_EQ(read_address(bytes_of(storage)), address);
  sockaddr_storage written;
  EXPECT_EQ(write_address(address, written), sizeof in);
  EXPECT_EQ(std::memcmp(&written, &storage, sizeof storage), 0);
}

TEST(SocketAddresses, IbHas48Bytes) {
  const Address address = IbEndpoint{
      PKey(0x8001), 5, Gid(0xfe80'0000'0000'0000, Guid(7)), 0x0106'1c06, 0xffff'ffff'ffff'0000, 9};
  sockaddr_storage written;
  EXPECT_EQ(write_address(address, written), 48U);
  EXPECT_EQ(written.ss_family, 27);
  const auto bytes = bytes_of(written);
  EXPECT_EQ(bytes[2], 0x80);
  EXPECT_EQ(bytes[8], 0xfe);
  EXPECT_EQ(bytes[23], 7);
  EXPECT_EQ(bytes[31], 0x06);
  EXPECT_EQ(read_address(bytes), address);
}

TEST(SocketAddresses, OtherFamiliesAndShortOnesAreNone) {
  sockaddr_storage storage{};
  EXPECT_EQ(read_address(bytes_of(storage)), Address());
  EXPECT_EQ(write_address(Address(), storage), 0U);
  storage.ss_family = AF_UNIX;
  EXPECT_FALSE(read_address(bytes_of(storage)));
  storage.ss_family = AF_INET;
  EXPECT_FALSE(read_address(bytes_of(storage).first(sizeof(sockaddr_in) - 1)));
}

}  // namespace
}  // namespace softib::rdma_cm
