#include "ipoib/service_manager.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/number.hpp"

namespace ipoib {

namespace {

/// A number in the environment; none if it is missing or not a positive number.
std::optional<std::int64_t> number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  const auto number = parse_number<std::int64_t>(text);
  return number && *number > 0 ? number : std::nullopt;
}

}  // namespace

std::optional<Duration> watchdog_period() {
  const auto microseconds = number_in("WATCHDOG_USEC");
  const bool is_for_another = number_in("WATCHDOG_PID").value_or(::getpid()) != ::getpid();
  if (!microseconds || is_for_another) return std::nullopt;
  return std::chrono::microseconds(*microseconds);
}

void notify_service_manager(std::string_view state) {
  const char* const name = std::getenv("NOTIFY_SOCKET");
  if (name == nullptr) return;
  const std::string_view path(name);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() < 2 || path.size() >= sizeof(address.sun_path)) return;
  path.copy(address.sun_path, path.size());
  if (path.front() == '@') address.sun_path[0] = '\0';  // an abstract socket
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  (void)::sendto(socket.get(), state.data(), state.size(), MSG_NOSIGNAL,
                 reinterpret_cast<const sockaddr*>(&address), size);
}

}  // namespace ipoib
