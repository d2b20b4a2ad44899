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
#include <optional>
#include <utility>

#include "ipoib/descriptor_limit.hpp"
#include "ipoib/log.hpp"
#include "ipoib/service_manager.hpp"
#include "softib/cli/commands.hpp"

namespace softib::cli {

namespace po = boost::program_options;

namespace {

/// --tied: ends the subnet if standard input ends before any byte was read. The process that held
/// the other end may still be detaching from its HCA then; the folder can be removed only after
/// that.
class TiedInput {
 public:
  TiedInput(boost::asio::io_context& context, const subnetd::SubnetProcess& process)
      : context_(context),
        process_(process),
        input_(context, ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)),
        timer_(context) {
    input_.async_read_some(boost::asio::buffer(byte_),
                           [this](boost::system::error_code error, std::size_t) {
                             if (error) end_when_unused();
                           });
  }

 private:
  static constexpr std::chrono::milliseconds kPollInterval{10};
  static constexpr int kMaxPolls = 500;

  void end_when_unused() {
    if (process_.is_unused() || ++polls_ > kMaxPolls) return context_.stop();
    timer_.expires_after(kPollInterval);
    timer_.async_wait([this](boost::system::error_code error) {
      if (!error) end_when_unused();
    });
  }

  boost::asio::io_context& context_;
  const subnetd::SubnetProcess& process_;
  boost::asio::posix::stream_descriptor input_;
  boost::asio::steady_timer timer_;
  std::array<char, 1> byte_{};
  int polls_ = 0;
};

/// Ends the subnet when others have removed its folder: nobody could find it, use it or stop it.
class FolderWatch {
 public:
  FolderWatch(boost::asio::io_context& context, const subnetd::SubnetProcess& process)
      : context_(context), process_(process), timer_(context) {
    look_later();
  }
  [[nodiscard]] bool has_failed() const { return has_failed_; }

 private:
  static constexpr std::chrono::seconds kInterval{2};

  void look_later() {
    timer_.expires_after(kInterval);
    timer_.async_wait([this](boost::system::error_code error) {
      if (error) return;
      has_failed_ = !process_.has_folder();
      if (has_failed_) return context_.stop();
      look_later();
    });
  }

  boost::asio::io_context& context_;
  const subnetd::SubnetProcess& process_;
  boost::asio::steady_timer timer_;
  bool has_failed_ = false;
};

/// Ends the subnet when no program has used it for kUnusedFor.
class UnusedWatch {
 public:
  UnusedWatch(boost::asio::io_context& context, const subnetd::SubnetProcess& process)
      : context_(context), process_(process), timer_(context) {
    look_later();
  }

 private:
  static constexpr std::chrono::milliseconds kInterval{250};

  void look_later() {
    timer_.expires_after(kInterval);
    timer_.async_wait([this](boost::system::error_code error) {
      if (error) return;
      const bool is_used = !process_.is_unused() ||
                           std::exchange(requests_, process_.requests()) != process_.requests();
      unused_ = is_used ? std::chrono::milliseconds(0) : unused_ + kInterval;
      if (unused_ >= kUnusedFor) return context_.stop();
      look_later();
    });
  }

  boost::asio::io_context& context_;
  const subnetd::SubnetProcess& process_;
  boost::asio::steady_timer timer_;
  std::chrono::milliseconds unused_{0};
  std::uint64_t requests_ = 0;
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
  const FolderWatch watch(context, process);
  context.run();
  if (watch.has_failed()) {
    return fail(ipoib::Error{ENOENT, "the folder of the subnet has been removed: " + folder.path() +
                                         "; programs on the subnet can no longer reach it"});
  }
  log->info("ending");
  return kSuccess;
}

}  // namespace softib::cli
