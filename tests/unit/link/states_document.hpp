// Reads the rows of docs/states.md, and the names of the tests of rows in this program.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <string>

namespace ipoib {

inline std::set<std::string> rows_of_document(const std::string& document) {
  std::set<std::string> rows;
  std::ifstream file(document);
  const std::regex row(R"(^\| ([A-Z][A-Za-z]+_[A-Za-z_]+) \|.*)");
  std::smatch match;
  for (std::string line; std::getline(file, line);) {
    if (std::regex_match(line, match, row)) rows.insert(match[1]);
  }
  return rows;
}

/// The tests of the suites "...States"; for parameterised tests "Row/<name>", the name.
inline std::set<std::string> tests_of_rows() {
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

/// Rows about the ports of an interface, which are the daemon's and not the link's.
inline bool is_about_ports(const std::string& row) { return row.starts_with("Ports_"); }
/// Rows about stations, which are those of the Ethernet view.
inline bool is_about_stations(const std::string& row) { return row.starts_with("Station_"); }
/// Rows about the wakeups of a process on softib.
inline bool is_about_wakeups(const std::string& row) { return row.starts_with("Wakeup_"); }
/// Rows about softib's communication manager.
inline bool is_about_cm(const std::string& row) {
  return row.starts_with("Cm_") || row.starts_with("Sidr_");
}

}  // namespace ipoib
