// softib lab: checks the command line, and executes the Python program of python/softib_lab.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/program_options/value_semantic.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "program/nearest.hpp"
#include "softib/cli/commands.hpp"
#include "softib/cli/run_environment.hpp"

namespace softib::cli {

namespace po = boost::program_options;
using ipoib::Error;

namespace {

constexpr std::string_view kLabUsage =
    "usage: softib lab up|down|show|check [--json] [OPTION]... FILE\n"
    "       softib lab exec [OPTION]... FILE HOST [-- COMMAND [ARGUMENT]...]\n\n"
    "Runs hosts, which are network namespaces with ipoibd, on a subnet of their own, as a file\n"
    "describes them; of an ordinary user, in a user namespace. up starts the lab, or changes what\n"
    "differs from the file, down ends it, show prints its interfaces, check checks the\n"
    "expectations of the file, and exec runs a command, or a shell, on a host.\n\n";

constexpr std::array<std::string_view, 5> kLabVerbs{"up", "down", "exec", "show", "check"};

constexpr const char* kSystemPython = "/usr/bin/python3";

po::options_description lab_options() {
  po::options_description options("Options");
  options.add_options()("json,j", po::bool_switch(), "of all but exec: print JSON");
  return options;
}

/// The words before "--": the verb, the file and, of exec, the host. Returns what is wrong with
/// them, or an empty string.
std::string fault_of(const std::vector<std::string>& words, bool has_command, bool json) {
  if (words.empty()) return "which of up, down, exec, show and check?";
  const auto& verb = words[0];
  if (std::ranges::find(kLabVerbs, verb) == kLabVerbs.end()) {
    return "unknown command '" + verb + "'" + ipoib::program::did_you_mean(verb, kLabVerbs);
  }
  if (words.size() < 2) return "no lab file";
  const bool is_exec = verb == "exec";
  if (is_exec && words.size() < 3) return "no host";
  const std::size_t expected = is_exec ? 3 : 2;
  if (words.size() > expected) {
    return "unexpected argument '" + words[expected] + "'" +
           (is_exec ? ": the command follows --" : "");
  }
  if (has_command && !is_exec) return "only exec runs a command";
  if (json && is_exec) return "--json is not for exec";
  return {};
}

/// Executes the Python program; returns only if that fails.
Error execute_lab(std::vector<std::string> words) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  return {errno, "softib lab needs Python: cannot run " + words[0] + ": " + std::strerror(errno)};
}

}  // namespace

int lab_command(int argc, char** argv) {
  const auto separator = std::find_if(
      argv, argv + argc, [](const char* word) { return std::string_view(word) == "--"; });
  int exit_code = kSuccess;
  po::positional_options_description positional;
  positional.add("lab", -1);
  const auto options = parse_options(static_cast<int>(separator - argv), argv, lab_options(),
                                     positional, kLabUsage, exit_code);
  if (!options) return exit_code;
  auto words = arguments_of(*options, "lab");
  const bool json = (*options)["json"].as<bool>();
  if (const auto fault = fault_of(words, separator != argv + argc, json); !fault.empty()) {
    return fail_usage("lab", fault);
  }
  const auto folder = chosen_subnet(*options);
  if (!folder) return fail(folder.error());
  const auto program = find_lab_program();
  if (!program) return fail(program.error());
  std::error_code failed;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failed);
  const std::string name = options->contains("subnet") ? folder->name() : "";
  ::setenv(fabric::kDirectoryVariable, std::filesystem::path(folder->path()).parent_path().c_str(),
           1);
  // The distribution's Python has the modules that packages install. -B: nothing is written beside
  // the program.
  const std::string python =
      std::filesystem::exists(kSystemPython, failed) ? kSystemPython : "python3";
  std::vector<std::string> command{
      python, "-B", *program, words[0], self.parent_path().string(), name, json ? "json" : ""};
  command.insert(command.end(), words.begin() + 1, words.end());
  for (auto* const* word = separator + 1; word < argv + argc; ++word) command.emplace_back(*word);
  return fail(execute_lab(std::move(command)));
}

}  // namespace softib::cli
