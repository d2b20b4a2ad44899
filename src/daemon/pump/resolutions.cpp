#include "daemon/pump/resolutions.hpp"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "wire/sa_values.hpp"

namespace ipoib::daemon {

namespace {

/// Returns nullopt while it is under way.
std::optional<control::Response> progress(const IpAddress& address, link::Link& link,
                                          const Resolutions::Source& source, TimePoint now) {
  using link::NeighbourState;
  if (link.state() != link::LinkState::up) return std::nullopt;
  const auto info = link.get(address, now);
  if (info && info->state == NeighbourState::failed) {
    return Error(EHOSTUNREACH,
                 to_string(address) + ": does not respond, or there is no path to it");
  }
  if (info && info->hardware && info->path) {
    // The next one who uses the entry finds it confirmed.
    if (info->state == NeighbourState::stale) link.solicit(address, now);
    const auto& path = *info->path;
    const bool has_lifetime = path.lifetime != link::kUnknownLifetime;
    return control::Reply(
        control::Resolution{address,
                            *info->hardware,
                            {path.dlid, path.sl, path.mtu, wire::rate_mbps(path.rate)},
                            source.gid,
                            source.lid,
                            source.pkey,
                            path.rate,
                            has_lifetime ? std::optional(path.lifetime) : std::nullopt,
                            path.hop_limit});
  }
  const bool is_begun = info && (info->state == NeighbourState::incomplete ||
                                 info->state == NeighbourState::resolving);
  if (is_begun) return std::nullopt;
  if (auto begun = link.resolve(address, now); !begun) return begun.error();
  return std::nullopt;
}

}  // namespace

Result<void> Resolutions::add(const control::ResolveRequest& request, Callback& done,
                              TimePoint now) {
  if (pending_.size() >= kMax) {
    return Error{EBUSY,
                 std::to_string(kMax) + " neighbours are being resolved, the maximum: try again"};
  }
  pending_.push_back({request.address, now + request.timeout, std::move(done)});
  return {};
}

std::vector<Resolutions::Answer> Resolutions::turn(link::Link& link, const Source& source,
                                                   TimePoint now) {
  std::vector<Answer> answers;
  std::erase_if(pending_, [&](Pending& each) {
    auto response = progress(each.address, link, source, now);
    if (!response && now < each.deadline) return false;
    if (!response) {
      response = Error(ETIMEDOUT, to_string(each.address) + ": not resolved in time");
    }
    answers.push_back({std::move(*response), std::move(each.done)});
    return true;
  });
  return answers;
}

TimePoint Resolutions::next_deadline() const {
  const auto first = std::ranges::min_element(pending_, {}, &Pending::deadline);
  return first == pending_.end() ? kNever : first->deadline;
}

}  // namespace ipoib::daemon
