#include "softib/control/server.hpp"

#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cerrno>

#include "ipoib/log.hpp"
#include "ipoib/refuse_descriptors.hpp"
#include "lines/line_server.hpp"
#include "softib/control/client.hpp"
#include "softib/fabric/shared_file.hpp"
#include "softib/transport/unix_socket.hpp"

namespace softib::control {

namespace asio = boost::asio;
namespace lines = ipoib::lines;

namespace {

lines::LineServer::Protocol::acceptor listen(asio::io_context& context, const std::string& path) {
  lines::LineServer::Protocol::acceptor acceptor(context);
  const auto slash = path.rfind('/');
  const auto folder = fabric::open_folder(path.substr(0, slash)).value();
  acceptor.open();
  ipoib::refuse_descriptors(acceptor.native_handle());
  transport::bind_at(acceptor.native_handle(), folder.get(), path.substr(slash + 1)).value();
  acceptor.listen();
  return acceptor;
}

}  // namespace

class Server::Impl final : public lines::LineHandler {
 public:
  Impl(asio::io_context& context, std::string path, RequestHandler& handler, ipoib::Logger& log)
      : path_(std::move(path)),
        handler_(handler),
        log_(log),
        lines_(listen(context, path_), *this,
               {.max_line = kMaxRequestSize,
                .idle_timeout = kIdleTimeout,
                .max_clients = kMaxClients,
                .max_clients_per_user = kMaxClientsPerUser}) {}
  ~Impl() override { ::unlink(path_.c_str()); }

  void serve(std::string_view line, const ucred& peer, Done done) override;
  [[nodiscard]] std::string too_long() override {
    return emit_error({EMSGSIZE, "the line is too long"});
  }
  [[nodiscard]] std::string too_many_clients() override {
    return emit_error({EBUSY, "the subnet has too many control clients; try later"});
  }
  void on_accept_failure(const std::string& why) override {
    log_.warn("cannot accept a client of the control socket: {}", why);
  }

 private:
  [[nodiscard]] std::string respond(std::string_view line);
  [[nodiscard]] std::string respond_to_attach(std::string_view hca);
  [[nodiscard]] boost::json::object counters() const;

  const std::string path_;
  RequestHandler& handler_;
  ipoib::Logger& log_;
  std::uint64_t requests_ = 0;      ///< valid ones
  std::uint64_t bad_requests_ = 0;  ///< malformed ones
  lines::LineServer lines_;
};

void Server::Impl::serve(std::string_view line, const ucred& /*peer*/, Done done) {
  std::string response = line.starts_with(kAttachCommand)
                             ? respond_to_attach(line.substr(kAttachCommand.size()))
                             : respond(line);
  if (response.size() > kMaxResponseSize) {
    response = emit_error({EMSGSIZE, "the response would be too long"});
  }
  done(std::move(response));
}

std::string Server::Impl::respond_to_attach(std::string_view hca) {
  const auto name = fabric::HcaName::parse(hca);
  ++(name ? requests_ : bad_requests_);
  if (!name) return emit_error(name.error());
  const auto node = handler_.attach(*name);
  if (!node) return emit_error(node.error());
  return std::string(kNodeResponse) + std::to_string(*node) + '\n';
}

std::string Server::Impl::respond(std::string_view line) {
  const auto request = parse_request(line);
  ++(request ? requests_ : bad_requests_);
  if (!request) return emit_error(request.error());
  auto content = handler_.handle(*request);
  if (!content) return emit_error(content.error());
  if (std::holds_alternative<Show>(*request)) (*content)["control"] = counters();
  return emit_response(*content);
}

boost::json::object Server::Impl::counters() const {
  const auto& counted = lines_.counters();
  return {{"clients", counted.clients},
          {"clients_refused", counted.refused},
          {"requests", requests_},
          {"bad_requests", bad_requests_ + counted.too_long},
          {"timeouts", counted.timeouts}};
}

Server::Server(asio::io_context& context, const std::string& path, RequestHandler& handler,
               ipoib::Logger& log)
    : impl_(std::make_unique<Impl>(context, path, handler, log)) {}

Server::~Server() = default;

}  // namespace softib::control
