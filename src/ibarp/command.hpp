// What the user asks for, as a value.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ipoib/ibarp.h"

namespace ipoib::cli {

/// Exit statuses, as those of ip(8).
enum Status : int {
  kDone = 0,
  kBadValue = 1,  ///< an argument that is no address, or no interface of an ipoibd
  kRefused = 2,   ///< the daemon refused, or did not answer
  kUsage = 255,   ///< the command line is not understood
};

/// Ends the program with a line for stderr.
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
  bool bsd = false;     ///< show in the manner of arp -a
  std::string host;     ///< the address as it was typed; may be a name in arp's spelling
  std::string device;   ///< empty: not said
  ibarp_hardware to{};  ///< of add, change, replace
  std::vector<std::pair<std::string, std::string>> levels;  ///< module and level, to be set
  bool names = false;  ///< `host` may be a name, and addresses are shown with theirs
  bool json = false;
  bool zeros = false;
  bool members = false;

  /// Whether it is about one entry, whose interface must be known.
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
