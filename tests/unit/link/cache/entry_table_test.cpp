// The hash table, compared with a std::map.
#include "link/cache/entry_table.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <vector>

namespace ipoib::link::cache {
namespace {

class Item {
 public:
  Item(std::uint32_t key, std::set<const Item*>& alive) : key_(key), alive_(alive) {
    alive_.insert(this);
  }
  ~Item() { alive_.erase(this); }
  [[nodiscard]] const std::uint32_t& key() const { return key_; }

 private:
  std::uint32_t key_;
  std::set<const Item*>& alive_;
};
using Items = EntryTable<Item, &Item::key>;

TEST(EntryTableTest, AgreesWithAMap) {
  constexpr std::size_t kLimit = 200;
  std::set<const Item*> alive;
  std::map<std::uint32_t, const Item*> model;
  std::mt19937 random(1);
  {
    Items items(kLimit);
    for (int i = 0; i < 100'000; ++i) {
      const std::uint32_t key = static_cast<std::uint32_t>(random()) % 400;
      Item* const found = items.find(key);
      const auto known = model.find(key);
      ASSERT_EQ(found, known == model.end() ? nullptr : known->second) << "entries never move";
      if (found != nullptr) {
        ASSERT_EQ(items.guess(items.probe_of(key)), found);
        items.erase(*found);
        model.erase(key);
      } else if (items.size() < kLimit) {
        model[key] = &items.emplace(key, key, alive);
      }
      ASSERT_EQ(items.size(), model.size());
      ASSERT_EQ(alive.size(), model.size());
    }
    EXPECT_GT(model.size(), 0U);
  }
  EXPECT_TRUE(alive.empty()) << "the destructor destroys the entries";
}

TEST(EntryTableTest, FullTableFindsEachKeyAndNoOther) {
  std::set<const Item*> alive;
  Items items(1024);
  for (std::uint32_t key = 0; key < 1024; ++key) items.emplace(key << 16, key << 16, alive);
  for (std::uint32_t key = 0; key < 1024; ++key) {
    ASSERT_NE(items.find(key << 16), nullptr);
    ASSERT_EQ(items.find(key << 16 | 1), nullptr);
  }
}

TEST(EntryTableTest, ForEachMayEraseTheVisitedEntry) {
  std::set<const Item*> alive;
  Items items(300);
  for (std::uint32_t key = 0; key < 300; ++key) items.emplace(key, key, alive);
  std::set<std::uint32_t> seen;
  items.for_each([&](Item& item) {
    EXPECT_TRUE(seen.insert(item.key()).second);
    if (item.key() % 2 == 0) items.erase(item);
  });
  EXPECT_EQ(seen.size(), 300U);
  EXPECT_EQ(items.size(), 150U);
  std::uint32_t slot = 300;
  EXPECT_EQ(items.next(slot), nullptr);
}

}  // namespace
}  // namespace ipoib::link::cache
