// A control server on its own thread, with a name that no other test uses.
#pragma once

#include <spdlog/sinks/null_sink.h>
#include <spdlog/sinks/ostream_sink.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>

#include "control/log_levels.hpp"
#include "control/server.hpp"
#include "ipoib/log.hpp"
#include "ipoib/trace.hpp"
#include "memory_handler.hpp"
#include "temporary_run_folder.hpp"

namespace ipoib::control {

class RunningServer {
 public:
  explicit RunningServer(std::chrono::milliseconds idle_timeout = kIdleTimeout,
                         std::string name = unique_name())
      : RunningServer(Server::Options{.interface = std::move(name), .idle_timeout = idle_timeout}) {
  }
  explicit RunningServer(Server::Options options) : name_(options.interface) {
    server_.emplace(
        context_,
        Server::Dependencies{.handler = handler,
                             .levels = levels_,
                             .trace = trace,
                             .log = *loggers.front(),
                             .on_capture =
                                 [this](const CaptureRequest& request, FileDescriptor connection) {
                                   if (on_capture) on_capture(request, std::move(connection));
                                 },
                             .on_handover = [](FileDescriptor) {}},
        std::move(options));
    thread_ = std::thread([this] { context_.run(); });
  }
  ~RunningServer() {
    stop();
    work_.reset();
    thread_.join();
  }

  /// Destroys the server on its thread, which continues.
  void stop() {
    on_thread([this] { server_.reset(); });
  }
  [[nodiscard]] Server::Counters counters() {
    Server::Counters copy;
    on_thread([&] { copy = server_->counters(); });
    return copy;
  }
  /// What the server has logged.
  [[nodiscard]] std::string log_text() {
    std::string copy;
    on_thread([&] { copy = log.str(); });
    return copy;
  }
  void publish(const Event& event) {
    on_thread([&] { server_->publish(event); });
  }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// The folder with its sockets.
  [[nodiscard]] std::string folder() const {
    return kRunFolder.path() + "/" + namespace_folder(own_network_namespace().value()) + "/" +
           name_;
  }
  [[nodiscard]] static std::string unique_name() {
    static std::atomic<int> number{0};
    return "t" + std::to_string(getpid()) + "-" + std::to_string(number++);
  }

  MemoryHandler handler;
  /// Begins a capture; set it before there is one.
  std::function<void(const CaptureRequest&, FileDescriptor)> on_capture;
  TraceRings trace;
  std::ostringstream log;  ///< of the server; see log_text()
  std::vector<std::shared_ptr<Logger>> loggers{
      std::make_shared<Logger>("control", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)),
      std::make_shared<Logger>("link", std::make_shared<spdlog::sinks::null_sink_mt>())};

 private:
  template <class Call>
  void on_thread(Call call) {
    std::promise<void> ran;
    boost::asio::post(context_, [&] {
      call();
      ran.set_value();
    });
    ran.get_future().wait();
  }

  std::string name_;
  LogLevels levels_{loggers};
  boost::asio::io_context context_;
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> work_{
      boost::asio::make_work_guard(context_)};
  std::optional<Server> server_;
  std::thread thread_;
};

}  // namespace ipoib::control
