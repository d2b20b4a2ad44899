#include "softib/transport/shared_memory.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include "open_descriptors.hpp"

namespace softib::transport {
namespace {

constexpr std::size_t kPage = 4096;
/// More than a file can have.
constexpr std::size_t kTooMuch = std::size_t{1} << 63;

TEST(SharedMemory, IsTheSameInEachMapping) {
  const auto memory = make_shared_memory("test", kPage).value();
  const auto one = SharedMapping::map(memory.get(), kPage).value();
  const auto other = SharedMapping::map_readonly(memory.get(), kPage).value();
  one.data()[7] = 9;
  EXPECT_EQ(other.data()[7], 9);
}

TEST(SharedMemory, ARingContinuesAtItsBeginning) {
  const auto memory = make_shared_memory("test", 3 * kPage).value();
  const auto ring = SharedMapping::map_ring(memory.get(), kPage, 2 * kPage).value();
  ring.data()[kPage + 5] = 9;
  EXPECT_EQ(ring.data()[3 * kPage + 5], 9);
}

TEST(SharedMemory, SaysWhyItCannotBeMade) {
  EXPECT_THAT(make_shared_memory("test", kTooMuch).error().message,
              testing::StartsWith("cannot allocate shared memory: "));
  const test::DescriptorLimit none(0);
  EXPECT_EQ(make_shared_memory("test", kPage).error().message,
            "cannot create shared memory: Too many open files");
}

TEST(SharedMemory, SaysWhyItCannotBeMapped) {
  const auto memory = make_shared_memory("test", kPage).value();
  const ipoib::FileDescriptor readable(
      ::open(("/proc/self/fd/" + std::to_string(memory.get())).c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(readable);
  EXPECT_TRUE(SharedMapping::map_readonly(readable.get(), kPage));
  EXPECT_EQ(SharedMapping::map(readable.get(), kPage).error().message,
            "cannot map shared memory: Permission denied");
}

TEST(SharedMemory, OfAPeerIsSealedAndOfTheRightSize) {
  const auto memory = make_shared_memory("test", kPage).value();
  const ipoib::FileDescriptor unsealed(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), static_cast<off_t>(kPage)), 0);
  for (const auto& [fd, size] : {std::pair{unsealed.get(), kPage}, {memory.get(), 2 * kPage}}) {
    const auto mapped = SharedMapping::map(fd, size);
    ASSERT_FALSE(mapped);
    EXPECT_EQ(mapped.error().code, EINVAL);
    EXPECT_EQ(mapped.error().message,
              "the descriptor of the peer is not sealed shared memory of the right size: use the "
              "same version of softib for all programs");
  }
}

}  // namespace
}  // namespace softib::transport
