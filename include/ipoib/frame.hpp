// Buffers of the data path: one arena, registered with the HCA as a whole, split into equal slots.
// No locks: a pool belongs to one thread.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ipoib/bytes.hpp"
#include "ipoib/segmentation.hpp"

namespace ipoib {

class FramePool;

/// Owns one slot, and returns it when destroyed. `bytes()` is a window into the slot.
class Frame {
 public:
  Frame() = default;
  Frame(Frame&& other) noexcept { *this = std::move(other); }
  Frame& operator=(Frame&& other) noexcept;
  ~Frame() { release(); }

  [[nodiscard]] explicit operator bool() const { return pool_ != nullptr; }
  [[nodiscard]] MutableBytes bytes() { return {own_.slot + own_.begin, own_.size}; }
  [[nodiscard]] ConstBytes bytes() const { return {own_.slot + own_.begin, own_.size}; }
  [[nodiscard]] std::size_t size() const { return own_.size; }
  [[nodiscard]] std::size_t headroom() const { return own_.begin; }
  [[nodiscard]] inline std::size_t capacity() const;  ///< of the slot

  /// Sets the window: `size` bytes from offset `begin`, which is below 64 KiB. Both must lie within
  /// the slot. Resets segmentation, checksum status and upper layer.
  void window(std::size_t begin, std::size_t size);
  /// Marks the packet as large: to be segmented, or received as one. It has 2 to kMaxSegments.
  void set_segmentation(const Segmentation& segmentation) { own_.segmentation = segmentation; }
  [[nodiscard]] const Segmentation& segmentation() const { return own_.segmentation; }
  [[nodiscard]] bool is_large() const { return own_.segmentation.kind != Segmentation::Kind::none; }
  /// Whether the receiving device has verified the checksums of IPv4 and of TCP or UDP.
  void set_checksums_valid(bool valid) { own_.checksums_valid = valid; }
  [[nodiscard]] bool checksums_valid() const { return own_.checksums_valid; }
  /// The upper-layer header of a received IP packet, which the link parses once.
  void set_upper_layer(UpperLayer upper) {
    own_.protocol = upper.protocol;
    own_.upper_begin = upper.begin & 0x7f;
  }
  [[nodiscard]] UpperLayer upper_layer() const { return {own_.protocol, own_.upper_begin}; }
  /// Bytes of the largest datagram on the link: the frame itself, or one segment.
  [[nodiscard]] std::size_t datagram_size() const {
    return is_large() ? std::size_t{own_.segmentation.payload} + own_.segmentation.size : own_.size;
  }
  [[nodiscard]] std::size_t datagrams() const {
    return is_large() ? own_.segmentation.count(own_.size) : 1;
  }
  /// Extends the window by `count` bytes of headroom, and returns the new front.
  std::uint8_t* prepend(std::size_t count);
  /// Removes `count` bytes from the front; of a large packet only those that prepend() added.
  void drop_front(std::size_t count);
  inline void release();

 private:
  friend class FramePool;
  Frame(FramePool& pool, std::uint8_t* slot) : pool_(&pool), own_{.slot = slot} {}

  struct Own {
    std::uint8_t* slot = nullptr;
    std::uint32_t size = 0;
    std::uint16_t begin = 0;
    std::uint8_t protocol = 0;
    std::uint8_t upper_begin : 7 = 0;
    bool checksums_valid : 1 = false;
    Segmentation segmentation{};
  };
  FramePool* pool_ = nullptr;
  Own own_;
};

/// `count` slots of at least `size` bytes, rounded up to cache lines. Must outlive its frames.
class FramePool {
 public:
  FramePool(std::size_t count, std::size_t size);
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;
  ~FramePool();

  /// Returns a frame with an empty window at offset 0, or an empty Frame if no slot is free.
  [[nodiscard]] Frame take();
  [[nodiscard]] std::size_t available() const { return free_.size(); }
  [[nodiscard]] std::size_t capacity() const { return count_; }
  [[nodiscard]] std::size_t slot_size() const { return slot_size_; }
  /// All slots, page-aligned, for ibv_reg_mr.
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
  own_ = std::exchange(other.own_, {});
  return *this;
}

inline void Frame::release() {
  if (pool_ == nullptr) return;
  pool_->free_.push_back(own_.slot);
  pool_ = nullptr;
  own_ = {};
}

inline std::size_t Frame::capacity() const { return pool_ == nullptr ? 0 : pool_->slot_size(); }

}  // namespace ipoib
