// Rows of docs/states.md, "Ports of an interface".
#include "daemon/pump/port_selection.hpp"

#include "tests/unit/link/states_document.hpp"

namespace ipoib::daemon {
namespace {

using namespace std::chrono_literals;
using Move = PortSelection::Move;
using Reason = PortSelection::Reason;

constexpr auto kPrimary = PortRole::primary;
constexpr auto kBackup = PortRole::backup;
constexpr auto kDown = PortHealth::down;
constexpr auto kSilent = PortHealth::silent;
constexpr auto kNoSm = PortHealth::no_sm;
constexpr auto kReady = PortHealth::ready;

class PortStates : public ::testing::Test {
 protected:
  static constexpr Duration kHoldDown = 10s;

  void set(PortRole role, PortHealth health) { selection.on_health(role, health, now); }
  [[nodiscard]] std::optional<Move> next() { return selection.next(now); }
  /// Whether the interface is moved after this time, and not before.
  void expect_after(Duration time, Move move) {
    EXPECT_EQ(selection.next_deadline(), now + time);
    now += time - 1ns;
    EXPECT_EQ(next(), std::nullopt);
    now += 1ns;
    EXPECT_EQ(next(), move);
    EXPECT_EQ(selection.active(), move.to);
  }
  void expect_to_stay() {
    EXPECT_EQ(selection.next_deadline(), kNever);
    now += 10 * kHoldDown;
    EXPECT_EQ(next(), std::nullopt);
  }
  /// Both ports have been ready for a long time.
  void be_on_primary() {
    set(kPrimary, kReady);
    set(kBackup, kReady);
    now += 1h;
    ASSERT_EQ(next(), std::nullopt);
  }
  void be_on_backup() {
    be_on_primary();
    set(kPrimary, kDown);
    ASSERT_EQ(next(), (Move{kBackup, Reason::down}));
  }

  TimePoint now{1000s};
  PortSelection selection{{.reselect = Reselect::always, .hold_down = kHoldDown}};
};

TEST_F(PortStates, Ports_Start_PrimaryUp) {
  set(kBackup, kReady);
  now += 1s;
  set(kPrimary, kReady);
  EXPECT_EQ(selection.active(), kPrimary);
  expect_to_stay();
}

TEST_F(PortStates, Ports_Start_BackupUp) {
  set(kBackup, kReady);
  EXPECT_EQ(next(), std::nullopt);
  expect_after(PortSelection::kStartGrace, {kBackup, Reason::down});
}

TEST_F(PortStates, Ports_Start_Takeover) {
  be_on_backup();
  selection.choose(kBackup);
  const SavedSelection saved = selection.save();
  EXPECT_TRUE(saved.is_chosen);
  selection = PortSelection({.reselect = Reselect::always, .hold_down = kHoldDown});
  selection.restore(kBackup, saved);
  set(kPrimary, kReady);
  EXPECT_EQ(next(), std::nullopt) << "the backup may come up so much later";
  now += PortSelection::kStartGrace - 1ns;
  set(kBackup, kReady);
  expect_to_stay();
  set(kBackup, kDown);
  EXPECT_EQ(next(), (Move{kPrimary, Reason::down}));

  selection = PortSelection({.reselect = Reselect::always, .hold_down = kHoldDown});
  selection.restore(kBackup, {.port = {}, .is_chosen = false, .hold_down_factor = 4});
  EXPECT_EQ(selection.save().hold_down_factor, 4);
  set(kPrimary, kReady);
  set(kBackup, kReady);
  expect_after(4 * kHoldDown, {kPrimary, Reason::primary_is_back});
}

TEST_F(PortStates, Ports_Primary_Down) {
  set(kPrimary, kReady);
  now += 1h;
  set(kBackup, kNoSm);  // for a moment only, and without subnet manager: better than no link
  set(kPrimary, kDown);
  EXPECT_EQ(next(), (Move{kBackup, Reason::down}));
  EXPECT_EQ(selection.active(), kBackup);
}

TEST_F(PortStates, Ports_Primary_Down_NoBackup) {
  set(kPrimary, kReady);
  set(kPrimary, kDown);
  expect_to_stay();
  set(kBackup, kReady);
  EXPECT_EQ(next(), (Move{kBackup, Reason::down}));
}

TEST_F(PortStates, Ports_Primary_Silent) {
  be_on_primary();
  set(kPrimary, kSilent);
  EXPECT_EQ(next(), (Move{kBackup, Reason::silent}));
}

TEST_F(PortStates, Ports_Primary_Silent_BackupDown) {
  be_on_primary();
  set(kBackup, kDown);
  set(kPrimary, kSilent);
  expect_to_stay();
}

TEST_F(PortStates, Ports_Backup_PrimarySilent) {
  be_on_backup();
  set(kPrimary, kSilent);
  expect_to_stay();
  set(kPrimary, kReady);
  expect_after(kHoldDown, {kPrimary, Reason::primary_is_back});
}

TEST_F(PortStates, Ports_Backup_PrimaryFailsAfterEachReturn) {
  be_on_backup();
  for (const int factor : {1, 2, 4, 8, 16, 32, 32}) {
    set(kPrimary, kReady);
    expect_after(factor * kHoldDown, {kPrimary, Reason::primary_is_back});
    now += 1min;
    set(kPrimary, kSilent);
    EXPECT_EQ(next(), (Move{kBackup, Reason::silent}));
  }
  set(kPrimary, kReady);
  expect_after(32 * kHoldDown, {kPrimary, Reason::primary_is_back});
  now += PortSelection::kFlapTime;
  set(kPrimary, kDown);
  EXPECT_EQ(next(), (Move{kBackup, Reason::down}));
  set(kPrimary, kReady);
  expect_after(kHoldDown, {kPrimary, Reason::primary_is_back});
}

TEST_F(PortStates, Ports_Primary_NoSm) {
  be_on_primary();
  set(kPrimary, kNoSm);
  EXPECT_EQ(next(), (Move{kBackup, Reason::no_sm}));
}

TEST_F(PortStates, Ports_Primary_NoSm_BackupNotSteady) {
  be_on_primary();
  set(kBackup, kNoSm);
  set(kPrimary, kNoSm);
  EXPECT_EQ(next(), std::nullopt);
  set(kBackup, kReady);
  expect_after(kHoldDown, {kBackup, Reason::no_sm});
}

TEST_F(PortStates, Ports_Primary_NoSm_BackupNoSm) {
  be_on_primary();
  set(kBackup, kNoSm);
  set(kPrimary, kNoSm);
  expect_to_stay();
}

TEST_F(PortStates, Ports_Backup_PrimaryUp) {
  be_on_backup();
  set(kPrimary, kReady);
  expect_after(kHoldDown, {kPrimary, Reason::primary_is_back});
  expect_to_stay();
}

TEST_F(PortStates, Ports_Backup_PrimaryFlaps) {
  be_on_backup();
  for (int i = 0; i < 5; ++i) {
    set(kPrimary, kReady);
    now += kHoldDown - 1ns;
    EXPECT_EQ(next(), std::nullopt);
    set(kPrimary, kDown);
  }
  set(kPrimary, kReady);
  expect_after(kHoldDown, {kPrimary, Reason::primary_is_back});
}

TEST_F(PortStates, Ports_Backup_PrimaryNoSm) {
  be_on_backup();
  set(kPrimary, kNoSm);
  expect_to_stay();
}

TEST_F(PortStates, Ports_Backup_PrimaryUp_Failure) {
  selection = PortSelection({.reselect = Reselect::failure, .hold_down = kHoldDown});
  be_on_backup();
  set(kPrimary, kReady);
  expect_to_stay();
}

TEST_F(PortStates, Ports_Backup_Down) {
  be_on_backup();
  set(kPrimary, kReady);
  set(kBackup, kDown);
  EXPECT_EQ(next(), (Move{kPrimary, Reason::down}));
}

TEST_F(PortStates, Ports_Chosen_PrimaryUp) {
  be_on_primary();
  selection.choose(kBackup);
  EXPECT_EQ(selection.active(), kBackup);
  expect_to_stay();
}

TEST_F(PortStates, Ports_Chosen_Down) {
  be_on_primary();
  selection.choose(kBackup);
  set(kBackup, kDown);
  EXPECT_EQ(next(), (Move{kPrimary, Reason::down}));
  set(kBackup, kReady);
  expect_to_stay();
  set(kPrimary, kDown);
  EXPECT_EQ(next(), (Move{kBackup, Reason::down}));
  set(kPrimary, kReady);
  expect_after(kHoldDown, {kPrimary, Reason::primary_is_back});  // the choice has ended
}

TEST(StatesDocument, EachRowAboutPortsHasATestAndViceVersa) {
  auto rows = rows_of_document(IPOIB_STATES_DOCUMENT);
  std::erase_if(rows, [](const std::string& row) { return !is_about_ports(row); });
  EXPECT_GT(rows.size(), 10U);
  EXPECT_EQ(rows, tests_of_rows());
}

}  // namespace
}  // namespace ipoib::daemon
