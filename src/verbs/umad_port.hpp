// MadPort over libibumad: the kernel's user MAD device of one port, or whatever stands in for it.
//
// Time-outs are kept below: a request that nobody answered comes back through umad_recv with a
// status. Retries are not asked for, they are the business of whoever sends. RMPP is reassembled
// below as well. The high half of a transaction id is rewritten on its way.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "ipoib/mad_port.hpp"

namespace ipoib::verbs {

class UmadPort : public MadPort {
 public:
  /// Opens port `port` of the channel adapter `device` (as in `ibstat -l`) for queries of the
  /// subnet administrator, and for its reports, if nobody else on the port has them. The error says
  /// what is missing: the device, its MAD device, or the permission for it.
  [[nodiscard]] static Result<std::unique_ptr<UmadPort>> open(const std::string& device,
                                                              std::uint8_t port);
  ~UmadPort() override;
  UmadPort(const UmadPort&) = delete;
  UmadPort& operator=(const UmadPort&) = delete;

  [[nodiscard]] Result<void> send(const MadDestination& to, ConstBytes mad,
                                  Duration timeout) override;
  [[nodiscard]] std::optional<ReceivedMad> receive() override;
  [[nodiscard]] MadSource source() override;

  /// Reports come to us; else another program has them.
  [[nodiscard]] bool takes_reports() const { return takes_reports_; }
  /// Readable when receive() has something; for an event loop.
  [[nodiscard]] int fd() const;
  /// The device is gone: receive() yields nothing any more, and the descriptor stays readable. Its
  /// owner stops watching it.
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  UmadPort(std::string device, std::uint8_t number, int port, int agent, bool takes_reports)
      : device_(std::move(device)),
        number_(number),
        port_(port),
        agent_(agent),
        takes_reports_(takes_reports) {}

  const std::string device_;
  const std::uint8_t number_;
  int port_;   ///< of umad_open_port
  int agent_;  ///< of umad_register
  bool takes_reports_;
  bool failed_ = false;
};

}  // namespace ipoib::verbs
