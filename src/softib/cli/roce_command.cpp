// softib roce: runs a RoCE port on a network interface in the foreground until SIGTERM or SIGINT.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/program_options/value_semantic.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "ipoib/file_descriptor.hpp"
#include "program/progress.hpp"
#include "softib/cli/commands.hpp"
#include "softib/cli/roce.hpp"
#include "softib/cli/run_environment.hpp"
#include "softib/cli/serve.hpp"
#include "softib/control/client.hpp"
#include "softib/roce/network_interface.hpp"

namespace softib::cli {

namespace po = boost::program_options;
using ipoib::Error;
using ipoib::FileDescriptor;
using ipoib::Result;

namespace {

constexpr std::string_view kRoceUsage =
    "usage: softib roce [OPTION]... [ADDRESS|INTERFACE]\n\n"
    "Runs a RoCE v2 port on a network interface, or on one of its addresses (default: the\n"
    "interface of the default route). Programs use it with softib run --roce, which starts this\n"
    "process if it does not run. Prints \"ready\" on stdout when programs can use it, and ends on\n"
    "SIGTERM or SIGINT.\n\n";
constexpr int kStartMilliseconds = 10'000;
constexpr int kPause = 10;  ///< milliseconds

po::options_description roce_options() {
  po::options_description options("Options");
  options.add_options()("until-unused", po::bool_switch(),
                        "end when no program has used the port for five seconds")(
      "log", po::value<std::string>()->default_value("info")->value_name("LEVEL"),
      "log level on stderr: debug, info, warning, error, off")(
      "tied", po::bool_switch(),
      "end when the standard input ends before any byte was read from it");
  return options;
}

/// Executes `softib roce` in a child: with no terminal, and its messages to `output`.
[[noreturn]] void execute_process(const std::string& interface, int output) {
  ::setsid();
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup2(null, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  const char* const arguments[] = {"softib", "roce", "--until-unused",  "--log",
                                   "error",  "--",   interface.c_str(), nullptr};
  ::execv("/proc/self/exe", const_cast<char**>(arguments));
  ::_exit(kFailure);
}

/// Asks the process to keep the port for a program that will soon attach.
bool is_ready(const fabric::SubnetFolder& folder) {
  return control::request_attach(folder, {subnet::kRoceName}).has_value();
}

/// What the process prints until it is ready, or ends.
std::string read_until_ready(int output) {
  std::string text;
  pollfd readable{output, POLLIN, 0};
  const ipoib::program::BlockingProgress progress("starting the process of the RoCE port");
  while (text.find("ready:") == std::string::npos &&
         ::poll(&readable, 1, kStartMilliseconds) == 1) {
    std::array<char, 512> part;
    const auto size = ::read(output, part.data(), part.size());
    if (size <= 0) break;
    text.append(part.data(), static_cast<std::size_t>(size));
  }
  return text;
}

}  // namespace

Result<RocePort> find_roce_port(std::string interface) {
  if (interface.empty()) interface = roce::default_interface();
  if (interface.empty()) {
    return Error{ENODEV, "there is no default route: name the network interface or address"};
  }
  const auto found = roce::read_interface(interface);
  if (!found) return found.error();
  auto folder = fabric::SubnetFolder::of(as_name("roce-" + interface + "-" + default_hca_name()));
  if (!folder) return folder.error();
  return RocePort{std::move(interface), found->seed(), std::move(*folder)};
}

Result<void> start_roce(const RocePort& port) {
  const auto& folder = port.folder;
  // Another softib may have started it, which is not ready yet, or the last program may just end.
  for (int waited = 0; waited < kStartMilliseconds && folder.is_running(); waited += kPause) {
    if (is_ready(folder)) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(kPause));
  }
  std::array<int, 2> ends{};
  const auto failure = [] {
    return Error{errno,
                 std::string("cannot start the process of the RoCE port: ") + std::strerror(errno)};
  };
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return failure();
  const FileDescriptor output(ends[0]);
  FileDescriptor input(ends[1]);
  // The process is no child of the program, which may wait for children of its own.
  const auto child = ::fork();
  if (child < 0) return failure();
  if (child == 0) {
    if (::fork() == 0) execute_process(port.interface, input.get());
    ::_exit(kSuccess);
  }
  input.reset();
  (void)::waitpid(child, nullptr, 0);
  const auto text = read_until_ready(output.get());
  if (text.find("ready:") != std::string::npos) return {};
  if (folder.is_running()) return start_roce(port);  // another one was faster
  constexpr std::string_view kPrefix = "softib: ";
  const auto message = text.substr(text.find(kPrefix) == 0 ? kPrefix.size() : 0);
  return Error{
      EIO,
      message.empty()
          ? "the process of the RoCE port has ended without a message: run softib roce to see why"
          : message.substr(0, message.find('\n'))};
}

int roce_command(int argc, char** argv) {
  po::positional_options_description positional;
  positional.add("interface", 1);
  int exit_code = kSuccess;
  const auto parsed = parse_options(argc, argv, roce_options(), positional, kRoceUsage, exit_code);
  if (!parsed) return exit_code;
  const auto words = arguments_of(*parsed, "interface");
  const auto level = read_log_level(*parsed);
  if (!level) return fail_usage("roce", level.error().message);
  const auto port = find_roce_port(words.empty() ? "" : words.front());
  if (!port) return fail(port.error());
  subnet::SubnetConfig config;
  config.management = subnet::Management::external_sm;
  config.mtu = 5;
  config.roce = port->interface;
  config.seed = port->seed;
  return serve_subnet({port->folder, config, ""},
                      {.log_level = *level,
                       .is_tied = (*parsed)["tied"].as<bool>(),
                       .ends_unused = (*parsed)["until-unused"].as<bool>()});
}

}  // namespace softib::cli
