// The one request of the control protocol (control_protocol.hpp) that HCA processes make.
#include <cerrno>

#include "softib/control/client.hpp"
#include "softib/control/flat_json.hpp"

namespace softib::control {

using ipoib::Error;
using ipoib::Result;

Result<NodeIndex> request_attach(const fabric::SubnetFolder& folder, const fabric::HcaName& hca) {
  // A valid name needs no escaping.
  std::string request = R"({"command":"attach","hca":")" + hca.name + '"';
  if (hca.port != 0) request += R"(,"port":)" + std::to_string(hca.port);
  const auto line = control_request(folder, request + '}');
  if (!line) return line.error();
  const FlatJson answer(*line);
  if (const auto why = answer.string("error")) {
    return Error{static_cast<int>(answer.integer("code").value_or(EIO)), *why};
  }
  const auto node = answer.integer("node");
  if (!node || *node < 0 || *node >= std::int64_t{kMaxNodes}) {
    return Error{EPROTO, "the subnet's answer makes no sense"};
  }
  return static_cast<NodeIndex>(*node);
}

}  // namespace softib::control
