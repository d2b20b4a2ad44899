// The HTTP server of `softib view`, on the loopback address only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ipoib/result.hpp"
#include "softib/cli/view_data.hpp"

namespace boost::asio {
class io_context;
}

namespace softib::cli {

/// Connections at a time; further ones are closed at once.
inline constexpr std::size_t kMaxViewConnections = 32;
inline constexpr std::size_t kMaxViewHeader = 8192;  ///< bytes of a request
/// A connection that takes longer for its request, or for reading the answer, is closed.
inline constexpr std::chrono::seconds kViewTimeout{10};

/// Owns the listening socket and the connections. Each request is answered on the thread of the
/// io_context, and its connection closed then.
class ViewServer {
 public:
  /// Listens at 127.0.0.1; with port 0 at a free one. `context` and `data` must outlive it.
  [[nodiscard]] static ipoib::Result<std::unique_ptr<ViewServer>> listen(
      boost::asio::io_context& context, std::uint16_t port, ViewData& data);
  ViewServer(const ViewServer&) = delete;
  ViewServer& operator=(const ViewServer&) = delete;
  ~ViewServer();

  /// The address of the page, with its token.
  [[nodiscard]] std::string url() const;

 private:
  class Impl;
  explicit ViewServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace softib::cli
