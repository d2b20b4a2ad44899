#include "link/solicitor.hpp"

#include <cassert>

#include "ipoib/overloaded.hpp"
#include "link/arp_output.hpp"
#include "link/nd_output.hpp"

namespace ipoib::link {

Solicitor::Solicitor(const Dependencies& deps)
    : deps_(deps),
      first_(deps.config.limits.solicitations / 2),
      repetitions_(deps.config.limits.solicitations / 4),
      revalidations_(deps.config.limits.solicitations / 4) {}

bool Solicitor::may_solicit_first(TimePoint now) const {
  return first_.next_moment(now) <= now + deps_.config.ageing.retransmit;
}

TimePoint Solicitor::reserve_first(TimePoint now) {
  assert(may_solicit_first(now));
  const TimePoint moment = first_.reserve(now);
  if (moment > now) deps_.out.counters.add(Counter::solicitations_withheld);
  return moment;
}

bool Solicitor::admit_repetition(TimePoint now) { return admit(repetitions_, now); }

bool Solicitor::admit_revalidation(TimePoint now) { return admit(revalidations_, now); }

bool Solicitor::admit(TokenBucket& bucket, TimePoint now) {
  const bool admitted = bucket.take(now);
  if (!admitted) deps_.out.counters.add(Counter::solicitations_withheld);
  return admitted;
}

void Solicitor::solicit_all(const IpAddress& target, ConstBytes prompt, TimePoint now) {
  std::visit(
      Overloaded{
          [&](Ipv4Address ipv4) { deps_.arp.broadcast_request(ipv4, prompt, now); },
          [&](const Ipv6Address& ipv6) { deps_.nd.multicast_solicitation(ipv6, prompt, now); },
      },
      target);
}

void Solicitor::search(const IpAddress& target, TimePoint now) {
  std::visit(Overloaded{
                 [&](Ipv4Address ipv4) { deps_.arp.broadcast_request(ipv4, {}, now); },
                 [&](const Ipv6Address& ipv6) { deps_.nd.search(ipv6, now); },
             },
             target);
}

void Solicitor::solicit(const IpAddress& target, const HwAddress& hardware, const PathData& path) {
  std::visit(
      Overloaded{
          [&](Ipv4Address ipv4) { deps_.arp.unicast_request(ipv4, hardware, path); },
          [&](const Ipv6Address& ipv6) { deps_.nd.unicast_solicitation(ipv6, hardware, path); },
      },
      target);
}

}  // namespace ipoib::link
