#include "softib/cli/serve.hpp"

#include <fcntl.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <unistd.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <utility>

#include "ipoib/descriptor_limit.hpp"
#include "ipoib/log.hpp"
#include "ipoib/service_manager.hpp"
#include "softib/cli/commands.hpp"

namespace softib::cli {

namespace po = boost::program_options;

namespace {

/// Calls a function again after each interval, until it returns false.
class Repeating {
 public:
  Repeating(boost::asio::io_context& context, std::chrono::milliseconds interval,
            std::function<bool()> look)
      : timer_(context), interval_(interval), look_(std::move(look)) {}

  void look_now() {
    if (look_()) look_later();
  }
  void look_later() {
    timer_.expires_after(interval_);
    timer_.async_wait([this](boost::system::error_code error) {
      if (!error) look_now();
    });
  }

 private:
  boost::asio::steady_timer timer_;
  const std::chrono::milliseconds interval_;
  const std::function<bool()> look_;
};

/// --tied: ends the subnet if standard input ends before any byte was read. The process that held
/// the other end may still be detaching from its HCA then; the folder can be removed only after
/// that.
class TiedInput {
 public:
  TiedInput(boost::asio::io_context& context, const subnetd::SubnetProcess& process)
      : input_(context, ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)),
        end_(context, kPollInterval, [this, &context, &process] {
          const bool waits = !process.is_unused() && ++polls_ <= kMaxPolls;
          if (!waits) context.stop();
          return waits;
        }) {
    input_.async_read_some(boost::asio::buffer(byte_),
                           [this](boost::system::error_code error, std::size_t) {
                             if (error) end_.look_now();
                           });
  }

 private:
  static constexpr std::chrono::milliseconds kPollInterval{10};
  static constexpr int kMaxPolls = 500;

  boost::asio::posix::stream_descriptor input_;
  std::array<char, 1> byte_{};
  int polls_ = 0;
  Repeating end_;
};

/// Ends the subnet when others have removed its folder: nobody could find it, use it or stop it.
class FolderWatch {
 public:
  FolderWatch(boost::asio::io_context& context, const subnetd::SubnetProcess& process)
      : look_(context, kInterval, [this, &context, &process] {
          has_failed_ = !process.has_folder();
          if (has_failed_) context.stop();
          return !has_failed_;
        }) {
    look_.look_later();
  }
  [[nodiscard]] bool has_failed() const { return has_failed_; }

 private:
  static constexpr std::chrono::seconds kInterval{2};

  bool has_failed_ = false;
  Repeating look_;
};

/// Ends the subnet when no program has used it for kUnusedFor.
class UnusedWatch {
 public:
  UnusedWatch(boost::asio::io_context& context, const subnetd::SubnetProcess& process)
      : process_(process), look_(context, kInterval, [this, &context] {
          unused_ = is_used() ? std::chrono::milliseconds(0) : unused_ + kInterval;
          const bool goes_on = unused_ < kUnusedFor;
          if (!goes_on) context.stop();
          return goes_on;
        }) {
    look_.look_later();
  }

 private:
  static constexpr std::chrono::milliseconds kInterval{250};

  /// Whether a program is there, or holds the subnet, or has sent a request since this was last
  /// asked while none was.
  bool is_used() {
    if (!process_.is_unused() || process_.is_held()) return true;
    const auto before = std::exchange(requests_, process_.requests());
    return before != requests_;
  }

  const subnetd::SubnetProcess& process_;
  std::chrono::milliseconds unused_{0};
  std::uint64_t requests_ = 0;
  Repeating look_;
};

}  // namespace

ipoib::Result<spdlog::level::level_enum> read_log_level(const po::variables_map& options) {
  const auto& name = options["log"].as<std::string>();
  for (const std::string_view known : {"debug", "info", "warning", "error", "off"}) {
    if (name == known) return spdlog::level::from_str(name);
  }
  return ipoib::Error{EINVAL, "--log is debug, info, warning, error or off, not '" + name + "'"};
}

int serve_subnet(const subnetd::SubnetProcess::Options& subnet, const ServeOptions& options) {
  const auto& folder = subnet.folder;
  ipoib::raise_descriptor_limit();
  const auto log = spdlog::stderr_color_st("subnet");
  log->set_pattern(ipoib::kLogPattern);
  log->set_level(options.log_level);

  boost::asio::io_context context(1);
  boost::asio::signal_set signals(context, SIGTERM, SIGINT);
  signals.async_wait([&](boost::system::error_code, int) { context.stop(); });
  subnetd::SubnetProcess process(context, subnet, *log);
  if (print("ready: subnet " + folder.name() + " in " + folder.path() + '\n') != kSuccess) {
    return kFailure;
  }
  ipoib::notify_service_manager("READY=1");
  std::optional<TiedInput> tied;
  if (options.is_tied) tied.emplace(context, process);
  std::optional<UnusedWatch> unused;
  if (options.ends_unused) unused.emplace(context, process);
  FolderWatch watch(context, process);
  context.run();
  if (watch.has_failed()) {
    return fail(ipoib::Error{ENOENT, "the folder of the subnet has been removed: " + folder.path() +
                                         "; programs on the subnet can no longer reach it"});
  }
  log->info("ending");
  return kSuccess;
}

}  // namespace softib::cli
