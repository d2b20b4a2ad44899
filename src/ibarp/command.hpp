// The parsed command line.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ipoib/ibarp.h"

namespace ipoib::cli {

/// Exit statuses, as of the project's other programs.
enum Status : int {
  kDone = 0,
  kFailed = 1,  ///< the daemon does not run, does not respond or refuses
  kUsage = 2,   ///< invalid command line: an option, a command or a value
};

/// Ends the program with an exit status and a line on stderr.
class Failure : public std::runtime_error {
 public:
  Failure(Status status, const std::string& message)
      : std::runtime_error(message), status_(status) {}
  [[nodiscard]] Status status() const { return status_; }

 private:
  Status status_;
};

struct Command {
  enum class Verb : std::uint8_t {
    show,
    get,
    add,
    change,
    replace,
    remove,
    flush,
    stats,
    log,
    trace,
    info,
    groups,
    help,
    version,
  };

  Verb verb = Verb::show;
  bool bsd = false;     ///< show entries like arp -a
  std::string host;     ///< the address as given; with arp's options it may be a name
  std::string device;   ///< empty: not given
  ibarp_hardware to{};  ///< of add, change, replace
  std::vector<std::pair<std::string, std::string>> levels;  ///< modules and levels to set
  bool names = false;                                       ///< resolve `host`, and show host names
  bool json = false;
  bool zeros = false;
  bool members = false;
  bool wide = false;  ///< show and groups: all columns

  /// Whether the command changes one entry, and so needs one interface.
  [[nodiscard]] bool is_change() const {
    return verb == Verb::add || verb == Verb::change || verb == Verb::replace ||
           verb == Verb::remove;
  }
};

/// Throws Failure.
[[nodiscard]] Command parse_command(int argc, char** argv);

/// The text of --help.
[[nodiscard]] const char* help_text();

}  // namespace ipoib::cli
