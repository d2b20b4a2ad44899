#include "link/pins.hpp"

namespace ipoib::link {

bool Pins::set(const IpAddress& address, const Gid& gid) {
  if (const auto known = pins_.find(address); known != pins_.end()) {
    known->second.gid = gid;
    return true;
  }
  if (pins_.size() >= limit_) return false;
  pins_.emplace(address, Pin{gid, next_number_});
  by_number_.emplace(next_number_++, address);
  return true;
}

bool Pins::erase(const IpAddress& address) {
  const auto known = pins_.find(address);
  if (known == pins_.end()) return false;
  by_number_.erase(known->second.number);
  pins_.erase(known);
  return true;
}

const Gid* Pins::find(const IpAddress& address) const {
  if (pins_.empty()) return nullptr;
  const auto known = pins_.find(address);
  return known == pins_.end() ? nullptr : &known->second.gid;
}

std::optional<IpAddress> Pins::next(Number& from) const {
  const auto at = by_number_.lower_bound(from);
  if (at == by_number_.end()) return std::nullopt;
  from = at->first + 1;
  return at->second;
}

}  // namespace ipoib::link
