#include "softib/roce/receive_buffer.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace softib::roce {

// Not initialized: the kernel provides the pages of which something is written.
ReceiveBuffer::ReceiveBuffer()
    : memory_(new std::uint8_t[kMaxReceive + kMaxDatagrams * kRouteBytes]) {}

std::span<iovec> ReceiveBuffer::places() {
  std::size_t count = 0;
  for (std::size_t at = 0; at < kMaxReceive; at += guess_, ++count) {
    places_[count] = {place(count, guess_), std::min(guess_, kMaxReceive - at)};
  }
  return std::span(places_).first(count);
}

void ReceiveBuffer::arrange(std::size_t bytes, std::size_t size) {
  assert(bytes <= kMaxReceive && size >= kLeastPayload);
  size_ = size;
  bytes_ = bytes;
  count_ = (bytes + size - 1) / size;
  const bool is_in_place = count_ == 1 ? bytes <= guess_ : size == guess_;
  if (!is_in_place) {
    join(bytes);
    for (std::size_t i = count_ - 1; i > 0; --i) {
      std::memmove(place(i, size), place(0, size) + i * size, std::min(size, bytes - i * size));
    }
  }
  if (count_ > 1 && size >= kLeastGuess) guess_ = size;
}

/// Closes the gaps between the places.
void ReceiveBuffer::join(std::size_t bytes) {
  for (std::size_t i = 1; i * guess_ < bytes; ++i) {
    std::memmove(place(0, guess_) + i * guess_, place(i, guess_),
                 std::min(guess_, bytes - i * guess_));
  }
}

std::span<std::uint8_t> ReceiveBuffer::datagram(std::size_t index) {
  assert(index < count_);
  return {place(index, size_), std::min(size_, bytes_ - index * size_)};
}

}  // namespace softib::roce
