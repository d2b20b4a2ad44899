// Accepts clients and responds to requests: log and trace here, the others through the handler.
#include "control/server.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>

#include "control/capture_listener.hpp"
#include "control/connection_listener.hpp"
#include "control/log_levels.hpp"
#include "control/subscribers.hpp"
#include "control/trace_page.hpp"
#include "ipoib/backoff.hpp"
#include "ipoib/log.hpp"
#include "ipoib/trace.hpp"

namespace ipoib::control {

namespace asio = boost::asio;
using lines::LineServer;

namespace {

std::vector<Counter> as_values(const Server::Counters& counters) {
  return {{"control_clients", counters.clients},
          {"control_clients_refused", counters.refused},
          {"control_requests", counters.requests},
          {"control_bad_requests", counters.bad_requests},
          {"control_requests_denied", counters.denied},
          {"control_requests_delayed", counters.delayed},
          {"control_timeouts", counters.timeouts},
          {"control_subscriptions", counters.subscriptions},
          {"control_events_lost", counters.events_lost}};
}

using Callback = std::function<void(Response)>;

/// Adds the server's own counters, as they are now, since the response may come on any thread.
Callback with_counters(Callback done, const Server::Counters& counters) {
  return [done = std::move(done), own = as_values(counters)](Response response) {
    if (response.has_value()) {
      if (auto* const all = std::get_if<std::vector<Counter>>(&*response)) {
        all->insert(all->end(), own.begin(), own.end());
      }
    }
    done(std::move(response));
  };
}

const SubscribeRequest* as_subscription(const Request& request) {
  const auto* const of_interface = std::get_if<InterfaceRequest>(&request);
  return of_interface != nullptr ? std::get_if<SubscribeRequest>(of_interface) : nullptr;
}

/// Removes the Q_Key, since whoever knows it can send to the queue pairs of the partition.
Callback without_qkey(Callback done) {
  return [done = std::move(done)](Response response) {
    if (response.has_value()) {
      if (auto* const info = std::get_if<InterfaceInfo>(&*response)) info->qkey = QKey();
    }
    done(std::move(response));
  };
}

}  // namespace

class Server::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::io_context& context, const Dependencies& dependencies, Options options)
      : dependencies_(dependencies),
        options_(std::move(options)),
        context_(context),
        retry_timer_(context),
        subscribers_(std::make_shared<Subscribers>(
            context, [this](const InterfaceRequest& request, Callback done) {
              ask(request, true, std::move(done));
            })) {}

  /// Opens the sockets; throws if another daemon has the interface.
  void start();
  void stop();
  void publish(const Event& event) { subscribers_->publish(event); }
  [[nodiscard]] Counters counters() const;

 private:
  /// One of the two sockets, and what its clients may do.
  class Listener final : public lines::LineHandler {
   public:
    Listener(Impl& server, bool may_change, FileDescriptor socket);

    void serve(std::string_view line, const ucred& peer, Done done) override {
      server_.serve(line, peer, may_change_, std::move(done));
    }
    [[nodiscard]] std::string too_long() override;
    [[nodiscard]] std::string too_many_clients() override {
      return emit(
          Response(Error{EBUSY, "too many clients: end some (ss -xp lists them), or try later"}));
    }
    [[nodiscard]] std::string too_many_streams() override {
      return emit(Response(Error{
          EBUSY,
          "too many subscriptions: end some (ibarp monitor and top have one), or try later"}));
    }
    [[nodiscard]] std::string lost(std::uint64_t lines) override {
      return emit(Event(LostEvent{lines}));
    }
    void on_accept_failure(const std::string& why) override {
      server_.dependencies_.log.warn("cannot accept a client of the control socket: {}", why);
    }
    [[nodiscard]] const LineServer::Counters& counters() const { return lines_.counters(); }

   private:
    Impl& server_;
    const bool may_change_;
    LineServer lines_;
  };

  [[nodiscard]] Result<void> open();
  void open_or_retry();
  void retry_later(const Error& error);
  void serve(std::string_view line, const ucred& peer, bool may_change,
             lines::LineHandler::Done done);
  void handle(const Request& request, const ucred& peer, bool may_change, Callback done);
  void ask(const InterfaceRequest& request, bool may_change, Callback done);
  [[nodiscard]] Response set_levels(const LogRequest& request);

  const Dependencies dependencies_;
  const Options options_;
  asio::io_context& context_;
  asio::steady_timer retry_timer_;
  const std::shared_ptr<Subscribers> subscribers_;
  Retry retry_;
  std::uint64_t requests_ = 0;
  std::uint64_t bad_requests_ = 0;
  std::uint64_t denied_ = 0;
  std::optional<SocketFolder> folder_;
  std::optional<Listener> control_;
  std::optional<Listener> read_;
  std::optional<CaptureListener> captures_;
  std::optional<ConnectionListener> handover_;
};

// --- Sockets -------------------------------------------------------------------------------------

Server::Impl::Listener::Listener(Impl& server, bool may_change, FileDescriptor socket)
    : server_(server),
      may_change_(may_change),
      lines_(
          LineServer::Protocol::acceptor(server.context_, LineServer::Protocol(), socket.release()),
          *this,
          {.max_line = kMaxRequestLine,
           .idle_timeout = server.options_.idle_timeout,
           .max_clients = kMaxClients,
           .max_clients_per_user = may_change ? kMaxClientsPerUser : kMaxReadersPerUser,
           .rate = may_change ? LineServer::Rate{} : server.options_.read_rate,
           .max_streams = kMaxSubscribers,
           .max_streams_per_user =
               may_change ? kMaxSubscribersPerUser : kMaxReadingSubscribersPerUser,
           .max_stream_bytes = kMaxEventBytes}) {}

void Server::Impl::start() {
  const auto opened = open();
  if (opened) return;
  if (opened.error().code == EBUSY && options_.if_taken == IfTaken::fail) {
    throw std::system_error(std::error_code(EBUSY, std::generic_category()),
                            options_.interface + ": " + opened.error().message);
  }
  if (!options_.network_namespace) {
    return dependencies_.log.error("no control socket, so ibarp(8) cannot reach it: {}",
                                   opened.error().message);
  }
  retry_later(opened.error());
}

Result<void> Server::Impl::open() {
  const auto& home = options_.network_namespace;
  if (!home) return home.error();
  auto folder = SocketFolder::take(*home, options_.interface, options_.access);
  if (!folder) return folder.error();
  folder_.emplace(std::move(*folder));
  control_.emplace(*this, true, folder_->take_control_socket());
  if (auto read = folder_->take_read_socket()) read_.emplace(*this, false, std::move(read));
  if (dependencies_.on_capture) {
    if (auto captures = folder_->listen_for_captures(options_.access)) {
      captures_.emplace(context_, std::move(*captures), dependencies_.on_capture);
    } else {
      dependencies_.log.warn("no captures: {}", captures.error().message);
    }
  }
  if (dependencies_.on_handover) {
    if (auto handover = folder_->listen_for_handover()) {
      handover_.emplace(context_, std::move(*handover), dependencies_.on_handover);
    } else {
      dependencies_.log.warn("no other daemon can take over: {}", handover.error().message);
    }
  }
  return {};
}

void Server::Impl::retry_later(const Error& error) {
  if (retry_.failed()) {
    dependencies_.log.error("no control socket, so ibarp(8) cannot reach it: {}; trying again",
                            error.message);
  }
  retry_timer_.expires_after(retry_.pause());
  retry_timer_.async_wait([weak = weak_from_this()](boost::system::error_code stopped) {
    const auto self = weak.lock();
    if (!stopped && self) self->open_or_retry();
  });
}

void Server::Impl::open_or_retry() {
  if (const auto opened = open(); !opened) return retry_later(opened.error());
  (void)retry_.succeeded();
  dependencies_.log.info("{}: has its control socket now", options_.interface);
}

void Server::Impl::stop() {
  retry_timer_.cancel();
  subscribers_->stop();
  handover_.reset();
  captures_.reset();
  read_.reset();
  control_.reset();
  folder_.reset();
}

// --- Requests ------------------------------------------------------------------------------------

std::string Server::Impl::Listener::too_long() {
  return emit(Response(
      Error{EMSGSIZE, "a request is at most " + std::to_string(kMaxRequestLine) + " bytes long"}));
}

void Server::Impl::serve(std::string_view line, const ucred& peer, bool may_change,
                         lines::LineHandler::Done done) {
  const auto request = parse_request(line);
  if (request.has_error()) {
    ++bad_requests_;
    return done(emit(Response(request.error())));
  }
  if (const auto* const subscription = as_subscription(*request)) {
    ++requests_;
    return subscribers_->subscribe(*subscription, may_change, std::move(done));
  }
  handle(*request, peer, may_change, [done = std::move(done)](const Response& response) {
    std::string text = emit(response);
    if (text.size() > kMaxResponseLine) {
      text = emit(Response(Error{EMSGSIZE,
                                 "the response is longer than a line may be: ask for less, or run "
                                 "the ibarp of this version"}));
    }
    done(std::move(text));
  });
}

void Server::Impl::handle(const Request& request, const ucred& peer, bool may_change,
                          Callback done) {
  ++requests_;
  if (is_restricted(request) && !may_change) {
    ++denied_;
    const char* const what = is_change(request)                                ? "change anything"
                             : std::holds_alternative<MembersRequest>(request) ? "list members"
                             : std::holds_alternative<TraceRequest>(request)   ? "see the trace"
                                                                               : "capture";
    return done(Error{EPERM, options_.access.allowed() + " may " + what + " here"});
  }
  if (is_change(request)) {
    std::string line = emit(request);
    line.pop_back();
    dependencies_.log.debug("request of process {}: {}", peer.pid, line);
  }
  if (const auto* const log = std::get_if<LogRequest>(&request)) return done(set_levels(*log));
  if (const auto* const trace = std::get_if<TraceRequest>(&request)) {
    return done(page_of(dependencies_.trace, *trace));
  }
  if (const auto* const members = std::get_if<MembersRequest>(&request)) {
    return dependencies_.handler.find_members(members->mgid, std::move(done));
  }
  if (const auto* const add = std::get_if<AddInterfaceRequest>(&request)) {
    return dependencies_.handler.add_interface(*add, std::move(done));
  }
  if (std::holds_alternative<CaptureRequest>(request)) {
    return done(Error{
        EINVAL,
        "captures have a socket of their own: connect to capture in the folder of the interface"});
  }
  if (std::holds_alternative<DeleteInterfaceRequest>(request)) {
    return dependencies_.handler.delete_interface(std::move(done));
  }
  ask(std::get<InterfaceRequest>(request), may_change, std::move(done));
}

void Server::Impl::ask(const InterfaceRequest& request, bool may_change, Callback done) {
  if (std::holds_alternative<StatsRequest>(request)) {
    done = with_counters(std::move(done), counters());
  } else if (std::holds_alternative<InfoRequest>(request) && !may_change) {
    done = without_qkey(std::move(done));
  }
  dependencies_.handler.handle(request, std::move(done));
}

Response Server::Impl::set_levels(const LogRequest& request) {
  if (const auto set = dependencies_.levels.set(request.set); set.has_error()) return set.error();
  return Reply(dependencies_.levels.all());
}

Server::Counters Server::Impl::counters() const {
  Counters out{.requests = requests_, .bad_requests = bad_requests_, .denied = denied_};
  for (const auto* const listener : {&control_, &read_}) {
    if (!*listener) continue;
    const auto& counted = (*listener)->counters();
    out.clients += counted.clients;
    out.refused += counted.refused;
    out.bad_requests += counted.too_long;
    out.delayed += counted.delayed;
    out.timeouts += counted.timeouts;
    out.subscriptions += counted.streams;
    out.events_lost += counted.lost;
  }
  return out;
}

Server::Server(asio::io_context& context, const Dependencies& dependencies, Options options)
    : impl_(std::make_shared<Impl>(context, dependencies, std::move(options))) {
  impl_->start();
}

Server::~Server() { impl_->stop(); }

void Server::publish(const Event& event) { impl_->publish(event); }

Server::Counters Server::counters() const { return impl_->counters(); }

}  // namespace ipoib::control
