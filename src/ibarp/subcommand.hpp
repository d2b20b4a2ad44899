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
  /// Separated by spaces. Empty for a verb that a subcommand of another row has led to.
  std::string_view names;
  /// Parses the words after the name, and removes them. Throws Failure.
  void (*take)(Command& command, std::vector<std::string>& words);
  Status (*run)(const Command& command);
  const char* help;  ///< its lines of --help
};

/// All, in the order of --help. Verbs that only options stand for are not among them.
[[nodiscard]] std::span<const Subcommand> subcommands();
/// Their names.
[[nodiscard]] std::vector<std::string_view> subcommand_names();
/// The first one with a name that begins so, as in ip(8); null if there is none.
[[nodiscard]] const Subcommand* find_subcommand(std::string_view abbreviation);
/// Requires a row of this verb.
[[nodiscard]] const Subcommand& subcommand_of(Command::Verb verb);

}  // namespace ipoib::ibarp
