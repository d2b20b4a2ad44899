#include "output.hpp"

#include <cerrno>
#include <cstdio>

#include "program/limits.hpp"

namespace ipoib::ibarp {

namespace {

std::string location;
int first_failure = 0;

}  // namespace

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() && first_failure == 0) {
    first_failure = errno;
  }
}

void flush_output() {
  if (std::fflush(stdout) != 0 && first_failure == 0) first_failure = errno;
}

bool print_line(const std::string& text) {
  print(text);
  flush_output();
  return first_failure == 0;
}

int print_failure() { return first_failure; }

void print_error(const std::string& why) {
  const std::string text = why + program::limit_remedy(why);
  std::fprintf(stderr, "ibarp: %s%s\n", location.c_str(), text.c_str());
}

void print_warning(const std::string& text) {
  std::fprintf(stderr, "ibarp: %swarning: %s\n", location.c_str(), text.c_str());
}

void set_location(const std::string& now) { location = now; }

}  // namespace ipoib::ibarp
