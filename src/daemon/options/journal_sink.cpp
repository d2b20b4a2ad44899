#include "daemon/options/journal_sink.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "ipoib/log_event.hpp"
#include "ipoib/unix_path.hpp"

namespace ipoib::daemon {

namespace {

int priority_of(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::critical:
      return LOG_CRIT;
    case spdlog::level::err:
      return LOG_ERR;
    case spdlog::level::warn:
      return LOG_WARNING;
    case spdlog::level::info:
      return LOG_INFO;
    default:
      return LOG_DEBUG;
  }
}

/// "KEY=value\n"; a value with a newline is preceded by its length, as 64 bits, little-endian.
void append_field(std::string& to, std::string_view key, std::string_view value) {
  to += key;
  if (value.find('\n') == std::string_view::npos) {
    to += '=';
  } else {
    to += '\n';
    for (unsigned bits = 0; bits < 64; bits += 8) {
      to += static_cast<char>(std::uint64_t{value.size()} >> bits & 0xffU);
    }
  }
  to += value;
  to += '\n';
}

std::string datagram_of(const spdlog::details::log_msg& message, const LogContext& about) {
  const std::string_view module(message.logger_name.data(), message.logger_name.size());
  std::string out;
  append_field(out, "MESSAGE", std::string(module) + ": " + line_of(message, about));
  append_field(out, "PRIORITY", std::to_string(priority_of(message.level)));
  append_field(out, "SYSLOG_IDENTIFIER", "ipoibd");
  append_field(out, "IPOIBD_MODULE", module);
  if (!about.interface.empty()) append_field(out, "INTERFACE", about.interface);
  if (!about.pkey.empty()) append_field(out, "PKEY", about.pkey);
  const auto id = message_id_of(message.source);
  if (!id.empty()) append_field(out, "MESSAGE_ID", id);
  return out;
}

}  // namespace

std::string line_of(const spdlog::details::log_msg& message, const LogContext& about) {
  std::string line = about.interface.empty() ? "" : about.interface + ": ";
  return line.append(message.payload.data(), message.payload.size());
}

bool standard_error_is_journal() {
  const char* const stream = std::getenv("JOURNAL_STREAM");
  struct stat status {};
  if (stream == nullptr || ::fstat(STDERR_FILENO, &status) != 0) return false;
  return stream == std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
}

JournalSink::JournalSink(spdlog::sink_ptr fallback, const std::string& path)
    : fallback_(std::move(fallback)),
      path_(path),
      socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {}

void JournalSink::log_about(const spdlog::details::log_msg& message, const LogContext& about) {
  const std::lock_guard lock(mutex_);
  write(message, about);
}

/// The address is resolved each time, so that a journal that was restarted gets it. Never blocks:
/// what a journal that is busy or stopped does not take goes to standard error.
void JournalSink::write(const spdlog::details::log_msg& message, const LogContext& about) {
  const std::string datagram = datagram_of(message, about);
  const auto to = UnixPath::of(path_);
  if (to && ::sendto(socket_.get(), datagram.data(), datagram.size(), MSG_NOSIGNAL, to->address(),
                     UnixPath::size()) >= 0) {
    return;
  }
  const std::string line = line_of(message, about);
  spdlog::details::log_msg plain = message;
  plain.payload = line;
  fallback_->log(plain);
}

}  // namespace ipoib::daemon
