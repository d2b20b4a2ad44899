// The subcommands of softib: one file each, one row of the table in main.cpp each.
#pragma once

#include <boost/program_options/options_description.hpp>
#include <boost/program_options/positional_options.hpp>
#include <boost/program_options/variables_map.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "ipoib/result.hpp"
#include "softib/fabric/folder.hpp"

namespace softib::cli {

/// Exit codes of all subcommands.
inline constexpr int kSuccess = 0;
inline constexpr int kFailure = 1;  ///< what was asked for could not be done
inline constexpr int kUsage = 2;    ///< it could not be understood

/// `argv[0]` is the name of the subcommand.
int subnet_command(int argc, char** argv);
int show_command(int argc, char** argv);
int set_command(int argc, char** argv);
int run_command(int argc, char** argv);

/// "softib: message" on stderr; returns kFailure.
int fail(const ipoib::Error& error);

/// --subnet, --dir and --help, which every subcommand has.
[[nodiscard]] boost::program_options::options_description common_options();
/// Parses a subcommand's options, those of common_options() included, and answers --help on stdout
/// (`usage` and the options). Nothing when that, or an error on stderr, was all: then `exit_code`
/// says how to end.
[[nodiscard]] std::optional<boost::program_options::variables_map> parse_options(
    int argc, char** argv, const boost::program_options::options_description& options,
    const boost::program_options::positional_options_description& positional,
    std::string_view usage, int& exit_code);
/// The subnet that the common options and the environment name.
[[nodiscard]] ipoib::Result<fabric::SubnetFolder> chosen_subnet(
    const boost::program_options::variables_map& options);

}  // namespace softib::cli
