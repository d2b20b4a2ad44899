// Compares the rows of docs/states.md with the tests.
#include "tests/unit/link/states_document.hpp"

namespace {

TEST(StatesDocument, EachRowHasATestAndViceVersa) {
  auto rows = ipoib::rows_of_document(IPOIB_STATES_DOCUMENT);
  std::erase_if(rows, ipoib::is_about_ports);
  std::erase_if(rows, ipoib::is_about_stations);
  std::erase_if(rows, ipoib::is_about_cm);
  std::erase_if(rows, ipoib::is_about_wakeups);
  EXPECT_GT(rows.size(), 100U);
  EXPECT_EQ(rows, ipoib::tests_of_rows());
}

}  // namespace
