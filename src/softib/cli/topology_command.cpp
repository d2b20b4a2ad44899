// softib topology: checks, converts and draws topologies of files, or of regular shapes.
#include <algorithm>
#include <boost/program_options/value_semantic.hpp>
#include <iostream>

#include "softib/cli/commands.hpp"
#include "softib/cli/topology_view.hpp"
#include "softib/topology/net_loader.hpp"

namespace softib::cli {

namespace po = boost::program_options;

namespace {

constexpr std::string_view kTopologyUsage =
    "usage: softib topology [OPTION]... SHAPE|FILE\n\n"
    "Prints what a topology of switches and HCAs is like, converts it, or draws it. FILE is a net\n"
    "file of ibsim or the output of ibnetdiscover; \"-\" is the standard input. Shapes:\n\n"
    "  fat-tree:K[,LEVELS]       K-ary fat tree: K ports of a switch, 2 or 3 levels (default 3)\n"
    "  torus:AxB[xC][,HOSTS]     torus with HOSTS at each switch (default 1)\n"
    "  dragonfly:A,P,H[,GROUPS]  A switches in a group; each has P hosts and H cables to other\n"
    "                            groups (default: A*H + 1 groups)\n"
    "  line:N[,HOSTS]            N switches in a row with HOSTS at each (default 1)\n"
    "  star:N                    one switch with N hosts\n\n";

po::options_description topology_options() {
  po::options_description options("Options");
  options.add_options()(
      "format,f",
      po::value<std::string>()->default_value("summary", "summary")->value_name("FORMAT"),
      "summary, net (file of ibsim), ibnetdiscover (its output), dot (Graphviz), svg or json")(
      "json,j", "short for --format json")("output,o", po::value<std::string>()->value_name("FILE"),
                                           "replace FILE in one step instead of printing");
  return options;
}

/// The last part of a path; a shape has no slash.
std::string title_of(const std::string& source) {
  return source == "-" ? "standard input" : source.substr(source.rfind('/') + 1);
}

}  // namespace

int topology_command(int argc, char** argv) {
  int exit_code = kSuccess;
  po::positional_options_description positional;
  positional.add("source", -1);
  const auto options =
      parse_options(argc, argv, topology_options(), positional, kTopologyUsage, exit_code);
  if (!options) return exit_code;
  const auto sources = arguments_of(*options, "source");
  if (sources.empty()) return fail_usage("topology", "no shape or file");
  if (sources.size() > 1) {
    return fail_usage("topology", "unexpected argument '" + sources[1] + "'");
  }
  const bool is_json = options->contains("json");
  if (is_json && !(*options)["format"].defaulted()) {
    return fail_usage("topology", "use only one of --json and --format");
  }
  const auto format = is_json ? std::string("json") : (*options)["format"].as<std::string>();
  if (std::ranges::find(kTopologyFormats, format) == kTopologyFormats.end()) {
    return fail_usage("topology", unknown_topology_format(format));
  }
  const auto file = topology::load_topology(sources[0]);
  if (!file) return fail(file.error());
  for (const auto& remark : file->remarks) std::cerr << "softib: " << remark << '\n';
  if (file->more_remarks > 0) {
    std::cerr << "softib: " << file->more_remarks << " more remarks\n";
  }
  return print_or_replace(*options, topology_text(format, *file, {}, title_of(sources[0])));
}

}  // namespace softib::cli
