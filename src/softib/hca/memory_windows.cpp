// Memory windows (IBA 10.6.7):
//
//                         bind                       bind with another length and key
//   alloc -> not bound ----------> bound ------------+
//               ^                    |  ^------------+    type 1
//               | bind of length 0, type 1; invalidate, type 2; the queue pair is reset, type 2
//               +--------------------+
//
// Any queue pair of the window's domain may bind a window of type 1, and its peer use it. One of
// type 2 belongs to the queue pair that has bound it (type 2B: domain and queue pair).
#include <cassert>
#include <cerrno>

#include "softib/hca/memory_table.hpp"

namespace softib::hca {

using ipoib::Error;

namespace {

constexpr int kRemoteModification = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

Error no_such_window() { return Error{EINVAL, "no memory window has this key"}; }

}  // namespace

ipoib::Result<std::uint32_t> MemoryTable::add_window(ProtectionDomain& pd, ibv_mw_type type) {
  if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
    return Error{EINVAL, "a memory window is of type 1 or 2"};
  }
  auto key = take_slot();
  if (!key) return key.error();
  slot_of(*key)->use = MemoryWindow{&pd, type};
  ++pd.users;
  return key;
}

MemoryWindow* MemoryTable::find_window(std::uint32_t key) {
  auto* const slot = slot_of(key);
  return slot != nullptr ? std::get_if<MemoryWindow>(&slot->use) : nullptr;
}

ipoib::Result<void> MemoryTable::remove_window(std::uint32_t key) {
  auto* const window = find_window(key);
  if (window == nullptr) return no_such_window();
  unbind(*window);
  assert(window->pd->users != 0);
  --window->pd->users;
  release_slot(key);
  return {};
}

bool MemoryTable::may_bind(const WindowBinding& binding, const MemoryWindow& window,
                           std::uint32_t current_key, const KeyUser& by) {
  const bool is_type_1 = window.type == IBV_MW_TYPE_1;
  if (window.pd != by.pd || slot_of(binding.key) != slot_of(current_key)) return false;
  // "The key portion of the R_Key shall change" (IBA 10.6.7.2.3), so a stale one gives no access.
  if (binding.key == current_key) return false;
  if (binding.length == 0) return is_type_1;
  if (!is_type_1 && window.bound.length != 0) return false;
  if (is_type_1 && (binding.access & IBV_ACCESS_ZERO_BASED) != 0) return false;
  const auto* const region = find(binding.region);
  if (region == nullptr || region->pd != window.pd) return false;
  const int needed = IBV_ACCESS_MW_BIND |
                     ((binding.access & kRemoteModification) != 0 ? IBV_ACCESS_LOCAL_WRITE : 0);
  if ((region->access & needed) != needed || (region->access & IBV_ACCESS_ZERO_BASED) != 0) {
    return false;
  }
  return binding.address >= region->address &&
         part_of(*region, binding.address - region->address, binding.length);
}

bool MemoryTable::bind(const WindowBinding& binding, const KeyUser& by) {
  auto* const window = find_window(binding.window);
  if (window == nullptr) return false;
  auto& slot = *slot_of(binding.window);
  if (!may_bind(binding, *window, slot.key, by)) return false;
  unbind(*window);
  slot.key = binding.key;
  if (binding.length == 0) return true;
  window->bound = binding;
  ++find(binding.region)->windows;
  if (window->type == IBV_MW_TYPE_2) {
    window->user = by.qp;
    ++bound_windows_;
  }
  return true;
}

void MemoryTable::unbind(MemoryWindow& window) {
  if (window.bound.length == 0) return;
  auto* const region = find(window.bound.region);
  assert(region != nullptr && region->windows != 0);
  --region->windows;
  window.bound = {};
  if (window.type != IBV_MW_TYPE_2) return;
  assert(bound_windows_ != 0);
  --bound_windows_;
}

bool MemoryTable::may_invalidate(std::uint32_t key, const KeyUser& by) {
  const auto* const window = slot_with(key) != nullptr ? find_window(key) : nullptr;
  return window != nullptr && window->type == IBV_MW_TYPE_2 && window->bound.length != 0 &&
         window->pd == by.pd && window->user == by.qp;
}

void MemoryTable::invalidate(std::uint32_t key) {
  auto* const window = find_window(key);
  assert(window != nullptr && window->type == IBV_MW_TYPE_2 && window->bound.length != 0);
  unbind(*window);
}

void MemoryTable::invalidate_windows_of(Qpn user) {
  if (bound_windows_ == 0) return;
  for (auto& slot : slots_) {
    auto* const window = std::get_if<MemoryWindow>(&slot.use);
    if (window != nullptr && window->type == IBV_MW_TYPE_2 && window->user == user) {
      unbind(*window);
    }
  }
}

RegisteredMemory MemoryTable::resolve(const MemoryWindow& window, std::uint64_t address,
                                      std::uint64_t length, const KeyUser& user, int access) const {
  const auto& bound = window.bound;
  if (bound.length == 0 || window.pd != user.pd) return {};
  if (window.type == IBV_MW_TYPE_2 && window.user != user.qp) return {};
  if ((bound.access & access) != access) return {};
  const auto first = (bound.access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : bound.address;
  const auto offset = address - first;
  if (address < first || offset > bound.length || length > bound.length - offset) return {};
  const auto& region = std::get<MemoryRegion>(slot_with(bound.region)->use);
  return part_of(region, bound.address - region.address + offset, length);
}

}  // namespace softib::hca
