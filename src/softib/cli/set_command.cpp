// softib set: changes a running subnet.
#include <boost/program_options/value_semantic.hpp>
#include <charconv>
#include <iostream>
#include <vector>

#include "softib/cli/commands.hpp"
#include "softib/control/client.hpp"
#include "softib/control/protocol.hpp"

namespace softib::cli {

namespace po = boost::program_options;
using ipoib::Error;
using ipoib::Result;

namespace {

constexpr std::string_view kSetUsage =
    "usage: softib set [OPTION]... CHANGE\n\n"
    "Changes a running subnet:\n"
    "  hca HCA present|absent|failed     add or repair an HCA; remove it; let it fail while\n"
    "                                    programs use it\n"
    "  port HCA up|down|init|armed       set the state of an HCA's port (up: active)\n"
    "  lid HCA LID                       set the LID of an HCA's port\n"
    "  mtu HCA BYTES                     set the MTU of an HCA's port, for paths and later joins\n"
    "  partition PKEY HCA full|limited|none\n"
    "                                    set the membership of an HCA in a partition\n"
    "  pkey PKEY HCA INDEX               move a key to an index of an HCA's P_Key table\n"
    "  sm restart                        let the subnet manager forget groups and subscriptions\n"
    "                                    and ask all clients to register again\n\n";

std::optional<std::uint16_t> number(std::string_view text) {
  const bool is_hex = text.starts_with("0x");
  if (is_hex) text.remove_prefix(2);
  std::uint16_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, is_hex ? 16 : 10);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

Error invalid_change(const std::string& what) {
  return Error{EINVAL, what + " (try softib set --help)"};
}

/// Parses the words after "softib set".
Result<control::Request> read_change(const std::vector<std::string>& words) {
  const auto is = [&](std::string_view what, std::size_t count) {
    return !words.empty() && words[0] == what && words.size() == count;
  };
  if (is("hca", 3)) {
    const auto state = control::parse_hca_state(words[2]);
    if (!state)
      return invalid_change("the state of an HCA is present, absent or failed, not '" + words[2] +
                            "'");
    return control::Request(control::SetHca{words[1], *state});
  }
  if (is("port", 3)) {
    const auto state = control::parse_port_state(words[2] == "up" ? "active" : words[2]);
    if (!state)
      return invalid_change("the state of a port is up, down, init or armed, not '" + words[2] +
                            "'");
    return control::Request(control::SetPort{words[1], *state});
  }
  if (is("lid", 3)) {
    const auto lid = number(words[2]);
    if (!lid) return invalid_change("'" + words[2] + "' is not a LID");
    return control::Request(control::SetLid{words[1], Lid(*lid)});
  }
  if (is("mtu", 3)) {
    const auto mtu = number(words[2]);
    if (!mtu) return invalid_change("'" + words[2] + "' is not an MTU");
    return control::Request(control::SetMtu{words[1], *mtu});
  }
  if (is("partition", 4)) {
    const auto pkey = number(words[1]);
    const auto membership = control::parse_membership(words[3]);
    if (!pkey) return invalid_change("'" + words[1] + "' is not a P_Key");
    if (!membership) return invalid_change("membership is full, limited or none");
    return control::Request(control::SetPartition{words[2], PKey(*pkey), *membership});
  }
  if (is("pkey", 4)) {
    const auto pkey = number(words[1]);
    const auto index = number(words[3]);
    if (!pkey) return invalid_change("'" + words[1] + "' is not a P_Key");
    if (!index) return invalid_change("'" + words[3] + "' is not an index");
    return control::Request(control::MovePKey{words[2], PKey(*pkey), *index});
  }
  if (is("sm", 2) && words[1] == "restart") return control::Request(control::RestartSm{});
  return invalid_change(words.empty() ? "no change given" : "unknown change");
}

}  // namespace

int set_command(int argc, char** argv) {
  int exit_code = kSuccess;
  po::positional_options_description positional;
  positional.add("change", -1);
  const auto options =
      parse_options(argc, argv, po::options_description(), positional, kSetUsage, exit_code);
  if (!options) return exit_code;
  std::vector<std::string> words;
  if (options->contains("change")) words = (*options)["change"].as<std::vector<std::string>>();
  const auto change = read_change(words);
  if (!change) {
    fail(change.error());
    return kUsage;
  }
  const auto folder = chosen_subnet(*options);
  if (!folder) return fail(folder.error());
  const auto line = control::send_request(*folder, control::emit(*change));
  if (!line) return fail(line.error());
  const auto response = control::parse_response(*line);
  return response ? kSuccess : fail(response.error());
}

}  // namespace softib::cli
