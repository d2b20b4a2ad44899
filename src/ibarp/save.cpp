// What was set at run time, as commands that set it again: interfaces, neighbours, log levels.
#include <algorithm>
#include <string_view>

#include "run.hpp"
#include "text.hpp"

namespace ipoib::ibarp {

namespace {

std::string log_command(const Client& client) {
  std::string out = "log";
  for (const ibarp_log_level& each : client.log_levels()) {
    out += std::string(" ") + each.module + "=" + each.level;
  }
  return out;
}

/// Permanent entries and pins. Those of ipoibd's file of neighbours cannot be told apart.
std::vector<std::string> neighbour_commands(const Client& client) {
  constexpr std::string_view kSetStates = "permanent,pinned";
  ibarp_filter filter{sizeof(ibarp_filter), 0, {}, 0, {}};
  *std::copy(kSetStates.begin(), kSetStates.end(), filter.states) = '\0';
  std::vector<std::string> out;
  for (const ibarp_entry& entry : client.entries(filter)) {
    const bool is_pin = (entry.flags & IBARP_IS_PINNED) != 0;
    out.push_back(
        "replace " + text_of(entry.address) +
        (is_pin ? " gid " + gid_text(entry.hardware.gid) : " lladdr " + text_of(entry.hardware)));
  }
  return out;
}

}  // namespace

std::string save(const Client& client, SavedDaemons& daemons) {
  const ibarp_info info = client.info();
  const std::string dev = " dev " + client.interface();
  std::string out;
  // The daemon has its first interface from the start, and adds the others when it is asked by
  // that.
  const auto [first, is_new] = daemons.try_emplace(info.pid, client.interface());
  if (!is_new && info.pkey != 0) {
    out += "interface replace " + hexadecimal(info.pkey, 4) + " name " + client.interface() +
           " dev " + first->second + "\n";
  }
  if (is_new) out += log_command(client) + dev + "\n";
  for (const std::string& each : neighbour_commands(client)) out += each + dev + "\n";
  return out;
}

}  // namespace ipoib::ibarp
