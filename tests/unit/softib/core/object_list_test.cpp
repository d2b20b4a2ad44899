#include "softib/core/object_list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace softib {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(ObjectList, RequestsKeepTheirValue) {
  const auto parsed =
      ObjectRequest::parse(ObjectRequest{ObjectKind::queue_pair, 0x12345678}.bytes());
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->kind, ObjectKind::queue_pair);
  EXPECT_EQ(parsed->first, 0x12345678U);
}

TEST(ObjectList, OtherRequestsAreRefused) {
  auto bytes = ObjectRequest{ObjectKind::queue_pair}.bytes();
  EXPECT_FALSE(ObjectRequest::parse(ConstBytes(bytes).first(4)));
  EXPECT_FALSE(ObjectRequest::parse({}));
  bytes[0] = static_cast<std::uint8_t>(ObjectKind::count_);
  EXPECT_FALSE(ObjectRequest::parse(bytes));
}

/// Objects with even indices exist.
ObjectPage page_from(std::uint32_t first, std::size_t end) {
  return ObjectPage::from(first, end, [](std::size_t index) -> std::optional<ObjectStatus> {
    if (index % 2 != 0) return std::nullopt;
    return ObjectStatus{.number = static_cast<std::uint32_t>(index), .length = index << 32};
  });
}

TEST(ObjectList, PagesListAllObjectsOnce) {
  std::uint32_t expected = 0;
  std::uint32_t first = 0;
  do {
    const auto page = page_from(first, 120);
    EXPECT_THAT(page.objects, SizeIs(testing::Le(ObjectPage::kMaxObjects)));
    for (const auto& object : page.objects) EXPECT_EQ(object.number, 2 * expected++);
    first = page.next;
  } while (first != 0);
  EXPECT_EQ(expected, 60U);
}

TEST(ObjectList, AFullPageIsTheLastOneIfNothingFollows) {
  const auto full = page_from(0, 2 * ObjectPage::kMaxObjects);
  EXPECT_THAT(full.objects, SizeIs(ObjectPage::kMaxObjects));
  EXPECT_EQ(full.next, 0U);
  EXPECT_EQ(page_from(0, 2 * ObjectPage::kMaxObjects + 1).next, 2 * ObjectPage::kMaxObjects);
  EXPECT_THAT(page_from(0, 0).objects, IsEmpty());
}

TEST(ObjectList, PagesKeepTheirValueInAMessage) {
  const auto page = page_from(7, 120);
  const auto bytes = page.bytes();
  EXPECT_LE(bytes.size(), 1024U) << "the longest body of a message";
  const auto parsed = ObjectPage::parse(bytes);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->objects, page.objects);
  EXPECT_EQ(parsed->next, page.next);
  const auto empty = ObjectPage::parse(ObjectPage().bytes());
  ASSERT_TRUE(empty);
  EXPECT_THAT(empty->objects, IsEmpty());
}

TEST(ObjectList, OtherPagesAreRefused) {
  const auto bytes = page_from(0, 120).bytes();
  EXPECT_FALSE(ObjectPage::parse(ConstBytes(bytes).first(3)));
  EXPECT_FALSE(ObjectPage::parse(ConstBytes(bytes).first(bytes.size() - 1)));
  EXPECT_FALSE(ObjectPage::parse(std::vector<std::uint8_t>(bytes.size() + kObjectBytes)));
}

}  // namespace
}  // namespace softib
