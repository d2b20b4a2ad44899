// softib metrics: prints metrics of a subnet, writes them to a file, or serves them over HTTP.
#include <boost/program_options/value_semantic.hpp>
#include <iostream>

#include "metrics/exporter.hpp"
#include "softib/cli/commands.hpp"
#include "softib/cli/metrics.hpp"
#include "softib/control/protocol.hpp"
#include "softib/subnetd/subnet_json.hpp"

namespace softib::cli {

namespace po = boost::program_options;
using ipoib::metrics::Families;

namespace {

constexpr std::string_view kMetricsUsage =
    "usage: softib metrics [OPTION]...\n\n"
    "Prints metrics of a subnet in the text format of Prometheus: states and counters of the "
    "ports,\n"
    "partitions, groups, and what the SA did. If the subnet process does not run, softib_up is "
    "0.\n\n";

po::options_description metrics_options() {
  po::options_description options("Options");
  options.add_options()("output", po::value<std::string>()->value_name("FILE"),
                        "replace FILE in one step instead of printing")(
      "serve", po::value<std::string>()->value_name("[ADDRESS:]PORT"),
      "serve them over HTTP until a signal; without ADDRESS to this host only");
  return options;
}

/// Collects the metrics. The error says why neither the subnet process nor the fabric file had
/// them.
ipoib::Result<Families> collect(const fabric::SubnetFolder& folder) {
  const auto line = ask(folder, control::emit(control::Show{}));
  if (line) {
    const auto subnet = control::parse_subnet(*line);
    if (!subnet) return subnet.error();
    return subnet_metrics(*subnet);
  }
  const auto fabric = fabric::Fabric::open(folder.fabric());
  if (!fabric) return line.error();
  return subnet_metrics(subnetd::subnet_json(*fabric, folder));
}

/// Collects the metrics. While there is no subnet, they are only softib_up.
Families collect_or_down(const fabric::SubnetFolder& folder) {
  auto metrics = collect(folder);
  if (metrics) return std::move(*metrics);
  return subnet_metrics({{"subnet", folder.name()}, {"running", false}});
}

int serve(const fabric::SubnetFolder& folder, const std::string& where) {
  const auto address = ipoib::metrics::ListenAddress::parse(where);
  if (!address) return fail_usage("metrics", address.error().message);
  const auto served = ipoib::metrics::serve(
      *address, {}, [&folder] { return collect_or_down(folder); },
      [](const std::string& url) { std::cerr << "softib: serving " << url << '\n'; });
  return served ? kSuccess : fail(served.error());
}

}  // namespace

int metrics_command(int argc, char** argv) {
  int exit_code = kSuccess;
  const auto options =
      parse_options(argc, argv, metrics_options(), po::positional_options_description(),
                    kMetricsUsage, exit_code);
  if (!options) return exit_code;
  if (options->contains("output") && options->contains("serve")) {
    return fail_usage("metrics", "use only one of --output and --serve");
  }
  const auto folder = chosen_subnet(*options);
  if (!folder) return fail(folder.error());
  if (options->contains("serve")) return serve(*folder, (*options)["serve"].as<std::string>());
  const auto metrics = collect(*folder);
  if (!metrics) return fail(metrics.error());
  return print_or_replace(*options, metrics->text());
}

}  // namespace softib::cli
