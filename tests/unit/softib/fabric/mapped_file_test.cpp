#include "softib/fabric/mapped_file.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "softib/fabric/shared_file.hpp"
#include "temporary_folder.hpp"

namespace softib::fabric {
namespace {

constexpr std::size_t kPage = 4096;

class MappedFile : public testing::Test {
 protected:
  const test::TemporaryFolder root_;
  const ipoib::FileDescriptor file_ = open_shared(root_ / "file", IfMissing::create).value();
};

TEST_F(MappedFile, OfAnImpossibleSizeIsRefused) {
  const auto mapped = map_file(file_.get(), std::size_t{1} << 62);
  ASSERT_FALSE(mapped);
  EXPECT_EQ(mapped.error().message, "it cannot be mapped: Cannot allocate memory");
}

TEST_F(MappedFile, AProcessHasALimitedNumber) {
  std::vector<std::shared_ptr<void>> all;
  for (;;) {
    auto mapped = map_file(file_.get(), kPage);
    if (!mapped) {
      EXPECT_EQ(mapped.error().message,
                "this process has mapped 1024 files of subnets, the maximum: run another process");
      break;
    }
    all.push_back(std::move(*mapped));
    ASSERT_LE(all.size(), kMaxMappedFiles);
  }
  all.pop_back();
  EXPECT_TRUE(map_file(file_.get(), kPage)) << "one that has gone leaves its room";
}

}  // namespace
}  // namespace softib::fabric
