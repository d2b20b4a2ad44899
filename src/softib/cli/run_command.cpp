// softib run: sets the environment and executes the program in this process, so signals, exit code
// and terminal are those of the program.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>

#include "softib/cli/capture_target.hpp"
#include "softib/cli/commands.hpp"
#include "softib/cli/run_environment.hpp"
#include "softib/control/client.hpp"
#include "softib/control/protocol.hpp"
#include "softib/endpoint/capture.hpp"
#include "softib/endpoint/endpoint.hpp"

namespace softib::cli {

namespace po = boost::program_options;
using ipoib::Result;

namespace {

/// The exit codes of shells and env(1).
constexpr int kNotExecutable = 126;
constexpr int kNotFound = 127;

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
      "capture", po::value<std::string>()->value_name("FILE"),
      "write the packets and MADs that the program sends and receives to FILE, for tshark; -: to "
      "the "
      "standard output, and what the program writes there to the standard error");
  return options;
}

/// The index of the program in argv: after "--", or the first argument that is neither an option
/// nor the value of one.
int find_program(int argc, char** argv) {
  constexpr std::array<std::string_view, 5> kWithValue{"--subnet", "--dir", "--hca", "--address",
                                                       "--capture"};
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--") return i + 1;
    if (!word.starts_with('-')) return i;
    if (std::find(kWithValue.begin(), kWithValue.end(), word) != kWithValue.end()) ++i;
  }
  return argc;
}

std::string_view variable(const char* name) {
  const char* const value = ::getenv(name);
  return value == nullptr ? "" : value;
}

void set_variable(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

/// Creates or truncates the capture file, to which the program's processes append.
Result<void> begin_capture(const std::string& given) {
  const auto path = capture_target(given);
  if (!path) return path.error();
  const auto file = endpoint::CaptureFile::begin(*path);
  if (!file) return file.error();
  set_variable(fabric::kCaptureVariable, *path);
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

/// Gives the node an address. The subnet process need not run if the node has it already.
Result<void> give_address(const fabric::SubnetFolder& folder, const std::string& hca,
                          const IpAddress& address) {
  const auto fabric = fabric::Fabric::open(folder.fabric());
  const auto owner = fabric ? fabric->find(address) : std::nullopt;
  if (owner && owner == fabric->find(hca)) return {};
  const auto line = control::send_request(folder, control::emit(control::AddAddress{hca, address}));
  return line ? control::parse_acknowledgement(*line) : line.error();
}

Result<void> prepare(const po::variables_map& options, const fabric::SubnetFolder& folder,
                     const std::vector<IpAddress>& addresses) {
  std::string hca = options["hca"].as<std::string>();
  if (hca.empty() || hca.front() == ':') hca.insert(0, default_hca_name());
  const auto library = find_libsoftib();
  if (!library) return library.error();
  const auto hcas = fabric::parse_hcas(hca);
  if (!hcas) return hcas.error();
  for (const auto& each : *hcas) {
    if (const auto node = endpoint::find_or_add_node(folder, each); !node) return node.error();
  }
  const auto first = fabric::HcaName::parse(hcas->front());
  if (!first) return first.error();
  for (const auto& address : addresses) {
    if (auto given = give_address(folder, first->name, address); !given) return given;
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
  set_variable(fabric::kDirectoryVariable, folder.path().substr(0, folder.path().rfind('/')));
  set_variable(fabric::kSubnetVariable, folder.name());
  set_variable(fabric::kHcaVariable, hca);
  const Preload preload = preload_of(*library, variable("LD_PRELOAD"), variable("LD_LIBRARY_PATH"));
  set_variable("LD_PRELOAD", preload.libraries);
  if (preload.folders) set_variable("LD_LIBRARY_PATH", *preload.folders);
  // Memory leaks of arbitrary programs are of no interest.
  ::setenv("ASAN_OPTIONS", "detect_leaks=0", 0);
  return {};
}

/// Whether a file of that name exists where execvp(3) searches.
bool is_found(const std::string& program) {
  if (program.find('/') != std::string::npos) return ::access(program.c_str(), F_OK) == 0;
  const char* const path = ::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/bin:/usr/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (::access((folder + '/' + program).c_str(), F_OK) == 0) return true;
  }
  return false;
}

}  // namespace

int run_command(int argc, char** argv) {
  const int program = find_program(argc, argv);
  // "--" is not passed to the option parser.
  const bool has_separator = program > 1 && std::string_view(argv[program - 1]) == "--";
  int exit_code = kSuccess;
  const auto options = parse_options(has_separator ? program - 1 : program, argv, run_options(), {},
                                     kRunUsage, exit_code);
  if (!options) return exit_code;
  if (program >= argc) {
    return fail_usage("run", "no program to run");
  }
  const auto addresses = read_addresses(*options);
  if (!addresses) return fail_usage("run", addresses.error().message);
  const auto folder = chosen_subnet(*options);
  if (!folder) return fail(folder.error());
  if (const auto ready = prepare(*options, *folder, *addresses); !ready) return fail(ready.error());
  ::execvp(argv[program], argv + program);
  int code = errno;
  // execvp() also fails with EACCES if a directory of PATH is not accessible and no other has the
  // program.
  if (code == EACCES && !is_found(argv[program])) code = ENOENT;
  std::cerr << "softib: cannot run " << argv[program] << ": " << std::strerror(code) << '\n';
  return code == ENOENT ? kNotFound : kNotExecutable;
}

}  // namespace softib::cli
