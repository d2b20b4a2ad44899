#include "ethernet/requests.hpp"

#include <algorithm>

namespace ipoib::ethernet {

bool Requests::add(const IpAddress& target, const Asker& asker, TimePoint now) {
  std::erase_if(waiting_, [&](const Waiting& one) {
    return one.until <= now || (one.target == target && one.asker == asker);
  });
  if (waiting_.size() >= kMax) return false;
  waiting_.push_back({target, asker, now + kPatience});
  return true;
}

std::vector<Asker> Requests::take(const IpAddress& target) {
  std::vector<Asker> found;
  std::erase_if(waiting_, [&](const Waiting& one) {
    if (one.target != target) return false;
    found.push_back(one.asker);
    return true;
  });
  return found;
}

}  // namespace ipoib::ethernet
