// The subscribers of an interface's events, and the topics that the interface has to report for
// them.
//
// Runs on one io_context. A subscriber that has gone is noticed at the next event; the interface is
// then told to report less. So nobody has to tell of the end of a subscription.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/protocol.hpp"
#include "lines/line_server.hpp"

namespace ipoib::control {

class Subscribers : public std::enable_shared_from_this<Subscribers> {
 public:
  using Callback = std::function<void(Response)>;
  /// Passes a request on to the interface, as Handler::handle() does.
  using Ask = std::function<void(InterfaceRequest, Callback)>;

  Subscribers(boost::asio::io_context& context, Ask ask);

  /// Answers with a stream once the interface reports what is wanted. The Q_Key is for those who
  /// may change things.
  void subscribe(const SubscribeRequest& request, bool may_change, lines::LineHandler::Done done);
  void publish(const Event& event);
  void stop();

 private:
  using Clock = boost::asio::steady_timer::clock_type;

  struct Subscriber {
    SubscribeRequest request;
    bool may_change = false;
    std::shared_ptr<lines::LineStream> stream{};
    Clock::time_point due{};                        ///< when its statistics are due
    Clock::time_point sent{};                       ///< when it got the last statistics
    std::map<std::string, std::uint64_t> before{};  ///< the counters then; empty before the first
  };
  using Pointer = std::shared_ptr<Subscriber>;

  void add(const Pointer& subscriber, std::shared_ptr<lines::LineStream> stream);
  [[nodiscard]] Topics wanted();
  void tell(const Topics& wanted, Callback done);
  void arm();
  void poll_counters();
  void send_counters(const std::vector<Pointer>& due, const std::vector<Counter>& counters) const;

  boost::asio::io_context& context_;
  const Ask ask_;
  boost::asio::steady_timer timer_;
  std::vector<Pointer> all_;
  std::vector<std::weak_ptr<Subscriber>> expected_;  ///< subscribers whose streams are not open yet
  std::optional<Topics> reported_ = Topics{};        ///< by the interface; nullopt if unknown
  Clock::time_point polled_{};                       ///< when the counters were read
};

}  // namespace ipoib::control
