// Serves the control protocol on the sockets of an interface's folder (socket_folder.hpp).
//
// Runs on one io_context, that of the control thread. lines/line_server.hpp describes the limits
// for each client. Clients that may only read have a socket of their own, so they cannot lock out
// the others, and their requests are served at a limited rate: each takes time of the interface's
// thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "control/protocol.hpp"
#include "control/socket_folder.hpp"
#include "ipoib/log_fwd.hpp"
#include "lines/line_server.hpp"

namespace boost::asio {
class io_context;
}
namespace ipoib {
class TraceRings;
}

namespace ipoib::control {

class LogLevels;

/// The number of clients of a socket at a time.
inline constexpr std::size_t kMaxClients = 32;
/// The numbers of clients of one user on the control socket, and on the socket for reading.
inline constexpr std::size_t kMaxClientsPerUser = 24;
inline constexpr std::size_t kMaxReadersPerUser = 8;
/// The numbers of subscribers of a socket, so that there is room for requests, and of one user.
inline constexpr std::size_t kMaxSubscribers = 16;
inline constexpr std::size_t kMaxSubscribersPerUser = 12;
inline constexpr std::size_t kMaxReadingSubscribersPerUser = 4;
/// Bytes of events that wait for one subscriber: about 600 neighbours.
inline constexpr std::size_t kMaxEventBytes = 256U << 10;
inline constexpr std::chrono::seconds kIdleTimeout{60};
/// The rate of requests of all clients that may only read: as many as the pages of 32,768 entries
/// at once, then 200 per second.
inline constexpr lines::LineServer::Rate kReadRate{256, std::chrono::milliseconds(5)};

/// The interface as the server sees it; implemented by the daemon.
class Handler {
 public:
  virtual ~Handler() = default;

  /// Carries out one request and calls `done` once with the response, now or later, from any
  /// thread. `done` does nothing once the server is destroyed, but needs the io_context.
  virtual void handle(InterfaceRequest request, std::function<void(Response)> done) = 0;
  /// Finds the members of a group, and calls `done` as handle() does.
  virtual void find_members(const Gid& mgid, std::function<void(Response)> done) = 0;
  /// Adds an interface of the same daemon, and calls `done` as handle() does.
  virtual void add_interface(const AddInterfaceRequest& request,
                             std::function<void(Response)> done) = 0;
  /// Deletes the interface itself, and calls `done` as handle() does. The server may be destroyed
  /// by a later handler of the io_context: by then the response is written.
  virtual void delete_interface(std::function<void(Response)> done) = 0;
};

class Server {
 public:
  struct Dependencies {
    Handler& handler;
    LogLevels& levels;
    const TraceRings& trace;
    Logger& log;
    /// Begins a capture, and sends the response. If empty, there is no socket for that.
    std::function<void(const CaptureRequest&, FileDescriptor)> on_capture = {};
    /// Gets the connection of each daemon that wants to take over. If empty, there is no socket for
    /// that.
    std::function<void(FileDescriptor)> on_handover = {};
  };
  /// What to do if another daemon has the interface's folder.
  enum class IfTaken : std::uint8_t { fail, retry };
  struct Options {
    std::string interface;
    SocketAccess access{};
    IfTaken if_taken = IfTaken::fail;
    /// The namespace of the interface; by default that of the thread that makes the options.
    Result<std::uint64_t> network_namespace = own_network_namespace();
    std::chrono::milliseconds idle_timeout = kIdleTimeout;
    lines::LineServer::Rate read_rate = kReadRate;
  };

  /// Opens the sockets. If that fails, logs why and tries again, with growing pauses; but not if
  /// the network namespace is unknown, since clients would not find them. Throws std::system_error
  /// if another daemon serves the interface and options.if_taken says so. `dependencies` must
  /// outlive the server.
  Server(boost::asio::io_context& context, const Dependencies& dependencies, Options options);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  /// Closes the sockets and all connections.
  ~Server();

  /// Sends an event to those who have subscribed to it. On the thread of the io_context.
  void publish(const Event& event);

  struct Counters {
    std::uint64_t clients = 0;       ///< accepted
    std::uint64_t refused = 0;       ///< beyond the limits on clients
    std::uint64_t requests = 0;      ///< valid
    std::uint64_t bad_requests = 0;  ///< invalid
    std::uint64_t denied = 0;        ///< of clients that may only read
    std::uint64_t delayed = 0;       ///< beyond the rate of clients that may only read
    std::uint64_t timeouts = 0;      ///< connections closed for lack of progress
    std::uint64_t subscriptions = 0;
    std::uint64_t events_lost = 0;  ///< by clients that read slowly
  };
  [[nodiscard]] Counters counters() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ipoib::control
