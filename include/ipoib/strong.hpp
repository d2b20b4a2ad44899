// Distinct types for numbers of different meaning, such as LID, QPN and Q_Key.
#pragma once

#include <compare>
#include <cstddef>
#include <functional>

namespace ipoib {

/// An integer that does not convert to one of another `Tag`, a type that is never defined.
template <class Tag, class Rep>
class Strong {
 public:
  using Representation = Rep;

  constexpr Strong() = default;
  constexpr explicit Strong(Rep value) : value_(value) {}

  [[nodiscard]] constexpr Rep value() const { return value_; }
  friend constexpr auto operator<=>(Strong, Strong) = default;

 private:
  Rep value_{};
};

}  // namespace ipoib

template <class Tag, class Rep>
struct std::hash<ipoib::Strong<Tag, Rep>> {
  std::size_t operator()(ipoib::Strong<Tag, Rep> key) const noexcept {
    return std::hash<Rep>{}(key.value());
  }
};
