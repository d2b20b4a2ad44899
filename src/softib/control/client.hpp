// Client of the subnet process's control socket. Needs no JSON library: libsoftib.so uses it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ipoib/result.hpp"
#include "softib/core/fabric_types.hpp"
#include "softib/fabric/folder.hpp"

namespace softib::control {

/// Longest request and response line in bytes, with the newline.
inline constexpr std::size_t kMaxRequestSize = 4096;
inline constexpr std::size_t kMaxResponseSize = 8U << 20;

/// The request line that attaches to an HCA: this and NAME[:PORT]. Its response is "node INDEX".
inline constexpr std::string_view kAttachCommand = "attach ";
inline constexpr std::string_view kNodeResponse = "node ";
/// The response to a request that failed: this, an errno value, a space and the reason.
inline constexpr std::string_view kErrorResponse = "error ";

/// Sends one line and returns the response line, both without newline. Blocks for at most a few
/// seconds. Fails if no subnet is running, without permission, or without a response; the message
/// says what to do.
[[nodiscard]] ipoib::Result<std::string> send_request(const fabric::SubnetFolder& folder,
                                                      std::string_view line);
/// The process that serves the control socket of the folder, in this process's PID namespace. Fails
/// as send_request().
[[nodiscard]] ipoib::Result<int> server_pid(const fabric::SubnetFolder& folder);
/// The error that a response line carries; nullopt if the request succeeded.
[[nodiscard]] std::optional<ipoib::Error> error_of(std::string_view response);

/// Returns the node of an HCA, which the subnet process adds if it has none of that name. When this
/// returns, the node is in the fabric file and its folder exists.
[[nodiscard]] ipoib::Result<NodeIndex> request_attach(const fabric::SubnetFolder& folder,
                                                      const fabric::HcaName& hca);

}  // namespace softib::control
