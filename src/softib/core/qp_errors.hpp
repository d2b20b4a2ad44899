// Queue pairs of a node that `softib set qp` moves to the error state, for tests.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ipoib/address.hpp"

namespace softib {

/// The last requests of `softib set qp`. A process compares their number with the one that it saw
/// before.
class QpErrors {
 public:
  /// The number of requests that are kept. A process that is late by more misses the oldest ones.
  static constexpr std::size_t kKept = 4;
  using Words = std::array<std::uint64_t, 2>;

  /// Qpn() stands for all queue pairs of the node.
  void add(ipoib::Qpn qpn) { last_[count_++ % kKept] = qpn; }
  /// The requests that were added after `before`, the oldest first.
  [[nodiscard]] std::vector<ipoib::Qpn> since(const QpErrors& before) const;

  [[nodiscard]] Words words() const;
  /// Decodes any words.
  [[nodiscard]] static QpErrors of_words(const Words& words);
  friend bool operator==(const QpErrors&, const QpErrors&) = default;

 private:
  std::uint16_t count_ = 0;  ///< wraps
  std::array<ipoib::Qpn, kKept> last_{};
};

}  // namespace softib
