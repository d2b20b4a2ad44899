#include "softib/transport/process_slot.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "softib/fabric/file_lock.hpp"
#include "softib/fabric/shared_file.hpp"
#include "softib/transport/unix_socket.hpp"

namespace softib::transport {

using ipoib::Error;
using ipoib::Result;

namespace {

/// How often to try to lock. The subnet process has the lock for a moment, while it removes a
/// folder. Any other process of the subnet could keep it.
constexpr int kLockAttempts = 200;
constexpr std::chrono::milliseconds kLockPause{5};

/// Calls open_shared() and guards the descriptor.
template <class... Arguments>
Result<GuardedFd> open_guarded(const Arguments&... arguments) {
  const ForkLock lock;
  auto file = fabric::open_shared(arguments...);
  if (!file) return file.error();
  return GuardedFd(std::move(*file), lock);
}

/// Holds off block_attach() for the lifetime of the result, so that no folder is removed.
Result<GuardedFd> begin_attach(const fabric::SubnetFolder& folder, const fabric::Fabric& fabric) {
  auto attaching = open_guarded(folder.fabric(), fabric::IfMissing::fail);
  if (!attaching) return attaching;
  for (int attempt = 0; !fabric::try_lock_shared(attaching->get(), fabric::kAttachLockOffset);) {
    if (++attempt == kLockAttempts)
      return Error{EBUSY, "another process keeps the subnet locked: lslocks shows which"};
    std::this_thread::sleep_for(kLockPause);
  }
  if (!fabric.is_file(attaching->get()) ||
      !fabric::is_named(attaching->get(), AT_FDCWD, folder.fabric())) {
    return Error{ESTALE, "the subnet has just ended: start it again"};
  }
  return attaching;
}

}  // namespace

Result<ProcessSlot> ProcessSlot::take(const fabric::SubnetFolder& folder, fabric::Fabric& fabric,
                                      NodeIndex node) {
  const auto failure = [&](const Error& error) {
    const bool is_refused = error.code == EPERM || error.code == EACCES;
    return Error{error.code, "cannot attach to the HCA in " + folder.node(node) + ": " +
                                 error.message +
                                 (is_refused ? "; its files are not those of softib, or it is the "
                                               "subnet of another user (softib list)"
                                             : "")};
  };
  const auto attaching = begin_attach(folder, fabric);
  if (!attaching) return failure(attaching.error());
  const auto at = folder.open_node(node);
  if (!at) return failure(at.error());
  for (std::uint32_t index = 0; index < QpnLayout::kSlots; ++index) {
    auto lock = open_guarded(at->get(), fabric::slot_lock_name(index), fabric::IfMissing::create);
    if (!lock && lock.error().code == EAGAIN) continue;  // somebody has a lease on it
    if (!lock) return failure(lock.error());
    if (!fabric::try_lock(lock->get(), 0)) continue;
    (void)fabric::write_holder(lock->get());
    auto listener = listen_at(at->get(), fabric::slot_name(index));
    if (!listener) return failure(listener.error());
    ProcessSlot slot;
    slot.node_ = node;
    slot.index_ = index;
    slot.lock_ = std::move(*lock);
    slot.listener_ = std::move(*listener);
    slot.epoch_ = fabric.advance_epoch(node, index);
    return slot;
  }
  return Error{EBUSY, "the HCA has " + std::to_string(QpnLayout::kSlots) +
                          " processes, the maximum: run others on another HCA (softib run --hca)"};
}

void ProcessSlot::leave(const fabric::SubnetFolder& folder, fabric::Fabric& fabric) {
  fabric.set_occupied(node_, index_, false);
  if (const auto at = folder.open_node(node_)) {
    ::unlinkat(at->get(), fabric::slot_name(index_).c_str(), 0);
  }
  listener_.reset();
  lock_.reset();
}

void reclaim_slot(const fabric::SubnetFolder& folder, fabric::Fabric& fabric, NodeIndex node,
                  std::uint32_t slot) {
  const auto at = folder.open_node(node);
  if (!at) return;
  const auto lock =
      fabric::open_shared(at->get(), fabric::slot_lock_name(slot), fabric::IfMissing::fail);
  if (!lock || !fabric::try_lock(lock->get(), 0)) return;
  fabric.set_occupied(node, slot, false);
  ::unlinkat(at->get(), fabric::slot_name(slot).c_str(), 0);
}

}  // namespace softib::transport
