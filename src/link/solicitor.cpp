#include "link/solicitor.hpp"

#include <cassert>

#include "ipoib/overloaded.hpp"
#include "link/arp_output.hpp"
#include "link/nd_output.hpp"

namespace ipoib::link {
namespace {

/// How much of a second's questions may go at once.
constexpr std::uint32_t kBurstShare = 4;

TokenBucket bucket(std::uint32_t per_second) {
  return TokenBucket(per_second, per_second / kBurstShare);
}

}  // namespace

Solicitor::Solicitor(const Environment& env)
    : env_(env),
      first_(bucket(env.config.limits.solicitations / 2)),
      repetitions_(bucket(env.config.limits.solicitations / 4)),
      revalidations_(bucket(env.config.limits.solicitations / 4)) {}

bool Solicitor::may_ask_first(TimePoint now) const {
  return first_.next_moment(now) <= now + env_.config.ageing.retransmit;
}

TimePoint Solicitor::reserve_first(TimePoint now) {
  assert(may_ask_first(now));
  const TimePoint moment = first_.reserve(now);
  if (moment > now) env_.out.counters.add(Counter::solicitations_withheld);
  return moment;
}

bool Solicitor::admit_repetition(TimePoint now) { return admit(repetitions_, now); }

bool Solicitor::admit_revalidation(TimePoint now) { return admit(revalidations_, now); }

bool Solicitor::admit(TokenBucket& bucket, TimePoint now) {
  const bool admitted = bucket.take(now);
  if (!admitted) env_.out.counters.add(Counter::solicitations_withheld);
  return admitted;
}

void Solicitor::ask_all(const IpAddress& target, ConstBytes prompt, TimePoint now) {
  std::visit(
      Overloaded{
          [&](Ipv4Address ipv4) { env_.arp.broadcast_request(ipv4); },
          [&](const Ipv6Address& ipv6) { env_.nd.multicast_solicitation(ipv6, prompt, now); },
      },
      target);
}

void Solicitor::ask(const IpAddress& target, const HwAddress& hardware, const PathData& path) {
  std::visit(
      Overloaded{
          [&](Ipv4Address ipv4) { env_.arp.unicast_request(ipv4, hardware, path); },
          [&](const Ipv6Address& ipv6) { env_.nd.unicast_solicitation(ipv6, hardware, path); },
      },
      target);
}

}  // namespace ipoib::link
