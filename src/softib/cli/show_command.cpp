// softib show: prints a subnet as a table, or as JSON.
#include <boost/json/serialize.hpp>

#include "softib/cli/commands.hpp"
#include "softib/cli/show_table.hpp"
#include "softib/control/client.hpp"
#include "softib/control/protocol.hpp"
#include "softib/subnetd/subnet_json.hpp"

namespace softib::cli {

namespace po = boost::program_options;

namespace {

constexpr std::string_view kShowUsage =
    "usage: softib show [OPTION]...\n\n"
    "Prints a subnet: nodes with ports and processes, partitions, groups with members, and\n"
    "counters. If the subnet process is not running but programs still use the subnet, prints\n"
    "their forwarding state and exits with 1.\n\n";

po::options_description show_options() {
  po::options_description options("Options");
  options.add_options()("json,j", "print one JSON object");
  return options;
}

}  // namespace

int show_command(int argc, char** argv) {
  int exit_code = kSuccess;
  const auto options = parse_options(argc, argv, show_options(), {}, kShowUsage, exit_code);
  if (!options) return exit_code;
  const auto folder = chosen_subnet(*options);
  if (!folder) return fail(folder.error());

  boost::json::object content;
  const auto line = control::send_request(*folder, control::emit(control::Show{}));
  if (line) {
    auto response = control::parse_subnet(*line);
    if (!response) return fail(response.error());
    content = std::move(*response);
  } else {
    exit_code = fail(line.error());
    const auto fabric = fabric::Fabric::open(folder->fabric());
    if (!fabric) return exit_code;
    content = subnetd::subnet_json(*fabric, *folder);
  }
  const bool is_json = options->contains("json");
  const int printed = print(is_json ? boost::json::serialize(content) + '\n' : show_table(content));
  return printed == kSuccess ? exit_code : printed;
}

}  // namespace softib::cli
