// The changes of `softib set`: parses their words into requests to the subnet process.
#pragma once

#include <string>
#include <vector>

#include "ipoib/result.hpp"
#include "softib/control/protocol.hpp"

namespace softib::cli {

/// Parses the words after "softib set". The error says which word is missing or wrong, and how that
/// change is written.
[[nodiscard]] ipoib::Result<control::Request> parse_change(const std::vector<std::string>& words);

/// A remark about a P_Key among the words that may be meant as a hexadecimal one; may be empty.
[[nodiscard]] std::string remark_on_change(const std::vector<std::string>& words);

/// All changes for --help: their words and what they do, two blanks indented.
[[nodiscard]] std::string changes_help();

}  // namespace softib::cli
