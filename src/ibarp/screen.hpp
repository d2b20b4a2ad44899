// A terminal's alternate screen, and keys without Enter. The terminal is restored in any case: at
// the end, on signals that end the program, and while the program is stopped.
#pragma once

#include <termios.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <optional>
#include <string>

namespace ipoib::ibarp {

class Screen {
 public:
  struct Size {
    std::size_t columns = 80;
    std::size_t rows = 24;
  };

  /// Standard output has to be a terminal.
  Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  ~Screen();

  [[nodiscard]] static Size size();
  /// Replaces the contents. Lines beyond the last row are left out.
  void show(const std::string& text);
  /// Waits for a key. Returns none after that time, when the size has changed, or if the input has
  /// ended. A signal that ends the program does so here, after leaving the screen.
  [[nodiscard]] std::optional<char> key(std::chrono::steady_clock::time_point until);

 private:
  void enter();
  void leave();
  void on_signal(int number);

  termios before_{};
  bool has_keys_;  ///< sets before_
  sigset_t unblocked_{};
};

}  // namespace ipoib::ibarp
