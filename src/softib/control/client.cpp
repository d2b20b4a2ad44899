// Blocking, on purpose: whoever asks cannot go on without the answer.
#include "softib/control/client.hpp"

#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "ipoib/file_descriptor.hpp"
#include "softib/fabric/unix_path.hpp"

namespace softib::control {

using ipoib::Error;
using ipoib::Result;

namespace {

constexpr timeval kTimeout{10, 0};

Error refusal(const fabric::SubnetFolder& folder, int code) {
  if (code == ENOENT || code == ECONNREFUSED) {
    return Error{code, "no subnet '" + folder.name() + "' is running in " + folder.path() +
                           "; start one with: softib subnet --subnet " + folder.name()};
  }
  if (code == EACCES || code == EPERM) {
    return Error{code, "the subnet in " + folder.path() +
                           " belongs to another user; be that user or root, or set SOFTIB_DIR"};
  }
  if (code == EAGAIN || code == ETIMEDOUT) {
    return Error{ETIMEDOUT, "the subnet '" + folder.name() + "' does not answer"};
  }
  return Error{code, "control socket " + folder.control() + ": " + std::strerror(code)};
}

Result<ipoib::FileDescriptor> connect(const fabric::SubnetFolder& folder) {
  ipoib::FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return refusal(folder, errno);
  const auto path = fabric::UnixPath::of(folder.control());
  if (!path) return refusal(folder, path.error().code);
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &kTimeout, sizeof kTimeout);
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kTimeout, sizeof kTimeout);
  if (::connect(socket.get(), path->address(), fabric::UnixPath::size()) != 0) {
    return refusal(folder, errno);
  }
  return socket;
}

Result<void> send_all(const fabric::SubnetFolder& folder, int socket, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return refusal(folder, errno);
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

Result<std::string> receive_line(const fabric::SubnetFolder& folder, int socket) {
  std::string line;
  std::array<char, 65536> piece;
  while (line.size() < kMaxControlAnswer) {
    const ssize_t size = ::recv(socket, piece.data(), piece.size(), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return refusal(folder, errno);
    if (size == 0) return Error{EPIPE, "the subnet '" + folder.name() + "' has hung up"};
    line.append(piece.data(), static_cast<std::size_t>(size));
    if (line.back() == '\n') {
      line.pop_back();
      return line;
    }
  }
  return Error{EMSGSIZE, "the answer of the subnet is too long"};
}

}  // namespace

Result<std::string> control_request(const fabric::SubnetFolder& folder, std::string_view line) {
  const auto socket = connect(folder);
  if (!socket) return socket.error();
  std::string request(line);
  if (!request.ends_with('\n')) request += '\n';
  // Who is turned away at the door finds it closed, and the reason behind it.
  const auto sent = send_all(folder, socket->get(), request);
  if (!sent && sent.error().code != EPIPE) return sent.error();
  return receive_line(folder, socket->get());
}

}  // namespace softib::control
