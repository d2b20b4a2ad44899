// The subcommands of softib. Each has its source file and its row of the table in main.cpp.
#pragma once

#include <boost/program_options/options_description.hpp>
#include <boost/program_options/positional_options.hpp>
#include <boost/program_options/variables_map.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ipoib/result.hpp"
#include "softib/fabric/folder.hpp"

namespace softib::cli {

/// Exit codes of all subcommands.
inline constexpr int kSuccess = 0;
inline constexpr int kFailure = 1;  ///< the command failed
inline constexpr int kUsage = 2;    ///< the command line is invalid

/// In each function, `argv[0]` is the name of the subcommand.
int subnet_command(int argc, char** argv);
int show_command(int argc, char** argv);
int metrics_command(int argc, char** argv);
int set_command(int argc, char** argv);
int run_command(int argc, char** argv);
int exec_command(int argc, char** argv);
int lab_command(int argc, char** argv);
int capture_command(int argc, char** argv);
int list_command(int argc, char** argv);
int stop_command(int argc, char** argv);
int roce_command(int argc, char** argv);
int topology_command(int argc, char** argv);
int view_command(int argc, char** argv);

/// Writes `text` to the standard output. Returns kSuccess; or kFailure after a message on stderr if
/// the output did not take all of it. A reader that has closed the pipe is no failure.
[[nodiscard]] int print(std::string_view text);
/// Writes `text` to the file of the option --output, which it replaces in one step, or to the
/// standard output if that is not given. Returns as print() does.
[[nodiscard]] int print_or_replace(const boost::program_options::variables_map& options,
                                   const std::string& text);
/// Prints "softib: message" on stderr, and returns kFailure.
int fail(const ipoib::Error& error);
/// Prints "softib SUBCOMMAND: message" and how to get help on stderr, and returns kUsage.
int fail_usage(std::string_view subcommand, std::string_view message);

/// Sends a request to the subnet process, and returns its response. On a terminal it shows after a
/// second that it waits.
[[nodiscard]] ipoib::Result<std::string> ask(const fabric::SubnetFolder& folder,
                                             std::string_view request);

/// --subnet, --dir, --help and --version, which all subcommands have.
[[nodiscard]] boost::program_options::options_description common_options();
/// Parses a subcommand's options, common_options() included, and its arguments. Returns nullopt and
/// sets `exit_code` after it has printed an error on stderr, or for --help `usage` and the options
/// on stdout, or for --version the version.
[[nodiscard]] std::optional<boost::program_options::variables_map> parse_options(
    int argc, char** argv, const boost::program_options::options_description& options,
    const boost::program_options::positional_options_description& positional,
    std::string_view usage, int& exit_code);
/// Returns the arguments that are not options.
[[nodiscard]] std::vector<std::string> arguments_of(
    const boost::program_options::variables_map& options, const std::string& name);
/// The subnet chosen by the common options, else by the environment.
[[nodiscard]] ipoib::Result<fabric::SubnetFolder> chosen_subnet(
    const boost::program_options::variables_map& options);

}  // namespace softib::cli
