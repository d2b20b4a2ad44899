#include "softib/control/server.hpp"

#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cerrno>

#include "ipoib/log.hpp"
#include "lines/line_server.hpp"
#include "softib/control/client.hpp"
#include "softib/fabric/shared_file.hpp"
#include "softib/transport/unix_socket.hpp"

namespace softib::control {

namespace asio = boost::asio;
namespace lines = ipoib::lines;
using ipoib::Error;

namespace {

lines::LineServer::Protocol::acceptor listen(asio::io_context& context, const std::string& path) {
  lines::LineServer::Protocol::acceptor acceptor(context);
  const auto slash = path.rfind('/');
  const auto folder = fabric::open_folder(path.substr(0, slash)).value();
  acceptor.open();
  transport::bind_at(acceptor.native_handle(), folder.get(), path.substr(slash + 1)).value();
  acceptor.listen();
  return acceptor;
}

}  // namespace

class ControlServer::Impl final : public lines::LineHandler {
 public:
  Impl(asio::io_context& context, std::string path, ControlHandler& handler, ipoib::Logger& log)
      : path_(std::move(path)),
        handler_(handler),
        log_(log),
        lines_(listen(context, path_), *this,
               {.max_line = kMaxControlRequest, .idle_timeout = kControlIdleTimeout}) {}
  ~Impl() override { ::unlink(path_.c_str()); }

  [[nodiscard]] std::string refusal(const ucred& peer, std::size_t clients) override;
  void serve(std::string_view line, const ucred& peer, Done done) override;
  [[nodiscard]] std::string too_long() override {
    return control::emit_refusal({EMSGSIZE, "the line is too long"});
  }
  void on_accept_failure(const std::string& why) override {
    log_.warn("no control client can be accepted: {}", why);
  }

 private:
  [[nodiscard]] ipoib::Result<boost::json::object> answer(std::string_view line);
  [[nodiscard]] boost::json::object counters() const;

  const std::string path_;
  ControlHandler& handler_;
  ipoib::Logger& log_;
  std::uint64_t requests_ = 0;      ///< understood
  std::uint64_t bad_requests_ = 0;  ///< not understood
  lines::LineServer lines_;
};

/// "Same user or root": the folder's mode is the gate, this is the second one.
std::string ControlServer::Impl::refusal(const ucred& peer, std::size_t clients) {
  if (peer.uid != 0 && peer.uid != ::geteuid()) {
    return control::emit_refusal({EPERM, "only the subnet's own user and root may ask"});
  }
  if (clients < kMaxControlClients) return {};
  return control::emit_refusal({EBUSY, "the subnet has too many control clients; try later"});
}

void ControlServer::Impl::serve(std::string_view line, const ucred& /*peer*/, Done done) {
  auto content = answer(line);
  std::string text =
      content ? control::emit_answer(std::move(*content)) : control::emit_refusal(content.error());
  if (text.size() > kMaxControlAnswer) {
    text = control::emit_refusal({EMSGSIZE, "the answer would be too long"});
  }
  done(std::move(text));
}

ipoib::Result<boost::json::object> ControlServer::Impl::answer(std::string_view line) {
  const auto request = control::parse_request(line);
  ++(request ? requests_ : bad_requests_);
  if (!request) return request.error();
  auto content = handler_.handle(*request);
  if (content && std::holds_alternative<control::Show>(*request)) {
    (*content)["control"] = counters();
  }
  return content;
}

boost::json::object ControlServer::Impl::counters() const {
  const auto& counted = lines_.counters();
  return {{"clients", counted.clients},
          {"clients_refused", counted.refused},
          {"requests", requests_},
          {"bad_requests", bad_requests_ + counted.too_long},
          {"timeouts", counted.timeouts}};
}

ControlServer::ControlServer(asio::io_context& context, const std::string& path,
                             ControlHandler& handler, ipoib::Logger& log)
    : impl_(std::make_unique<Impl>(context, path, handler, log)) {}

ControlServer::~ControlServer() = default;

}  // namespace softib::control
