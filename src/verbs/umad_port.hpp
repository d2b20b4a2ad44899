// MadPort over libibumad: the kernel's user MAD device of a port, or softib's.
//
// The layers below handle time-outs and RMPP reassembly: umad_recv returns a request that timed out
// with an error status. The sender retries, not libibumad. The high half of a transaction id is
// rewritten below.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "verbs/watched_mad_port.hpp"

namespace ipoib::verbs {

class UmadPort : public WatchedMadPort {
 public:
  /// Opens port `port` of the HCA `device` (as in `ibstat -l`) for requests to the SA, and for its
  /// reports unless another program on the port receives them. The error says what is missing: the
  /// HCA, its MAD device, or permissions.
  [[nodiscard]] static Result<std::unique_ptr<UmadPort>> open(const std::string& device,
                                                              std::uint8_t port);
  ~UmadPort() override;
  UmadPort(const UmadPort&) = delete;
  UmadPort& operator=(const UmadPort&) = delete;

  [[nodiscard]] Result<void> send(const MadDestination& to, ConstBytes mad,
                                  Duration timeout) override;
  [[nodiscard]] std::optional<ReceivedMad> receive() override;
  [[nodiscard]] MadSource source() override;

  /// Whether this port receives the SA's reports; otherwise another program does.
  [[nodiscard]] bool takes_reports() const { return report_agent_ >= 0; }
  bool claim_reports() override;
  /// A file name that identifies the port on this host: its GUID, and for an emulated port also its
  /// subnet. nullopt if that cannot be found out.
  [[nodiscard]] std::optional<std::string> identity() const;
  [[nodiscard]] int fd() const override;
  [[nodiscard]] bool failed() const override { return failed_; }

 private:
  UmadPort(std::string device, std::uint8_t number, int port, int agent)
      : device_(std::move(device)), number_(number), port_(port), agent_(agent) {}

  const std::string device_;
  const std::uint8_t number_;
  int port_;   ///< from umad_open_port
  int agent_;  ///< from umad_register
  int report_agent_ = -1;
  bool failed_ = false;
};

}  // namespace ipoib::verbs
