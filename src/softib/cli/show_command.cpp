// softib show: prints a subnet or one section of it, as tables or as JSON, once or repeatedly.
#include <unistd.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/json/value_to.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <thread>

#include "softib/cli/cm_view.hpp"
#include "softib/cli/commands.hpp"
#include "softib/cli/show_table.hpp"
#include "softib/cli/topology_view.hpp"
#include "softib/control/protocol.hpp"
#include "softib/subnetd/subnet_json.hpp"
#include "table/table.hpp"

namespace softib::cli {

namespace po = boost::program_options;

namespace {

constexpr double kLeastInterval = 0.1;  ///< seconds
constexpr double kMostInterval = 86400;

constexpr std::string_view kShowUsage =
    "usage: softib show [OPTION]... [nodes|switches|partitions|groups|counters]\n"
    "       softib show --cm [OPTION]...\n\n"
    "Prints a subnet in brief, or one section of it with all columns: nodes with ports and\n"
    "processes, switches with their cables, partitions, groups with members, or counters. If the\n"
    "subnet process is not running but programs still use the subnet, prints their forwarding\n"
    "state and exits with 1.\n\n"
    "With --cm, prints the listeners and connections of the programs that use the RDMA CM.\n\n";

po::options_description show_options() {
  po::options_description options("Options");
  options.add_options()("json,j", "print one JSON object")("wide,w",
                                                           "print all sections with all columns")(
      "topology", po::value<std::string>()->implicit_value("net", "net")->value_name("[FORMAT]"),
      "print switches, HCAs and cables as a net file of ibsim (net), or in another format of "
      "`softib "
      "topology`: ibnetdiscover, with LIDs; dot; svg; json; summary")(
      "cm", "print listeners and connections of the RDMA CM, and counters of its messages")(
      "watch", po::value<double>()->implicit_value(2, "2")->value_name("[SECONDS]"),
      "print again after each interval until the subnet ends; on a terminal, clear "
      "it before");
  return options;
}

/// program_options takes an optional value only after "=": joins "--watch" with a number behind it,
/// and "--topology" with a format.
std::vector<std::string> join_values(int argc, char** argv) {
  std::vector<std::string> words;
  for (int i = 0; i < argc; ++i) {
    const std::string_view word = argv[i];
    const bool is_number = !word.empty() && (std::isdigit(word[0]) != 0 || word[0] == '.');
    const bool is_format = std::ranges::count(kTopologyFormats, word) != 0;
    if (i > 1 &&
        ((is_number && words.back() == "--watch") || (is_format && words.back() == "--topology"))) {
      words.back() += "=" + std::string(word);
    } else {
      words.emplace_back(word);
    }
  }
  return words;
}

/// The parts to print, and their form.
struct View {
  bool json = false;
  bool wide = false;
  bool cm = false;
  std::optional<std::string> topology;  ///< its format
  std::optional<Section> section;

  [[nodiscard]] std::string text(const boost::json::object& subnet) const {
    if (topology) {
      const auto [file, lids] = topology_of(subnet);
      return topology_text(*topology, file, lids,
                           boost::json::value_to<std::string>(subnet.at("subnet")));
    }
    if (json) {
      return boost::json::serialize(section ? json_of_section(subnet, *section) : subnet) + '\n';
    }
    const std::size_t width = ipoib::table::output_width();
    if (section) return show_section(subnet, *section, width);
    return wide ? show_wide(subnet, width) : show_brief(subnet, width);
  }
};

/// Prints the subnet once, after `before`. Returns kFailure also if its process does not run.
int show_once(const fabric::SubnetFolder& folder, const View& view, std::string_view before) {
  const auto line = ask(folder, control::emit(control::Show{}));
  if (line) {
    const auto subnet = control::parse_subnet(*line);
    return subnet ? print(std::string(before) + view.text(*subnet)) : fail(subnet.error());
  }
  const int failed = fail(line.error());
  const auto fabric = fabric::Fabric::open(folder.fabric());
  if (fabric && !view.topology)
    (void)print(std::string(before) + view.text(subnetd::subnet_json(*fabric, folder)));
  return failed;
}

/// Prints the view of --cm from the files of the processes, so it needs no subnet process.
int show_cm(const fabric::SubnetFolder& folder, const View& view, std::string_view before) {
  const auto checked = folder.check(fabric::FolderUse::attach);
  if (!checked) return fail(checked.error());
  const auto fabric = fabric::Fabric::open(folder.fabric());
  if (!fabric) return fail(fabric.error());
  const auto cm = cm_json(*fabric, folder);
  return print(std::string(before) + (view.json ? boost::json::serialize(cm) + '\n'
                                                : cm_text(cm, ipoib::table::output_width())));
}

int show(const fabric::SubnetFolder& folder, const View& view, std::string_view before) {
  return view.cm ? show_cm(folder, view, before) : show_once(folder, view, before);
}

int watch(const fabric::SubnetFolder& folder, const View& view, double seconds) {
  const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  constexpr std::string_view kClear = "\033[H\033[J";
  std::string_view before = is_terminal ? kClear : "";
  for (;;) {
    const int code = show(folder, view, before);
    if (code != kSuccess || std::ferror(stdout) != 0) return code;  // perhaps nobody reads it
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    if (!is_terminal && !view.json) before = "\n";
  }
}

}  // namespace

int show_command(int argc, char** argv) {
  int exit_code = kSuccess;
  auto words = join_values(argc, argv);
  std::vector<char*> joined;
  joined.reserve(words.size());
  for (auto& word : words) joined.push_back(word.data());
  po::positional_options_description positional;
  positional.add("section", 1);
  const auto options = parse_options(static_cast<int>(joined.size()), joined.data(), show_options(),
                                     positional, kShowUsage, exit_code);
  if (!options) return exit_code;
  View view{options->contains("json"), options->contains("wide"), options->contains("cm"),
            std::nullopt, std::nullopt};
  if (options->contains("topology")) {
    view.topology = (*options)["topology"].as<std::string>();
    if (std::ranges::find(kTopologyFormats, *view.topology) == kTopologyFormats.end()) {
      return fail_usage("show", unknown_topology_format(*view.topology));
    }
  }
  for (const auto& word : arguments_of(*options, "section")) {
    view.section = parse_section(word);
    if (!view.section) {
      return fail_usage("show",
                        "'" + word + "' is not nodes, switches, partitions, groups or counters");
    }
  }
  if (view.cm && (view.wide || view.section || view.topology)) {
    return fail_usage("show", "--cm is printed by itself");
  }
  if (view.topology && (view.json || view.wide || view.section)) {
    return fail_usage("show", "--topology is printed by itself");
  }
  const double seconds = options->contains("watch") ? (*options)["watch"].as<double>() : 0;
  if (options->contains("watch") && !(seconds >= kLeastInterval && seconds <= kMostInterval)) {
    return fail_usage("show", "--watch is 0.1 to 86400 seconds");
  }
  const auto folder = chosen_subnet(*options);
  if (!folder) return fail(folder.error());
  return options->contains("watch") ? watch(*folder, view, seconds) : show(*folder, view, "");
}

}  // namespace softib::cli
