#include "screen.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

namespace ipoib::ibarp {

namespace {

// Alternate screen, no cursor, and lines that are cut at the margin.
constexpr std::string_view kEnter = "\033[?1049h\033[?25l\033[?7l";
constexpr std::string_view kLeave = "\033[?7h\033[?25h\033[?1049l";
constexpr std::string_view kHome = "\033[H";
constexpr std::string_view kClearLine = "\033[K";
constexpr std::string_view kClearBelow = "\033[J";

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH};

volatile std::sig_atomic_t signalled = 0;

void write_all(std::string_view text) {
  (void)std::fwrite(text.data(), 1, text.size(), stdout);
  (void)std::fflush(stdout);
}

}  // namespace

Screen::Screen() : has_keys_(tcgetattr(STDIN_FILENO, &before_) == 0) {
  // They are delivered only while key() waits, so that none is missed.
  sigset_t blocked;
  sigemptyset(&blocked);
  struct sigaction action {};
  action.sa_handler = [](int number) { signalled = number; };
  for (const int each : kSignals) {
    sigaddset(&blocked, each);
    sigaction(each, &action, nullptr);
  }
  sigprocmask(SIG_BLOCK, &blocked, &unblocked_);
  enter();
}

Screen::~Screen() {
  leave();
  sigprocmask(SIG_SETMASK, &unblocked_, nullptr);
}

Screen::Size Screen::size() {
  winsize found{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &found) != 0 || found.ws_col == 0 || found.ws_row == 0) {
    return {};
  }
  return {found.ws_col, found.ws_row};
}

void Screen::enter() {
  if (has_keys_) {
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  write_all(kEnter);
}

void Screen::leave() {
  write_all(kLeave);
  if (has_keys_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

/// Clears before it writes: behind a line that fills the width, the cursor stands on its last
/// character.
void Screen::show(const std::string& text) {
  const std::size_t rows = size().rows;
  std::string out(kHome);
  std::string_view left = text;
  std::size_t row = 0;
  for (; row < rows && !left.empty(); ++row) {
    const auto end = std::min(left.find('\n'), left.size());
    if (row > 0) out += "\r\n";
    out += kClearLine;
    out += left.substr(0, end);
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  if (row < rows) {
    out += "\r\n";
    out += kClearBelow;
  }
  write_all(out);
}

std::optional<char> Screen::key(std::chrono::steady_clock::time_point until) {
  using std::chrono::nanoseconds;
  for (;;) {
    const auto left =
        std::max(nanoseconds(until - std::chrono::steady_clock::now()), nanoseconds(0));
    const timespec timeout{left.count() / 1'000'000'000, left.count() % 1'000'000'000};
    pollfd input{has_keys_ ? STDIN_FILENO : -1, POLLIN, 0};
    signalled = 0;
    const int ready = ppoll(&input, 1, &timeout, &unblocked_);
    if (signalled == SIGWINCH) return std::nullopt;
    if (signalled != 0) {
      on_signal(signalled);
      continue;
    }
    if (ready <= 0) return std::nullopt;
    char pressed = 0;
    if (read(STDIN_FILENO, &pressed, 1) == 1) return pressed;
    has_keys_ = false;  // the input has ended
  }
}

/// Lets the signal do what it does by default, without the screen.
void Screen::on_signal(int number) {
  leave();
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  struct sigaction own {};
  sigaction(number, &standard, &own);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, number);
  (void)std::raise(number);
  sigprocmask(SIG_UNBLOCK, &only, nullptr);  // it is delivered here
  sigprocmask(SIG_BLOCK, &only, nullptr);
  sigaction(number, &own, nullptr);
  enter();
}

}  // namespace ipoib::ibarp
