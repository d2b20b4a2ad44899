#include "softib/subnetd/captures.hpp"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>

#include "softib/fabric/shared_file.hpp"
#include "softib/transport/unix_socket.hpp"
#include "temporary_folder.hpp"

namespace softib::subnetd {
namespace {

const control::Capture kCapture{.id = 1, .hcas = {}};

TEST(Captures, NeedAProcessThatListensAndANumberOfTheirOwn) {
  const test::TemporaryFolder root;
  const fabric::SubnetFolder folder{root / "red"};
  ASSERT_TRUE(folder.create());
  boost::asio::io_context context;
  int changes = 0;
  Captures captures(context, folder, [&] { ++changes; });
  EXPECT_EQ(captures.begin(kCapture).error().message,
            "cannot connect to the capture: No such file or directory");
  const auto opened = fabric::open_folder(folder.path()).value();
  const auto listener = transport::listen_at(opened.get(), fabric::capture_name(1)).value();
  EXPECT_TRUE(captures.begin(kCapture));
  EXPECT_EQ(changes, 1);
  EXPECT_EQ(captures.begin(kCapture).error().message,
            "there is a capture 1 already: choose another number");
  EXPECT_EQ(changes, 1);
  captures.end_all();
}

}  // namespace
}  // namespace softib::subnetd
