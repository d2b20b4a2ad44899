#include "softib/transport/process_slot.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "softib/fabric/file_lock.hpp"
#include "softib/fabric/shared_file.hpp"
#include "softib/transport/unix_socket.hpp"

namespace softib::transport {

using ipoib::Error;
using ipoib::Result;

namespace {

Result<GuardedFd> open_lock(int folder, std::uint32_t place) {
  const ForksHeldOff held;
  auto file = fabric::open_shared(folder, fabric::place_lock_name(place), fabric::IfMissing::make);
  if (!file) return file.error();
  return GuardedFd(std::move(*file), held);
}

/// Holds the gate open: the folder stays what it is meanwhile.
Result<GuardedFd> enter_gate(const fabric::SubnetFolder& folder, const fabric::Fabric& fabric) {
  GuardedFd gate;
  {
    const ForksHeldOff held;
    auto file = fabric::open_shared(folder.fabric(), fabric::IfMissing::fail);
    if (!file) return file.error();
    gate = GuardedFd(std::move(*file), held);
  }
  fabric::lock_shared(gate.get(), fabric::kGateOctet);
  if (!fabric.is_file(gate.get()) || !fabric::is_named(gate.get(), AT_FDCWD, folder.fabric())) {
    return Error{ESTALE, "the subnet has ended meanwhile"};
  }
  return gate;
}

}  // namespace

Result<Place> Place::take(const fabric::SubnetFolder& folder, fabric::Fabric& fabric,
                          NodeIndex node) {
  const auto failure = [&](const Error& error) {
    return Error{error.code, "cannot take a place in " + folder.node(node) + ": " + error.message};
  };
  const auto gate = enter_gate(folder, fabric);
  if (!gate) return failure(gate.error());
  const auto at = folder.open_node(node);
  if (!at) return failure(at.error());
  for (std::uint32_t index = 0; index < QpnLayout::kSlots; ++index) {
    auto lock = open_lock(at->get(), index);
    if (!lock) return failure(lock.error());
    if (!fabric::try_lock(lock->get(), 0)) continue;
    (void)fabric::write_holder(lock->get());
    auto listener = listen_at(at->get(), fabric::place_name(index));
    if (!listener) return failure(listener.error());
    Place place;
    place.node_ = node;
    place.index_ = index;
    place.lock_ = std::move(*lock);
    place.listener_ = std::move(*listener);
    place.epoch_ = fabric.advance_epoch(node, index);
    return place;
  }
  return Error{EBUSY, "all " + std::to_string(QpnLayout::kSlots) +
                          " places of the HCA are taken by processes: end one of them"};
}

void Place::leave(const fabric::SubnetFolder& folder, fabric::Fabric& fabric) {
  fabric.set_occupied(node_, index_, false);
  if (const auto at = folder.open_node(node_)) {
    ::unlinkat(at->get(), fabric::place_name(index_).c_str(), 0);
  }
  listener_.reset();
  lock_.reset();
}

void clean_place(const fabric::SubnetFolder& folder, fabric::Fabric& fabric, NodeIndex node,
                 std::uint32_t place) {
  const auto at = folder.open_node(node);
  if (!at) return;
  const auto lock =
      fabric::open_shared(at->get(), fabric::place_lock_name(place), fabric::IfMissing::fail);
  if (!lock || !fabric::try_lock(lock->get(), 0)) return;
  fabric.set_occupied(node, place, false);
  ::unlinkat(at->get(), fabric::place_name(place).c_str(), 0);
}

}  // namespace softib::transport
