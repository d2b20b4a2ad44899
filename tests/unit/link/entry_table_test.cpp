// A table of entries against a model of it, and what a neighbour takes of memory.
#include "link/entry_table.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <vector>

#include "ipoib/ip.hpp"
#include "link/neighbour.hpp"
#include "link/path_table.hpp"

namespace ipoib::link {
namespace {

/// Neighbours with a path each: no more than so many octets, but for the provider's handles.
constexpr double kMaxOctets = 300;

class Thing {
 public:
  Thing(std::uint32_t key, std::set<const Thing*>& living) : key_(key), living_(living) {
    living_.insert(this);
  }
  ~Thing() { living_.erase(this); }
  [[nodiscard]] const std::uint32_t& key() const { return key_; }

 private:
  std::uint32_t key_;
  std::set<const Thing*>& living_;
};
using Things = EntryTable<Thing, &Thing::key>;

TEST(EntryTableTest, DoesAsAMapDoes) {
  constexpr std::size_t kLimit = 200;
  std::set<const Thing*> living;
  std::map<std::uint32_t, const Thing*> model;
  std::mt19937 random(1);
  {
    Things things(kLimit);
    for (int i = 0; i < 100'000; ++i) {
      const std::uint32_t key = static_cast<std::uint32_t>(random()) % 400;
      Thing* const found = things.find(key);
      const auto known = model.find(key);
      ASSERT_EQ(found, known == model.end() ? nullptr : known->second) << "places never move";
      if (found != nullptr) {
        ASSERT_EQ(things.guess(things.probe_of(key)), found);
        things.erase(*found);
        model.erase(key);
      } else if (things.size() < kLimit) {
        model[key] = &things.emplace(key, key, living);
      }
      ASSERT_EQ(things.size(), model.size());
      ASSERT_EQ(living.size(), model.size());
    }
    EXPECT_GT(model.size(), 0U);
  }
  EXPECT_TRUE(living.empty()) << "the table destroys what is left in it";
}

TEST(EntryTableTest, FullTableFindsEachAndEndsForAStranger) {
  std::set<const Thing*> living;
  Things things(1024);
  for (std::uint32_t key = 0; key < 1024; ++key) things.emplace(key << 16, key << 16, living);
  for (std::uint32_t key = 0; key < 1024; ++key) {
    ASSERT_NE(things.find(key << 16), nullptr);
    ASSERT_EQ(things.find(key << 16 | 1), nullptr);
  }
}

TEST(EntryTableTest, VisitsEachOnceThoughTheVisitedGo) {
  std::set<const Thing*> living;
  Things things(300);
  for (std::uint32_t key = 0; key < 300; ++key) things.emplace(key, key, living);
  std::set<std::uint32_t> seen;
  things.for_each([&](Thing& thing) {
    EXPECT_TRUE(seen.insert(thing.key()).second);
    if (thing.key() % 2 == 0) things.erase(thing);
  });
  EXPECT_EQ(seen.size(), 300U);
  EXPECT_EQ(things.size(), 150U);
  std::uint32_t place = 300;
  EXPECT_EQ(things.next(place), nullptr);
}

/// With the words of two indices at their emptiest, and what the heap takes for a handle.
TEST(EntryTableTest, ANeighbourWithItsPathIsSmall) {
  constexpr double kIndex = 2 * sizeof(std::uint32_t) * 8.0 / 7.0;
  constexpr std::size_t kHandle = 32;
  EXPECT_LE(sizeof(Neighbour) + sizeof(Path) + 2 * kIndex + kHandle, kMaxOctets);
}

}  // namespace
}  // namespace ipoib::link
