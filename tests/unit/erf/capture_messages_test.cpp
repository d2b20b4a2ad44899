#include "erf/capture_messages.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace ipoib::erf {
namespace {

using Buffer = std::vector<std::uint8_t>;

Buffer record_of(const CaptureRecord& record) {
  Buffer out(kCaptureRecordHeader);
  record.emit_header(record.packet.size(), out);
  out.insert(out.end(), record.packet.begin(), record.packet.end());
  return out;
}

TEST(CaptureMessageTest, CarriesRecordsInOrder) {
  const Buffer first{1, 2, 3};
  const Buffer second(100, 9);
  CaptureMessage message;
  ASSERT_TRUE(message.add(record_of({true, 1'234'567'890'123'456'789, first})));
  ASSERT_TRUE(message.add(record_of({false, 5, second})));
  EXPECT_EQ(message.records(), 2U);
  const auto bytes = message.finish(7);

  CaptureMessageReader reader(bytes);
  EXPECT_EQ(reader.lost(), 7U);
  const auto one = reader.next();
  ASSERT_TRUE(one);
  EXPECT_TRUE(one->is_received);
  EXPECT_EQ(one->nanoseconds, 1'234'567'890'123'456'789);
  EXPECT_EQ(Buffer(one->packet.begin(), one->packet.end()), first);
  const auto two = reader.next();
  ASSERT_TRUE(two);
  EXPECT_FALSE(two->is_received);
  EXPECT_EQ(two->packet.size(), 100U);
  EXPECT_FALSE(reader.next());
  EXPECT_TRUE(reader.ok());
}

TEST(CaptureMessageTest, IsBounded) {
  const Buffer packet(4096, 1);
  CaptureMessage message;
  while (message.add(record_of({false, 0, packet}))) {
  }
  EXPECT_LE(message.finish(0).size(), kMaxCaptureMessage);
  EXPECT_EQ(message.records(), 15U);
  message.clear();
  EXPECT_EQ(message.records(), 0U);
  EXPECT_TRUE(message.add(record_of({false, 0, packet})));
}

TEST(CaptureMessageTest, RefusesWhatIsCut) {
  const Buffer packet(100, 1);
  CaptureMessage message;
  ASSERT_TRUE(message.add(record_of({false, 0, packet})));
  const auto bytes = message.finish(0);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CaptureMessageReader reader(bytes.first(size));
    EXPECT_FALSE(reader.next()) << size;
    EXPECT_EQ(reader.ok(), size == 8) << size;
  }
}

}  // namespace
}  // namespace ipoib::erf
