// Compares the rows of docs/states.md with the tests.
#include "tests/unit/link/states_document.hpp"

#include <functional>

namespace {

TEST(CmStatesDocument, EachRowHasATestAndViceVersa) {
  auto rows = ipoib::rows_of_document(IPOIB_STATES_DOCUMENT);
  std::erase_if(rows, std::not_fn(ipoib::is_about_cm));
  EXPECT_GT(rows.size(), 90U);
  EXPECT_EQ(rows, ipoib::tests_of_rows());
}

}  // namespace
