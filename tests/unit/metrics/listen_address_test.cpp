#include "metrics/listen_address.hpp"

#include <gtest/gtest.h>

namespace ipoib::metrics {
namespace {

TEST(ListenAddressTest, IsTheLoopbackAddressUnlessOneIsGiven) {
  EXPECT_EQ(ListenAddress::parse("9100").value().text(), "127.0.0.1:9100");
  EXPECT_EQ(ListenAddress::parse("0").value().text(), "127.0.0.1:0");
  EXPECT_EQ(ListenAddress::parse("10.0.0.1:65535").value().text(), "10.0.0.1:65535");
  EXPECT_EQ(ListenAddress::parse("[::]:9100").value().text(), "[::]:9100");
  EXPECT_EQ(ListenAddress::parse("[fd00::1]:1").value().text(), "[fd00::1]:1");
}

TEST(ListenAddressTest, AnythingElseIsRefused) {
  // A comma or a letter behind the port would be an option of the HTTP server.
  for (const char* const text :
       {"",          ":",         "9100 ",        " 9100",     "65536",         "-1",
        "+1",        "0x10",      "9100s",        "9100,9101", "host:9100",     "10.0.0.1",
        "10.0.0.1:", ":9100",     "10.0.0.256:1", "::1:9100",  "[::1]",         "[10.0.0.1]:1",
        "[::1:9100", "::1]:9100", "[]:1",         "[[::1]]:1", "127.0.0.1:1,2", "127.0.0.1:443s"}) {
    EXPECT_TRUE(ListenAddress::parse(text).has_error()) << text;
  }
}

}  // namespace
}  // namespace ipoib::metrics
