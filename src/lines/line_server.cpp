// A session accepts a client, reads a line, waits for its turn, then for the response, and writes
// that. It is in exactly one of these steps at a time; a timer ends it if a step takes too long.
#include "lines/line_server.hpp"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <deque>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ipoib/peer_process.hpp"
#include "lines/client_acceptor.hpp"

namespace ipoib::lines {

namespace asio = boost::asio;
using boost::system::error_code;
using Protocol = LineServer::Protocol;

class LineServer::Impl : public std::enable_shared_from_this<Impl> {
 public:
  class Session;

  Impl(Protocol::acceptor acceptor, LineHandler& handler, const Options& options)
      : handler_(handler),
        options_(options),
        acceptor_(
            std::move(acceptor), [this](Protocol::socket socket) { admit(std::move(socket)); },
            [this](const std::string& why) { handler_.on_accept_failure(why); }),
        rate_timer_(acceptor_.executor()) {}

  void start() { acceptor_.start(); }
  void stop();
  /// The session has read a line.
  void add(const std::shared_ptr<Session>& session);
  void forget(const std::shared_ptr<Session>& session);

  [[nodiscard]] bool has_place_for_stream(uid_t user) const;

  [[nodiscard]] LineHandler& handler() { return handler_; }
  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] Counters& counters() { return counters_; }

 private:
  using Clock = asio::steady_timer::clock_type;

  void admit(Protocol::socket socket);
  [[nodiscard]] bool has_place_for(uid_t user) const;
  void serve_waiting();
  void serve_first();
  [[nodiscard]] bool is_within_rate(Clock::time_point now);

  LineHandler& handler_;
  const Options options_;
  ClientAcceptor acceptor_;
  asio::steady_timer rate_timer_;
  std::set<std::shared_ptr<Session>> sessions_;
  std::deque<std::shared_ptr<Session>> waiting_;  ///< for their turn, some of sessions_
  /// The time at which lines at exactly the limited rate would have reached the number that was
  /// served so far.
  Clock::time_point served_until_{};
  Counters counters_;
  bool stopped_ = false;
};

class LineServer::Impl::Session final : public LineStream,
                                        public std::enable_shared_from_this<Session> {
 public:
  Session(Protocol::socket socket, const ucred& peer, Impl& server)
      : socket_(std::move(socket)), peer_(peer), server_(&server), timer_(socket_.get_executor()) {}

  void read();
  /// Closes the socket; the session no longer calls the server.
  void stop();

  [[nodiscard]] const ucred& peer() const { return peer_; }
  [[nodiscard]] const std::string& line() const { return line_; }
  /// The number that a response to the current line carries.
  [[nodiscard]] std::uint64_t turn() const { return turn_; }
  void on_response(std::uint64_t turn, const Answer& answer);
  [[nodiscard]] Protocol::socket::executor_type executor() { return socket_.get_executor(); }

  [[nodiscard]] bool is_stream() const { return is_stream_; }
  void push(const std::shared_ptr<const std::string>& line) override;
  [[nodiscard]] bool is_open() const override { return server_ != nullptr; }

 private:
  void open_stream(const Answer& answer);
  void write_next();
  void report_lost();
  void await_end();
  void on_line(std::size_t size);
  void write(std::string response, bool then_end);
  /// Ends the session unless the next step begins before the timeout.
  void arm();
  void end();

  Protocol::socket socket_;
  const ucred peer_;
  Impl* server_;  ///< null after stop() and end()
  asio::steady_timer timer_;
  std::string input_;
  std::string line_;
  std::string output_;
  std::uint64_t turn_ = 0;  ///< number of the current line, to recognise late responses

  bool is_stream_ = false;
  std::deque<std::shared_ptr<const std::string>> queue_;  ///< the first one is being written
  std::size_t queued_ = 0;                                ///< bytes
  std::uint64_t lost_ = 0;                                ///< since the last line of the queue
};

void LineServer::Impl::admit(Protocol::socket socket) {
  const auto peer = peer_process(socket.native_handle());
  if (!peer) return;
  if (!has_place_for(peer->uid)) {
    ++counters_.refused;
    error_code ignored;
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(handler_.too_many_clients()), ignored);
    return;
  }
  ++counters_.clients;
  const auto session = std::make_shared<Session>(std::move(socket), *peer, *this);
  sessions_.insert(session);
  session->read();
}

bool LineServer::Impl::has_place_for(uid_t user) const {
  const auto own = std::ranges::count_if(
      sessions_, [&](const auto& session) { return session->peer().uid == user; });
  return sessions_.size() < options_.max_clients &&
         static_cast<std::size_t>(own) < options_.max_clients_per_user;
}

bool LineServer::Impl::has_place_for_stream(uid_t user) const {
  std::size_t all = 0;
  std::size_t own = 0;
  for (const auto& session : sessions_) {
    if (!session->is_stream()) continue;
    ++all;
    if (session->peer().uid == user) ++own;
  }
  return all < options_.max_streams && own < options_.max_streams_per_user;
}

void LineServer::Impl::add(const std::shared_ptr<Session>& session) {
  waiting_.push_back(session);
  serve_waiting();
  // It was delayed, unless it was served together with an equal line that waited before others.
  if (!waiting_.empty() && waiting_.back() == session) ++counters_.delayed;
}

void LineServer::Impl::forget(const std::shared_ptr<Session>& session) {
  std::erase(waiting_, session);
  sessions_.erase(session);
}

void LineServer::Impl::serve_waiting() {
  const auto now = Clock::now();
  while (!waiting_.empty()) {
    if (!is_within_rate(now)) {
      rate_timer_.expires_at(served_until_ - (options_.rate.burst - 1) * options_.rate.interval);
      rate_timer_.async_wait([self = shared_from_this()](error_code error) {
        if (!error && !self->stopped_) self->serve_waiting();
      });
      return;
    }
    serve_first();
  }
}

/// Takes one line out of the rate; returns false if the rate is used up.
bool LineServer::Impl::is_within_rate(Clock::time_point now) {
  const auto [burst, interval] = options_.rate;
  if (interval == interval.zero()) return true;
  if (served_until_ - (burst - 1) * interval > now) return false;
  served_until_ = std::max(served_until_, now) + interval;
  return true;
}

void LineServer::Impl::serve_first() {
  const auto first = waiting_.front();
  struct Asker {
    std::weak_ptr<Session> session;
    std::uint64_t turn = 0;
  };
  std::vector<Asker> askers;
  std::erase_if(waiting_, [&](const auto& session) {
    const bool is_equal = session->line() == first->line();
    if (is_equal) askers.push_back({session, session->turn()});
    return is_equal;
  });
  handler_.serve(first->line(), first->peer(),
                 [askers = std::move(askers), executor = first->executor()](Answer answer) {
                   asio::post(executor, [askers, answer = std::move(answer)] {
                     for (const auto& [weak, turn] : askers) {
                       if (const auto self = weak.lock()) self->on_response(turn, answer);
                     }
                   });
                 });
}

void LineServer::Impl::Session::read() {
  arm();
  asio::async_read_until(socket_, asio::dynamic_buffer(input_, server_->options().max_line), '\n',
                         [self = shared_from_this()](error_code error, std::size_t size) {
                           if (self->server_ == nullptr) return;
                           if (!error) return self->on_line(size);
                           if (error != asio::error::not_found) return self->end();
                           // The start of the next line is unknown.
                           ++self->server_->counters().too_long;
                           self->write(self->server_->handler().too_long(), true);
                         });
}

void LineServer::Impl::Session::on_line(std::size_t size) {
  arm();
  line_ = input_.substr(0, size - 1);
  input_.erase(0, size);
  ++turn_;
  server_->add(shared_from_this());
}

void LineServer::Impl::Session::on_response(std::uint64_t turn, const Answer& answer) {
  if (server_ == nullptr || turn != turn_) return;
  ++turn_;  // only the first response counts
  if (!answer.open) return write(answer.text, false);
  if (!server_->has_place_for_stream(peer_.uid)) {
    ++server_->counters().refused;
    return write(server_->handler().too_many_streams(), false);
  }
  open_stream(answer);
}

/// A stream may be silent, and its client may pause, so no timeout applies.
void LineServer::Impl::Session::open_stream(const Answer& answer) {
  const auto self = shared_from_this();
  is_stream_ = true;
  error_code ignored;
  timer_.cancel(ignored);
  ++server_->counters().streams;
  push(std::make_shared<const std::string>(answer.text));
  if (!input_.empty()) return end();
  await_end();
  answer.open(self);
}

void LineServer::Impl::Session::push(const std::shared_ptr<const std::string>& line) {
  if (server_ == nullptr) return;
  const bool fits = queued_ + line->size() <= server_->options().max_stream_bytes;
  // Later lines are lost, too, so that it is clear where some are missing.
  if (lost_ > 0 || (!fits && !queue_.empty())) {
    ++lost_;
    ++server_->counters().lost;
    return;
  }
  queue_.push_back(line);
  queued_ += line->size();
  if (queue_.size() == 1) write_next();
}

void LineServer::Impl::Session::write_next() {
  asio::async_write(socket_, asio::buffer(*queue_.front()),
                    [self = shared_from_this()](error_code error, std::size_t size) {
                      if (self->server_ == nullptr) return;
                      if (error) return self->end();
                      self->queued_ -= size;
                      self->queue_.pop_front();
                      if (!self->queue_.empty()) return self->write_next();
                      if (self->lost_ > 0) self->report_lost();
                    });
}

void LineServer::Impl::Session::report_lost() {
  push(std::make_shared<const std::string>(server_->handler().lost(std::exchange(lost_, 0))));
}

/// The client closes, or sends what it must not.
void LineServer::Impl::Session::await_end() {
  input_.resize(1);
  socket_.async_read_some(asio::buffer(input_),
                          [self = shared_from_this()](error_code, std::size_t) {
                            if (self->server_ != nullptr) self->end();
                          });
}

void LineServer::Impl::Session::write(std::string response, bool then_end) {
  arm();
  output_ = std::move(response);
  asio::async_write(socket_, asio::buffer(output_),
                    [self = shared_from_this(), then_end](error_code error, std::size_t /*size*/) {
                      if (self->server_ == nullptr) return;
                      if (error || then_end) return self->end();
                      self->output_.clear();
                      self->read();
                    });
}

void LineServer::Impl::Session::arm() {
  timer_.expires_after(server_->options().idle_timeout);
  timer_.async_wait([self = shared_from_this()](error_code error) {
    // The wait was cancelled, or the timer was set again just after it had expired.
    if (error || self->server_ == nullptr ||
        self->timer_.expiry() > asio::steady_timer::clock_type::now()) {
      return;
    }
    ++self->server_->counters().timeouts;
    self->end();
  });
}

void LineServer::Impl::Session::end() {
  Impl* const server = server_;
  stop();
  server->forget(shared_from_this());
}

void LineServer::Impl::Session::stop() {
  server_ = nullptr;
  error_code ignored;
  timer_.cancel(ignored);
  socket_.close(ignored);
}

void LineServer::Impl::stop() {
  stopped_ = true;
  acceptor_.stop();
  error_code ignored;
  rate_timer_.cancel(ignored);
  waiting_.clear();
  for (const auto& session : sessions_) session->stop();
  sessions_.clear();
}

LineServer::LineServer(Protocol::acceptor acceptor, LineHandler& handler, const Options& options)
    : impl_(std::make_shared<Impl>(std::move(acceptor), handler, options)) {
  impl_->start();
}

LineServer::~LineServer() { impl_->stop(); }

const LineServer::Counters& LineServer::counters() const { return impl_->counters(); }

}  // namespace ipoib::lines
