#include "daemon/service.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace ipoib::daemon {
namespace {

class ServiceTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(folder_.data()), nullptr); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_ = ::testing::TempDir() + "ipoibd-XXXXXX";
};

TEST_F(ServiceTest, RemovesThePidFileAtTheEnd) {
  const auto path = folder_ + "/pid";
  {
    const PidFile file(path);
    long pid = 0;
    std::ifstream(path) >> pid;
    EXPECT_EQ(pid, ::getpid());
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_THROW(PidFile(folder_ + "/none/pid"), std::runtime_error);
  const PidFile no_file("");
}

}  // namespace
}  // namespace ipoib::daemon
