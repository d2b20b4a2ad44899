// Accepts clients, and answers their requests: those about the interface by its handler, those
// about the process (log, trace) by itself.
#include "control/server.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "control/log_levels.hpp"
#include "control/session.hpp"
#include "control/trace_page.hpp"
#include "ipoib/log.hpp"
#include "ipoib/trace.hpp"

namespace ipoib::control {

namespace asio = boost::asio;
using boost::system::error_code;
using Protocol = asio::local::stream_protocol;

namespace {

/// How long to let be when the process has no descriptor left for a client.
constexpr std::chrono::milliseconds kAcceptPause{200};

Protocol::endpoint endpoint_of(const std::string& interface) {
  return Protocol::endpoint(std::string(1, '\0') + std::string(kSocketPrefix) + interface);
}

Protocol::acceptor listen(asio::io_context& context, const std::string& interface) {
  try {
    return {context, endpoint_of(interface), false};
  } catch (const boost::system::system_error& error) {
    throw std::system_error(error.code(), error.code() == std::errc::address_in_use
                                              ? interface + ": another ipoibd runs this interface"
                                              : interface + ": no control socket");
  }
}

std::optional<ucred> peer_of(Protocol::socket& socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return std::nullopt;
  }
  return peer;
}

std::vector<Counter> as_values(const Server::Counters& counters) {
  return {
      {"control_clients", counters.clients},       {"control_clients_refused", counters.refused},
      {"control_requests", counters.requests},     {"control_bad_requests", counters.bad_requests},
      {"control_changes_denied", counters.denied}, {"control_timeouts", counters.timeouts}};
}

}  // namespace

class Server::Impl : public Session::Owner, public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::io_context& context, Parts parts, Options options)
      : parts_(parts),
        options_(std::move(options)),
        acceptor_(listen(context, options_.interface)),
        pause_(context) {}

  void accept();
  void stop();
  [[nodiscard]] const Counters& counters() const { return counters_; }

  void serve(const Session& from, Request request, std::function<void(Response)> done) override;
  void count_bad_request() override { ++counters_.bad_requests; }
  void count_timeout() override { ++counters_.timeouts; }
  void forget(const std::shared_ptr<Session>& session) override { sessions_.erase(session); }

 private:
  void admit(Protocol::socket socket);
  [[nodiscard]] Response set_levels(const LogRequest& request);

  Parts parts_;
  Options options_;
  Protocol::acceptor acceptor_;
  asio::steady_timer pause_;
  std::set<std::shared_ptr<Session>> sessions_;
  Counters counters_;
  bool stopped_ = false;
};

void Server::Impl::accept() {
  acceptor_.async_accept([self = shared_from_this()](error_code error, Protocol::socket socket) {
    if (self->stopped_) return;
    if (!error) {
      self->admit(std::move(socket));
      return self->accept();
    }
    self->parts_.log.warn("control: no client can be accepted: {}", error.message());
    self->pause_.expires_after(kAcceptPause);
    self->pause_.async_wait([self](error_code) {
      if (!self->stopped_) self->accept();
    });
  });
}

void Server::Impl::admit(Protocol::socket socket) {
  const auto peer = peer_of(socket);
  if (!peer) return;
  const std::size_t places = peer->uid == 0 ? kMaxClients : kMaxClients - kPlacesForRoot;
  if (sessions_.size() >= places) {
    ++counters_.refused;
    error_code ignored;
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(emit(Response(Error{EBUSY, "too many clients; try later"}))),
                      ignored);
    return;
  }
  ++counters_.clients;
  const auto session =
      std::make_shared<Session>(std::move(socket), *peer, *this, options_.idle_timeout);
  sessions_.insert(session);
  session->start();
}

void Server::Impl::serve(const Session& from, Request request, std::function<void(Response)> done) {
  ++counters_.requests;
  if (is_change(request)) {
    const ucred& peer = from.peer();
    if (peer.uid != 0) {
      ++counters_.denied;
      return done(Error{EPERM, "only root may change anything here"});
    }
    std::string line = emit(request);
    line.pop_back();
    parts_.log.info("control: process {} asks: {}", peer.pid, line);
  }
  if (const auto* const log = std::get_if<LogRequest>(&request)) return done(set_levels(*log));
  if (const auto* const trace = std::get_if<TraceRequest>(&request)) {
    return done(page_of(parts_.trace, *trace));
  }
  const auto& about_interface = std::get<InterfaceRequest>(request);
  if (std::holds_alternative<StatsRequest>(about_interface)) {
    // Ours come along; as they are now, since the answer may arrive on any thread.
    done = [done = std::move(done), own = as_values(counters_)](Response answer) {
      if (answer.has_value()) {
        if (auto* const all = std::get_if<std::vector<Counter>>(&*answer)) {
          all->insert(all->end(), own.begin(), own.end());
        }
      }
      done(std::move(answer));
    };
  }
  parts_.handler.handle(about_interface, std::move(done));
}

Response Server::Impl::set_levels(const LogRequest& request) {
  if (const auto set = parts_.levels.set(request.set); set.has_error()) return set.error();
  return Reply(parts_.levels.all());
}

void Server::Impl::stop() {
  stopped_ = true;
  error_code ignored;
  acceptor_.close(ignored);
  pause_.cancel(ignored);
  for (const auto& session : sessions_) session->stop();
  sessions_.clear();
}

Server::Server(boost::asio::io_context& context, Parts parts, Options options)
    : impl_(std::make_shared<Impl>(context, parts, std::move(options))) {
  impl_->accept();
}

Server::~Server() { impl_->stop(); }

const Server::Counters& Server::counters() const { return impl_->counters(); }

}  // namespace ipoib::control
