#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>

#include "table/table.hpp"

namespace ipoib::table {

std::size_t output_width() {
  if (const char* const text = std::getenv("COLUMNS"); text != nullptr) {
    const std::string_view digits(text);
    const char* const end = digits.data() + digits.size();
    std::size_t columns = 0;
    const auto [stop, error] = std::from_chars(digits.data(), end, columns);
    if (error == std::errc() && stop == end && columns > 0) return columns;
  }
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return kUnlimited;
}

}  // namespace ipoib::table
