// What an agent has registered for: the requests that it takes, and how its MADs are treated.
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

  std::uint8_t management_class = 0;  ///< 0: takes no requests
  std::uint8_t class_version = 0;
  std::uint32_t oui = 0;  ///< of a class that has_oui()
  std::uint8_t rmpp_version = 0;
  bool user_rmpp = false;  ///< UMAD_USER_RMPP: segments are handed up as they are
  Methods methods;         ///< requests that it takes

  /// RMPP is done below umad_recv and umad_send.
  [[nodiscard]] bool does_rmpp() const { return rmpp_version != 0 && !user_rmpp; }
  [[nodiscard]] ipoib::Qpn qpn() const;
  [[nodiscard]] bool takes(const MadHeader& header, ConstBytes mad) const;
  /// Octets of the node's agents file: one for each request that nobody else may take.
  [[nodiscard]] std::vector<std::int64_t> claims() const;
  /// By the rules of the kernel's MAD layer; EINVAL says which one is broken.
  [[nodiscard]] ipoib::Result<void> check() const;
};

/// The method mask of the umad ABI: bit m of the 128 for method m.
[[nodiscard]] Registration::Methods methods_of(std::array<std::uint64_t, 2> mask);

}  // namespace softib::umad
