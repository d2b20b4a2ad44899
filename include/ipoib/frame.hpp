// Buffers of the data path. One arena, registered with the HCA as a whole, cut into equal slots.
//
// A Frame owns one slot and gives it back when it dies, so a frame is in exactly one place: being
// read, parked, posted, or free. Nothing here locks: a pool belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ipoib/bytes.hpp"
#include "ipoib/segmentation.hpp"

namespace ipoib {

class FramePool;

/// Move-only owner of one slot of a FramePool; `bytes()` is a window into that slot.
class Frame {
 public:
  Frame() = default;
  Frame(Frame&& other) noexcept { *this = std::move(other); }
  Frame& operator=(Frame&& other) noexcept;
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
  ~Frame() { release(); }

  [[nodiscard]] explicit operator bool() const { return pool_ != nullptr; }
  [[nodiscard]] MutableBytes bytes() { return {slot_ + begin_, size_}; }
  [[nodiscard]] ConstBytes bytes() const { return {slot_ + begin_, size_}; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t headroom() const { return begin_; }
  /// Octets of the slot.
  [[nodiscard]] inline std::size_t capacity() const;

  /// Sets the window: `size` octets from `begin` of the slot. Both must lie within the slot. What
  /// is in it is sent as it is.
  void window(std::size_t begin, std::size_t size);
  /// What is in the window is to be cut into segments; their number is 2 to kMaxSegments.
  void set_segmentation(const Segmentation& segmentation) { segmentation_ = segmentation; }
  [[nodiscard]] const Segmentation& segmentation() const { return segmentation_; }
  [[nodiscard]] bool is_large() const { return segmentation_.kind != Segmentation::Kind::none; }
  /// Octets of the largest datagram that it makes: of itself, or of one segment.
  [[nodiscard]] std::size_t datagram_size() const {
    return is_large() ? std::size_t{segmentation_.payload} + segmentation_.size : size_;
  }
  /// How many datagrams it makes.
  [[nodiscard]] std::size_t datagrams() const {
    return is_large() ? segmentation_.count(size_) : 1;
  }
  /// Moves the front of the window back by `count` octets of headroom, and returns the new front.
  std::uint8_t* prepend(std::size_t count);
  /// Moves the front of the window forward over `count` octets, which prepend() has put there if
  /// the packet is large.
  void drop_front(std::size_t count);
  void release();

 private:
  friend class FramePool;
  Frame(FramePool& pool, std::uint8_t* slot) : pool_(&pool), slot_(slot) {}
  /// It has a slot no longer.
  void forget() { slot_ = nullptr, begin_ = size_ = 0, segmentation_ = {}; }

  FramePool* pool_ = nullptr;
  std::uint8_t* slot_ = nullptr;
  std::uint32_t begin_ = 0;
  std::uint32_t size_ = 0;
  Segmentation segmentation_;
};

/// `count` slots of `slot_size` octets in one page-aligned arena. Must outlive its frames.
class FramePool {
 public:
  FramePool(std::size_t count, std::size_t slot_size);
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;
  ~FramePool();

  /// A frame with an empty window at offset 0; a false Frame when none is free.
  [[nodiscard]] Frame take();
  [[nodiscard]] std::size_t available() const { return free_.size(); }
  [[nodiscard]] std::size_t capacity() const { return count_; }
  [[nodiscard]] std::size_t slot_size() const { return slot_size_; }
  /// The whole arena, for ibv_reg_mr.
  [[nodiscard]] MutableBytes arena() { return {arena_, arena_size_}; }

 private:
  friend class Frame;
  std::size_t count_;
  std::size_t slot_size_;
  std::size_t arena_size_;
  std::uint8_t* arena_;
  std::vector<std::uint8_t*> free_;
};

inline Frame& Frame::operator=(Frame&& other) noexcept {
  if (this == &other) return *this;
  release();
  pool_ = std::exchange(other.pool_, nullptr);
  slot_ = other.slot_;
  begin_ = other.begin_;
  size_ = other.size_;
  segmentation_ = other.segmentation_;
  other.forget();
  return *this;
}

inline void Frame::release() {
  if (pool_ == nullptr) return;
  pool_->free_.push_back(slot_);
  pool_ = nullptr;
  forget();
}

inline std::size_t Frame::capacity() const { return pool_ == nullptr ? 0 : pool_->slot_size(); }

}  // namespace ipoib
