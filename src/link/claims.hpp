// Whether the sender of an ARP or Neighbour Discovery message may claim what the message says.
//
// The sender writes a link-layer address into the message. Its HCA writes the QPN into the header
// of the datagram, and its GID into the GRH, if there is one; the sender cannot change these (IBA
// 9.6.1, 8.3.4). So a message that claims another address is forged, or was sent from another queue
// pair than the one that it announces.
#pragma once

#include "ipoib/ip.hpp"
#include "ipoib/log_fwd.hpp"
#include "ipoib/should_log.hpp"
#include "ipoib/ud_port.hpp"
#include "link/config.hpp"
#include "link/output.hpp"
#include "link/pins.hpp"

namespace ipoib::link {

class Claims {
 public:
  /// The parts of the link that claims are checked with; all outlive this object.
  struct Dependencies {
    const Config& config;
    const Pins& pins;
    Output& out;
    Logger& log;
  };

  explicit Claims(const Dependencies& deps) : deps_(deps) {}

  /// Whether a message may say that its sender has `address` at `hardware`: `hardware` is its true
  /// address, and agrees with the pin. If not, counts the message, and logs its sender at a limited
  /// rate.
  [[nodiscard]] bool admit(const IpAddress& address, const HwAddress& hardware,
                           const Incoming& datagram, TimePoint now);
  /// Checks what admit() does, without counting or logging.
  [[nodiscard]] bool is_admissible(const IpAddress& address, const HwAddress& hardware,
                                   const Incoming& datagram) const {
    return may_be_sender(hardware, datagram) && agrees_with_pin(address, hardware);
  }
  [[nodiscard]] bool agrees_with_pin(const IpAddress& address, const HwAddress& hardware) const {
    return deps_.pins.permit(address, hardware.gid);
  }
  /// Whether the link-layer address may be that of the datagram's sender; always true if claims are
  /// not to be checked.
  [[nodiscard]] bool may_be_sender(const HwAddress& hardware, const Incoming& datagram) const {
    return !deps_.config.strict_arp || (has_qpn(hardware, datagram) && has_gid(hardware, datagram));
  }

 private:
  [[nodiscard]] static bool has_qpn(const HwAddress& hardware, const Incoming& datagram) {
    return hardware.qpn == datagram.source_qpn;
  }
  [[nodiscard]] static bool has_gid(const HwAddress& hardware, const Incoming& datagram) {
    return !datagram.has_grh || hardware.gid == datagram.source_gid;
  }

  Dependencies deps_;
  LogPause pause_;
};

}  // namespace ipoib::link
