#include "daemon/acm_look_ups.hpp"

#include <cerrno>
#include <exception>
#include <utility>

#include "ipoib/source_towards.hpp"
#include "wire/sa_values.hpp"

namespace ipoib::daemon {

using wire::acm::Status;

namespace {

/// The packet lifetime of a path if it is not known: the default of OpenSM, 1.07 s.
constexpr std::uint8_t kDefaultLifetime = 18;

Status status_of(const Error& error) {
  switch (error.code) {
    case EINVAL:       // no neighbour can have the address
    case ENETUNREACH:  // not on the link
      return Status::destination_address;
    case ETIMEDOUT:
      return Status::timed_out;
    case EBUSY:
    case ENOBUFS:
      return Status::no_memory;
    default:
      return Status::no_data;
  }
}

}  // namespace

acm::Server::Answer acm_answer(const control::Response& response,
                               const std::optional<IpAddress>& source) {
  if (!response) return status_of(response.error());
  const auto& found = std::get<control::Resolution>(*response);
  // A path without LIDs is one of RoCE. One with a GRH has attributes that only the SA knows.
  if (found.path.dlid == Lid() || found.hop_limit != 0) return Status::no_data;
  wire::PathRecord path;
  path.dgid = found.hardware.gid;
  path.sgid = found.source_gid;
  path.dlid = found.path.dlid;
  path.slid = found.source_lid;
  path.reversible = true;
  path.numb_path = 1;
  path.pkey = found.pkey;
  path.sl = found.path.sl;
  path.mtu = wire::mtu_code(found.path.mtu);
  path.rate = found.rate;
  path.lifetime = found.lifetime.value_or(kDefaultLifetime);
  return wire::acm::Found{path, source};
}

void AcmLookUps::find(const wire::acm::Wanted& wanted, acm::Server::Done done) const {
  auto source = wanted.source;
  try {
    if (!source) source = home_.run([&] { return source_towards(wanted.destination); });
  } catch (const std::exception&) {  // the namespace cannot be entered
    return done(Status::no_data);
  }
  if (!source) return done(Status::destination_address);
  auto* const interface = interfaces_.find(*source);
  if (interface == nullptr) return done(Status::source_address);
  const auto timeout = wanted.at_once ? std::chrono::milliseconds(0) : kPatience;
  const auto chosen_source = wanted.source ? std::nullopt : source;
  interface->resolve(
      {wanted.destination, timeout}, [done = std::move(done), chosen_source,
                                      at_once = wanted.at_once](const control::Response& response) {
        const bool is_unknown = !response && response.error().code == ETIMEDOUT;
        done(at_once && is_unknown ? Status::no_data : acm_answer(response, chosen_source));
      });
}

}  // namespace ipoib::daemon
