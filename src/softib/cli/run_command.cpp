// softib run: sets the environment and executes the program in this process, so signals, exit code
// and terminal are those of the program.

#include <array>
#include <cerrno>
#include <iostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "program/progress.hpp"
#include "softib/cli/capture_target.hpp"
#include "softib/cli/commands.hpp"
#include "softib/cli/launch.hpp"
#include "softib/cli/roce.hpp"
#include "softib/cli/run_environment.hpp"
#include "softib/control/protocol.hpp"
#include "softib/endpoint/capture.hpp"
#include "softib/endpoint/endpoint.hpp"
#include "softib/fabric/subnet_lock.hpp"
#include "softib/subnet/subnet_types.hpp"

namespace softib::cli {

namespace po = boost::program_options;
using ipoib::Result;

namespace {

/// The options that have a value.
constexpr std::array<std::string_view, 6> kRunValues{"--roce", "--subnet",  "--dir",
                                                     "--hca",  "--address", "--capture"};

constexpr std::string_view kRunUsage =
    "usage: softib run [OPTION]... [--] PROGRAM [ARGUMENT]...\n\n"
    "Runs a program that uses libibverbs or libibumad on an HCA of the subnet, which is added if\n"
    "the subnet has none of that name. The program does not see real devices. The exit code is\n"
    "that of the program; 126: it cannot be executed, 127: it is not found.\n\n";

po::options_description run_options() {
  po::options_description options("Options");
  options.add_options()(
      "hca", po::value<std::string>()->default_value("", "")->value_name("[NAME][:PORT],..."),
      "the HCA (default: the name of the network namespace, else of the host), "
      "and which port of a new HCA, 1 or 2, is connected to the subnet (default: 1); or several "
      "HCAs, the devices softib0, softib1 and so on")(
      "address", po::value<std::vector<std::string>>()->composing()->value_name("ADDRESS"),
      "give the HCA, or the first of several, an IP address for programs of librdmacm, beside its "
      "default ones; may be repeated")(
      "roce", po::value<std::string>()->implicit_value("")->value_name("ADDRESS|INTERFACE"),
      "run the program on a RoCE port of a network interface, or of one of its addresses, in place "
      "of a subnet; --roce -- PROGRAM: that of the default route")(
      "capture", po::value<std::string>()->value_name("FILE"),
      "write the packets and MADs that the program sends and receives to FILE, for tshark; -: to "
      "the "
      "standard output, and what the program writes there to the standard error");
  return options;
}

/// Creates or truncates the capture file, to which the program's processes append.
Result<void> begin_capture(const std::string& given) {
  const auto path = capture_target(given);
  if (!path) return path.error();
  const auto file = endpoint::CaptureFile::begin(*path);
  if (!file) return file.error();
  ::setenv(fabric::kCaptureVariable, path->c_str(), 1);
  return {};
}

Result<std::vector<IpAddress>> read_addresses(const po::variables_map& options) {
  std::vector<IpAddress> addresses;
  for (const auto& word : arguments_of(options, "address")) {
    const auto address = ipoib::parse_ip_address(word);
    if (!address) return ipoib::Error{EINVAL, "--address: '" + word + "' is not an IP address"};
    addresses.push_back(*address);
  }
  return addresses;
}

/// Gives the port of the HCA, or its first one that has a cable, an address. The subnet process
/// need not run if the port has it already.
Result<void> give_address(const fabric::SubnetFolder& folder, const fabric::HcaName& hca,
                          const IpAddress& address) {
  control::AddAddress change{hca.name, address, hca.port};
  if (const auto fabric = fabric::Fabric::open(folder.fabric())) {
    const auto first = fabric->find(hca.name);
    const auto node = first ? fabric->node(*first) : std::nullopt;
    if (node && change.port == 0) change.port = node->port.number;
    const auto owner = fabric->find(address);
    const auto owning = owner ? fabric->node(*owner) : std::nullopt;
    if (owning && owning->name == hca.name && owning->port.number == change.port) return {};
  }
  const auto line = ask(folder, control::emit(change));
  return line ? control::parse_acknowledgement(*line) : line.error();
}

/// The folder of the subnet, or of the RoCE port, whose process is started.
Result<fabric::SubnetFolder> run_folder(const po::variables_map& options) {
  auto folder = chosen_subnet(options);
  if (!folder || !options.contains("roce")) return folder;
  const auto port = find_roce_port(options["roce"].as<std::string>());
  if (!port) return port.error();
  if (const auto started = start_roce(*port); !started) return started.error();
  // The program may open the device late, or start others that do.
  if (const auto held = fabric::hold_subnet(port->folder); !held) return held.error();
  return port->folder;
}

Result<void> prepare(const po::variables_map& options, const fabric::SubnetFolder& folder,
                     const std::vector<IpAddress>& addresses) {
  std::string hca = options["hca"].as<std::string>();
  if (options.contains("roce")) hca = subnet::kRoceName;
  if (hca.empty() || hca.front() == ':') hca.insert(0, default_hca_name());
  const auto hcas = fabric::parse_hcas(hca);
  if (!hcas) return hcas.error();
  for (const auto& each : *hcas) {
    const ipoib::program::BlockingProgress progress("waiting for the subnet '" + folder.name() +
                                                    "'");
    if (const auto node = endpoint::find_or_add_node(folder, each); !node) return node.error();
  }
  const auto first = fabric::HcaName::parse(hcas->front());
  if (!first) return first.error();
  for (const auto& address : addresses) {
    if (auto given = give_address(folder, *first, address); !given) return given;
  }
  if (!folder.is_running()) {
    std::cerr << "softib: the process of subnet '" << folder.name()
              << "' is not running: programs cannot join groups until softib subnet runs again\n";
  }
  if (options.contains("capture")) {
    if (const auto begun = begin_capture(options["capture"].as<std::string>()); !begun) {
      return begun.error();
    }
  }
  return set_environment(folder, hca);
}

/// The words before the program, with --roce and its value as one word: it may have none.
std::vector<std::string> words_of_options(std::span<char* const> words) {
  std::vector<std::string> out;
  out.reserve(words.size());
  for (const std::string_view word : words) {
    if (!out.empty() && out.back() == "--roce" && !word.starts_with('-')) {
      out.back().append("=").append(word);
    } else {
      out.emplace_back(word);
    }
  }
  return out;
}

}  // namespace

int run_command(int argc, char** argv) {
  const int program = find_program(argc, argv, kRunValues);
  // "--" is not passed to the option parser.
  const bool has_separator = program > 1 && std::string_view(argv[program - 1]) == "--";
  const auto count = static_cast<std::size_t>(has_separator ? program - 1 : program);
  auto words = words_of_options({argv, count});
  std::vector<char*> pointers;
  pointers.reserve(words.size());
  for (auto& word : words) pointers.push_back(word.data());
  int exit_code = kSuccess;
  const auto options = parse_options(static_cast<int>(pointers.size()), pointers.data(),
                                     run_options(), {}, kRunUsage, exit_code);
  if (!options) return exit_code;
  if (program >= argc) {
    return fail_usage("run", "no program to run");
  }
  const auto addresses = read_addresses(*options);
  if (!addresses) return fail_usage("run", addresses.error().message);
  const auto folder = run_folder(*options);
  if (!folder) return fail(folder.error());
  if (const auto ready = prepare(*options, *folder, *addresses); !ready) return fail(ready.error());
  return execute(argv + program);
}

}  // namespace softib::cli
