// The registration of an agent: the requests that it takes, and whether the MAD layer does RMPP.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <vector>

#include "ipoib/address.hpp"
#include "ipoib/result.hpp"
#include "softib/umad/mad_class.hpp"

namespace softib::umad {

struct Registration {
  static constexpr std::size_t kMethods = 128;
  using Methods = std::bitset<kMethods>;

  std::uint8_t management_class = 0;  ///< 0 if it takes no requests
  std::uint8_t class_version = 0;
  std::uint32_t oui = 0;  ///< of a class that has_oui()
  std::uint8_t rmpp_version = 0;
  bool user_rmpp = false;  ///< UMAD_USER_RMPP: the agent gets and sends segments itself
  Methods methods;         ///< the requests that it takes

  /// Whether the MAD layer does RMPP for the agent.
  [[nodiscard]] bool does_rmpp() const { return rmpp_version != 0 && !user_rmpp; }
  [[nodiscard]] ipoib::Qpn qpn() const;
  [[nodiscard]] bool takes(const MadHeader& header, ConstBytes mad) const;
  /// Offsets in the agents file of the node, one for each request that no other agent may take.
  [[nodiscard]] std::vector<std::int64_t> claims() const;
  /// Checks the rules of the kernel's MAD layer; fails with EINVAL.
  [[nodiscard]] ipoib::Result<void> check() const;
};

/// Converts the method mask of the umad ABI, whose bit m stands for method m.
[[nodiscard]] Registration::Methods methods_of(std::array<std::uint64_t, 2> mask);

}  // namespace softib::umad
