// What the program prints. A failure to print is noted, and does not end what runs.
#pragma once

#include <string>

namespace ipoib::ibarp {

void print(const std::string& text);
void flush_output();
/// Prints at once. Returns whether that is possible.
bool print_line(const std::string& text);
/// The errno value of the first failure to print; 0 if there was none.
[[nodiscard]] int print_failure();

/// Prints "ibarp: WHY" on stderr, after `location`.
void print_error(const std::string& why);
/// Prints "ibarp: warning: TEXT" on stderr, after the location.
void print_warning(const std::string& text);
/// The text "FILE:LINE: " while a command of a file runs; otherwise empty.
void set_location(const std::string& location);

}  // namespace ipoib::ibarp
