// What makes a topology valid, and the form in which two equal ones are the same value.
#pragma once

#include <cstddef>
#include <string_view>

#include "ipoib/result.hpp"
#include "softib/topology/topology.hpp"

namespace softib::topology {

/// Maximum number of HCAs of a subnet: one node is the subnet manager's.
inline constexpr std::size_t kMaxHcas = kMaxNodes - 1;
/// Bytes of a NodeDescription (IBA 14.2.5.2) before its terminating zero.
inline constexpr std::size_t kMaxDescription = 63;

/// At most kMaxDescription printable ASCII characters without double quotes, which the formats of
/// ibsim and ibnetdiscover cannot have in a description.
[[nodiscard]] bool is_valid_description(std::string_view text);

/// Checks all that topology.hpp says of its types: limits, valid and unique names, different GUIDs,
/// ports that exist and have one cable, and widths and speeds that are one bit of their attribute.
/// The error is EINVAL and names the node.
[[nodiscard]] ipoib::Result<void> check(const Topology& topology);

/// Returns the same topology with sorted cables, the smaller end first, without descriptions that
/// are the names, and without port GUIDs that are the node's GUID plus the port number.
[[nodiscard]] Topology canonical(Topology topology);

/// The name of the node that a cable ends at.
[[nodiscard]] const std::string& name_of(const Topology& topology, const End& end);
/// The NodeDescription of a node: its description, else its name.
template <class Node>
[[nodiscard]] const std::string& description_of(const Node& node) {
  return node.description.empty() ? node.name : node.description;
}

}  // namespace softib::topology
