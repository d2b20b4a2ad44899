// A client of the control socket that sends any text, valid or not.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "control/protocol.hpp"
#include "control/socket_folder.hpp"
#include "ipoib/unix_path.hpp"

namespace ipoib::control {

class LineClient {
 public:
  explicit LineClient(const std::string& interface, const char* socket = kControlSocket)
      : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto to = UnixPath::of(run_folders().front() + "/" +
                                 namespace_folder(own_network_namespace().value()) + "/" +
                                 interface + "/" + socket);
    connected_ = to && connect(fd_, to->address(), UnixPath::size()) == 0;
  }
  LineClient(LineClient&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)),
        connected_(other.connected_),
        input_(std::move(other.input_)) {}
  LineClient& operator=(LineClient&&) = delete;
  ~LineClient() {
    if (fd_ >= 0) close(fd_);
  }

  [[nodiscard]] bool connected() const { return connected_; }
  [[nodiscard]] int fd() const { return fd_; }
  /// Returns false if the peer has closed.
  bool send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (n < 0) return false;
      text.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }
  /// Returns the next line without its newline, or nullopt if the peer has closed.
  std::optional<std::string> line() {
    for (;;) {
      if (const auto end = input_.find('\n'); end != std::string::npos) {
        std::string out = input_.substr(0, end);
        input_.erase(0, end + 1);
        return out;
      }
      std::array<char, 4096> buffer{};
      const ssize_t n = recv(fd_, buffer.data(), buffer.size(), 0);
      if (n <= 0) return std::nullopt;
      input_.append(buffer.data(), static_cast<std::size_t>(n));
    }
  }
  Response ask(const Request& request) {
    send(emit(request));
    const auto response = line();
    if (!response) return Error{EPIPE, "closed"};
    return parse_response(request, *response);
  }

 private:
  int fd_;
  bool connected_ = false;
  std::string input_;
};

}  // namespace ipoib::control
