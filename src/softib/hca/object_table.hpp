// Owner of at most `Max` objects, each of which knows its place: T has a member `handle`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace softib::hca {

template <class T, std::size_t Max>
class ObjectTable {
 public:
  /// Null when the table is full.
  T* add(std::unique_ptr<T> object) {
    if (free_.empty()) {
      if (slots_.size() == Max) return nullptr;
      free_.push_back(static_cast<std::uint32_t>(slots_.size()));
      slots_.emplace_back();
    }
    object->handle = free_.back();
    free_.pop_back();
    auto& slot = slots_[object->handle];
    slot = std::move(object);
    return slot.get();
  }
  void remove(T& object) {
    const auto place = object.handle;
    slots_[place].reset();
    free_.push_back(place);
  }
  [[nodiscard]] std::size_t size() const { return slots_.size() - free_.size(); }

 private:
  std::vector<std::unique_ptr<T>> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace softib::hca
