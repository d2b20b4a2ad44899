// Client of the subnet process's control socket. Needs no JSON library: libsoftib.so uses it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ipoib/file_descriptor.hpp"
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

/// A connection to the subnet process of a folder. Errors say what to do.
class Connection {
 public:
  /// Connects. Fails with ENOENT or ECONNREFUSED if no subnet is running, and with EPERM without
  /// permission, or if the process that listens there does not belong to the owner of the folder.
  [[nodiscard]] static ipoib::Result<Connection> open(const fabric::SubnetFolder& folder);
  /// Sends one line and returns the response line, both without newline. Blocks for at most a few
  /// seconds, and then fails with ETIMEDOUT. Fails with EPIPE if the process closes the connection.
  [[nodiscard]] ipoib::Result<std::string> request(std::string_view line) const;
  /// The process that listens, in this process's PID namespace; 0 if it is in another one.
  [[nodiscard]] int pid() const { return pid_; }

 private:
  Connection(fabric::SubnetFolder folder, ipoib::FileDescriptor socket, int pid)
      : folder_(std::move(folder)), socket_(std::move(socket)), pid_(pid) {}
  fabric::SubnetFolder folder_;
  ipoib::FileDescriptor socket_;
  int pid_;
};

/// Sends one line over a new connection, and fails as Connection does.
[[nodiscard]] ipoib::Result<std::string> send_request(const fabric::SubnetFolder& folder,
                                                      std::string_view line);
/// The error that a response line carries; nullopt if the request succeeded.
[[nodiscard]] std::optional<ipoib::Error> error_of(std::string_view response);
/// The error of a response line that cannot be understood.
[[nodiscard]] ipoib::Error unknown_response(std::string_view line);

/// Returns the node of an HCA, which the subnet process adds if it has none of that name. When this
/// returns, the node is in the fabric file and its folder exists.
[[nodiscard]] ipoib::Result<NodeIndex> request_attach(const fabric::SubnetFolder& folder,
                                                      const fabric::HcaName& hca);

}  // namespace softib::control
