// Errors of the system: their text, and what to do at a limit.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace ipoib::program {

/// "; REMEDY" for the message of an error that a limit of the system has caused, such as that of
/// open files, or a missing /proc; empty for other ones, and if the message has it already. The
/// message is searched for the text of the errno value, since libraries throw exceptions of their
/// own.
[[nodiscard]] std::string limit_remedy(std::string_view message);

/// Makes a write beyond the limit of the size of files (ulimit -f) fail with EFBIG, which can be
/// reported, instead of ending the process by SIGXFSZ.
void report_file_size_limit();

/// The message of an exception, without the number that Boost adds to those of the system.
[[nodiscard]] std::string text_of(const std::exception& error);

}  // namespace ipoib::program
