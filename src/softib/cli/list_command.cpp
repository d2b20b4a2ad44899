// softib list: prints the subnets of this machine that the user may see.
#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <cerrno>
#include <map>

#include "softib/cli/commands.hpp"
#include "softib/cli/known_subnets.hpp"
#include "softib/cli/list_table.hpp"
#include "softib/fabric/unused_folder.hpp"
#include "table/table.hpp"

namespace softib::cli {

namespace po = boost::program_options;

namespace {

constexpr std::string_view kListUsage =
    "usage: softib list [OPTION]...\n\n"
    "Prints the running subnets: their folders, processes, HCAs and programs. Without --dir, "
    "these\n"
    "are the subnets in the default directory, and those of all softib processes that this user "
    "may\n"
    "see. A subnet without process has been killed, or ended before its programs.\n\n";

po::options_description list_options() {
  po::options_description options("Options");
  options.add_options()("json,j", "print one JSON array");
  return options;
}

}  // namespace

int list_command(int argc, char** argv) {
  int exit_code = kSuccess;
  const auto options = parse_options(argc, argv, list_options(), {}, kListUsage, exit_code);
  if (!options) return exit_code;
  if (::access("/proc/self/fd", F_OK) != 0) {
    return fail({ENOENT, "cannot see which subnets run: there is no /proc"});
  }
  // This fails where there is no default directory; there may be processes anyway.
  const auto folder = chosen_subnet(*options);
  std::map<std::string, KnownSubnet> subnets;
  const auto add = [&](std::vector<KnownSubnet>&& found) {
    for (auto& subnet : found) {
      const bool is_chosen =
          !options->contains("subnet") || (folder && subnet.folder.name() == folder->name());
      if (is_chosen) subnets.try_emplace(subnet.folder.path(), std::move(subnet));
    }
  };
  if (folder) {
    const std::string directory = folder->path().substr(0, folder->path().rfind('/'));
    fabric::remove_ended_folders(directory);
    add(subnets_in(directory));
  }
  if (!options->contains("dir")) add(subnets_of_processes());
  std::vector<KnownSubnet> all;
  all.reserve(subnets.size());
  for (auto& [path, subnet] : subnets) all.push_back(std::move(subnet));
  if (options->contains("json")) return print(boost::json::serialize(list_json(all)) + '\n');
  return print(list_table(all, ipoib::table::output_width()));
}

}  // namespace softib::cli
