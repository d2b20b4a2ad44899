// Each command: asks, and returns what is to be printed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client.hpp"
#include "command.hpp"

namespace ipoib::cli {

/// The entries of one interface: all, or that of the address, if there is one.
struct Listing {
  std::string interface;
  std::vector<ibarp_entry> entries;
};
[[nodiscard]] Listing look_up(const Client& client, const Command& command);
[[nodiscard]] std::string show(const std::vector<Listing>& listings, const Command& command);

/// A multicast group and, where the subnet administrator tells it, who is in it.
struct GroupLine {
  ibarp_group group;
  std::optional<std::vector<ibarp_member>> members;
};
/// The multicast groups of one interface.
struct GroupListing {
  std::string interface;
  std::vector<GroupLine> groups;
  std::string members_unknown;  ///< why, for the user; may be empty
};
[[nodiscard]] GroupListing list_groups(const Client& client, const Command& command);
[[nodiscard]] std::string groups(const std::vector<GroupListing>& listings, const Command& command);

/// Add, change, replace and delete print nothing.
void change(const Client& client, const Command& command);

/// One interface's part of a report; a JSON object without a newline when the command says so.
[[nodiscard]] std::string flush(const Client& client, const Command& command);
[[nodiscard]] std::string stats(const Client& client, const Command& command);
[[nodiscard]] std::string log_levels(const Client& client, const Command& command);
[[nodiscard]] std::string trace(const Client& client, const Command& command);
[[nodiscard]] std::string info(const Client& client, const Command& command);

}  // namespace ipoib::cli
