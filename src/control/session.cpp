// In the order in which things happen: a line comes, is answered, the answer is written.
#include "control/session.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <utility>

namespace ipoib::control {

namespace asio = boost::asio;
using boost::system::error_code;

Session::Session(Socket socket, const ucred& peer, Owner& owner, std::chrono::milliseconds timeout)
    : socket_(std::move(socket)),
      peer_(peer),
      owner_(&owner),
      timeout_(timeout),
      timer_(socket_.get_executor()) {}

void Session::stop() {
  owner_ = nullptr;
  error_code ignored;
  timer_.cancel(ignored);
  socket_.close(ignored);
}

void Session::end() {
  Owner* const owner = owner_;
  if (owner == nullptr) return;
  stop();
  owner->forget(shared_from_this());
}

void Session::arm() {
  timer_.expires_after(timeout_);
  timer_.async_wait([self = shared_from_this()](error_code error) {
    // Moved on: the wait was cancelled, or had fired just before that and lost the race.
    if (error || self->owner_ == nullptr ||
        self->timer_.expiry() > asio::steady_timer::clock_type::now()) {
      return;
    }
    self->owner_->count_timeout();
    self->end();
  });
}

void Session::read_line() {
  arm();
  asio::async_read_until(
      socket_, asio::dynamic_buffer(input_, kMaxRequestLine), '\n',
      [self = shared_from_this()](error_code error, std::size_t size) {
        if (self->owner_ == nullptr) return;
        if (!error) return self->on_line(size);
        if (error != asio::error::not_found) return self->end();
        // No newline in kMaxRequestLine octets: where the next request begins, nobody knows.
        self->owner_->count_bad_request();
        self->write(Error{EMSGSIZE, "a request is at most " + std::to_string(kMaxRequestLine) +
                                        " octets long"},
                    true);
      });
}

void Session::on_line(std::size_t size) {
  auto request = parse_request(std::string_view(input_).substr(0, size - 1));
  input_.erase(0, size);
  if (request.has_error()) {
    owner_->count_bad_request();
    return write(request.error(), false);
  }
  arm();
  const std::uint64_t turn = ++turn_;
  owner_->serve(
      *this, std::move(*request),
      [weak = weak_from_this(), executor = socket_.get_executor(), turn](Response answer) {
        asio::post(executor, [weak, turn, answer = std::move(answer)] {
          if (const auto self = weak.lock()) self->on_response(turn, answer);
        });
      });
}

void Session::on_response(std::uint64_t turn, const Response& response) {
  if (owner_ == nullptr || turn != turn_) return;
  ++turn_;  // only the first answer counts
  write(response, false);
}

void Session::write(const Response& response, bool then_close) {
  arm();
  output_ = emit(response);
  if (output_.size() > kMaxResponseLine) {
    output_ = emit(Response(Error{EMSGSIZE, "the answer is too long for one line"}));
  }
  asio::async_write(
      socket_, asio::buffer(output_),
      [self = shared_from_this(), then_close](error_code error, std::size_t /*size*/) {
        if (self->owner_ == nullptr) return;
        if (error || then_close) return self->end();
        self->output_.clear();
        self->read_line();
      });
}

}  // namespace ipoib::control
