// Responds to the SA requests of the interfaces of a port: the SA of an InfiniBand subnet, or this
// host for a RoCE port, which has no SA. Selected by the port's link layer; its users see no
// difference.
//
// The owner calls one method per stimulus, then takes out responses and notices, and arms one timer
// for next_deadline().
#pragma once

#include <memory>
#include <vector>

#include "daemon/options/logging.hpp"
#include "daemon/options/options.hpp"
#include "sa/counters.hpp"
#include "verbs/device.hpp"
#include "wire/sa_request.hpp"

namespace ipoib::daemon {

class SaBackend {
 public:
  virtual ~SaBackend() = default;

  /// The port has changed to this state, or the SM asks its clients to register again.
  virtual void on_port(const verbs::PortSnapshot& port, TimePoint now) = 0;
  /// The SM has lost the memberships of the port. To be called after on_port().
  virtual void on_client_reregister() = 0;
  /// Sends a request. The response may be available on return.
  virtual void request(const wire::SaRequest& request, TimePoint now) = 0;
  virtual void on_readable(TimePoint now) = 0;
  virtual void on_time(TimePoint now) = 0;
  /// The daemon ends and needs no more reports. Requests may still follow.
  virtual void end(TimePoint now) = 0;

  [[nodiscard]] virtual TimePoint next_deadline() const = 0;
  /// To be watched for on_readable().
  [[nodiscard]] virtual int descriptor() const = 0;
  /// Its device is lost.
  [[nodiscard]] virtual bool has_failed() const = 0;
  [[nodiscard]] virtual std::vector<wire::SaResponse>& responses() = 0;
  [[nodiscard]] virtual sa::Counters counters() const = 0;
  /// Reports of changes in the subnet.
  [[nodiscard]] virtual std::vector<wire::Notice>& notices() = 0;
};

/// Creates the backend for the device's port. Throws std::runtime_error that says what is missing.
[[nodiscard]] std::unique_ptr<SaBackend> make_sa_backend(const verbs::Device& device,
                                                         const Options& options, Logging& logs);

}  // namespace ipoib::daemon
