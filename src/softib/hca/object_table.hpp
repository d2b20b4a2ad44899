// Owns at most `Max` objects. T::handle is the index of the object's slot.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace softib::hca {

template <class T, std::size_t Max>
class ObjectTable {
 public:
  /// Returns null if the table is full.
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
  /// The object with this handle, or null.
  [[nodiscard]] T* find(std::size_t handle) const {
    return handle < slots_.size() ? slots_[handle].get() : nullptr;
  }
  [[nodiscard]] std::size_t end() const { return slots_.size(); }  ///< beyond all handles
  /// The first object for which `is_it` is true, or null.
  template <class Predicate>
  [[nodiscard]] T* find_if(Predicate is_it) const {
    const auto found = std::ranges::find_if(
        slots_, [&](const auto& object) { return object != nullptr && is_it(*object); });
    return found == slots_.end() ? nullptr : found->get();
  }
  void remove(T& object) {
    const auto index = object.handle;
    assert(find(index) == &object);
    slots_[index].reset();
    free_.push_back(index);
  }

 private:
  std::vector<std::unique_ptr<T>> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace softib::hca
