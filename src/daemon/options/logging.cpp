#include "daemon/options/logging.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/sinks/syslog_sink.h>
#include <syslog.h>

#include <ctime>

namespace ipoib::daemon {

namespace {

spdlog::sink_ptr make_sink(LogTarget target) {
  spdlog::sink_ptr sink;
  switch (target) {
    case LogTarget::standard_error:
      sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
      sink->set_pattern(kLogPattern);
      if (standard_error_is_journal()) sink = std::make_shared<JournalSink>(sink);
      break;
    case LogTarget::syslog:
      sink = std::make_shared<spdlog::sinks::syslog_sink_mt>("ipoibd", LOG_PID, LOG_DAEMON, true);
      sink->set_pattern("%n: %v");
      break;
  }
  return sink;
}

std::shared_ptr<Logger> make_logger(const char* module, const spdlog::sink_ptr& sink) {
  auto logger = std::make_shared<Logger>(module, sink);
  logger->flush_on(spdlog::level::warn);
  return logger;
}

/// Forwards messages to other sinks, with a name as prefix.
class NamingSink final : public spdlog::sinks::sink {
 public:
  NamingSink(std::shared_ptr<const LogPrefix> prefix, std::vector<spdlog::sink_ptr> sinks)
      : prefix_(std::move(prefix)), sinks_(std::move(sinks)) {}

  void log(const spdlog::details::log_msg& message) override {
    const LogContext about = prefix_->get();
    const std::string line = line_of(message, about);
    spdlog::details::log_msg named = message;
    named.payload = line;
    for (const auto& other : sinks_) {
      if (auto* const journal = dynamic_cast<JournalSink*>(other.get())) {
        journal->log_about(message, about);
      } else {
        other->log(named);
      }
    }
  }
  void flush() override {
    for (const auto& other : sinks_) other->flush();
  }
  // The other sinks do the formatting.
  void set_pattern(const std::string& /*pattern*/) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter> /*formatter*/) override {}

 private:
  const std::shared_ptr<const LogPrefix> prefix_;
  const std::vector<spdlog::sink_ptr> sinks_;
};

std::shared_ptr<Logger> named_like(const std::shared_ptr<LogPrefix>& prefix, Logger& module,
                                   control::LogLevels& levels) {
  auto logger =
      std::make_shared<Logger>(module.name(), std::make_shared<NamingSink>(prefix, module.sinks()));
  logger->flush_on(module.flush_level());
  levels.add(logger);
  return logger;
}

}  // namespace

Logging::Logging(LogTarget target, const std::vector<control::ModuleLevel>& wanted)
    : Logging(make_sink(target)) {
  ::tzset();  // reads a file, which the sandbox of an interface's thread would refuse
  levels.set(wanted).value();
}

Logging::Logging(const spdlog::sink_ptr& sink)
    : link(make_logger("link", sink)),
      sa(make_logger("sa", sink)),
      verbs(make_logger("verbs", sink)),
      control(make_logger("control", sink)),
      daemon(make_logger("daemon", sink)),
      levels({link, sa, verbs, control, daemon}) {}

InterfaceLogs::InterfaceLogs(Logging& logs, const std::string& interface, PKey pkey)
    : prefix(
          std::make_shared<LogPrefix>(LogContext{interface, fmt::format("{:#06x}", pkey.value())})),
      link(named_like(prefix, *logs.link, logs.levels)),
      verbs(named_like(prefix, *logs.verbs, logs.levels)),
      control(named_like(prefix, *logs.control, logs.levels)),
      daemon(named_like(prefix, *logs.daemon, logs.levels)) {}

}  // namespace ipoib::daemon
