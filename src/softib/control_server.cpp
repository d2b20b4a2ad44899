#include "softib/control_server.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <optional>
#include <set>
#include <system_error>

#include "softib/control_client.hpp"
#include "softib/unix_path.hpp"

namespace softib {

namespace asio = boost::asio;
using boost::system::error_code;
using ipoib::Error;
using Protocol = asio::local::stream_protocol;

namespace {

/// How long to let be when the process has no descriptor left for a client.
constexpr std::chrono::milliseconds kAcceptPause{200};

/// "Same user or root": the folder's mode is the gate, this is the second one.
bool may_ask(Protocol::socket& socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return false;
  }
  return peer.uid == 0 || peer.uid == ::geteuid();
}

}  // namespace

class ControlServer::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::io_context& context, std::string path, ControlHandler& handler)
      : path_(std::move(path)), handler_(handler), acceptor_(context), pause_(context) {
    ::unlink(path_.c_str());
    acceptor_.open();
    const UnixPath name(path_);
    if (::bind(acceptor_.native_handle(), name.address(), UnixPath::size()) != 0 ||
        ::chmod(path_.c_str(), 0666) != 0) {
      throw std::system_error(errno, std::generic_category(), path_);
    }
    acceptor_.listen();
  }

  void accept();
  void stop();
  [[nodiscard]] std::string answer(std::string_view line);
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  class Session;
  void admit(Protocol::socket socket);

  const std::string path_;
  ControlHandler& handler_;
  Protocol::acceptor acceptor_;
  asio::steady_timer pause_;
  std::set<std::shared_ptr<Session>> sessions_;
  Counters counters_;
  bool stopped_ = false;
};

/// One client: a line in, a line out, and so on; ends when the client hangs up or stands still.
class ControlServer::Impl::Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Protocol::socket socket, Impl& server)
      : socket_(std::move(socket)), timer_(socket_.get_executor()), server_(&server) {}

  void read();
  void write(std::string answer, bool is_last);
  void close();

 private:
  void arm();

  Protocol::socket socket_;
  asio::steady_timer timer_;
  Impl* server_;  ///< null once the server is gone
  std::string line_;
  std::string answer_;
};

void ControlServer::Impl::Session::arm() {
  timer_.expires_after(kControlIdleTimeout);
  timer_.async_wait([self = shared_from_this()](error_code error) {
    if (error || self->server_ == nullptr) return;
    ++self->server_->counters_.timeouts;
    self->server_->sessions_.erase(self);
    self->close();
  });
}

void ControlServer::Impl::Session::read() {
  arm();
  asio::async_read_until(
      socket_, asio::dynamic_buffer(line_, kMaxControlRequest), '\n',
      [self = shared_from_this()](error_code error, std::size_t size) {
        if (self->server_ == nullptr) return;
        if (error == asio::error::not_found) {
          ++self->server_->counters_.bad_requests;
          return self->write(control::emit_refusal({EMSGSIZE, "the line is too long"}), true);
        }
        if (error) {
          self->server_->sessions_.erase(self);
          return self->close();
        }
        std::string answer =
            self->server_->answer(std::string_view(self->line_).substr(0, size - 1));
        self->line_.erase(0, size);
        self->write(std::move(answer), false);
      });
}

void ControlServer::Impl::Session::write(std::string answer, bool is_last) {
  arm();
  answer_ = std::move(answer);
  asio::async_write(socket_, asio::buffer(answer_),
                    [self = shared_from_this(), is_last](error_code error, std::size_t) {
                      if (self->server_ == nullptr) return;
                      if (!error && !is_last) return self->read();
                      self->server_->sessions_.erase(self);
                      self->close();
                    });
}

void ControlServer::Impl::Session::close() {
  server_ = nullptr;
  error_code ignored;
  timer_.cancel();
  socket_.close(ignored);
}

void ControlServer::Impl::accept() {
  acceptor_.async_accept([self = shared_from_this()](error_code error, Protocol::socket socket) {
    if (self->stopped_) return;
    if (!error) {
      self->admit(std::move(socket));
      return self->accept();
    }
    self->pause_.expires_after(kAcceptPause);
    self->pause_.async_wait([self](error_code) {
      if (!self->stopped_) self->accept();
    });
  });
}

void ControlServer::Impl::admit(Protocol::socket socket) {
  std::optional<Error> refusal;
  if (!may_ask(socket)) {
    ++counters_.denied;
    refusal = Error{EPERM, "only the subnet's own user and root may ask"};
  } else if (sessions_.size() >= kMaxControlClients) {
    ++counters_.turned_away;
    refusal = Error{EBUSY, "the subnet has too many control clients; try later"};
  }
  if (refusal) {
    error_code ignored;
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(control::emit_refusal(*refusal)), ignored);
    return;
  }
  const auto session = std::make_shared<Session>(std::move(socket), *this);
  sessions_.insert(session);
  session->read();
}

std::string ControlServer::Impl::answer(std::string_view line) {
  const auto request = control::parse_request(line);
  if (!request) {
    ++counters_.bad_requests;
    return control::emit_refusal(request.error());
  }
  ++counters_.requests;
  auto content = handler_.handle(*request);
  if (!content) return control::emit_refusal(content.error());
  std::string answer = control::emit_answer(std::move(*content));
  if (answer.size() <= kMaxControlAnswer) return answer;
  return control::emit_refusal({EMSGSIZE, "the answer would be too long"});
}

void ControlServer::Impl::stop() {
  stopped_ = true;
  error_code ignored;
  acceptor_.close(ignored);
  pause_.cancel();
  for (const auto& session : sessions_) session->close();
  sessions_.clear();
  ::unlink(path_.c_str());
}

ControlServer::ControlServer(asio::io_context& context, const std::string& path,
                             ControlHandler& handler)
    : impl_(std::make_shared<Impl>(context, path, handler)) {
  impl_->accept();
}

ControlServer::~ControlServer() { impl_->stop(); }

const ControlServer::Counters& ControlServer::counters() const { return impl_->counters(); }

}  // namespace softib
