#include "daemon/interfaces/ipv6_identity.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>

namespace ipoib::daemon {
namespace {

class Ipv6IdentityTest : public ::testing::Test {
 protected:
  Ipv6IdentityTest() { std::ofstream(file_) << "0123456789abcdef0123456789abcdef\n"; }
  ~Ipv6IdentityTest() override { ::unlink(file_.c_str()); }
  [[nodiscard]] Ipv6Address secret(std::uint64_t guid, std::uint16_t pkey) const {
    return ipv6_identity(true, Guid(guid), PKey(pkey), file_).stable_secret.value();
  }
  const std::string file_ = ::testing::TempDir() + "machine-id-" + std::to_string(::getpid());
};

TEST_F(Ipv6IdentityTest, RFC4391_8_LinkLocalAddressIsDerivedFromTheGuid) {
  const auto plain = ipv6_identity(false, Guid(0x0002c90300001234), kDefaultPKey, "/nowhere");
  EXPECT_EQ(plain.link_local, Ipv6Address::parse("fe80::202:c903:0:1234"));
  EXPECT_FALSE(plain.stable_secret);
  const auto modified = ipv6_identity(false, Guid(0x0202c90300001234), kDefaultPKey, "/nowhere");
  EXPECT_EQ(modified.link_local, plain.link_local) << "toggled already";
}

TEST_F(Ipv6IdentityTest, SecretIsStableAndDependsOnPortAndPartition) {
  EXPECT_EQ(secret(1, 0xffff), secret(1, 0xffff));
  EXPECT_EQ(secret(1, 0xffff), secret(1, 0x7fff)) << "the same partition";
  EXPECT_NE(secret(1, 0xffff), secret(2, 0xffff));
  EXPECT_NE(secret(1, 0xffff), secret(1, 0x8001));
  EXPECT_FALSE(ipv6_identity(true, Guid(1), kDefaultPKey, file_).link_local);
}

TEST_F(Ipv6IdentityTest, NeedsAMachineId) {
  try {
    (void)ipv6_identity(true, Guid(1), kDefaultPKey, "/nowhere");
    FAIL() << "it has an identity";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(),
                 "--stable-privacy needs /nowhere, which cannot be read: create it with "
                 "systemd-machine-id-setup");
  }
}

TEST(LinkLocalOf, HasTheGuidFirstAndStableOtherIdentifiersThen) {
  const Guid port(0x0002c90300000001);
  const auto first = link_local_of(port, kDefaultPKey);
  EXPECT_EQ(first.to_string(), "fe80::202:c903:0:1");
  const auto second = link_local_of(port, kDefaultPKey, 1);
  EXPECT_EQ(second, link_local_of(port, kDefaultPKey, 1));
  EXPECT_NE(second, first);
  EXPECT_NE(second, link_local_of(port, kDefaultPKey, 2));
  EXPECT_NE(second, link_local_of(port, PKey(0x8001), 1));
  EXPECT_TRUE(second.to_string().starts_with("fe80::"));
  EXPECT_EQ(second.bytes()[8] & 2, 0) << "a local identifier (RFC 4291, 2.5.1)";
}

}  // namespace
}  // namespace ipoib::daemon
