#include "softib/cli/view_server.hpp"

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <cstdio>
#include <random>
#include <utility>

#include "softib/cli/view_site.hpp"

namespace softib::cli {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::size_t kTokenWords = 4;  ///< of 32 bits

std::string random_token() {
  std::random_device random;
  std::string token;
  for (std::size_t i = 0; i < kTokenWords; ++i) {
    std::array<char, 12> text{};
    (void)std::snprintf(text.data(), text.size(), "%08x", random());
    token += text.data();
  }
  return token;
}

/// How long accepting waits when the system has no descriptor left.
constexpr std::chrono::milliseconds kAcceptPause{200};

}  // namespace

class ViewServer::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(tcp::acceptor acceptor, ViewData& data)
      : acceptor_(std::move(acceptor)),
        pause_(acceptor_.get_executor()),
        site_(data, random_token(), acceptor_.local_endpoint().port()) {}

  void accept();
  void stop() {
    is_stopped_ = true;
    error_code ignored;
    acceptor_.close(ignored);
    pause_.cancel();
  }
  [[nodiscard]] std::string url() const { return site_.url(); }

 private:
  class Connection;

  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  ViewSite site_;
  std::size_t connections_ = 0;
  bool is_stopped_ = false;
};

/// A connection with one request.
class ViewServer::Impl::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, std::shared_ptr<Impl> server)
      : stream_(std::move(socket)), server_(std::move(server)) {
    ++server_->connections_;
    parser_.header_limit(kMaxViewHeader);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() { --server_->connections_; }

  void serve() {
    stream_.expires_after(kViewTimeout);
    http::async_read_header(stream_, buffer_, parser_,
                            [self = shared_from_this()](error_code error, std::size_t) {
                              if (!error && !self->server_->is_stopped_) self->answer();
                            });
  }

 private:
  void answer() {
    const auto& request = parser_.get();
    const std::string method(request.method_string());
    const std::string target(request.target());
    const auto hosts = request.count(http::field::host);
    const std::string host(hosts == 1 ? request[http::field::host] : "");
    auto answer = server_->site_.answer({method, target, host});
    answer_.version(11);
    answer_.result(answer.status);
    answer_.keep_alive(false);
    answer_.set(http::field::content_type, answer.type);
    answer_.set("Content-Security-Policy", kContentSecurityPolicy);
    answer_.set("X-Content-Type-Options", "nosniff");
    answer_.set("Referrer-Policy", "no-referrer");
    answer_.set("Cross-Origin-Resource-Policy", "same-origin");
    answer_.set(http::field::cache_control, "no-store");
    if (answer.status == 405) answer_.set(http::field::allow, "GET, HEAD");
    const auto size = answer.body.size();
    if (method != "HEAD") answer_.body() = std::move(answer.body);
    answer_.content_length(size);
    stream_.expires_after(kViewTimeout);
    http::async_write(stream_, answer_, [self = shared_from_this()](error_code, std::size_t) {
      error_code ignored;
      self->stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
    });
  }

  beast::tcp_stream stream_;
  const std::shared_ptr<Impl> server_;
  beast::flat_buffer buffer_{kMaxViewHeader};
  http::request_parser<http::empty_body> parser_;
  http::response<http::string_body> answer_;
};

void ViewServer::Impl::accept() {
  acceptor_.async_accept([self = shared_from_this()](error_code error, tcp::socket socket) {
    if (self->is_stopped_) return;
    if (error) {
      self->pause_.expires_after(kAcceptPause);
      self->pause_.async_wait([self](error_code) {
        if (!self->is_stopped_) self->accept();
      });
      return;
    }
    if (self->connections_ < kMaxViewConnections) {
      std::make_shared<Connection>(std::move(socket), self)->serve();
    }
    self->accept();
  });
}

ipoib::Result<std::unique_ptr<ViewServer>> ViewServer::listen(asio::io_context& context,
                                                              std::uint16_t port, ViewData& data) {
  tcp::acceptor acceptor(context);
  const tcp::endpoint where(asio::ip::address_v4::loopback(), port);
  error_code error;
  acceptor.open(where.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(where, error);
  if (!error) acceptor.listen(tcp::acceptor::max_listen_connections, error);
  if (error) {
    return ipoib::Error{error.value(), "cannot listen on 127.0.0.1:" + std::to_string(port) + ": " +
                                           error.message() + "; choose another port"};
  }
  auto impl = std::make_shared<Impl>(std::move(acceptor), data);
  impl->accept();
  return std::unique_ptr<ViewServer>(new ViewServer(std::move(impl)));
}

ViewServer::~ViewServer() { impl_->stop(); }

std::string ViewServer::url() const { return impl_->url(); }

}  // namespace softib::cli
