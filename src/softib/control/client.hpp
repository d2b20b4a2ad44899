// The client's side of the subnet process's control socket: one JSON request a line, one answer.
#pragma once

#include <string>
#include <string_view>

#include "ipoib/result.hpp"
#include "softib/core/fabric_types.hpp"
#include "softib/fabric/folder.hpp"

namespace softib::control {

/// Longest line of either side, in octets, with its newline.
inline constexpr std::size_t kMaxControlRequest = 4096;
inline constexpr std::size_t kMaxControlAnswer = 8U << 20;

/// Sends one line and returns the line that answers it, both without newline. Blocks for at most
/// a few seconds. Errors: no subnet is running, no permission, no answer; each says what to do.
[[nodiscard]] ipoib::Result<std::string> control_request(const fabric::SubnetFolder& folder,
                                                         std::string_view line);

/// Asks for an HCA, which is added if there is none of that name. When this returns, the node is in
/// the fabric file and its folder exists.
[[nodiscard]] ipoib::Result<NodeIndex> request_attach(const fabric::SubnetFolder& folder,
                                                      const fabric::HcaName& hca);

}  // namespace softib::control
