// Finds the subnets on this machine: those of a directory, and those of running softib processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "softib/fabric/folder.hpp"

namespace softib::cli {

struct KnownSubnet {
  fabric::SubnetFolder folder;
  int pid = 0;                          ///< of its process; 0: it does not run
  std::optional<std::uint64_t> uptime;  ///< seconds; nullopt if unknown
  std::size_t hcas = 0;
  std::vector<int> programs;  ///< processes that are attached to its HCAs
  std::string owner;          ///< of the folder: a user's name, or the number if it has none
};

/// Reads the folder of a subnet. Returns nullopt if there is none, or if this user may not read it.
[[nodiscard]] std::optional<KnownSubnet> find_subnet(const fabric::SubnetFolder& folder);

/// The subnets in a directory, in the order of their names.
[[nodiscard]] std::vector<KnownSubnet> subnets_in(const std::string& directory);

/// The subnets of all softib processes whose files this user may see, in the order of their
/// folders.
[[nodiscard]] std::vector<KnownSubnet> subnets_of_processes();

}  // namespace softib::cli
