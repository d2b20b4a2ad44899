// The options of the running daemon, and what may change in them while it runs.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/options/options.hpp"
#include "daemon/pump/messages.hpp"

namespace ipoib::daemon {

struct Logging;
class NeighbourStore;

/// What the interfaces of a port have to follow.
struct Reloaded {
  std::optional<std::vector<PKey>> pkeys = {};
  std::optional<PollMode> poll = {};
  std::map<PKey, NeighbourChanges> neighbours = {};  ///< by partition
};

class Configuration {
 public:
  /// `options` are what parse_options() has made of `arguments` and `folder`.
  Configuration(Options options, std::vector<std::string> arguments,
                std::string folder = kConfigurationFolder)
      : options_(std::move(options)),
        arguments_(std::move(arguments)),
        folder_(std::move(folder)) {}
  Configuration(const Configuration&) = delete;
  Configuration& operator=(const Configuration&) = delete;

  /// The same object for the life of this, with the values of the last reload(). Only for the
  /// control thread, except for those that never change.
  [[nodiscard]] const Options& options() const { return options_; }

  /// Reads the files again, and takes over what a running daemon can change: the levels of the log,
  /// which it sets, the partitions, the file of neighbours, and how to poll. Logs what it has taken
  /// over, and which other options have changed, which takes effect at the next start. If anything
  /// is invalid, it logs why, and nothing changes.
  [[nodiscard]] Reloaded reload(Logging& logs, NeighbourStore& neighbours);

 private:
  [[nodiscard]] Reloaded take_over(Options& read, Logging& logs, NeighbourStore& neighbours);

  Options options_;
  const std::vector<std::string> arguments_;
  const std::string folder_;
};

}  // namespace ipoib::daemon
