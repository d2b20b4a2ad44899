#include "ethernet/requests.hpp"

#include <algorithm>

namespace ipoib::ethernet {

template <class Predicate>
void Requests::Limited::erase_if(Predicate is_obsolete) {
  std::erase_if(waiting, [&](const Waiting& one) {
    if (!is_obsolete(one)) return false;
    shares.give_back(one.asker.mac);
    return true;
  });
}

bool Requests::add(const IpAddress& target, const Asker& asker, AskerKind kind, TimePoint now) {
  Limited& limited = kinds_[static_cast<std::size_t>(kind)];
  limited.erase_if([&](const Waiting& one) {
    return one.until <= now || (one.target == target && one.asker == asker);
  });
  if (!limited.shares.has_room_for(asker.mac) || !may_ask(kind, now)) return false;
  limited.waiting.push_back({target, asker, now + kPatience});
  return limited.shares.take(asker.mac);
}

bool Requests::may_ask(AskerKind kind, TimePoint now) {
  switch (kind) {
    case AskerKind::station:
      return stations_.take(now);
    case AskerKind::newcomer:
      return newcomers_.take(now);
    case AskerKind::host:
    case AskerKind::count_:
      break;
  }
  return true;
}

std::vector<Asker> Requests::take(const IpAddress& target) {
  std::vector<Asker> found;
  for (Limited& limited : kinds_) {
    limited.erase_if([&](const Waiting& one) {
      if (one.target != target) return false;
      found.push_back(one.asker);
      return true;
    });
  }
  return found;
}

}  // namespace ipoib::ethernet
