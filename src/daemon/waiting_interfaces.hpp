// Responds on the control sockets of interfaces while the daemon waits for its RDMA device, so that
// `ibarp` can say what is missing. An interface then has neither neighbours nor groups.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "control/server.hpp"
#include "daemon/acm/server.hpp"
#include "daemon/interfaces/partition_interface.hpp"
#include "daemon/options/logging.hpp"
#include "ipoib/trace.hpp"
#include "linux/network_namespace.hpp"

namespace ipoib::daemon {

class WaitingInterfaces {
 public:
  struct Settings {
    std::vector<KeptInterface> interfaces;
    std::string device;  ///< empty: any RDMA device
    std::uint8_t port = 0;
    std::string reason;  ///< why the daemon waits, as text
    control::SocketAccess access{};
    acm::Socket* acm = nullptr;  ///< whose clients are refused; outlives this
  };

  /// Responds on a thread of its own until the destructor. Leaves out an interface whose control
  /// socket another daemon has. `home` and `logs` outlive this.
  WaitingInterfaces(const Settings& settings, const linux::NetworkNamespace& home, Logging& logs);
  WaitingInterfaces(const WaitingInterfaces&) = delete;
  WaitingInterfaces& operator=(const WaitingInterfaces&) = delete;
  ~WaitingInterfaces();

 private:
  class Waiting;

  TraceRings no_rings_;
  boost::asio::io_context context_;
  std::vector<std::unique_ptr<Waiting>> interfaces_;
  std::vector<std::unique_ptr<control::Server>> servers_;
  std::optional<acm::Server> acm_;
  std::thread thread_;
};

}  // namespace ipoib::daemon
