#include "table/table.hpp"

#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>

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
  EXPECT_EQ(table.text(9), table.text(15)) << "NAME is never omitted";
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

Table members() {
  Table table({{"GROUP"}, {"MTU", Align::right, 1}, {"MEMBERS"}});
  table.add({"0x12", "2048", "host1 host2 host3 host4"});
  table.add({"0x13", "4096", "host5"});
  return table;
}

TEST(Table, BreaksTheLastColumnAtBlanks) {
  EXPECT_EQ(members().text(27),
            "GROUP  MEMBERS\n"
            "0x12   host1 host2 host3\n"
            "       host4\n"
            "0x13   host5\n");
  EXPECT_EQ(members().wide_text(33),
            "GROUP   MTU  MEMBERS\n"
            "0x12   2048  host1 host2 host3\n"
            "             host4\n"
            "0x13   4096  host5\n");
}

TEST(Table, PrintsBlocksIfLinesWouldBeTooLong) {
  EXPECT_EQ(members().text(26),
            "0x12\n"
            "    MEMBERS host1 host2\n"
            "        host3 host4\n"
            "0x13\n"
            "    MEMBERS host5\n");
  EXPECT_EQ(members().wide_text(26),
            "0x12\n"
            "    MTU 2048\n"
            "    MEMBERS host1 host2\n"
            "        host3 host4\n"
            "0x13\n"
            "    MTU 4096\n"
            "    MEMBERS host5\n");
}

/// Addresses are never broken: a part of one is of no use.
TEST(Table, ACellWithoutBlanksStaysWhole) {
  Table table({{"ADDRESS"}, {"DEV"}, {"STATE"}});
  table.add({"fd44:1111:2222:3333:4444:5555:6666:7777", "ib0.8001", "reachable"});
  EXPECT_EQ(table.text(40),
            "fd44:1111:2222:3333:4444:5555:6666:7777\n"
            "    DEV ib0.8001  STATE reachable\n");
  EXPECT_EQ(table.text(20),
            "fd44:1111:2222:3333:4444:5555:6666:7777\n"
            "    DEV ib0.8001\n"
            "    STATE reachable\n");
  EXPECT_EQ(table.text(1),
            "fd44:1111:2222:3333:4444:5555:6666:7777\n"
            "    DEV\n        ib0.8001\n"
            "    STATE\n        reachable\n");
}

/// What does not exceed a width never does so at a greater one, whatever the columns are.
TEST(Table, NoLineIsWiderThanTheTerminal) {
  Table table({{"A"}, {"NUMBER", Align::right, 2}, {"WORDS"}, {"B", Align::left, 1}, {"LIST"}});
  table.add({"a1", "12345", "five words of a text", "\033[36mcolour\033[0m", "w1 w2 w3 w4 w5 w6"});
  table.add({"a2", "1", "", "b", ""});
  for (std::size_t width = 16; width < 80; ++width) {
    for (const auto& text : {table.text(width), table.wide_text(width)}) {
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);) {
        for (const std::string_view colour : {"\033[36m", "\033[0m"}) {
          if (const auto at = line.find(colour); at != std::string::npos)
            line.erase(at, colour.size());
        }
        EXPECT_LE(line.size(), width) << text;
      }
      EXPECT_NE(text.find("w6"), std::string::npos) << text;
    }
  }
}

TEST(Table, BlocksOfATableWithoutHeadingsHaveNone) {
  Table table({{""}, {""}, {""}});
  table.add({"  wrong", "port", "mlx5_0 port 1 waits for a cable, or the port of the switch"});
  table.add({"", "", "-> iblinkinfo"});
  EXPECT_EQ(table.text(40),
            "  wrong  port  mlx5_0 port 1 waits for a\n"
            "               cable, or the port of the\n"
            "               switch\n"
            "               -> iblinkinfo\n");
  EXPECT_EQ(table.text(30),
            "wrong\n"
            "    port\n"
            "    mlx5_0 port 1 waits for a\n"
            "        cable, or the port of\n"
            "        the switch\n"
            "    -> iblinkinfo\n");
}

TEST(Fold, BreaksLongLinesAtBlanks) {
  EXPECT_EQ(fold("ib0: up\n    device port 1  pkey 0xffff\n\nend", 24),
            "ib0: up\n    device port 1 pkey\n        0xffff\n\nend");
  EXPECT_EQ(fold("a  b\n", 4), "a  b\n");
  EXPECT_EQ(fold("fe80:0000:0000 x\n", 6), "fe80:0000:0000\n    x\n");
  EXPECT_EQ(fold("      \n", 3), "      \n");
  EXPECT_EQ(fold("", 3), "");
}

TEST(Table, WithoutRowsIsTheHeadings) {
  const Table table({{"NAME"}, {"PORT", Align::right}});
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(table.text(), "NAME  PORT\n");
  EXPECT_EQ(table.text(8), "NAME\n    PORT\n");
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
