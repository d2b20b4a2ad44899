// softib set: changes a running subnet.
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <cstdio>

#include "softib/cli/change.hpp"
#include "softib/cli/commands.hpp"
#include "softib/control/protocol.hpp"

namespace softib::cli {

namespace po = boost::program_options;

int set_command(int argc, char** argv) {
  int exit_code = kSuccess;
  po::positional_options_description positional;
  positional.add("change", -1);
  const std::string usage =
      "usage: softib set [OPTION]... CHANGE\n\nChanges a running subnet:\n" + changes_help() + '\n';
  po::options_description own("Options");
  own.add_options()("json,j", "print the change that was made as one JSON object");
  const auto options = parse_options(argc, argv, own, positional, usage, exit_code);
  if (!options) return exit_code;
  const auto change = parse_change(arguments_of(*options, "change"));
  if (!change) return fail_usage("set", change.error().message);
  if (const auto remark = remark_on_change(arguments_of(*options, "change")); !remark.empty()) {
    std::fprintf(stderr, "softib set: %s\n", remark.c_str());
  }
  const auto folder = chosen_subnet(*options);
  if (!folder) return fail(folder.error());
  const auto request = control::emit(*change);
  const auto line = ask(*folder, request);
  if (!line) return fail(line.error());
  const auto done = control::parse_acknowledgement(*line);
  if (!done) return fail(done.error());
  if (!options->contains("json")) return kSuccess;
  return print(boost::json::serialize(boost::json::object{
                   {"subnet", folder->name()}, {"change", boost::json::parse(request)}}) +
               '\n');
}

}  // namespace softib::cli
