// Responds to the SA requests of the links of a port: the subnet administrator of its InfiniBand
// subnet, or, on a RoCE port, which has none, this host. Chosen once, by the port's link layer;
// nobody above knows which it is.
//
// Its owner calls one method for each stimulus, then takes responses and notices out, and arms one
// timer for next_deadline().
#pragma once

#include <memory>
#include <vector>

#include "daemon/logging.hpp"
#include "daemon/options.hpp"
#include "verbs/device.hpp"
#include "wire/sa_request.hpp"

namespace ipoib::daemon {

class Authority {
 public:
  virtual ~Authority() = default;

  /// The port has changed to this, or its clients are asked to register again.
  virtual void on_port(const verbs::PortSnapshot& port, TimePoint now) = 0;
  /// The response may be available on return.
  virtual void request(const wire::SaRequest& request, TimePoint now) = 0;
  virtual void on_readable(TimePoint now) = 0;
  virtual void on_time(TimePoint now) = 0;
  /// The daemon ends: no more news are wanted. Requests may follow.
  virtual void end(TimePoint now) = 0;

  [[nodiscard]] virtual TimePoint next_deadline() const = 0;
  /// Readable when on_readable() is due.
  [[nodiscard]] virtual int descriptor() const = 0;
  /// What it works with is gone, for good.
  [[nodiscard]] virtual bool has_failed() const = 0;
  [[nodiscard]] virtual std::vector<wire::SaResponse>& responses() = 0;
  /// Reports of what has changed in the subnet.
  [[nodiscard]] virtual std::vector<wire::Notice>& notices() = 0;
};

/// That of the device's port. Throws std::runtime_error that says what is missing.
[[nodiscard]] std::unique_ptr<Authority> make_authority(const verbs::Device& device,
                                                        const Options& options, Logging& logs);

}  // namespace ipoib::daemon
