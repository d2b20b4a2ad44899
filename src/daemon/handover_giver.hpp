// The old daemon's part of a handover (handover.hpp), on its control thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/interfaces/handover_socket.hpp"
#include "daemon/interfaces/interfaces.hpp"
#include "daemon/process/timer.hpp"
#include "daemon/process/watch.hpp"

namespace ipoib::daemon::handover {

class Giver {
 public:
  /// All of these outlive it.
  struct Dependencies {
    boost::asio::io_context& context;
    Interfaces& interfaces;
    const OperatorChanges& changes;
    std::function<Hello()> own;    ///< what this daemon serves, in the form of its peer's wishes
    std::function<void()> on_end;  ///< the interfaces are about to end: they were handed over
    Logger& log;
  };
  explicit Giver(Dependencies dependencies);

  /// A process has connected; one at a time can take over.
  void on_connection(FileDescriptor socket);
  /// See InterfaceOwner::on_mode().
  void on_mode(InterfaceNumber interface, PumpMode mode);
  /// The daemon is about to end. Returns whether it was handed over, so that the interfaces end
  /// without any further step; otherwise the handover is over.
  [[nodiscard]] bool end(const std::string& why);

 private:
  enum class State : std::uint8_t { idle, greeting, sending, offered, retiring, lingering, ended };
  struct Outgoing {
    std::vector<std::uint8_t> bytes;
    FileDescriptor descriptor;
  };
  struct Peer {
    Peer(boost::asio::io_context& context, FileDescriptor socket, std::function<void()> readable)
        : connection(std::move(socket)),
          watch(context, connection.descriptor(), std::move(readable)) {}
    Connection connection;
    Watch watch;
  };

  void on_readable();
  [[nodiscard]] bool take(Received&& received);
  void on_hello(const Hello& hello);
  [[nodiscard]] std::optional<Refusal> obstacle(const Hello& hello, const Hello& own) const;
  void send_next();
  void on_page(InterfaceNumber interface, const SavedCache& page, bool is_first);
  void on_ready(const Ready& ready);
  void on_timeout();
  void finish();
  void refuse(Refusal refusal);
  void give_up(const std::string& why);
  void close();
  void queue(const Message& message, int descriptor = -1);
  void flush();

  const Dependencies dependencies_;
  Timer timeout_;
  Timer resend_;
  State state_ = State::idle;
  std::unique_ptr<Peer> peer_;
  std::string peer_version_;
  std::uint16_t version_ = kVersion;  ///< of the messages, which both speak
  std::deque<Outgoing> outgoing_;
  std::deque<InterfaceNumber> unsent_;              ///< the first one is being sent
  std::optional<link::NeighbourCursor> next_page_;  ///< of the first one
  std::set<InterfaceNumber> taken_;
  std::set<InterfaceNumber> waiting_;  ///< to be retired
  /// Tells pending calls whether the handover is still the same.
  std::shared_ptr<bool> current_;
};

}  // namespace ipoib::daemon::handover
