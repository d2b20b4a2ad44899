#include "softib/control/client.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <vector>

#include "ipoib/peer_process.hpp"
#include "softib/fabric/shared_file.hpp"

namespace softib::control {

using ipoib::Error;
using ipoib::Result;

namespace {

constexpr timeval kTimeout{10, 0};

Error socket_error(const fabric::SubnetFolder& folder, int code) {
  const std::string how_to_start = "start one with: softib subnet --subnet " + folder.name();
  if (code == ENOENT || code == ECONNREFUSED) {
    return Error{code, "no subnet '" + folder.name() + "' is running in " + folder.path() + "; " +
                           how_to_start};
  }
  // The connection was reset: the process did not read the request.
  if (code == EPIPE || code == ECONNRESET) {
    return Error{EPIPE, "the subnet '" + folder.name() +
                            "' has closed the connection; if it has ended, " + how_to_start};
  }
  if (code == EACCES || code == EPERM) {
    return Error{code, "the subnet in " + folder.path() +
                           " belongs to another user; run as that user or root, or set SOFTIB_DIR"};
  }
  if (code == EAGAIN || code == ETIMEDOUT) {
    return Error{
        ETIMEDOUT,
        "the subnet '" + folder.name() +
            "' does not respond: see its log, or end its process (softib list) and start it again"};
  }
  return Error{code, "control socket " + folder.control() + ": " + std::strerror(code)};
}

Result<ipoib::FileDescriptor> connect(const fabric::SubnetFolder& folder) {
  const auto checked = folder.check(fabric::FolderUse::attach);
  if (!checked && checked.error().code == EPERM) return checked.error();
  ipoib::FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return socket_error(folder, errno);
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &kTimeout, sizeof kTimeout);
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kTimeout, sizeof kTimeout);
  const auto at = fabric::open_folder(folder.path());
  const auto opened = at ? fabric::open_socket(at->get(), fabric::kControlName) : at.error();
  if (!opened) return socket_error(folder, opened.error().code);
  if (const int code = fabric::connect_socket(socket.get(), *opened)) {
    return socket_error(folder, code);
  }
  return socket;
}

Result<void> send_all(const fabric::SubnetFolder& folder, int socket, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return socket_error(folder, errno);
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

Result<std::string> receive_line(const fabric::SubnetFolder& folder, int socket) {
  std::string line;
  // Not on the stack: threads of the server of metrics have 100 KB.
  std::vector<char> piece(65536);
  while (line.size() < kMaxResponseSize) {
    const ssize_t size = ::recv(socket, piece.data(), piece.size(), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return socket_error(folder, errno);
    if (size == 0) return socket_error(folder, EPIPE);
    line.append(piece.data(), static_cast<std::size_t>(size));
    if (line.back() == '\n') {
      line.pop_back();
      return line;
    }
  }
  return Error{EMSGSIZE, "the response of the subnet is longer than " +
                             std::to_string(kMaxResponseSize) +
                             " bytes: use the softib that has started it"};
}

/// Removes a decimal number from the front of `text`; nullopt if it has none.
std::optional<int> take_number(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

}  // namespace

Result<Connection> Connection::open(const fabric::SubnetFolder& folder) {
  auto socket = connect(folder);
  if (!socket) return socket.error();
  const auto server = ipoib::peer_process(socket->get());
  if (!server) return socket_error(folder, errno);
  // The owner of the folder may put anything there.
  struct stat status {};
  if (::lstat(folder.path().c_str(), &status) != 0) return socket_error(folder, errno);
  if (server->uid != status.st_uid) {
    return Error{EPERM, "the process behind " + folder.control() + " is of user " +
                            std::to_string(server->uid) + ", and the folder of user " +
                            std::to_string(status.st_uid) + ": that user has to remove it"};
  }
  return Connection(folder, std::move(*socket), server->pid);
}

Result<std::string> Connection::request(std::string_view line) const {
  std::string request(line);
  if (!request.ends_with('\n')) request += '\n';
  // A server that rejects the client writes the reason and closes; sending then fails with EPIPE.
  const auto sent = send_all(folder_, socket_.get(), request);
  if (!sent && sent.error().code != EPIPE) return sent.error();
  return receive_line(folder_, socket_.get());
}

Result<std::string> send_request(const fabric::SubnetFolder& folder, std::string_view line) {
  const auto connection = Connection::open(folder);
  return connection ? connection->request(line) : connection.error();
}

Error unknown_response(std::string_view line) {
  constexpr std::size_t kShown = 80;
  return Error{EPROTO,
               "the response of the subnet process is unknown; it may be of another version "
               "of softib: " +
                   std::string(line.substr(0, kShown))};
}

std::optional<Error> error_of(std::string_view response) {
  if (!response.starts_with(kErrorResponse)) return std::nullopt;
  response.remove_prefix(kErrorResponse.size());
  const int code = take_number(response).value_or(EIO);
  if (response.starts_with(' ')) response.remove_prefix(1);
  return Error{code, std::string(response)};
}

Result<NodeIndex> request_attach(const fabric::SubnetFolder& folder, const fabric::HcaName& hca) {
  std::string request = std::string(kAttachCommand) + hca.name;
  if (hca.port != 0) request += ':' + std::to_string(hca.port);
  const auto line = send_request(folder, request);
  if (!line) return line.error();
  if (const auto error = error_of(*line)) return *error;
  std::string_view response = *line;
  response.remove_prefix(response.starts_with(kNodeResponse) ? kNodeResponse.size() : 0);
  const auto node = take_number(response);
  if (!node || *node < 0 || *node >= int{kMaxNodes}) {
    return unknown_response(*line);
  }
  return static_cast<NodeIndex>(*node);
}

}  // namespace softib::control
