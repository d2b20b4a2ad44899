#include "sa/foreign_mads.hpp"

#include "ipoib/log.hpp"

namespace ipoib::sa {

void ForeignMads::drop(std::string_view what, std::uint64_t& counter, const MadDestination& from,
                       TimePoint now) {
  ++counter;
  if (!pause_.take(now)) return;
  log_.warn(
      "dropped a {} from LID {}, which is not the SA's ({} so far); `saquery NR {}` names its port",
      what, from.lid.value(), counter, from.lid.value());
}

}  // namespace ipoib::sa
