// softib stop: ends a running subnet and waits until it has ended.
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/program_options/value_semantic.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "ipoib/file_descriptor.hpp"
#include "softib/cli/commands.hpp"
#include "softib/cli/known_subnets.hpp"
#include "softib/control/client.hpp"
#include "softib/core/name.hpp"
#include "softib/fabric/fabric.hpp"
#include "softib/fabric/unused_folder.hpp"

namespace softib::cli {

namespace po = boost::program_options;
using ipoib::Error;
using ipoib::Result;

namespace {

constexpr std::string_view kStopUsage =
    "usage: softib stop [OPTION]... [SUBNET|FOLDER]\n\n"
    "Ends a subnet, and waits until its process has ended. A word with a slash is the folder of "
    "the\n"
    "subnet, as softib list prints it; without one, the name of the subnet. Programs that still "
    "use\n"
    "the subnet keep its folder until they end. What a killed subnet process has left is "
    "removed.\n\n";

constexpr int kPatience = 30;  ///< seconds

/// The subnet that the argument names, else the one chosen by the options.
Result<fabric::SubnetFolder> wanted_subnet(const po::variables_map& options) {
  const auto words = arguments_of(options, "subnet-or-folder");
  const auto chosen = chosen_subnet(options);  // sets the directory
  if (words.empty()) return chosen;
  if (words[0].find('/') == std::string::npos) return fabric::SubnetFolder::of(words[0]);
  std::string path = std::filesystem::absolute(words[0]).lexically_normal().string();
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return fabric::SubnetFolder(path);
}

std::string list_of(const std::vector<int>& pids) {
  std::string text;
  for (const int pid : pids) text += (text.empty() ? "" : " ") + std::to_string(pid);
  return text;
}

/// For a subnet whose process does not run.
Result<void> remove_what_is_left(const fabric::SubnetFolder& folder) {
  const auto left = find_subnet(folder);
  if (!left) {
    return Error{ENOENT, "no subnet '" + folder.name() + "' is running in " + folder.path() +
                             "; see softib list"};
  }
  if (fabric::remove_without_process(folder)) return {};
  if (left->programs.empty()) {
    const auto fabric = fabric::Fabric::open(folder.fabric());
    return Error{EBUSY, "cannot remove " + folder.path() + ": " +
                            (fabric ? "it is in use; try again" : fabric.error().message)};
  }
  return Error{EBUSY, "the process of subnet '" + folder.name() + "' has ended, but programs use " +
                          folder.path() + ": " + list_of(left->programs)};
}

/// Sends SIGTERM to the process and waits until it has ended. `process` is a pidfd.
Result<void> end_process(const fabric::SubnetFolder& folder, int pid) {
  const auto failure = [&](int code) {
    return Error{code, "cannot end process " + std::to_string(pid) + " of subnet '" +
                           folder.name() + "': " + std::strerror(code)};
  };
  const ipoib::FileDescriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process) return errno == ESRCH ? Result<void>() : failure(errno);
  // By now the number may belong to another process.
  const auto same = control::server_pid(folder);
  if (!same || *same != pid) return folder.is_running() ? failure(EAGAIN) : Result<void>();
  if (::syscall(SYS_pidfd_send_signal, process.get(), SIGTERM, nullptr, 0) != 0) {
    return errno == ESRCH ? Result<void>() : failure(errno);
  }
  pollfd ended{process.get(), POLLIN, 0};
  int count = 0;
  while ((count = ::poll(&ended, 1, kPatience * 1000)) < 0 && errno == EINTR) {
  }
  if (count == 1) return {};
  return Error{ETIMEDOUT, "process " + std::to_string(pid) + " of subnet '" + folder.name() +
                              "' has not ended within " + std::to_string(kPatience) +
                              " s; try kill -9 " + std::to_string(pid)};
}

}  // namespace

int stop_command(int argc, char** argv) {
  int exit_code = kSuccess;
  po::positional_options_description positional;
  positional.add("subnet-or-folder", 1);
  const auto options =
      parse_options(argc, argv, po::options_description(), positional, kStopUsage, exit_code);
  if (!options) return exit_code;
  if (options->contains("subnet-or-folder") && options->contains("subnet")) {
    return fail_usage("stop", "the subnet is given twice");
  }
  for (const auto& word : arguments_of(*options, "subnet-or-folder")) {
    if (word.find('/') == std::string::npos && !is_valid_name(word)) {
      return fail_usage("stop", invalid_name("subnet", word).message);
    }
  }
  const auto folder = wanted_subnet(*options);
  if (!folder) return fail(folder.error());
  if (!folder->is_running()) {
    const auto removed = remove_what_is_left(*folder);
    return removed ? kSuccess : fail(removed.error());
  }
  const auto pid = control::server_pid(*folder);
  if (!pid) return fail(pid.error());
  if (const auto ended = end_process(*folder, *pid); !ended) return fail(ended.error());
  fabric::remove_if_ended(*folder);
  if (const auto left = find_subnet(*folder)) {
    std::cerr << "softib: subnet '" << folder->name() << "' has ended; programs still use "
              << folder->path() << ": " << list_of(left->programs) << '\n';
  }
  return kSuccess;
}

}  // namespace softib::cli
