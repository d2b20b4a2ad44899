#include "softib/rdma_cm/ports.hpp"

#include <algorithm>
#include <cerrno>

#include "softib/rdma_cm/limits.hpp"

namespace softib::rdma_cm {

using ipoib::Error;
using ipoib::Result;

Result<void> Ports::check(const Request& request, std::uint16_t port) const {
  const auto found = bindings_.find({request.space, port});
  if (found == bindings_.end()) return {};
  for (const auto& [other, is_listening] : found->second) {
    if (other.id == request.id) continue;
    if (request.reuses_address && other.reuses_address && !is_listening) continue;
    if (request.is_family_only && other.is_family_only &&
        !is_same_kind(request.address, other.address)) {
      continue;
    }
    if (is_wildcard(request.address) || is_wildcard(other.address)) {
      return Error{EADDRNOTAVAIL, "the port is in use at all addresses"};
    }
    if (is_same_host(request.address, other.address)) {
      return Error{EADDRINUSE,
                   "another ID of the process has the port: choose another one, or 0 for any"};
    }
  }
  return {};
}

Result<std::uint16_t> Ports::bind(const Request& request, Node& node, ipoib::Random& random) {
  const auto take = [&](std::uint16_t port) -> Result<std::uint16_t> {
    if (const auto checked = check(request, port); !checked) return checked.error();
    if (const auto locked = node.lock_port(request, port); !locked) {
      if (!bindings_.contains({request.space, port})) node.unlock_port(request.space, port);
      return locked.error();
    }
    bindings_[{request.space, port}].push_back({request});
    return port;
  };
  if (const auto port = port_of(request.address); port != 0) {
    if (port < kFirstUnprivilegedPort && !node.may_use_privileged_ports()) {
      return Error{EACCES, "ports below 1024 need the capability CAP_NET_BIND_SERVICE"};
    }
    return take(port);
  }
  constexpr std::uint32_t kEphemeral = kLastEphemeralPort - kFirstEphemeralPort + 1;
  const auto begin = static_cast<std::uint32_t>(random.next() % kEphemeral);
  for (std::uint32_t i = 0; i < kEphemeral; ++i) {
    const auto port = static_cast<std::uint16_t>(kFirstEphemeralPort + (begin + i) % kEphemeral);
    if (bindings_.contains({request.space, port})) continue;
    if (auto taken = take(port)) return taken;
  }
  return Error{EADDRNOTAVAIL,
               "all ports from 32768 to 60999 are in use: destroy some IDs, or choose a port "
               "outside of these"};
}

Result<void> Ports::listen(const Request& request, Node& node) {
  const std::uint16_t port = port_of(request.address);
  if (request.reuses_address) {
    Request exclusive = request;
    exclusive.reuses_address = false;
    if (auto checked = check(exclusive, port); !checked) return checked;
    if (auto locked = node.lock_port(exclusive, port); !locked) return locked;
  }
  for (auto& [other, is_listening] : bindings_.at({request.space, port})) {
    is_listening |= other.id == request.id;
  }
  return {};
}

void Ports::share(IdHandle id, PortSpace space, std::uint16_t port, Node& node) {
  for (auto& [request, is_listening] : bindings_.at({space, port})) {
    if (request.id != id) continue;
    request.reuses_address = true;
    (void)node.lock_port(request, port);
  }
}

void Ports::release(IdHandle id, PortSpace space, std::uint16_t port, Node& node) {
  const auto found = bindings_.find({space, port});
  if (found == bindings_.end()) return;
  std::erase_if(found->second, [&](const Binding& one) { return one.request.id == id; });
  if (!found->second.empty()) return;
  bindings_.erase(found);
  node.unlock_port(space, port);
}

}  // namespace softib::rdma_cm
