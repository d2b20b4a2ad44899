// softib stop: ends a running subnet and waits until it has ended.
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <thread>

#include "ipoib/file_descriptor.hpp"
#include "program/progress.hpp"
#include "softib/cli/commands.hpp"
#include "softib/cli/known_subnets.hpp"
#include "softib/control/client.hpp"
#include "softib/control/protocol.hpp"
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

constexpr std::chrono::seconds kPatience{30};
constexpr std::chrono::milliseconds kInterval{10};

/// The subnet that the argument names; without one, the subnet that the options choose.
Result<fabric::SubnetFolder> wanted_subnet(const po::variables_map& options) {
  const auto words = arguments_of(options, "subnet-or-folder");
  auto chosen = chosen_subnet(options);  // sets the directory
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

/// Removes the folder of a subnet whose process does not run.
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

std::string process_of(const fabric::SubnetFolder& folder, int pid) {
  return (pid > 0 ? "process " + std::to_string(pid) : "the process") + " of subnet '" +
         folder.name() + "'";
}

std::string kill_advice(int pid) {
  return pid > 0 ? "; end it with kill " + std::to_string(pid) : "; end it where it was started";
}

/// Waits until nobody holds the lock of the folder, and `process` (a pidfd, or empty) has ended.
bool has_ended_in_time(const fabric::SubnetFolder& folder, const ipoib::FileDescriptor& process) {
  const auto has_ended = [&] {
    if (folder.is_running()) return false;
    pollfd ended{process.get(), POLLIN, 0};
    return !process || ::poll(&ended, 1, 0) == 1;
  };
  ipoib::program::Progress progress;
  for (int look = 0; look < kPatience / kInterval; ++look) {
    if (has_ended()) return true;
    progress.show("waiting for the process of subnet '" + folder.name() + "'");
    std::this_thread::sleep_for(kInterval);
  }
  return has_ended();
}

/// Asks the subnet process to end, and waits until it has ended.
Result<void> end_process(const fabric::SubnetFolder& folder) {
  const auto connection = control::Connection::open(folder);
  const int code = connection ? 0 : connection.error().code;
  // A process that is ending no longer listens.
  if (!connection && code != ENOENT && code != ECONNREFUSED) return connection.error();
  const int pid = connection ? connection->pid() : 0;
  const ipoib::FileDescriptor process(pid > 0 ? static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))
                                              : -1);
  if (connection) {
    const auto response = [&] {
      const ipoib::program::BlockingProgress progress("waiting for the process of subnet '" +
                                                      folder.name() + "'");
      return connection->request(control::emit(control::Stop{}));
    }();
    const bool may_be_ending = !response && response.error().code == EPIPE;
    if (!response && !may_be_ending) {
      return Error{response.error().code, response.error().message + kill_advice(pid)};
    }
    const auto acknowledged = response ? control::parse_acknowledgement(*response) : Result<void>();
    if (!acknowledged) {
      return Error{acknowledged.error().code, process_of(folder, pid) + " does not end: " +
                                                  acknowledged.error().message + kill_advice(pid)};
    }
  }
  if (has_ended_in_time(folder, process)) return {};
  return Error{ETIMEDOUT, process_of(folder, pid) + " has not ended within " +
                              std::to_string(kPatience.count()) + " s" + kill_advice(pid)};
}

/// `programs` still use the folder.
int report(const fabric::SubnetFolder& folder, const std::vector<int>& programs, bool is_json) {
  if (!programs.empty()) {
    std::cerr << "softib: subnet '" << folder.name() << "' has ended; programs still use "
              << folder.path() << ": " << list_of(programs) << '\n';
  }
  if (!is_json) return kSuccess;
  return print(boost::json::serialize(boost::json::object{
                   {"subnet", folder.name()},
                   {"folder", folder.path()},
                   {"programs", boost::json::array(programs.begin(), programs.end())}}) +
               '\n');
}

}  // namespace

int stop_command(int argc, char** argv) {
  int exit_code = kSuccess;
  po::positional_options_description positional;
  positional.add("subnet-or-folder", 1);
  po::options_description own("Options");
  own.add_options()("json,j", "print which subnet has ended as one JSON object");
  const auto options = parse_options(argc, argv, own, positional, kStopUsage, exit_code);
  if (!options) return exit_code;
  if (options->contains("subnet-or-folder") && options->contains("subnet")) {
    return fail_usage("stop", "the subnet is given twice");
  }
  for (const auto& word : arguments_of(*options, "subnet-or-folder")) {
    if (word.find('/') == std::string::npos && !is_valid_name(word)) {
      return fail_usage("stop", invalid_name("subnet", word).message);
    }
  }
  const bool is_json = options->contains("json");
  const auto folder = wanted_subnet(*options);
  if (!folder) return fail(folder.error());
  const auto connection = control::Connection::open(*folder);
  const int code = connection ? 0 : connection.error().code;
  if (code == EACCES || code == EPERM) return fail(connection.error());
  if (!folder->is_running()) {
    const auto removed = remove_what_is_left(*folder);
    if (!removed) return fail(removed.error());
    return report(*folder, {}, is_json);
  }
  if (const auto ended = end_process(*folder); !ended) return fail(ended.error());
  fabric::remove_if_ended(*folder);
  const auto left = find_subnet(*folder);
  return report(*folder, left ? left->programs : std::vector<int>(), is_json);
}

}  // namespace softib::cli
