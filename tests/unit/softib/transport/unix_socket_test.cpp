#include "softib/transport/unix_socket.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "softib/fabric/shared_file.hpp"
#include "temporary_folder.hpp"

namespace softib::transport {
namespace {

TEST(UnixSocket, ReplacesASocketButNoFolder) {
  const test::TemporaryFolder root;
  const auto folder = fabric::open_folder(root.path()).value();
  EXPECT_TRUE(listen_at(folder.get(), "socket"));
  EXPECT_TRUE(listen_at(folder.get(), "socket")) << "of a process that has ended";
  std::filesystem::create_directory(root / "folder");
  const auto refused = listen_at(folder.get(), "folder");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "cannot replace folder: Is a directory; remove it");
}

}  // namespace
}  // namespace softib::transport
