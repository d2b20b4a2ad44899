#include "ipoib/frame.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cassert>
#include <cstdint>
#include <new>

namespace ipoib {

namespace {

constexpr std::size_t kCacheLine = 64;

Segmentation shifted(Segmentation from, int by) {
  from.transport = static_cast<std::uint16_t>(from.transport + by);
  from.payload = static_cast<std::uint16_t>(from.payload + by);
  return from;
}

}  // namespace

void Frame::window(std::size_t begin, std::size_t size) {
  assert(pool_ != nullptr && begin + size <= pool_->slot_size() && begin <= UINT16_MAX);
  own_.begin = static_cast<std::uint16_t>(begin);
  own_.size = static_cast<std::uint32_t>(size);
  own_.checksums_valid = false;
  set_upper_layer({});
  own_.segmentation = {};
}

std::uint8_t* Frame::prepend(std::size_t count) {
  assert(count <= own_.begin);
  own_.begin = static_cast<std::uint16_t>(own_.begin - count);
  own_.size += static_cast<std::uint32_t>(count);
  if (is_large()) own_.segmentation = shifted(own_.segmentation, static_cast<int>(count));
  return own_.slot + own_.begin;
}

void Frame::drop_front(std::size_t count) {
  assert(count <= own_.size && own_.begin + count <= UINT16_MAX);
  own_.begin = static_cast<std::uint16_t>(own_.begin + count);
  own_.size -= static_cast<std::uint32_t>(count);
  if (is_large()) own_.segmentation = shifted(own_.segmentation, -static_cast<int>(count));
}

FramePool::FramePool(std::size_t count, std::size_t size)
    : count_(count),
      slot_size_((size + kCacheLine - 1) / kCacheLine * kCacheLine),
      arena_size_(count_ * slot_size_),
      arena_(nullptr) {
  void* memory =
      mmap(nullptr, arena_size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  arena_ = static_cast<std::uint8_t*>(memory);
  free_.reserve(count_);
  for (std::size_t i = count_; i > 0; --i) free_.push_back(arena_ + (i - 1) * slot_size_);
}

FramePool::~FramePool() {
  assert(free_.size() == count_ && "frames must not outlive their pool");
  munmap(arena_, arena_size_);
}

Frame FramePool::take() {
  if (free_.empty()) return {};
  std::uint8_t* const slot = free_.back();
  free_.pop_back();
  return Frame(*this, slot);
}

}  // namespace ipoib
