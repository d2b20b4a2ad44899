// What `softib subnet` and `softib roce` have in common: they run a subnet process.
#pragma once

#include <spdlog/common.h>

#include <boost/program_options/variables_map.hpp>

#include "ipoib/result.hpp"
#include "softib/subnetd/subnet_process.hpp"

namespace softib::cli {

struct ServeOptions {
  spdlog::level::level_enum log_level = spdlog::level::info;
  bool is_tied = false;      ///< ends when the standard input ends before any byte was read from it
  bool ends_unused = false;  ///< ends when no program has used it for kUnusedFor
};
/// How long a subnet that is to end when nobody uses it waits for the next program.
inline constexpr std::chrono::seconds kUnusedFor{5};

/// The log level of the option --log. The error names those that there are.
[[nodiscard]] ipoib::Result<spdlog::level::level_enum> read_log_level(
    const boost::program_options::variables_map& options);

/// Runs the process of a subnet until SIGTERM, SIGINT, or as the options say. Prints "ready" on
/// stdout when programs can use it. Returns the exit code.
int serve_subnet(const subnetd::SubnetProcess::Options& subnet, const ServeOptions& options);

}  // namespace softib::cli
