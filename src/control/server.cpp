// Accepts clients and responds to requests: log and trace here, the others through the handler.
#include "control/server.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <cerrno>
#include <system_error>
#include <utility>

#include "control/log_levels.hpp"
#include "control/trace_page.hpp"
#include "ipoib/log.hpp"
#include "ipoib/trace.hpp"
#include "lines/line_server.hpp"

namespace ipoib::control {

namespace asio = boost::asio;
using Protocol = asio::local::stream_protocol;

namespace {

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

std::vector<Counter> as_values(const Server::Counters& counters) {
  return {
      {"control_clients", counters.clients},       {"control_clients_refused", counters.refused},
      {"control_requests", counters.requests},     {"control_bad_requests", counters.bad_requests},
      {"control_changes_denied", counters.denied}, {"control_timeouts", counters.timeouts}};
}

}  // namespace

class Server::Impl : public lines::LineHandler {
 public:
  Impl(asio::io_context& context, Dependencies dependencies, const Options& options)
      : dependencies_(dependencies),
        lines_(listen(context, options.interface), *this,
               {.max_line = kMaxRequestLine, .idle_timeout = options.idle_timeout}) {}

  [[nodiscard]] std::string refusal(const ucred& peer, std::size_t clients) override;
  void serve(std::string_view line, const ucred& peer, Done done) override;
  [[nodiscard]] std::string too_long() override;
  void on_accept_failure(const std::string& why) override {
    dependencies_.log.warn("cannot accept a client: {}", why);
  }
  [[nodiscard]] Counters counters() const;

 private:
  void handle(const Request& request, const ucred& peer, std::function<void(Response)> done);
  [[nodiscard]] Response set_levels(const LogRequest& request);

  Dependencies dependencies_;
  std::uint64_t requests_ = 0;
  std::uint64_t bad_requests_ = 0;
  std::uint64_t denied_ = 0;
  lines::LineServer lines_;
};

std::string Server::Impl::refusal(const ucred& peer, std::size_t clients) {
  const std::size_t limit = peer.uid == 0 ? kMaxClients : kMaxClients - kReservedForRoot;
  return clients < limit ? "" : emit(Response(Error{EBUSY, "too many clients; try later"}));
}

std::string Server::Impl::too_long() {
  return emit(Response(
      Error{EMSGSIZE, "a request is at most " + std::to_string(kMaxRequestLine) + " bytes long"}));
}

void Server::Impl::serve(std::string_view line, const ucred& peer, Done done) {
  const auto request = parse_request(line);
  if (request.has_error()) {
    ++bad_requests_;
    return done(emit(Response(request.error())));
  }
  handle(*request, peer, [done = std::move(done)](const Response& response) {
    std::string text = emit(response);
    if (text.size() > kMaxResponseLine) {
      text = emit(Response(Error{EMSGSIZE, "the response is too long for one line"}));
    }
    done(std::move(text));
  });
}

void Server::Impl::handle(const Request& request, const ucred& peer,
                          std::function<void(Response)> done) {
  ++requests_;
  if (requires_root(request) && peer.uid != 0) {
    ++denied_;
    return done(Error{EPERM, is_change(request) ? "only root may change anything here"
                                                : "only root may list the members of a group"});
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
  if (std::holds_alternative<DeleteInterfaceRequest>(request)) {
    return dependencies_.handler.delete_interface(std::move(done));
  }
  const auto& about_interface = std::get<InterfaceRequest>(request);
  if (std::holds_alternative<StatsRequest>(about_interface)) {
    // Add the server's own counters as they are now, since the response may come on any thread.
    done = [done = std::move(done), own = as_values(counters())](Response response) {
      if (response.has_value()) {
        if (auto* const all = std::get_if<std::vector<Counter>>(&*response)) {
          all->insert(all->end(), own.begin(), own.end());
        }
      }
      done(std::move(response));
    };
  }
  dependencies_.handler.handle(about_interface, std::move(done));
}

Response Server::Impl::set_levels(const LogRequest& request) {
  if (const auto set = dependencies_.levels.set(request.set); set.has_error()) return set.error();
  return Reply(dependencies_.levels.all());
}

Server::Counters Server::Impl::counters() const {
  const auto& counted = lines_.counters();
  return {.clients = counted.clients,
          .refused = counted.refused,
          .requests = requests_,
          .bad_requests = bad_requests_ + counted.too_long,
          .denied = denied_,
          .timeouts = counted.timeouts};
}

Server::Server(boost::asio::io_context& context, Dependencies dependencies, const Options& options)
    : impl_(std::make_unique<Impl>(context, dependencies, options)) {}

Server::~Server() = default;

Server::Counters Server::counters() const { return impl_->counters(); }

}  // namespace ipoib::control
