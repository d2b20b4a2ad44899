#include "softib/fabric/unused_folder.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <vector>

#include "softib/fabric/capture_slots.hpp"
#include "softib/fabric/file_lock.hpp"
#include "softib/fabric/shared_file.hpp"
#include "softib/fabric/subnet_lock.hpp"
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

TEST_F(UnusedFolder, IsRemovedWithAllFilesOfASubnetAndNoOthers) {
  for (const std::string name : {"control", "options", "options.new", "fabric.new"}) {
    std::ofstream(folder_.path() + "/" + name) << "";
  }
  for (const CaptureId id : {CaptureId{1}, kMaxCaptureId})
    std::ofstream(folder_.path() + "/" + capture_name(id)) << "";
  EXPECT_TRUE(remove_without_process(folder_));
  EXPECT_FALSE(std::filesystem::exists(folder_.path()));
  ASSERT_TRUE(folder_.create());
  const auto other = folder_.path() + "/somebody's";
  std::ofstream(folder_.lock()) << "";
  std::ofstream(other) << "";
  (void)remove_without_process(folder_);
  EXPECT_TRUE(std::filesystem::exists(other));
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
  EXPECT_TRUE(remove_without_process(folder_, std::array{SlotAddress{kMaxNodes - 1, 63}}))
      << "its own";
  EXPECT_FALSE(std::filesystem::exists(folder_.path()));
}

TEST_F(UnusedFolder, StaysWhileASubnetProcessRuns) {
  auto lock = open_shared(folder_.lock(), IfMissing::fail);
  ASSERT_TRUE(lock && try_lock(lock->get(), 0));
  EXPECT_FALSE(remove_without_process(folder_));
  EXPECT_TRUE(std::filesystem::exists(slot_));
}

TEST_F(UnusedFolder, StaysUnlessItsSubnetHasEnded) {
  EXPECT_FALSE(remove_if_ended(folder_)) << "its process was killed";
  EXPECT_TRUE(std::filesystem::exists(slot_));
  folder_.mark_ended(true);
  EXPECT_TRUE(remove_if_ended(folder_));
  EXPECT_FALSE(std::filesystem::exists(folder_.path()));
}

/// Such as one that another subnet process has begun since.
TEST_F(UnusedFolder, StaysIfItsFabricFileIsAnotherOne) {
  const auto before = FabricWriter::create_or_adopt(folder_.fabric());
  ASSERT_TRUE(before);
  std::filesystem::remove(folder_.fabric());
  const auto now = FabricWriter::create_or_adopt(folder_.fabric());
  ASSERT_TRUE(now);
  EXPECT_FALSE(remove_if_unused(folder_, *before));
  EXPECT_TRUE(std::filesystem::exists(folder_.fabric()));
}

TEST_F(UnusedFolder, StaysWhileAProgramAttaches) {
  std::ofstream(folder_.fabric()) << "another version";
  auto attaching = open_shared(folder_.fabric(), IfMissing::fail);
  ASSERT_TRUE(attaching);
  ASSERT_TRUE(try_lock_shared(attaching->get(), kAttachLockOffset));
  EXPECT_FALSE(remove_without_process(folder_));
  EXPECT_TRUE(std::filesystem::exists(slot_));
  EXPECT_EQ(block_attach(folder_).error().message,
            "a process is attaching to the subnet: try again");
}

/// A process that was killed leaves its slot occupied, but its lock is free.
TEST(AttachedProcesses, AreThoseThatHoldTheLockOfTheirSlot) {
  const test::TemporaryFolder root;
  const SubnetFolder folder{root / "red"};
  ASSERT_TRUE(folder.create());
  ASSERT_TRUE(folder.create_node(5));
  auto fabric = FabricWriter::create_or_adopt(folder.fabric()).value();
  std::vector<ipoib::FileDescriptor> locks;
  for (const std::uint32_t slot : {3U, 4U, 63U}) {
    fabric.set_occupied(5, slot, true);
    fabric.advance_epoch(5, slot);
    const std::string name = folder.node(5) + "/" + slot_lock_name(slot);
    locks.push_back(open_shared(name, IfMissing::create).value());
    ASSERT_TRUE(try_lock(locks.back().get(), 0));
    ASSERT_TRUE(write_holder(locks.back().get()));
  }
  locks.erase(locks.begin());
  const auto found = attached_processes(fabric, folder, 5);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].slot, 4U);
  EXPECT_EQ(found[1].slot, 63U);
  EXPECT_EQ(found[1].epoch, 1U);
  EXPECT_EQ(found[1].pid, ::getpid());
  EXPECT_EQ(first_attached_pid(folder, 5), ::getpid());
  EXPECT_TRUE(attached_processes(fabric, folder, 6).empty());
}

TEST(SubnetLock, IsForOneProcess) {
  const test::TemporaryFolder root;
  const SubnetFolder folder{root / "deep/red"};
  {
    const auto lock = SubnetLock::take(folder);
    ASSERT_TRUE(lock);
    const auto second = SubnetLock::take(folder);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, EBUSY);
    EXPECT_NE(second.error().message.find(std::to_string(::getpid())), std::string::npos);
  }
  EXPECT_TRUE(SubnetLock::take(folder)) << "it was released";
}

}  // namespace
}  // namespace softib::fabric
