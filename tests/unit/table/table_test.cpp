#include "table/table.hpp"

#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

namespace ipoib::table {
namespace {

Table two_hosts() {
  Table table({{"NAME"}, {"PORT", Align::right, 1}, {"STATE", Align::left, 2}});
  table.add({"a", "1", "up"});
  table.add({"long-name", "12345", "down"});
  return table;
}

TEST(Table, AlignsColumns) {
  EXPECT_EQ(two_hosts().text(),
            "NAME        PORT  STATE\n"
            "a              1  up\n"
            "long-name  12345  down\n");
  EXPECT_EQ(two_hosts().width(), 23U);
}

TEST(Table, HasNoLineForEmptyHeadings) {
  Table table({{""}, {""}});
  table.add({"one", "1"});
  table.add({"three", "3"});
  EXPECT_EQ(table.text(), "one    1\nthree  3\n");
}

TEST(Table, OmitsColumnsUntilItFits) {
  const Table table = two_hosts();
  EXPECT_EQ(table.text(23), table.text());
  EXPECT_EQ(table.text(22), "NAME       STATE\na          up\nlong-name  down\n");
  EXPECT_EQ(table.text(15), "NAME\na\nlong-name\n");
  EXPECT_EQ(table.text(3), table.text(15)) << "NAME is never omitted";
}

TEST(Table, BeginsWithTheFirstColumnThatIsLeft) {
  Table table({{"A", Align::left, 1}, {"B"}, {"C"}});
  table.add({"aaaa", "b", "c"});
  EXPECT_EQ(table.text(4), "B  C\nb  c\n");
}

TEST(Table, CountsNoColours) {
  Table table({{"A"}, {"B"}});
  table.add({"\033[36mib0\033[0m", "x"});
  table.add({"ib12", "y"});
  EXPECT_EQ(table.text(), "A     B\n\033[36mib0\033[0m   x\nib12  y\n");
}

TEST(Table, CountsCharactersNotBytes) {
  Table table({{"NAME"}, {"X"}});
  table.add({"b\xc3\xbcro", "1"});
  EXPECT_EQ(table.text(), "NAME  X\nb\xc3\xbcro  1\n");
}

TEST(Table, WithoutRowsIsTheHeadings) {
  const Table table({{"NAME"}, {"PORT", Align::right}});
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(table.text(), "NAME  PORT\n");
  EXPECT_FALSE(two_hosts().empty());
}

/// Standard output is something else during a test.
class OutputWidth : public testing::Test {
 protected:
  void SetUp() override {
    unsetenv("COLUMNS");
    saved_ = dup(STDOUT_FILENO);
  }
  void TearDown() override {
    dup2(saved_, STDOUT_FILENO);
    close(saved_);
    unsetenv("COLUMNS");
  }
  int saved_ = -1;
};

TEST_F(OutputWidth, IsThatOfTheTerminal) {
  int master = -1;
  int terminal = -1;
  const winsize size{24, 77, 0, 0};
  ASSERT_EQ(openpty(&master, &terminal, nullptr, nullptr, &size), 0);
  dup2(terminal, STDOUT_FILENO);
  const std::size_t width = output_width();
  setenv("COLUMNS", "100", 1);
  const std::size_t of_variable = output_width();
  for (const char* const wrong : {"", "0", "-1", "80x", "wide"}) {
    setenv("COLUMNS", wrong, 1);
    EXPECT_EQ(output_width(), 77U) << wrong;
  }
  dup2(saved_, STDOUT_FILENO);
  close(terminal);
  close(master);
  EXPECT_EQ(width, 77U);
  EXPECT_EQ(of_variable, 100U);
}

TEST_F(OutputWidth, IsUnlimitedForATerminalWithoutASize) {
  int master = -1;
  int terminal = -1;
  const winsize none{};
  ASSERT_EQ(openpty(&master, &terminal, nullptr, nullptr, &none), 0);
  dup2(terminal, STDOUT_FILENO);
  const std::size_t width = output_width();
  dup2(saved_, STDOUT_FILENO);
  close(terminal);
  close(master);
  EXPECT_EQ(width, kUnlimited);
}

TEST_F(OutputWidth, IsUnlimitedForAPipe) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  dup2(ends[1], STDOUT_FILENO);
  const std::size_t width = output_width();
  dup2(saved_, STDOUT_FILENO);
  close(ends[0]);
  close(ends[1]);
  EXPECT_EQ(width, kUnlimited);
}

}  // namespace
}  // namespace ipoib::table
