// What may be meant by a mistyped word.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ipoib::program {

/// "; did you mean NAME?" for the name that takes the fewest changes to get from the word: a letter
/// added, left out, replaced, or swapped with the next one. Empty if that is more than one in three
/// letters.
[[nodiscard]] std::string did_you_mean(std::string_view word,
                                       std::span<const std::string_view> names);

}  // namespace ipoib::program
