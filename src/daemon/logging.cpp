#include "daemon/logging.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/sinks/syslog_sink.h>
#include <syslog.h>

namespace ipoib::daemon {

namespace {

spdlog::sink_ptr make_sink(LogTarget target) {
  spdlog::sink_ptr sink;
  switch (target) {
    case LogTarget::standard_error:
      sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
      sink->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %n: %v");
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

}  // namespace

Logging::Logging(LogTarget target, const std::vector<control::ModuleLevel>& wanted)
    : Logging(make_sink(target)) {
  if (auto done = levels.set(wanted); !done) throw UsageError("--log: " + done.error().message);
}

Logging::Logging(const spdlog::sink_ptr& sink)
    : link(make_logger("link", sink)),
      sa(make_logger("sa", sink)),
      verbs(make_logger("verbs", sink)),
      control(make_logger("control", sink)),
      daemon(make_logger("daemon", sink)),
      levels({link, sa, verbs, control, daemon}) {}

}  // namespace ipoib::daemon
