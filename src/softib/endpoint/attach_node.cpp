// How a process comes to an endpoint on a node: the fabric file, then a place.
#include <cerrno>
#include <exception>
#include <utility>

#include "softib/endpoint/live_endpoint.hpp"

namespace softib::endpoint {

using ipoib::Error;
using ipoib::Result;

Result<std::unique_ptr<Endpoint>> Endpoint::attach_node(const fabric::SubnetFolder& folder,
                                                        NodeIndex node) {
  auto fabric = fabric::Fabric::open(folder.fabric());
  if (!fabric) return fabric.error();
  const Error none{ENODEV,
                   "no node " + std::to_string(node) + " on the subnet in " + folder.path()};
  if (!fabric->node(node)) return none;
  auto place = transport::Place::take(folder, *fabric, node);
  if (!place) return place.error();
  // From now on it stays, whichever it is.
  const auto record = fabric->node(node);
  if (!record || record->port.failed) {
    place->leave(folder, *fabric);
    return none;
  }
  try {
    return std::unique_ptr<Endpoint>(std::make_unique<LiveEndpoint>(
        folder, std::move(*fabric), node, *record, std::move(*place)));
  } catch (const std::exception& error) {
    return Error{EMFILE, std::string("cannot start the HCA's engine: ") + error.what()};
  }
}

}  // namespace softib::endpoint
