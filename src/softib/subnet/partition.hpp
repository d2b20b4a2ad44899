// Partitions of the emulated subnet as the administrator writes them, in the manner of OpenSM's
// partition file: who is a member, and the broadcast group that is made beforehand.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ipoib/result.hpp"
#include "softib/core/fabric_types.hpp"

namespace softib::subnet {

inline constexpr std::size_t kMaxPartitions = kPKeyTableSize;
/// HCAs named in one partition.
inline constexpr std::size_t kMaxNamedMembers = kMaxNodes;

enum class Membership : std::uint8_t { none, limited, full };

struct Partition {
  struct Member {
    std::string hca;
    Membership membership = Membership::full;
    friend bool operator==(const Member&, const Member&) = default;
  };
  static constexpr std::uint8_t kDefaultRate = 3;  ///< 10 Gb/s, OpenSM's
  static constexpr QKey kDefaultQKey{0x0b1b};      ///< OpenSM's

  PKey pkey;                             ///< with the full-member bit set
  Membership others = Membership::none;  ///< of each HCA that is not named
  std::vector<Member> members;           ///< HCAs that are named
  std::uint8_t mtu = 0;                  ///< IBA code for its groups; 0: the subnet's
  std::uint8_t rate = kDefaultRate;      ///< IBA code for its groups
  bool broadcast_group = true;           ///< made beforehand

  [[nodiscard]] Membership membership(std::string_view hca) const;
  /// Names a member, or changes its membership; `none` is kept as a name that is shut out.
  void set(std::string_view hca, Membership membership);
  friend bool operator==(const Partition&, const Partition&) = default;
};

/// OpenSM's default: 0x7fff, all ports full members, broadcast group of MTU 2048.
[[nodiscard]] Partition default_partition();

/// "PKEY=full|limited[:HCA,...][,mtu=OCTETS][,rate=GBITS][,nogroup]". Without names everybody is a
/// member. The error names the part that is not understood.
[[nodiscard]] ipoib::Result<Partition> parse_partition(std::string_view text);

/// The table that a list of options means: the default partition, unless an option replaces it, and
/// the options in their order; several for one P_Key are joined. At most kMaxPartitions.
[[nodiscard]] ipoib::Result<std::vector<Partition>> make_partitions(
    const std::vector<std::string>& options);

}  // namespace softib::subnet
