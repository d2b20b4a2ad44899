#include "program/limits.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace ipoib::program {

namespace {

struct Limit {
  int code;
  std::string_view remedy;
};

/// The text of ENFILE begins with that of EMFILE.
constexpr std::array kLimits{
    Limit{ENFILE, "raise the system's limit of open files (sysctl fs.file-max)"},
    Limit{EMFILE, "raise the limit of open files (ulimit -n; LimitNOFILE= of a unit)"},
    Limit{EFBIG, "raise the limit of the size of files (ulimit -f; LimitFSIZE= of a unit)"},
    Limit{ENOSPC, "free some space on the file system (df)"},
    Limit{EDQUOT, "free some space, or raise the quota of the user (quota)"},
    Limit{EAGAIN,
          "if that is a limit, raise that of processes and threads (ulimit -u; TasksMax= of a "
          "unit) or of locked memory (ulimit -l; LimitMEMLOCK=)"},
    Limit{ENOMEM,
          "free some memory, or raise its limit (ulimit -v and -l; MemoryMax= and LimitMEMLOCK= of "
          "a unit)"},
};

bool is_of(std::string_view message, int code) {
  return message.find(std::strerror(code)) != std::string_view::npos ||
         (code == ENOMEM && message.find("std::bad_alloc") != std::string_view::npos);
}

}  // namespace

std::string limit_remedy(std::string_view message) {
  if (::access("/proc/self/fd", F_OK) != 0) {
    return "; /proc, which the program needs, is missing (mount -t proc proc /proc)";
  }
  for (const auto& [code, remedy] : kLimits) {
    if (!is_of(message, code)) continue;
    // Another program may have said it already, whose message this one passes on.
    return message.find(remedy) == std::string_view::npos ? "; " + std::string(remedy) : "";
  }
  return "";
}

void report_file_size_limit() { std::signal(SIGXFSZ, SIG_IGN); }

std::string text_of(const std::exception& error) {
  std::string text = error.what();
  const auto number = text.rfind(" [system:");
  if (number != text.npos && text.ends_with(']')) text.resize(number);
  return text;
}

}  // namespace ipoib::program
