// A subcommand of ibarp: its names, how its arguments are parsed, how it runs, and its help.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "command.hpp"

namespace ipoib::ibarp {

struct Subcommand {
  Command::Verb verb;
  /// Its names, separated by spaces; empty for a verb that a subcommand of another row has led to.
  std::string_view names;
  /// Parses the words after the name, and removes them. Throws Failure.
  void (*take)(Command& command, std::vector<std::string>& words);
  Status (*run)(const Command& command);
  const char* help;  ///< its lines of --help
};

/// All subcommands, in the order of --help. Verbs that only options stand for are not among them.
[[nodiscard]] std::span<const Subcommand> subcommands();
/// The names of all subcommands.
[[nodiscard]] std::vector<std::string_view> subcommand_names();
/// The first subcommand with a name that begins so, as in ip(8); null if there is none.
[[nodiscard]] const Subcommand* find_subcommand(std::string_view abbreviation);
/// The subcommand of a verb, which must have a row.
[[nodiscard]] const Subcommand& subcommand_of(Command::Verb verb);

}  // namespace ipoib::ibarp
