#include "softib/fabric/unused_folder.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "softib/fabric/file_lock.hpp"
#include "softib/fabric/shared_file.hpp"
#include "temporary_folder.hpp"

namespace softib::fabric {
namespace {

/// What a killed subnet process leaves, with a process slot but without a fabric file.
class UnusedFolder : public ::testing::Test {
 protected:
  UnusedFolder() {
    EXPECT_TRUE(folder_.create());
    EXPECT_TRUE(folder_.create_node(kMaxNodes - 1));
    std::ofstream(folder_.lock()) << "";
    std::ofstream(slot_) << "";
  }

  const test::TemporaryFolder root_;
  const SubnetFolder folder_{root_ / "red"};
  const std::string slot_ = folder_.node(kMaxNodes - 1) + "/" + slot_lock_name(63);
};

TEST_F(UnusedFolder, IsRemovedWithoutAFabricFile) {
  EXPECT_TRUE(remove_without_process(folder_));
  EXPECT_FALSE(std::filesystem::exists(folder_.path()));
}

TEST_F(UnusedFolder, IsRemovedWithTheFabricFileOfAnotherVersion) {
  std::ofstream(folder_.fabric()) << "another version";
  EXPECT_TRUE(remove_without_process(folder_));
  EXPECT_FALSE(std::filesystem::exists(folder_.path()));
}

TEST_F(UnusedFolder, StaysWhileAProgramHasASlot) {
  auto slot = open_shared(slot_, IfMissing::fail);
  ASSERT_TRUE(slot && try_lock(slot->get(), 0));
  EXPECT_FALSE(remove_without_process(folder_));
  EXPECT_TRUE(remove_without_process(folder_, SlotAddress{kMaxNodes - 1, 63})) << "its own";
  EXPECT_FALSE(std::filesystem::exists(folder_.path()));
}

TEST_F(UnusedFolder, StaysWhileAProgramAttaches) {
  std::ofstream(folder_.fabric()) << "another version";
  auto attaching = open_shared(folder_.fabric(), IfMissing::fail);
  ASSERT_TRUE(attaching);
  lock_shared(attaching->get(), kAttachLockOffset);
  EXPECT_FALSE(remove_without_process(folder_));
  EXPECT_TRUE(std::filesystem::exists(slot_));
}

}  // namespace
}  // namespace softib::fabric
