#include "softib/endpoint/attach.hpp"

#include <cerrno>
#include <utility>

#include "softib/control/client.hpp"
#include "softib/endpoint/endpoint.hpp"
#include "softib/fabric/fabric.hpp"
#include "softib/subnet/subnet_manager.hpp"

namespace softib::endpoint {

using ipoib::Error;
using ipoib::Result;

Result<NodeIndex> find_or_add_node(const fabric::SubnetFolder& folder, const std::string& hca) {
  const auto wanted = fabric::HcaName::parse(hca);
  if (!wanted) return wanted.error();
  const auto fabric = fabric::Fabric::open(folder.fabric());
  // The subnet process knows best why there is no file, or why it may not be read.
  if (!fabric && fabric.error().code != ENOENT && fabric.error().code != EACCES) {
    return fabric.error();
  }
  if (fabric) {
    const auto node = fabric->find(wanted->name);
    const auto record = node ? fabric->node(*node) : std::nullopt;
    if (record && record->port.failed) {
      return Error{ENODEV, "the HCA '" + wanted->name +
                               "' has failed; mend it with `softib set hca " + wanted->name +
                               " present`"};
    }
    if (record && *node == subnet::SubnetManager::kSwitchNode &&
        wanted->name == subnet::kSwitchName) {
      return Error{EINVAL, "'" + hca + "' is the switch, not an HCA"};
    }
    // The subnet process says what is wrong with another port.
    const bool is_it = record && (wanted->port == 0 || wanted->port == record->port.number);
    if (is_it) return *node;
  }
  return control::request_attach(folder, *wanted);
}

namespace {
bool is_gone(const Error& error) {
  return error.code == ESTALE || error.code == ENOENT || error.code == ENODEV;
}
}  // namespace

Result<std::unique_ptr<Endpoint>> Endpoint::attach(const fabric::SubnetFolder& folder,
                                                   const std::string& hca) {
  // The subnet, or the HCA, may end at the same time, and another one begin.
  constexpr int kAttempts = 16;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const auto node = find_or_add_node(folder, hca);
    if (!node) return node.error();
    auto endpoint = attach_node(folder, *node);
    const std::string_view name = std::string_view(hca).substr(0, hca.find(':'));
    if (endpoint && (*endpoint)->hca_name() == name) return endpoint;
    if (!endpoint && !is_gone(endpoint.error())) return endpoint;
  }
  return Error{EBUSY, "the HCA '" + hca + "' comes and goes"};
}

}  // namespace softib::endpoint
