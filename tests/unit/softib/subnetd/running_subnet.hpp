// A subnet process in a thread of the test.
#pragma once

#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/json/array.hpp>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ipoib/log.hpp"
#include "softib/control/client.hpp"
#include "softib/control/protocol.hpp"
#include "softib/subnetd/subnet_process.hpp"

namespace softib::subnetd {

class RunningSubnet {
 public:
  explicit RunningSubnet(const fabric::SubnetFolder& folder,
                         std::optional<subnet::SubnetConfig> config = std::nullopt,
                         const std::string& capture = {})
      : process_(std::make_unique<SubnetProcess>(
            context_, SubnetProcess::Options{folder, std::move(config), capture}, log_)),
        thread_([this] { context_.run(); }) {}
  RunningSubnet(const RunningSubnet&) = delete;
  RunningSubnet& operator=(const RunningSubnet&) = delete;
  ~RunningSubnet() {
    context_.stop();
    thread_.join();
    process_.reset();
  }

  [[nodiscard]] bool has_ended() const { return context_.stopped(); }
  /// Calls a function in the thread of the subnet process, which does nothing else meanwhile.
  template <class Function>
  void run(Function function) {
    std::promise<void> done;
    boost::asio::post(context_, [&] {
      function();
      done.set_value();
    });
    done.get_future().wait();
  }
  [[nodiscard]] bool is_unused() {
    bool unused = false;
    run([&] { unused = process_->is_unused(); });
    return unused;
  }

 private:
  ipoib::Logger log_{"subnet", std::make_shared<spdlog::sinks::null_sink_mt>()};
  boost::asio::io_context context_{1};
  std::unique_ptr<SubnetProcess> process_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      context_.get_executor()};
  std::thread thread_;
};

/// Sends a request; returns the content of the response, or the error.
inline ipoib::Result<boost::json::object> request(const fabric::SubnetFolder& folder,
                                                  const control::Request& what) {
  const auto line = control::send_request(folder, control::emit(what));
  if (!line) return line.error();
  return control::parse_response(*line);
}

/// A node in the response to `show`; empty if it has none of that name.
inline boost::json::object shown_node(const fabric::SubnetFolder& folder, const std::string& name) {
  const auto subnet = request(folder, control::Show{});
  if (!subnet) return {};
  for (const auto& node : subnet->at("nodes").as_array()) {
    if (node.as_object().at("name").as_string() == name) return node.as_object();
  }
  return {};
}

}  // namespace softib::subnetd
