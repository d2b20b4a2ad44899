// The hash table, compared with a std::map, and with keys that an attacker chooses.
#include "link/cache/entry_table.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <vector>

namespace ipoib::link::cache {
namespace {

constexpr HashKey kKey{0x0123456789abcdef, 0xfedcba9876543210};
/// Of a search: two buckets, and the entries in them.
constexpr std::uint64_t kMaxProbes = 2 + 2 * Index::kWords;

class Item {
 public:
  explicit Item(const Ipv6Address& key) : key_(key) {}
  [[nodiscard]] const Ipv6Address& key() const { return key_; }

 private:
  Ipv6Address key_;
};
using Items = EntryTable<Item, &Item::key>;

class Counted {
 public:
  Counted(std::uint32_t key, std::set<const Counted*>& alive) : key_(key), alive_(alive) {
    alive_.insert(this);
  }
  ~Counted() { alive_.erase(this); }
  [[nodiscard]] Ipv4Address key() const { return Ipv4Address(key_); }

 private:
  std::uint32_t key_;
  std::set<const Counted*>& alive_;
};
using CountedItems = EntryTable<Counted, &Counted::key>;

Ipv6Address address(std::uint64_t high, std::uint64_t low) {
  Ipv6Address::Bytes bytes{};
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<std::uint8_t>(high >> (56 - 8 * i));
    bytes[8 + i] = static_cast<std::uint8_t>(low >> (56 - 8 * i));
  }
  return Ipv6Address(bytes);
}

TEST(EntryTableTest, AgreesWithAMap) {
  constexpr std::size_t kLimit = 200;
  std::set<const Counted*> alive;
  std::map<std::uint32_t, const Counted*> model;
  std::mt19937 random(1);
  int without_hint = 0;
  {
    CountedItems items(kLimit, kKey);
    for (int i = 0; i < 100'000; ++i) {
      const std::uint32_t number = static_cast<std::uint32_t>(random()) % 400;
      const Ipv4Address key(number);
      Counted* const found = items.find(key);
      const auto known = model.find(number);
      ASSERT_EQ(found, known == model.end() ? nullptr : known->second) << "entries never move";
      if (found != nullptr) {
        without_hint += items.guess(items.hint_of(key)) == nullptr ? 1 : 0;
        items.erase(*found);
        model.erase(number);
      } else {
        Counted* const made = items.emplace(key, number, alive);
        ASSERT_EQ(made != nullptr, model.size() < kLimit);
        if (made != nullptr) model[number] = made;
      }
      ASSERT_EQ(items.size(), model.size());
      ASSERT_EQ(alive.size(), model.size());
    }
    EXPECT_GT(model.size(), 0U);
  }
  EXPECT_LT(without_hint, 1000) << "of about 50,000 that were found";
  EXPECT_TRUE(alive.empty()) << "the destructor destroys the entries";
}

TEST(EntryTableTest, HasRoomForItsLimitWhateverTheKeyOfTheHash) {
  constexpr std::uint64_t kLimits[] = {1, 2, 16, 17, 31, 100, 1024, 16'384, 16'385, 100'000};
  for (const std::uint64_t limit : kLimits) {
    for (std::uint64_t key = 0; key < 100'000 / limit && key < 100; ++key) {
      Items items(limit, HashKey(key, ~key));
      for (std::uint64_t i = 0; i < limit; ++i) {
        ASSERT_NE(items.emplace(address(key, i), address(key, i)), nullptr) << limit << " " << i;
      }
      ASSERT_EQ(items.emplace(address(key, limit), address(key, limit)), nullptr);
      for (std::uint64_t i = 0; i < limit; ++i) {
        ASSERT_NE(items.find(address(key, i)), nullptr);
        ASSERT_EQ(items.find(address(~key, i)), nullptr);
      }
      EXPECT_LT(items.probes(), limit * 5 + kMaxProbes) << "0 to 2, and about 2";
    }
  }
}

TEST(EntryTableTest, ForEachMayEraseTheVisitedEntry) {
  std::set<const Counted*> alive;
  CountedItems items(300, kKey);
  for (std::uint32_t key = 0; key < 300; ++key) (void)items.emplace(Ipv4Address(key), key, alive);
  std::set<std::uint32_t> seen;
  items.for_each([&](Counted& item) {
    EXPECT_TRUE(seen.insert(item.key().number()).second);
    if (item.key().number() % 2 == 0) items.erase(item);
  });
  EXPECT_EQ(seen.size(), 300U);
  EXPECT_EQ(items.size(), 150U);
  std::uint32_t slot = 300;
  EXPECT_EQ(items.next(slot), nullptr);
}

TEST(EntryTableTest, DestroysItsEntries) {
  std::set<const Counted*> alive;
  {
    CountedItems items(8, kKey);
    for (std::uint32_t key = 0; key < 3; ++key) (void)items.emplace(Ipv4Address(key), key, alive);
    EXPECT_EQ(alive.size(), 3U);
  }
  EXPECT_EQ(alive.size(), 0U);
}

/// A hash without a key, which was used here once; all of its steps can be inverted.
std::uint64_t unkeyed_hash(std::uint64_t high, std::uint64_t low) {
  return (high * 0x9e3779b97f4a7c15 ^ low) * 0xff51afd7ed558ccd >> 16;
}

/// The 65,536 addresses of one /64 that have the same unkeyed hash.
std::vector<Ipv6Address> crafted_addresses() {
  constexpr std::uint64_t kPrefix = 0xfe80'0000'0000'0000;
  std::uint64_t inverse = 1;  // of the factor, modulo 2^64, by Newton's iteration
  for (int i = 0; i < 6; ++i) inverse *= 2 - 0xff51afd7ed558ccd * inverse;
  std::vector<Ipv6Address> crafted;
  for (std::uint64_t i = 0; i < 65'536; ++i) {
    const std::uint64_t low =
        (0x1234567890abULL << 16 | i) * inverse ^ kPrefix * 0x9e3779b97f4a7c15;
    if (unkeyed_hash(kPrefix, low) != 0x1234567890ab) return {};
    crafted.push_back(address(kPrefix, low));
  }
  return crafted;
}

TEST(EntryTableTest, CraftedAddressesDoNotCollide) {
  const auto crafted = crafted_addresses();
  ASSERT_EQ(crafted.size(), 65'536U);
  Items items(crafted.size(), kKey);
  for (const Ipv6Address& one : crafted) ASSERT_NE(items.emplace(one, one), nullptr);
  for (const Ipv6Address& one : crafted) {
    const std::uint64_t before = items.probes();
    ASSERT_NE(items.find(one), nullptr);
    ASSERT_LE(items.probes() - before, 6U) << "two buckets, the entry, few of the same tag";
  }
  EXPECT_GT(items.probes(), crafted.size()) << "they share the window of their hints";
  EXPECT_LT(items.probes(), crafted.size() * 5 / 2);
}

TEST(EntryTableTest, ASmallIndexHasTwoBucketsForAHash) {
  const Index index(1);
  for (const std::uint64_t hash : {std::uint64_t{0}, ~std::uint64_t{0}}) {
    EXPECT_NE(index.first(hash), index.second(hash));
  }
}

TEST(EntryTableTest, KnowingTheKeyOnlyFillsTwoBuckets) {
  Items items(1024, kKey);
  const Index index(1024);
  std::vector<Ipv6Address> colliding;
  for (std::uint64_t i = 0; colliding.size() <= 2 * Index::kWords; ++i) {
    const std::uint64_t hash = KeyedHash(kKey)(address(1, i));
    if (index.first(hash) == 7 && index.second(hash) == 11) colliding.push_back(address(1, i));
  }
  const Ipv6Address last = colliding.back();
  colliding.pop_back();
  for (const Ipv6Address& one : colliding) ASSERT_NE(items.emplace(one, one), nullptr);
  EXPECT_EQ(items.emplace(last, last), nullptr);
  EXPECT_EQ(items.size(), colliding.size());
  for (const Ipv6Address& one : colliding) {
    const std::uint64_t before = items.probes();
    ASSERT_NE(items.find(one), nullptr);
    EXPECT_LE(items.probes() - before, kMaxProbes);
  }
  const std::uint64_t before = items.probes();
  EXPECT_EQ(items.find(last), nullptr);
  EXPECT_LE(items.probes() - before, kMaxProbes);
  std::set<Item*> rivals;
  items.for_each_rival(last, [&](Item& rival) { rivals.insert(&rival); });
  EXPECT_EQ(rivals.size(), colliding.size());
  for (std::uint64_t i = 0; items.size() < 512; ++i) {
    (void)items.emplace(address(2, i), address(2, i));
  }
  items.erase(**rivals.begin());
  EXPECT_NE(items.emplace(last, last), nullptr) << "the removal of a rival makes room";
}

}  // namespace
}  // namespace ipoib::link::cache
