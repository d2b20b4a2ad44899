#include "link/cache/slab.hpp"

#include <gmock/gmock.h>

#include <cstdint>
#include <vector>

namespace ipoib::link::cache {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Numbers = Slab<std::uint64_t>;

std::vector<std::uint64_t> visited(const Numbers& slab, std::uint32_t from = 0) {
  std::vector<std::uint64_t> all;
  while (const auto* const number = slab.next(from)) all.push_back(*number);
  return all;
}

TEST(SlabTest, VisitsEachObjectOnce) {
  Numbers slab(200);
  EXPECT_THAT(visited(slab), IsEmpty());
  for (std::uint64_t i = 0; i < 200; ++i) EXPECT_EQ(slab.make(i), i);
  EXPECT_EQ(visited(slab).size(), 200U);
  EXPECT_THAT(visited(slab, 197), ElementsAre(197, 198, 199));
  for (std::uint32_t slot = 0; slot < 200; ++slot) {
    if (slot % 63 != 0) slab.destroy(slot);
  }
  EXPECT_THAT(visited(slab), ElementsAre(0, 63, 126, 189));
  EXPECT_THAT(visited(slab, 64), ElementsAre(126, 189));
  EXPECT_THAT(visited(slab, 62), ElementsAre(63, 126, 189));
  slab.destroy(63);
  EXPECT_THAT(visited(slab, 63), ElementsAre(126, 189)) << "whose place in its word is before";
}

TEST(SlabTest, UsesTheSlotThatWasFreedLast) {
  Numbers slab(3);
  for (const std::uint64_t number : {1, 2, 3}) (void)slab.make(number);
  slab.destroy(0);
  slab.destroy(2);
  EXPECT_EQ(slab.next_slot(), 2U);
  EXPECT_EQ(slab.make(4U), 2U);
  EXPECT_EQ(slab.make(5U), 0U);
  EXPECT_THAT(visited(slab), ElementsAre(5, 2, 4));
}

}  // namespace
}  // namespace ipoib::link::cache
