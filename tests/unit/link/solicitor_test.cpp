// The rate limit of solicitations; rows of docs/states.md test the rest.
#include "tests/unit/link/object_fixture.hpp"

namespace ipoib::link {
namespace {

using SolicitorTest = ObjectFixture;

TEST_F(SolicitorTest, WithheldRepetitionsAreCounted) {
  while (solicitor.admit_repetition(now)) EXPECT_EQ(count(Counter::solicitations_withheld), 0U);
  EXPECT_EQ(count(Counter::solicitations_withheld), 1U);
  EXPECT_FALSE(solicitor.admit_repetition(now));
  EXPECT_EQ(count(Counter::solicitations_withheld), 2U);
}

}  // namespace
}  // namespace ipoib::link
