// Attaches a process to an HCA: finds the node or has the subnet process add it, then takes a
// process slot on it.
#include <cerrno>
#include <exception>
#include <system_error>
#include <utility>

#include "softib/control/client.hpp"
#include "softib/endpoint/endpoint.hpp"
#include "softib/subnet/subnet_manager.hpp"

namespace softib::endpoint {

using ipoib::Error;
using ipoib::Result;

namespace {
/// Whether the subnet or the node was removed while this process was attaching.
bool is_gone(const Error& error) {
  return error.code == ESTALE || error.code == ENOENT || error.code == ENODEV;
}

Error no_engine(int code, const std::exception& why) {
  return {code, std::string("cannot start the HCA's engine: ") + why.what()};
}
}  // namespace

Result<NodeIndex> find_or_add_node(const fabric::SubnetFolder& folder, const std::string& hca) {
  const auto wanted = fabric::HcaName::parse(hca);
  if (!wanted) return wanted.error();
  const auto checked = folder.check(fabric::FolderUse::attach);
  if (!checked && checked.error().code == EPERM) return checked.error();
  const auto fabric = fabric::Fabric::open(folder.fabric());
  // Without a readable file, the subnet process says what is wrong.
  if (!fabric && fabric.error().code != ENOENT && fabric.error().code != EACCES) {
    return fabric.error();
  }
  if (fabric) {
    const auto node = fabric->find(wanted->name);
    const auto record = node ? fabric->node(*node) : std::nullopt;
    if (record && record->port.failed) {
      return Error{ENODEV, "the HCA '" + wanted->name +
                               "' has failed; restore it with `softib set hca " + wanted->name +
                               " present`"};
    }
    if (record && *node == kSubnetNode && wanted->name != subnet::kSmName) {
      return Error{EINVAL, "'" + hca + "' is the switch, not an HCA: choose another name"};
    }
    // The subnet process says what is wrong with another port.
    const auto ports = record ? fabric->hca_ports(*node) : std::nullopt;
    const bool is_it = ports && (wanted->port == 0 ||
                                 (ports->has(wanted->port) && (*ports)[wanted->port].has_cable));
    if (is_it) return *node;
  }
  return control::request_attach(folder, *wanted);
}

Result<std::unique_ptr<Endpoint>> Endpoint::attach_node(const fabric::SubnetFolder& folder,
                                                        NodeIndex node, Mapped* mapped) {
  if (const auto checked = folder.check(fabric::FolderUse::attach); !checked) {
    return checked.error();
  }
  const bool has_mapped = mapped != nullptr && mapped->has_value();
  auto fabric = fabric::Fabric::open(folder.fabric(), has_mapped ? &**mapped : nullptr);
  if (!fabric) return fabric.error();
  if (mapped != nullptr) *mapped = *fabric;
  Error no_node{ENODEV, "no node " + std::to_string(node) + " on the subnet in " + folder.path()};
  if (!fabric->node(node)) return no_node;
  auto slot = transport::ProcessSlot::take(folder, *fabric, node);
  if (!slot) return slot.error();
  // A node whose slot is taken stays; but by now the index may belong to another node.
  const auto record = fabric->node(node);
  if (!record || record->port.failed) {
    slot->leave(folder, *fabric);
    return no_node;
  }
  try {
    auto endpoint =
        std::make_unique<Endpoint>(folder, std::move(*fabric), node, *record, std::move(*slot));
    if (record->port.is_ethernet() && node != kSubnetNode) {
      if (const auto borrowed = endpoint->borrow_sockets(); !borrowed) return borrowed.error();
    }
    return endpoint;
  } catch (const std::system_error& error) {
    return no_engine(error.code().value(), error);
  } catch (const std::exception& error) {
    return no_engine(EMFILE, error);
  }
}

Result<std::unique_ptr<Endpoint>> Endpoint::attach(const fabric::SubnetFolder& folder,
                                                   const std::string& hca, Mapped* mapped) {
  // The subnet or the HCA may be removed and created again meanwhile.
  constexpr int kAttempts = 16;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const auto node = find_or_add_node(folder, hca);
    if (!node) return node.error();
    auto endpoint = attach_node(folder, *node, mapped);
    const std::string_view name = std::string_view(hca).substr(0, hca.find(':'));
    if (endpoint && (*endpoint)->hca_name() == name) return endpoint;
    if (!endpoint && !is_gone(endpoint.error())) return endpoint;
  }
  return Error{EBUSY, "the HCA '" + hca + "' keeps changing: try again"};
}

}  // namespace softib::endpoint
