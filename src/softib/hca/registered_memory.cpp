#include "softib/hca/registered_memory.hpp"

#include <atomic>
#include <bit>
#include <cassert>
#include <cstring>

namespace softib::hca {
namespace {

using Word = std::uint64_t;

/// The number of bytes at the end of [to, to + size) that are stored in one piece, after the
/// others.
std::size_t tail_of(const std::uint8_t* to, std::size_t size) {
  const bool has_word =
      size >= sizeof(Word) && std::bit_cast<std::uintptr_t>(to + size) % sizeof(Word) == 0;
  return has_word ? sizeof(Word) : 1;
}

}  // namespace

bool RegisteredMemory::store(ConstBytes from) const {
  if (on_demand_ != nullptr) return on_demand_->write(begin_, from);
  std::memcpy(begin_, from.data(), from.size());
  return true;
}

bool RegisteredMemory::store_in_order(ConstBytes from) const {
  const auto tail = tail_of(begin_, from.size());
  const auto front = from.size() - tail;
  if (front != 0 && !store(from.first(front))) return false;
  auto* const end = begin_ + front;
  if (on_demand_ != nullptr) return on_demand_->write(end, from.last(tail));
  if (tail == sizeof(Word)) {
    Word word = 0;
    std::memcpy(&word, from.data() + front, tail);
    std::atomic_ref(*reinterpret_cast<Word*>(end)).store(word, std::memory_order_release);
  } else {
    std::atomic_ref(*end).store(from.back(), std::memory_order_release);
  }
  return true;
}

bool RegisteredMemory::load(std::span<std::uint8_t> to) const {
  assert(is_on_demand());
  return on_demand_->read(to, begin_);
}

bool RegisteredMemory::populate(std::size_t size) const {
  return on_demand_ == nullptr || on_demand_->populate(begin_, size);
}

}  // namespace softib::hca
