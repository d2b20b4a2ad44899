// softib: a software InfiniBand subnet. This file is the table of its subcommands.
#include <algorithm>
#include <array>
#include <exception>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "program/limits.hpp"
#include "program/nearest.hpp"
#include "softib/cli/commands.hpp"

namespace {

struct Command {
  std::string_view name;
  std::string_view summary;
  int (*run)(int argc, char** argv);
};

constexpr std::array kCommands{
    Command{"subnet", "run an emulated subnet: switch, subnet manager and SA",
            softib::cli::subnet_command},
    Command{"run", "run a program on an HCA of a subnet", softib::cli::run_command},
    Command{"roce", "run a RoCE port on a network interface", softib::cli::roce_command},
    Command{"exec", "run a command with a subnet of its own", softib::cli::exec_command},
    Command{"lab", "run hosts with ipoibd on a subnet of their own, from a file",
            softib::cli::lab_command},
    Command{"show", "print a subnet: nodes, partitions, groups, counters",
            softib::cli::show_command},
    Command{"capture", "write the packets of a running subnet to a file for tshark",
            softib::cli::capture_command},
    Command{"metrics", "print metrics of a subnet for Prometheus", softib::cli::metrics_command},
    Command{"set", "change a running subnet: ports, LIDs, partitions, the subnet manager",
            softib::cli::set_command},
    Command{"list", "print the running subnets", softib::cli::list_command},
    Command{"stop", "end a running subnet", softib::cli::stop_command},
    Command{"topology", "check, convert or draw a topology of switches and HCAs",
            softib::cli::topology_command},
    Command{"view", "show a subnet in a browser: nodes, tables, trees, rates and drops",
            softib::cli::view_command},
};

std::string suggestion(std::string_view word) {
  std::vector<std::string_view> names{"--help", "--version"};
  for (const auto& command : kCommands) names.push_back(command.name);
  return ipoib::program::did_you_mean(word, names);
}

std::string usage() {
  std::ostringstream out;
  out << "usage: softib SUBCOMMAND [OPTION]...\n\n"
         "A software InfiniBand subnet in user space.\n\nSubcommands:\n";
  for (const auto& command : kCommands) {
    out << "  " << std::left << std::setw(10) << command.name << command.summary << '\n';
  }
  out << "\nsoftib SUBCOMMAND --help prints its options.\n\nOptions:\n"
         "  -h, --help     print this and exit\n"
         "  -V, --version  print the version and exit\n"
         "\nExit status: 0 success, 1 failure, 2 invalid command line; of run and exec, that of "
         "the "
         "program, 126 or\n"
         "127.\n";
  return out.str();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view word = argc > 1 ? argv[1] : "";
  if (word == "--help" || word == "-h") return softib::cli::print(usage());
  if (word == "--version" || word == "-V") {
    return softib::cli::print("softib " SOFTIB_VERSION "\n");
  }
  const auto command = std::find_if(kCommands.begin(), kCommands.end(),
                                    [&](const auto& known) { return known.name == word; });
  if (command == kCommands.end()) {
    if (word.empty()) {
      std::cerr << usage();
    } else {
      std::cerr << "softib: unknown " << (word.starts_with('-') ? "option '" : "subcommand '")
                << word << '\'' << suggestion(word) << " (try softib --help)\n";
    }
    return softib::cli::kUsage;
  }
  // A program that softib runs would inherit it.
  if (word != "run") ipoib::program::report_file_size_limit();
  try {
    return command->run(argc - 1, argv + 1);
  } catch (const std::exception& error) {
    return softib::cli::fail({0, ipoib::program::text_of(error)});
  }
}
