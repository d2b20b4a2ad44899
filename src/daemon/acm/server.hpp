// Answers the clients of a Socket: messages of wire/acm.hpp, one at a time for each client.
//
// Runs on one io_context, that of the control thread. A client may stay connected as long as it
// wants, as programs of librdmacm do, and costs a descriptor and the memory of one message.
// Requests beyond the rate of their user, or of all, wait; the client's next ones wait in its
// socket.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <variant>

#include "daemon/acm/socket.hpp"
#include "ipoib/log_fwd.hpp"
#include "wire/acm.hpp"

namespace ipoib::daemon::acm {

/// The most clients at a time; a program has one connection. One user can have half of them: as
/// many as a job has processes on a host, and others still find room.
inline constexpr std::size_t kMaxClients = 1024;
inline constexpr std::size_t kMaxClientsPerUser = 512;
/// Requests per second. A quarter of that may come at once.
inline constexpr std::uint32_t kRate = 8000;
inline constexpr std::uint32_t kRatePerUser = 4000;
/// After this time a request that the handler has not answered is refused: its interface has gone.
inline constexpr std::chrono::milliseconds kAnswerTimeout{5000};

class Server {
 public:
  using Answer = std::variant<wire::acm::Found, wire::acm::Status>;
  using Done = std::function<void(Answer)>;
  /// Finds a path and calls `done`, now or later, on the thread of the io_context.
  using Handler = std::function<void(const wire::acm::Wanted&, Done done)>;
  struct Limits {
    std::size_t clients = kMaxClients;
    std::size_t clients_per_user = kMaxClientsPerUser;
    std::uint32_t rate = kRate;
    std::uint32_t rate_per_user = kRatePerUser;
    std::chrono::milliseconds answer_timeout = kAnswerTimeout;
  };

  /// Takes over the clients of the socket. `socket` and `log` outlive the server.
  Server(boost::asio::io_context& context, Socket& socket, Handler handler, Logger& log,
         const Limits& limits);
  Server(boost::asio::io_context& context, Socket& socket, Handler handler, Logger& log)
      : Server(context, socket, std::move(handler), log, Limits{}) {}
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  /// Refuses the requests that are under way, and gives the clients back to the socket.
  ~Server();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ipoib::daemon::acm
