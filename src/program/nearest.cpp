#include "program/nearest.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace ipoib::program {

namespace {

/// The optimal string alignment distance.
std::size_t distance(std::string_view from, std::string_view to) {
  // Row i has the distances of the first i letters of `from` to the beginnings of `to`.
  std::vector<std::size_t> before_last;
  std::vector<std::size_t> last(to.size() + 1);
  std::iota(last.begin(), last.end(), 0U);
  for (std::size_t i = 1; i <= from.size(); ++i) {
    std::vector<std::size_t> row(to.size() + 1, i);
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const bool is_same = from[i - 1] == to[j - 1];
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (is_same ? 0U : 1U)});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
    before_last = std::exchange(last, std::move(row));
  }
  return last.back();
}

}  // namespace

std::string did_you_mean(std::string_view word, std::span<const std::string_view> names) {
  constexpr std::size_t kLongest = 64;  // the time is the product of the lengths
  if (word.size() > kLongest) return "";
  std::string_view best;
  std::size_t least = word.size() / 3 + 1;
  for (const auto name : names) {
    const auto changes = distance(word, name);
    if (changes >= least) continue;
    least = changes;
    best = name;
  }
  return best.empty() ? "" : "; did you mean " + std::string(best) + "?";
}

}  // namespace ipoib::program
