// What a command that takes long is doing, on a terminal.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

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

/// Owns a thread that shows what is waited for, for calls that block, until the destructor is
/// called. Without a terminal there is no thread, nor if there is one already, whose line stays.
/// Nothing else may be printed meanwhile.
class BlockingProgress {
 public:
  explicit BlockingProgress(std::string text);
  BlockingProgress(const BlockingProgress&) = delete;
  BlockingProgress& operator=(const BlockingProgress&) = delete;
  ~BlockingProgress();

 private:
  void run();

  static std::atomic<bool> is_shown_;  ///< by any of them

  const std::string text_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_ended_ = false;
  std::thread thread_;
};

}  // namespace ipoib::program
