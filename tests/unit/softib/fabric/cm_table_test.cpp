#include "softib/fabric/cm_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "softib/fabric/shared_file.hpp"
#include "temporary_folder.hpp"

namespace softib::fabric {
namespace {

using testing::ElementsAre;

constexpr SlotAddress kSlot{1, 5};
constexpr std::uint32_t kEpoch = 3;

class CmTableFile : public ::testing::Test {
 protected:
  CmTableFile() {
    EXPECT_TRUE(folder_.create());
    EXPECT_TRUE(folder_.create_node(kSlot.node));
  }
  [[nodiscard]] CmTableWriter create(std::string_view program = "rping") const {
    return CmTableWriter::create(folder_, kSlot, kEpoch, program).value();
  }
  [[nodiscard]] std::optional<CmTable> read(std::uint32_t epoch = kEpoch) const {
    return read_cm_table(folder_, kSlot, epoch);
  }

  const test::TemporaryFolder root_;
  const SubnetFolder folder_{root_.path() + "/default"};
};

TEST_F(CmTableFile, ReaderSeesWhatTheProcessHasWritten) {
  EXPECT_FALSE(read());
  auto writer = create();
  EXPECT_THAT(read()->entries, ElementsAre());
  writer.set_entry(0, {1, 2});
  writer.set_entry(kMaxListedCmIds - 1, {3});
  writer.set_counters({7, 8});
  writer.set_unlisted(9);
  const auto table = read();
  EXPECT_EQ(table->program, "rping");
  EXPECT_EQ(table->unlisted, 9U);
  EXPECT_EQ(table->counters[1], 8U);
  EXPECT_THAT(table->entries, ElementsAre(CmEntry{1, 2}, CmEntry{3}));
  writer.set_entry(0, {});
  EXPECT_THAT(read()->entries, ElementsAre(CmEntry{3}));
}

TEST_F(CmTableFile, AnEarlierProcessOfTheSlotIsNotSeen) {
  create().set_entry(0, {1});
  EXPECT_FALSE(read(kEpoch + 1));
  const auto writer = create(std::string(100, 'x'));
  EXPECT_THAT(read()->entries, ElementsAre());
  EXPECT_EQ(read()->program, std::string(kMaxProgramName, 'x'));
}

TEST_F(CmTableFile, AShortFileIsNone) {
  create().set_entry(0, {1});
  const auto at = folder_.open_node(kSlot.node);
  const auto file = open_shared(at->get(), slot_cm_name(kSlot.slot), IfMissing::fail);
  for (const off_t size : {off_t{4096}, off_t{1}, off_t{0}}) {
    ASSERT_EQ(::ftruncate(file->get(), size), 0);
    const auto table = read();  // no SIGBUS
    EXPECT_TRUE(!table || table->entries.size() <= 1);
  }
  EXPECT_FALSE(read());
}

TEST_F(CmTableFile, GoesWithItsNode) {
  (void)create();
  folder_.remove_node(kSlot.node);
  EXPECT_FALSE(folder_.open_node(kSlot.node));
}

}  // namespace
}  // namespace softib::fabric
