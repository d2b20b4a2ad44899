// softib run: sets the environment and becomes the program. There is no process in between:
// signals, exit code and terminal are the program's own.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <string>

#include "softib/cli/commands.hpp"
#include "softib/cli/run_environment.hpp"
#include "softib/endpoint/attach.hpp"
#include "softib/endpoint/capture.hpp"

namespace softib::cli {

namespace po = boost::program_options;
using ipoib::Result;

namespace {

/// As shells and env(1) have it.
constexpr int kNotExecutable = 126;
constexpr int kNotFound = 127;

constexpr std::string_view kUsageText =
    "usage: softib run [OPTION]... [--] PROGRAM [ARGUMENT]...\n\n"
    "Runs a program of rdma-core's interface (libibverbs, libibumad) on an HCA of the subnet, "
    "which\n"
    "is added when there is none of that name. Real devices are hidden from it. The exit code is\n"
    "the program's; 126: it cannot be run, 127: there is no such program.\n\n";

po::options_description run_options() {
  po::options_description options("Options");
  options.add_options()(
      "hca", po::value<std::string>()->default_value("", "")->value_name("[NAME][:PORT]"),
      "the HCA (default: the name of the network namespace, else of the host), "
      "and by which of its ports, 1 or 2, a new one is on the subnet "
      "(default: 1)")(
      "capture", po::value<std::string>()->value_name("FILE"),
      "write the program's packets and MADs, sent and received, to FILE, for tshark");
  return options;
}

/// Where the program begins: behind "--", or at the first word that is neither an option nor the
/// value of one.
int find_program(int argc, char** argv) {
  constexpr std::array<std::string_view, 4> kWithValue{"--subnet", "--dir", "--hca", "--capture"};
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--") return i + 1;
    if (!word.starts_with('-')) return i;
    if (std::find(kWithValue.begin(), kWithValue.end(), word) != kWithValue.end()) ++i;
  }
  return argc;
}

void set_variable(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

/// An empty capture, which the program's processes append to.
Result<void> begin_capture(const std::string& path) {
  const std::string absolute = std::filesystem::absolute(path).string();
  if (::truncate(absolute.c_str(), 0) != 0 && errno != ENOENT) {
    return ipoib::Error{errno, "cannot capture to " + absolute + ": " + std::strerror(errno)};
  }
  const auto file = endpoint::CaptureFile::open(absolute);
  if (!file) return file.error();
  set_variable(fabric::kCaptureVariable, absolute);
  return {};
}

Result<void> prepare(const po::variables_map& options, const fabric::SubnetFolder& folder) {
  std::string hca = options["hca"].as<std::string>();
  if (hca.empty() || hca.front() == ':') hca.insert(0, default_hca_name());
  const auto library = find_libsoftib();
  if (!library) return library.error();
  if (const auto node = endpoint::find_or_add_node(folder, hca); !node) return node.error();
  if (!folder.is_running()) {
    std::cerr << "softib: the process of subnet '" << folder.name()
              << "' is not running: nobody can join a group until softib subnet is back\n";
  }
  if (options.contains("capture")) {
    if (const auto begun = begin_capture(options["capture"].as<std::string>()); !begun) {
      return begun.error();
    }
  }
  set_variable(fabric::kDirectoryVariable, folder.path().substr(0, folder.path().rfind('/')));
  set_variable(fabric::kSubnetVariable, folder.name());
  set_variable(fabric::kHcaVariable, hca);
  const char* before = ::getenv("LD_PRELOAD");
  set_variable("LD_PRELOAD", preload_value(*library, before == nullptr ? "" : before));
  // Of other people's programs we do not want to know what they leak.
  ::setenv("ASAN_OPTIONS", "detect_leaks=0", 0);
  return {};
}

/// Whether there is a file of that name, where execvp(3) looks.
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
  // "--" itself is none of the options.
  const bool has_mark = program > 1 && std::string_view(argv[program - 1]) == "--";
  int exit_code = kSuccess;
  const auto options = parse_options(has_mark ? program - 1 : program, argv, run_options(), {},
                                     kUsageText, exit_code);
  if (!options) return exit_code;
  if (program >= argc) {
    std::cerr << "softib run: no program to run (try softib run --help)\n";
    return kUsage;
  }
  const auto folder = chosen_subnet(*options);
  if (!folder) return fail(folder.error());
  if (const auto ready = prepare(*options, *folder); !ready) return fail(ready.error());
  ::execvp(argv[program], argv + program);
  int code = errno;
  // A folder of PATH that may not be searched is EACCES too, when no other has the program.
  if (code == EACCES && !is_found(argv[program])) code = ENOENT;
  std::cerr << "softib: cannot run " << argv[program] << ": " << std::strerror(code) << '\n';
  return code == ENOENT ? kNotFound : kNotExecutable;
}

}  // namespace softib::cli
