// A session reads a message, waits for its turn, then for the answer, and writes that. It is in
// exactly one of these steps at a time.
#include "daemon/acm/server.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "ipoib/log.hpp"
#include "ipoib/monotonic_clock.hpp"
#include "ipoib/overloaded.hpp"
#include "ipoib/peer_process.hpp"
#include "ipoib/token_bucket.hpp"
#include "lines/client_acceptor.hpp"

namespace ipoib::daemon::acm {

namespace asio = boost::asio;
using boost::system::error_code;
using Protocol = asio::local::stream_protocol;
using wire::acm::Status;

class Server::Impl {
 public:
  class Session;

  Impl(asio::io_context& context, Socket& socket, Handler handler, Logger& log,
       const Limits& limits)
      : socket_(socket),
        handler_(std::move(handler)),
        log_(log),
        limits_(limits),
        acceptor_(
            Protocol::acceptor(context, Protocol(), ::dup(socket.listener().get())),
            [this](Protocol::socket client) { admit(std::move(client)); },
            [this](const std::string& why) {
              log_.warn("cannot accept a client of librdmacm: {}; trying again", why);
            }),
        all_(limits.rate) {}

  void start(asio::io_context& context);
  void stop();

  /// Returns when a request of the user may be served.
  [[nodiscard]] TimePoint next_turn(uid_t user);
  void find(const wire::acm::Wanted& wanted, Done done) { handler_(wanted, std::move(done)); }
  void forget(const std::shared_ptr<Session>& session);
  [[nodiscard]] Counters& counters() { return socket_.counters; }
  [[nodiscard]] const Limits& limits() const { return limits_; }

 private:
  struct User {
    explicit User(std::uint32_t rate) : bucket(rate) {}
    std::size_t clients = 0;
    TokenBucket bucket;
  };

  void admit(Protocol::socket socket);
  void add(Protocol::socket socket, uid_t user);

  Socket& socket_;
  const Handler handler_;
  Logger& log_;
  const Limits limits_;
  lines::ClientAcceptor acceptor_;
  TokenBucket all_;
  /// Users with clients, and users whose token bucket is not full yet.
  std::map<uid_t, User> users_;
  std::set<std::shared_ptr<Session>> sessions_;
};

class Server::Impl::Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Protocol::socket socket, uid_t user, Impl& server)
      : user_(user), socket_(std::move(socket)), server_(&server), timer_(socket_.get_executor()) {}

  void read();
  /// The session no longer calls the server. Returns its client, if it may go on.
  [[nodiscard]] std::optional<Client> stop();

  const uid_t user_;

 private:
  [[nodiscard]] wire::acm::Header header() const {
    return wire::acm::Header(input_.data(), wire::acm::kHeaderSize);
  }
  void read_rest();
  void on_message(std::size_t size);
  void serve(const wire::acm::Wanted& wanted);
  void on_answer(std::uint64_t turn, const Answer& answer);
  void write(std::vector<std::uint8_t> response);
  void end();

  Protocol::socket socket_;
  Impl* server_;  ///< null after stop() and end()
  asio::steady_timer timer_;
  std::array<std::uint8_t, wire::acm::kMaxMessage> input_{};
  std::vector<std::uint8_t> output_;
  std::uint64_t turn_ = 0;   ///< number of the current message, to recognise late answers
  bool is_serving_ = false;  ///< it has a message that is not answered
  bool is_between_ = true;   ///< it has neither read nor written part of a message
};

// --- Clients -------------------------------------------------------------------------------------

void Server::Impl::start(asio::io_context& context) {
  for (auto& client : std::exchange(socket_.clients, {})) {
    add(Protocol::socket(context, Protocol(), client.socket.release()), client.user);
  }
  acceptor_.start();
}

void Server::Impl::admit(Protocol::socket socket) {
  const auto peer = peer_process(socket.native_handle());
  if (!peer) return;
  const auto now = monotonic_now();
  std::erase_if(users_, [now](const auto& each) {
    return each.second.clients == 0 && each.second.bucket.is_full(now);
  });
  const auto known = users_.find(peer->uid);
  if (sessions_.size() >= limits_.clients ||
      (known != users_.end() && known->second.clients >= limits_.clients_per_user)) {
    ++counters().refused;
    return;
  }
  ++counters().clients;
  add(std::move(socket), peer->uid);
}

void Server::Impl::add(Protocol::socket socket, uid_t user) {
  ++users_.try_emplace(user, limits_.rate_per_user).first->second.clients;
  const auto session = std::make_shared<Session>(std::move(socket), user, *this);
  sessions_.insert(session);
  session->read();
}

void Server::Impl::forget(const std::shared_ptr<Session>& session) {
  --users_.at(session->user_).clients;
  sessions_.erase(session);
}

TimePoint Server::Impl::next_turn(uid_t user) {
  const auto now = monotonic_now();
  const auto moment = std::max(users_.at(user).bucket.reserve(now), all_.reserve(now));
  if (moment > now) ++counters().delayed;
  return moment;
}

void Server::Impl::stop() {
  acceptor_.stop();
  for (const auto& session : sessions_) {
    if (auto client = session->stop()) socket_.clients.push_back(std::move(*client));
  }
  sessions_.clear();
}

// --- One client ----------------------------------------------------------------------------------

void Server::Impl::Session::read() {
  is_between_ = true;
  socket_.async_wait(Protocol::socket::wait_read, [self = shared_from_this()](error_code error) {
    if (self->server_ == nullptr) return;
    if (error) return self->end();
    self->is_between_ = false;
    asio::async_read(self->socket_, asio::buffer(self->input_, wire::acm::kHeaderSize),
                     [self](error_code failed, std::size_t) {
                       if (self->server_ == nullptr) return;
                       if (failed) return self->end();
                       self->read_rest();
                     });
  });
}

void Server::Impl::Session::read_rest() {
  const auto size = wire::acm::message_size(header());
  if (!size) {
    ++server_->counters().bad_requests;
    return end();
  }
  asio::async_read(
      socket_, asio::buffer(input_.data() + wire::acm::kHeaderSize, *size - wire::acm::kHeaderSize),
      [self = shared_from_this(), size = *size](error_code error, std::size_t) {
        if (self->server_ == nullptr) return;
        if (error) return self->end();
        self->on_message(size);
      });
}

void Server::Impl::Session::on_message(std::size_t size) {
  is_serving_ = true;
  ++turn_;
  const auto parsed = wire::acm::parse(ConstBytes(input_).first(size));
  if (const auto* const why = std::get_if<Status>(&parsed)) {
    ++server_->counters().bad_requests;
    return write(wire::acm::refusal(header(), *why));
  }
  ++server_->counters().requests;
  const auto wanted = std::get<wire::acm::Wanted>(parsed);
  const auto moment = server_->next_turn(user_);
  if (moment <= monotonic_now()) return serve(wanted);
  timer_.expires_at(asio::steady_timer::time_point(moment.time_since_epoch()));
  timer_.async_wait([self = shared_from_this(), wanted](error_code error) {
    if (!error && self->server_ != nullptr) self->serve(wanted);
  });
}

void Server::Impl::Session::serve(const wire::acm::Wanted& wanted) {
  timer_.expires_after(server_->limits().answer_timeout);
  timer_.async_wait([self = shared_from_this(), turn = turn_](error_code error) {
    if (!error) self->on_answer(turn, Status::timed_out);
  });
  server_->find(wanted, [weak = weak_from_this(), turn = turn_](const Answer& answer) {
    if (const auto self = weak.lock()) self->on_answer(turn, answer);
  });
}

void Server::Impl::Session::on_answer(std::uint64_t turn, const Answer& answer) {
  if (server_ == nullptr || turn != turn_ || !is_serving_) return;
  write(std::visit(
      Overloaded{[&](const wire::acm::Found& found) { return wire::acm::answer(header(), found); },
                 [&](Status why) {
                   ++server_->counters().failed;
                   return wire::acm::refusal(header(), why);
                 }},
      answer));
}

void Server::Impl::Session::write(std::vector<std::uint8_t> response) {
  is_serving_ = false;
  error_code ignored;
  timer_.cancel(ignored);
  output_ = std::move(response);
  asio::async_write(socket_, asio::buffer(output_),
                    [self = shared_from_this()](error_code error, std::size_t) {
                      if (self->server_ == nullptr) return;
                      if (error) return self->end();
                      self->read();
                    });
}

/// The response fits: the client has read the one before, or it loses its connection.
std::optional<Client> Server::Impl::Session::stop() {
  server_ = nullptr;
  error_code ignored;
  timer_.cancel(ignored);
  if (is_serving_) {
    const auto response = wire::acm::refusal(header(), Status::no_data);
    socket_.non_blocking(true, ignored);
    is_between_ = socket_.write_some(asio::buffer(response), ignored) == response.size();
  }
  Client client{FileDescriptor(socket_.release(ignored)), user_};
  return is_between_ ? std::optional(std::move(client)) : std::nullopt;
}

void Server::Impl::Session::end() {
  const auto self = shared_from_this();
  error_code ignored;
  socket_.close(ignored);
  timer_.cancel(ignored);
  if (auto* const server = std::exchange(server_, nullptr)) server->forget(self);
}

Server::Server(asio::io_context& context, Socket& socket, Handler handler, Logger& log,
               const Limits& limits)
    : impl_(std::make_shared<Impl>(context, socket, std::move(handler), log, limits)) {
  impl_->start(context);
}

Server::~Server() { impl_->stop(); }

}  // namespace ipoib::daemon::acm
