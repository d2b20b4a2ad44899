// What `softib run` and `softib exec` have in common: they start a program on an HCA.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ipoib/result.hpp"
#include "softib/fabric/folder.hpp"

namespace softib::cli {

/// The index of the program in argv: after "--", or the first argument that is neither an option
/// nor the value of one of the options `with_value`.
[[nodiscard]] int find_program(int argc, char** argv, std::span<const std::string_view> with_value);

/// Sets the variables by which libsoftib.so gets into programs, and finds subnet and HCAs.
ipoib::Result<void> set_environment(const fabric::SubnetFolder& folder, const std::string& hcas);

/// Executes argv[0] in this process, after it has said on stderr what cannot work. Returns only if
/// that fails, with the exit code of shells and env(1), after a message.
int execute(char** argv);

}  // namespace softib::cli
