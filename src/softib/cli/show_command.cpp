// softib show: prints a subnet as a table, or as JSON.
#include <boost/json/serialize.hpp>
#include <iostream>

#include "softib/cli/commands.hpp"
#include "softib/cli/show_table.hpp"
#include "softib/control/client.hpp"
#include "softib/control/protocol.hpp"
#include "softib/subnetd/subnet_json.hpp"

namespace softib::cli {

namespace po = boost::program_options;

namespace {

constexpr std::string_view kUsageText =
    "usage: softib show [OPTION]...\n\n"
    "Prints a subnet: nodes with their ports and processes, partitions, groups with their "
    "members,\n"
    "and counters. When its process is dead but programs still run on it, prints what they go by,\n"
    "and exits with 1.\n\n";

po::options_description show_options() {
  po::options_description options("Options");
  options.add_options()("json", "print one JSON object");
  return options;
}

}  // namespace

int show_command(int argc, char** argv) {
  int exit_code = kSuccess;
  const auto options = parse_options(argc, argv, show_options(), {}, kUsageText, exit_code);
  if (!options) return exit_code;
  const auto folder = chosen_subnet(*options);
  if (!folder) return fail(folder.error());

  boost::json::object content;
  const auto line = control::control_request(*folder, control::emit(control::Show{}));
  if (line) {
    auto answer = control::parse_answer(*line);
    if (!answer) return fail(answer.error());
    content = std::move(*answer);
    content.erase("ok");
  } else {
    exit_code = fail(line.error());
    const auto fabric = fabric::Fabric::open(folder->fabric());
    if (!fabric) return exit_code;
    content = subnetd::picture(*fabric, *folder);
  }
  if (options->contains("json")) {
    std::cout << boost::json::serialize(content) << '\n';
  } else {
    std::cout << show_table(content);
  }
  return exit_code;
}

}  // namespace softib::cli
