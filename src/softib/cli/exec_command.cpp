// softib exec: a command with a subnet of its own, which ends with it.
//
// Three processes: this one, the subnet (`softib subnet --tied`), and the command. The subnet's
// standard input is a pipe from this process, so it ends with this process however that ends. It is
// in a process group of its own, so Ctrl-C does not end it before the command has ended.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/program_options/value_semantic.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ipoib/file_descriptor.hpp"
#include "program/limits.hpp"
#include "softib/cli/commands.hpp"
#include "softib/cli/known_subnets.hpp"
#include "softib/cli/launch.hpp"
#include "softib/core/fabric_types.hpp"
#include "softib/endpoint/endpoint.hpp"

namespace softib::cli {

namespace po = boost::program_options;
using ipoib::Error;
using ipoib::FileDescriptor;
using ipoib::Result;

namespace {

constexpr std::string_view kExecUsage =
    "usage: softib exec [OPTION]... [--] COMMAND [ARGUMENT]...\n\n"
    "Runs a command with a subnet of its own, which ends with the command. Its hosts are the HCAs\n"
    "host1, host2 and so on; host1 has the address 127.77.0.1, host2 127.77.0.2. The command runs\n"
    "on host1. Processes of an MPI job get the hosts in turn, by their rank; softib run --hca "
    "host2\n"
    "runs a program on another host. The exit code is that of the command; 126: it cannot be\n"
    "executed, 127: it is not found.\n\n";

constexpr std::array<std::string_view, 4> kExecValues{"--subnet", "--dir", "--hosts", "--mtu"};
constexpr std::chrono::milliseconds kExecInterval{10};
/// How long programs that the command has left behind may take to end on SIGTERM, and then the
/// subnet process.
constexpr int kLooksForPrograms = 100;
constexpr int kLooksForSubnet = 1000;

po::options_description exec_options() {
  po::options_description options("Options");
  options.add_options()("hosts", po::value<unsigned>()->default_value(1)->value_name("N"),
                        "number of hosts")(
      "mtu", po::value<std::string>()->default_value("4096")->value_name("BYTES"),
      "MTU of the ports: 2048 or 4096");
  return options;
}

std::string host_name(unsigned number) { return "host" + std::to_string(number); }

/// A name that no other subnet has, since processes of other namespaces may share the directory.
std::string own_subnet_name() {
  std::random_device random;
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "exec-%08x%08x", random(), random());
  return name.data();
}

/// Signals that others send to this process are for the command. Those of the terminal have reached
/// the command itself.
class ForwardedSignals {
 public:
  ForwardedSignals() {
    ::sigemptyset(&set_);
    for (const int signal :
         {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGCONT, SIGCHLD}) {
      ::sigaddset(&set_, signal);
    }
    ::sigprocmask(SIG_BLOCK, &set_, &before_);
  }
  ForwardedSignals(const ForwardedSignals&) = delete;
  ForwardedSignals& operator=(const ForwardedSignals&) = delete;
  ~ForwardedSignals() { restore(); }

  /// Attributes for a new process: it has the signal mask that this process had.
  void restore() const { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

  /// Waits until a process has ended; returns its status of waitpid(2).
  [[nodiscard]] int wait_for(pid_t pid) const {
    for (;;) {
      int status = 0;
      for (pid_t ended = 0; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;) {
        if (ended == pid) return status;
      }
      siginfo_t info{};
      const int signal = ::sigwaitinfo(&set_, &info);
      if (signal > 0 && signal != SIGCHLD && info.si_code != SI_KERNEL) ::kill(pid, signal);
    }
  }

 private:
  sigset_t set_{};
  sigset_t before_{};
};

/// The subnet process, which ends with this object.
class OwnSubnet {
 public:
  /// Starts it, and waits until it is ready.
  static Result<OwnSubnet> start(const fabric::SubnetFolder& folder, std::string mtu,
                                 const ForwardedSignals& signals) {
    std::array<int, 2> life{};
    std::array<int, 2> output{};
    if (::pipe2(life.data(), O_CLOEXEC) != 0 || ::pipe2(output.data(), O_CLOEXEC) != 0) {
      return Error{errno, std::string("cannot make a pipe: ") + std::strerror(errno)};
    }
    FileDescriptor stdin_end(life[0]);
    FileDescriptor life_end(life[1]);
    FileDescriptor output_end(output[0]);
    FileDescriptor stdout_end(output[1]);
    const pid_t pid = ::fork();
    if (pid < 0) return Error{errno, std::string("cannot fork: ") + std::strerror(errno)};
    if (pid == 0) {
      signals.restore();
      serve(folder, std::move(mtu), stdin_end, stdout_end, {&life_end, &output_end});
    }
    stdout_end = FileDescriptor();
    OwnSubnet subnet(folder, pid, std::move(life_end));
    std::string line;
    char byte = 0;
    while (!line.ends_with('\n') && TEMP_FAILURE_RETRY(::read(output_end.get(), &byte, 1)) == 1) {
      line += byte;
    }
    if (line.starts_with("ready")) return subnet;
    return Error{EIO, "the subnet did not start"};
  }

  OwnSubnet(OwnSubnet&& other) noexcept
      : folder_(std::move(other.folder_)),
        pid_(std::exchange(other.pid_, 0)),
        life_(std::move(other.life_)) {}
  OwnSubnet& operator=(OwnSubnet&&) = delete;
  ~OwnSubnet() {
    if (pid_ == 0) return;
    end_programs();
    life_ = FileDescriptor();
    for (int look = 0; look < kLooksForSubnet; ++look) {
      reap();
      if (::kill(pid_, 0) != 0) return;
      std::this_thread::sleep_for(kExecInterval);
    }
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

 private:
  OwnSubnet(fabric::SubnetFolder folder, pid_t pid, FileDescriptor life)
      : folder_(std::move(folder)), pid_(pid), life_(std::move(life)) {}

  [[noreturn]] static void serve(const fabric::SubnetFolder& folder, std::string mtu,
                                 const FileDescriptor& in, const FileDescriptor& out,
                                 std::array<FileDescriptor*, 2> others) {
    ::setpgid(0, 0);
    ::dup2(in.get(), STDIN_FILENO);
    ::dup2(out.get(), STDOUT_FILENO);
    for (auto* const each : others) *each = FileDescriptor();
    std::vector<std::string> words{"subnet",   "--tied",      "--log", "warning",
                                   "--subnet", folder.name(), "--mtu", std::move(mtu)};
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    int code = kFailure;
    try {
      code = subnet_command(static_cast<int>(words.size()), argv.data());
    } catch (const std::exception& error) {
      code = fail({0, ipoib::program::text_of(error)});
    }
    std::_Exit(code);
  }

  /// Takes the status of the children that have ended.
  static void reap() {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
  }

  /// Ends what the command has left on the hosts.
  void end_programs() const {
    for (int look = 0; look < 2 * kLooksForPrograms; ++look) {
      const auto left = find_subnet(folder_);
      if (!left || left->programs.empty()) return;
      const int signal = look == 0 ? SIGTERM : look >= kLooksForPrograms ? SIGKILL : 0;
      for (const int program : left->programs) {
        if (program > 0 && program != ::getpid()) ::kill(program, signal);
      }
      reap();
      std::this_thread::sleep_for(kExecInterval);
    }
  }

  fabric::SubnetFolder folder_;
  pid_t pid_;
  FileDescriptor life_;
};

/// Ends this process as the command has ended: by its signal, without a second core file.
[[noreturn]] void end_by(int signal) {
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  std::signal(signal, SIG_DFL);
  sigset_t one;
  ::sigemptyset(&one);
  ::sigaddset(&one, signal);
  ::sigprocmask(SIG_UNBLOCK, &one, nullptr);
  ::raise(signal);
  std::_Exit(128 + signal);
}

Result<void> prepare_hosts(const fabric::SubnetFolder& folder, unsigned hosts) {
  for (unsigned number = 1; number <= hosts; ++number) {
    const auto node = endpoint::find_or_add_node(folder, host_name(number));
    if (!node) return node.error();
  }
  if (const auto set = set_environment(folder, host_name(1)); !set) return set.error();
  ::setenv(endpoint::kHostsVariable, std::to_string(hosts).c_str(), 1);
  return {};
}

/// Returns the status of the command as waitpid(2) does, after the subnet has ended.
Result<int> run_with_subnet(const fabric::SubnetFolder& folder, const po::variables_map& options,
                            char** command) {
  const ForwardedSignals signals;
  const pid_t parent = ::getpid();
  auto subnet = OwnSubnet::start(folder, options["mtu"].as<std::string>(), signals);
  if (!subnet) return subnet.error();
  const auto ready = prepare_hosts(folder, options["hosts"].as<unsigned>());
  if (!ready) return ready.error();
  // What the command leaves behind becomes a child of this process, which waits for it.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t child = ::fork();
  if (child < 0) return Error{errno, std::string("cannot fork: ") + std::strerror(errno)};
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) std::_Exit(kFailure);
    signals.restore();
    std::_Exit(execute(command));
  }
  return signals.wait_for(child);
}

}  // namespace

int exec_command(int argc, char** argv) {
  const int program = find_program(argc, argv, kExecValues);
  const bool has_separator = program > 1 && std::string_view(argv[program - 1]) == "--";
  int exit_code = kSuccess;
  const auto options = parse_options(has_separator ? program - 1 : program, argv, exec_options(),
                                     {}, kExecUsage, exit_code);
  if (!options) return exit_code;
  if (program >= argc) return fail_usage("exec", "no command to run");
  const auto hosts = (*options)["hosts"].as<unsigned>();
  const auto& mtu = (*options)["mtu"].as<std::string>();
  if (hosts == 0 || hosts > kMaxNodes - 1) {
    return fail_usage("exec", "--hosts is 1 to " + std::to_string(kMaxNodes - 1));
  }
  if (mtu != "2048" && mtu != "4096") return fail_usage("exec", "--mtu is 2048 or 4096");
  if (!options->contains("subnet")) ::setenv(fabric::kSubnetVariable, own_subnet_name().c_str(), 1);
  const auto folder = chosen_subnet(*options);
  if (!folder) return fail(folder.error());
  if (folder->is_running()) {
    return fail({EEXIST, "subnet '" + folder->name() + "' is running; softib run uses it"});
  }
  const auto status = run_with_subnet(*folder, *options, argv + program);
  if (!status) return fail(status.error());
  if (WIFSIGNALED(*status)) end_by(WTERMSIG(*status));
  return WEXITSTATUS(*status);
}

}  // namespace softib::cli
