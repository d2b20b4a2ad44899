// Configuration of a partition, similar to OpenSM's partition file: its members, and the broadcast
// group that the SM creates.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ipoib/result.hpp"
#include "softib/core/fabric_types.hpp"

namespace softib::subnet {

inline constexpr std::size_t kMaxPartitions = kPKeyTableSize;
/// Maximum number of HCAs named in one partition.
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
  Membership others = Membership::none;  ///< of HCAs that are not named
  std::vector<Member> members;           ///< the named HCAs
  std::uint8_t mtu = 0;                  ///< IBA code for its groups; 0: the subnet's MTU
  std::uint8_t rate = kDefaultRate;      ///< IBA code for its groups
  bool broadcast_group = true;           ///< the SM creates it

  /// Whether the HCA is one of `members`.
  [[nodiscard]] bool names(std::string_view hca) const;
  [[nodiscard]] Membership membership(std::string_view hca) const;
  /// Sets the membership of an HCA. An HCA with `none` stays named and is excluded.
  void set(std::string_view hca, Membership membership);
  friend bool operator==(const Partition&, const Partition&) = default;
};

/// The P_Key as text: "0x8012".
[[nodiscard]] std::string pkey_text(PKey key);

/// The partition that OpenSM has by default: 0x7fff, all ports full members, broadcast group of MTU
/// 2048.
[[nodiscard]] Partition default_partition();

/// Parses "PKEY=full|limited[:HCA,...][,mtu=BYTES][,rate=GBITS][,nogroup]". Without names all HCAs
/// are members. The error names the invalid part.
[[nodiscard]] ipoib::Result<Partition> parse_partition(std::string_view text);

/// Fails if the MTU of a partition's groups is larger than that of the ports. `ports` is an IBA
/// code.
[[nodiscard]] ipoib::Result<void> check_mtus(const std::vector<Partition>& partitions,
                                             std::uint8_t ports);

/// Returns the default partition, unless an option replaces it, and the partitions of the options
/// in order. Options with the same P_Key are merged. At most kMaxPartitions.
[[nodiscard]] ipoib::Result<std::vector<Partition>> make_partitions(
    const std::vector<std::string>& options);

}  // namespace softib::subnet
