// Writes log messages with their fields to systemd's journal: systemd.journal-fields(7), and
// https://systemd.io/JOURNAL_NATIVE_PROTOCOL/, which is short and stable, so that no library is
// needed.
#pragma once

#include <spdlog/sinks/base_sink.h>

#include <mutex>
#include <string>

#include "ipoib/file_descriptor.hpp"

namespace ipoib::daemon {

/// What an interface's messages are about; empty members are unknown.
struct LogContext {
  std::string interface;
  std::string pkey;  ///< "0x8001"
};

/// The message for a reader who does not see fields: "ib0: up".
[[nodiscard]] std::string line_of(const spdlog::details::log_msg& message, const LogContext& about);

/// Whether the service manager has connected standard error with the journal: JOURNAL_STREAM has
/// its device and inode.
[[nodiscard]] bool standard_error_is_journal();

class JournalSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  static constexpr const char* kSocket = "/run/systemd/journal/socket";

  /// Opens its socket now, since the sandbox may not permit that later. `fallback` gets what the
  /// journal does not take.
  explicit JournalSink(spdlog::sink_ptr fallback, const std::string& path = kSocket);

  /// Thread-safe.
  void log_about(const spdlog::details::log_msg& message, const LogContext& about);

 private:
  void sink_it_(const spdlog::details::log_msg& message) override { write(message, {}); }
  void flush_() override { fallback_->flush(); }
  void write(const spdlog::details::log_msg& message, const LogContext& about);

  const spdlog::sink_ptr fallback_;
  const std::string path_;
  const FileDescriptor socket_;
};

}  // namespace ipoib::daemon
