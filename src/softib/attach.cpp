// How a process comes to an endpoint by the name of its HCA.
#include <cerrno>
#include <utility>

#include "softib/control_client.hpp"
#include "softib/endpoint.hpp"
#include "softib/fabric.hpp"

namespace softib {

using ipoib::Error;
using ipoib::Result;

/// A node that is in the fabric file needs no subnet process: programs restart while it is away.
Result<std::unique_ptr<Endpoint>> Endpoint::attach(const SubnetFolder& folder,
                                                   const std::string& hca) {
  if (!is_valid_name(hca)) {
    return Error{EINVAL, "not a name for an HCA: '" + hca +
                             "' (letters, digits, '.', '_', '-'; at most 63)"};
  }
  const auto fabric = Fabric::open(folder.fabric());
  if (!fabric && fabric.error().code != ENOENT) return fabric.error();
  if (fabric) {
    if (const auto node = fabric->find(hca)) return attach_node(folder, *node);
  }
  const auto node = request_attach(folder, hca);
  if (!node) return node.error();
  return attach_node(folder, *node);
}

}  // namespace softib
