// Runs the ibarp program in the background, with a pipe or a terminal.
#pragma once

#include <pty.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "ipoib/file_descriptor.hpp"

namespace ipoib::ibarp {

class RunningProgram {
 public:
  enum class Output { pipe, terminal };

  explicit RunningProgram(
      std::vector<std::string> arguments, Output output = Output::pipe,
      const std::vector<std::pair<const char*, const char*>>& environment = {}) {
    std::array<int, 2> ends{};
    if (output == Output::pipe) {
      if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
      out_.reset(ends[0]);
      far_.reset(ends[1]);
    } else {
      if (::openpty(&ends[0], &ends[1], nullptr, nullptr, nullptr) != 0) return;
      out_.reset(ends[0]);
      far_.reset(ends[1]);
      ::tcgetattr(far_.get(), &before_);
    }
    std::string name = IBARP_PROGRAM;
    std::vector<char*> argv{name.data()};
    for (std::string& each : arguments) argv.push_back(each.data());
    argv.push_back(nullptr);
    child_ = ::fork();
    if (child_ != 0) {
      if (output == Output::pipe) far_.reset();
      return;
    }
    if (output == Output::terminal) {
      ::setsid();
      ::dup2(far_.get(), STDIN_FILENO);
    }
    ::dup2(far_.get(), STDOUT_FILENO);
    ::unsetenv("COLUMNS");
    ::unsetenv("NO_COLOR");
    for (const auto& [key, value] : environment) ::setenv(key, value, 1);
    ::signal(SIGPIPE, SIG_DFL);
    ::execv(name.c_str(), argv.data());
    ::_exit(127);
  }
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;
  ~RunningProgram() {
    if (child_ > 0) (void)end(SIGKILL);
  }

  /// The next line without its newline; empty at the end.
  std::string line() {
    for (std::size_t end = 0; (end = input_.find('\n')) == std::string::npos;) {
      if (!receive()) return std::exchange(input_, {});
    }
    const auto end = input_.find('\n');
    std::string out = input_.substr(0, end);
    input_.erase(0, end + 1);
    return out;
  }
  /// Reads until the text has appeared, and returns all of it. At the end of the output what there
  /// is.
  std::string until(const std::string& text) {
    while (input_.find(text) == std::string::npos && receive()) {
    }
    return std::exchange(input_, {});
  }
  void press(const std::string& keys) { (void)!::write(out_.get(), keys.data(), keys.size()); }
  void close_output() { out_.reset(); }
  /// Exit status; 128 + n when signal n ended it.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(child_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  int end(int number) {
    ::kill(child_, number);
    return wait();
  }
  /// Whether the terminal is as it was.
  [[nodiscard]] bool is_restored() const {
    termios now{};
    constexpr tcflag_t kKeys = ICANON | ECHO;
    return ::tcgetattr(far_.get(), &now) == 0 && (now.c_lflag & kKeys) == (before_.c_lflag & kKeys);
  }

 private:
  bool receive() {
    std::array<char, 4096> buffer{};
    const ssize_t n = ::read(out_.get(), buffer.data(), buffer.size());
    if (n <= 0) return false;
    input_.append(buffer.data(), static_cast<std::size_t>(n));
    return true;
  }

  FileDescriptor out_;
  FileDescriptor far_;  ///< of a terminal, open so that its settings can be read
  termios before_{};
  pid_t child_ = -1;
  std::string input_;
};

}  // namespace ipoib::ibarp
