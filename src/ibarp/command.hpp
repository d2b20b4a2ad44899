// The parsed command line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "color.hpp"
#include "ipoib/ibarp.h"
#include "program/output_ring.hpp"
#include "table/table.hpp"
#include "watch_options.hpp"

namespace ipoib::ibarp {

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

/// Throws Failure with kUsage and a hint at --help.
[[noreturn]] void misused(const std::string& what);

struct Command {
  enum class Verb : std::uint8_t {
    show,
    get,
    add,
    change,
    replace,
    remove,
    load,
    flush,
    stats,
    log,
    trace,
    info,
    groups,
    stations,
    interfaces,
    metrics,
    add_interface,
    delete_interface,
    failover,
    monitor,
    wait,
    top,
    check,
    explain,
    probe,
    capture,
    save,
    bug_report,
    batch,
    help,
    version,
  };

  Verb verb = Verb::show;
  bool bsd = false;  ///< show entries like arp -a
  std::string host;  ///< the address as given; with arp's options it may be a name
  std::optional<ibarp_address> address;                     ///< that of `host`
  ibarp_filter filter{sizeof(ibarp_filter), 0, {}, 0, {}};  ///< of show and flush
  std::string device;                                       ///< empty: not given
  ibarp_hardware to{};                                      ///< of add, change, replace
  bool pins = false;  ///< only the GID of `to` is given: it is pinned
  std::vector<std::pair<std::string, std::string>> levels;  ///< modules and levels to set
  std::uint16_t pkey = 0;                                   ///< of add_interface
  std::string name;           ///< of add_interface; empty: the usual one
  std::string from;           ///< of explain: the sender; empty: explain what is sent
  bool may_exist = false;     ///< add_interface: it is no error that the partition has one
  std::string to_device;      ///< of failover; empty: the port that does not serve the interface
  std::uint32_t to_port = 1;  ///< of failover: the number of that port
  std::string file;           ///< of load and capture; "-": standard output
  std::string neighbour;      ///< of capture: its address; empty: all packets
  program::OutputRing::Limits ring{};  ///< of capture
  std::string output;         ///< of metrics, save and bugreport: a file; empty: the usual output
  std::string serve;          ///< of metrics: the address to serve them at; empty: not given
  std::string password_file;  ///< with `serve`: has the password for clients; empty: none needed
  std::string batch;          ///< a file with commands; "-": stdin
  bool force = false;         ///< batch: go on after a failure
  bool names = false;         ///< resolve `host`, and show host names
  bool json = false;
  bool zeros = false;
  bool members = false;
  bool wide = false;                      ///< show, groups and stations: all columns
  std::size_t width = table::kUnlimited;  ///< of the output in columns
  ColorMode color = ColorMode::automatic;
  WatchOptions watch;  ///< of monitor, wait and top

  /// Whether the command changes one entry, and so needs one interface.
  [[nodiscard]] bool is_change() const {
    return verb == Verb::add || verb == Verb::change || verb == Verb::replace ||
           verb == Verb::remove;
  }
};

/// Throws Failure.
[[nodiscard]] Command parse_command(int argc, char** argv);
/// Parses a command and its arguments, which are those of ip(8) neigh; `options` has those of the
/// command line. Throws Failure.
[[nodiscard]] Command parse_words(const Command& options, const std::vector<std::string>& words);
/// Parses "gid GID" or HW at the front of `words`, and removes it. Throws Failure.
void take_link_layer(Command& command, std::vector<std::string>& words);
/// Parses HW at the front of `words`, and removes it: 20 bytes, QPN@GID, or the words
/// "qpn QPN gid GID". Throws Failure.
[[nodiscard]] ibarp_hardware take_hardware(std::vector<std::string>& words);

/// The text of --help.
[[nodiscard]] std::string help_text();

}  // namespace ipoib::ibarp
