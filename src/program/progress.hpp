// What a command that takes long is doing, on a terminal.
#pragma once

#include <chrono>
#include <string>

namespace ipoib::program {

/// Owns a line on the standard error, if that is a terminal. It appears when the command has run
/// for a second, changes once a second, and is removed by the destructor.
class Progress {
 public:
  Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { clear(); }

  void show(const std::string& text);
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  const bool is_terminal_;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point next_;
  bool is_shown_ = false;
};

}  // namespace ipoib::program
