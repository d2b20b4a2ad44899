#include "daemon/interfaces/pending_messages.hpp"

namespace ipoib::daemon {

bool PendingMessages::post_to(InterfaceMailbox& to, const StaticNeighbours& neighbours) {
  for (const PortRole role : kPortRoles) {
    if (!post_of_port(to, role)) return false;
  }
  if (has_new_part) {
    if (!to.post(SetNeighbours{neighbours.all()})) return false;
    has_new_part = false;
  }
  while (!failures.empty()) {
    if (!to.post(ObjectFailed{failures.back()})) return false;
    failures.pop_back();
  }
  if (host) {
    if (!to.post(HostChanged{*host})) return false;
    host.reset();
  }
  while (!responses.empty()) {
    if (!to.post(std::move(responses.front()))) return false;
    responses.pop_front();
  }
  if (name) {
    if (!to.post(Renamed{*name})) return false;
    name.reset();
  }
  if (configuration.poll || !configuration.neighbours.empty()) {
    if (!to.post(configuration)) return false;
    configuration = {};
  }
  if (mode) {
    if (!to.post(SetMode{*mode})) return false;
    mode.reset();
  }
  if (stop) {
    if (!to.post(Stop{})) return false;
    stop = false;
  }
  return true;
}

bool PendingMessages::post_of_port(InterfaceMailbox& to, PortRole role) {
  if (auto& part = parts[role]) {
    if (!to.post(PortReplaced{*part})) return false;
    part.reset();
    has_new_part = true;
  }
  if (auto& status = ports[role]) {
    if (!to.post(PortChanged{*status, role})) return false;
    status.reset();
  }
  if (reregister[role]) {
    if (!to.post(ClientReregister{role})) return false;
    reregister[role] = false;
  }
  return true;
}

}  // namespace ipoib::daemon
