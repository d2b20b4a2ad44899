// The memory into which datagrams are received, each with room for the route of its packet (LRH and
// GRH) in front.
//
// The kernel joins datagrams of one size, and writes them where it is told before that size is
// known. So the size is guessed, as that of the datagrams before: then each is in its place at
// once. Otherwise they are moved.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "softib/roce/frame.hpp"

namespace softib::roce {

class ReceiveBuffer {
 public:
  /// The kernel joins datagrams up to this size (UDP_GRO).
  static constexpr std::size_t kMaxReceive = 65'536;

  ReceiveBuffer();
  /// Where kMaxReceive bytes are to be written, in this order.
  [[nodiscard]] std::span<iovec> places();
  /// `bytes` have been written: datagrams of `size` bytes, of which the last may be shorter.
  /// Requires bytes <= kMaxReceive and size >= kLeastPayload.
  void arrange(std::size_t bytes, std::size_t size);
  /// Datagrams since the last arrange().
  [[nodiscard]] std::size_t count() const { return count_; }
  /// One of them, in front of which are kRouteBytes for its route.
  [[nodiscard]] std::span<std::uint8_t> datagram(std::size_t index);

 private:
  /// Datagrams of this size or more may be in their places at once, so that there are few places.
  static constexpr std::size_t kLeastGuess = 1024;
  static constexpr std::size_t kMaxPlaces = kMaxReceive / kLeastGuess;
  static constexpr std::size_t kMaxDatagrams = kMaxReceive / kLeastPayload + 1;

  /// Where a datagram of `size` bytes has its place.
  [[nodiscard]] std::uint8_t* place(std::size_t index, std::size_t size) const {
    return memory_.get() + index * (kRouteBytes + size) + kRouteBytes;
  }
  void join(std::size_t bytes);

  std::unique_ptr<std::uint8_t[]> memory_;
  std::array<iovec, kMaxPlaces> places_;
  std::size_t guess_ = kMaxReceive;  ///< bytes of each place but the last
  std::size_t size_ = 0;             ///< bytes of each datagram but the last
  std::size_t bytes_ = 0;            ///< of all
  std::size_t count_ = 0;
};

}  // namespace softib::roce
