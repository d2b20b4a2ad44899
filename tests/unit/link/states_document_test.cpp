// Compares the rows of docs/states.md with the tests.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <string>

namespace {

std::set<std::string> rows_of_document() {
  std::set<std::string> rows;
  std::ifstream document(IPOIB_STATES_DOCUMENT);
  const std::regex row(R"(^\| ([A-Z][A-Za-z]+_[A-Za-z_]+) \|.*)");
  std::smatch match;
  for (std::string line; std::getline(document, line);) {
    if (std::regex_match(line, match, row)) rows.insert(match[1]);
  }
  return rows;
}

/// The tests of the suites "...States"; for parameterised tests "Row/<name>", the name.
std::set<std::string> tests_of_rows() {
  std::set<std::string> tests;
  const auto& program = *testing::UnitTest::GetInstance();
  for (int i = 0; i < program.total_test_suite_count(); ++i) {
    const auto& suite = *program.GetTestSuite(i);
    if (!std::string(suite.name()).ends_with("States")) continue;
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const std::string name = suite.GetTestInfo(j)->name();
      tests.insert(name.substr(name.rfind('/') + 1));
    }
  }
  return tests;
}

TEST(StatesDocument, EachRowHasATestAndViceVersa) {
  EXPECT_GT(rows_of_document().size(), 100U);
  EXPECT_EQ(rows_of_document(), tests_of_rows());
}

}  // namespace
