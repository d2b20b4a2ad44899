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

/// Move-only owner of one slot; `bytes()` is a window into that.
class Frame {
 public:
  Frame() = default;
  Frame(Frame&& other) noexcept { *this = std::move(other); }
  Frame& operator=(Frame&& other) noexcept;
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
  ~Frame() { release(); }

  [[nodiscard]] explicit operator bool() const { return pool_ != nullptr; }
  [[nodiscard]] MutableBytes bytes() { return {own_.slot + own_.begin, own_.size}; }
  [[nodiscard]] ConstBytes bytes() const { return {own_.slot + own_.begin, own_.size}; }
  [[nodiscard]] std::size_t size() const { return own_.size; }
  [[nodiscard]] std::size_t headroom() const { return own_.begin; }
  /// Octets of the slot.
  [[nodiscard]] inline std::size_t capacity() const;

  /// Sets the window: `size` octets from `begin` of the slot, which is below 64 KiB. Both must lie
  /// within the slot. What is in it is sent as it is, and nobody vouches for it.
  void window(std::size_t begin, std::size_t size);
  /// What is in the window is to be cut into segments, or was received uncut: 2 to kMaxSegments.
  void set_segmentation(const Segmentation& segmentation) { own_.segmentation = segmentation; }
  [[nodiscard]] const Segmentation& segmentation() const { return own_.segmentation; }
  [[nodiscard]] bool is_large() const { return own_.segmentation.kind != Segmentation::Kind::none; }
  /// The device that received it has found the checksums of IPv4, and of TCP or UDP in it, right.
  void set_checksums_right(bool right) { own_.checksums_right = right; }
  [[nodiscard]] bool checksums_right() const { return own_.checksums_right; }
  /// The upper-layer header of a received IP packet, which the link parses once.
  void set_upper_layer(UpperLayer upper) {
    own_.protocol = upper.protocol;
    own_.upper_begin = upper.begin & 0x7f;
  }
  [[nodiscard]] UpperLayer upper_layer() const { return {own_.protocol, own_.upper_begin}; }
  /// Octets of the largest datagram that it makes: of itself, or of one segment.
  [[nodiscard]] std::size_t datagram_size() const {
    return is_large() ? std::size_t{own_.segmentation.payload} + own_.segmentation.size : own_.size;
  }
  [[nodiscard]] std::size_t datagrams() const {
    return is_large() ? own_.segmentation.count(own_.size) : 1;
  }
  /// Moves the front of the window back by `count` octets of headroom, and returns the new front.
  std::uint8_t* prepend(std::size_t count);
  /// Moves the front of the window forward over `count` octets; if it is large, those of prepend().
  void drop_front(std::size_t count);
  void release() {
    if (pool_ != nullptr) give_back();
  }

 private:
  friend class FramePool;
  void give_back();
  Frame(FramePool& pool, std::uint8_t* slot) : pool_(&pool), own_{.slot = slot} {}

  struct Own {
    std::uint8_t* slot = nullptr;
    std::uint32_t size = 0;
    std::uint16_t begin = 0;
    std::uint8_t protocol = 0;
    std::uint8_t upper_begin : 7 = 0;
    bool checksums_right : 1 = false;
    Segmentation segmentation{};
  };
  FramePool* pool_ = nullptr;
  Own own_;
};

/// `count` slots of `octets` or more, whole lines of the caches each. Must outlive its frames.
class FramePool {
 public:
  FramePool(std::size_t count, std::size_t octets);
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;
  ~FramePool();

  /// A frame with an empty window at offset 0; a false Frame when none is free.
  [[nodiscard]] Frame take();
  [[nodiscard]] std::size_t available() const { return free_.size(); }
  [[nodiscard]] std::size_t capacity() const { return count_; }
  [[nodiscard]] std::size_t slot_size() const { return slot_size_; }
  /// All slots, from the beginning of a page, for ibv_reg_mr.
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

inline void Frame::give_back() {
  pool_->free_.push_back(own_.slot);
  pool_ = nullptr;
  own_ = {};
}

inline std::size_t Frame::capacity() const { return pool_ == nullptr ? 0 : pool_->slot_size(); }

}  // namespace ipoib
