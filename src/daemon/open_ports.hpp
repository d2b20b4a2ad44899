// The ports of the daemon with their devices, which may fail and come back.
#pragma once

#include <memory>
#include <optional>

#include "daemon/interfaces/port_queue.hpp"
#include "daemon/port/port_watcher.hpp"
#include "daemon/port_control.hpp"

namespace ipoib::daemon {

class OpenPorts {
 public:
  /// All of these outlive it, and it outlives what the context runs.
  OpenPorts(boost::asio::io_context& context, const Options& options, Logging& logs)
      : context_(context), options_(options), logs_(logs) {}
  OpenPorts(const OpenPorts&) = delete;
  OpenPorts& operator=(const OpenPorts&) = delete;

  /// Throws std::runtime_error that says what is missing.
  PortControl::Port open(PortRole role, std::shared_ptr<const verbs::Device> device);
  /// Opens the device of a port again that has failed; nullopt if it is not back. What the port had
  /// before is destroyed later, by the event loop.
  std::optional<PortControl::Port> reopen(PortRole role);
  [[nodiscard]] const PortDevices& devices() const { return devices_; }

 private:
  void discard_replaced();
  struct OpenPort {
    OpenPort(const verbs::Device& device, const Options& options, Logging& logs)
        : sa(make_sa_backend(device, options, logs)), watcher(device, *logs.verbs) {}
    const std::unique_ptr<SaBackend> sa;
    PortWatcher watcher;
  };

  boost::asio::io_context& context_;
  const Options& options_;
  Logging& logs_;
  PortDevices devices_;
  std::shared_ptr<const verbs::Device> replaced_device_;  ///< that of replaced_
  PerPort<std::unique_ptr<OpenPort>> ports_;
  std::unique_ptr<OpenPort> replaced_;
};

}  // namespace ipoib::daemon
