#include "daemon/interfaces/handover.hpp"

#include <spdlog/fmt/fmt.h>

#include <cerrno>
#include <iterator>
#include <stdexcept>

#include "control/socket_folder.hpp"
#include "ipoib/log.hpp"
#include "ipoib/overloaded.hpp"

namespace ipoib::daemon::handover {

namespace {

Error out_of_place(const char* what) {
  return Error(EPROTO, std::string("the other daemon sends ") + what +
                           ": start this one without --takeover, after the other one has ended");
}

/// Appends a list. Fails if it is empty, so that the number of messages is bounded.
template <class T>
Result<bool> append(std::vector<T>& to, std::vector<T>& from, std::size_t most) {
  if (from.empty() || to.size() + from.size() > most) return out_of_place("a list of a wrong size");
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  return false;
}

/// Returns nullopt if the daemon has gone. The error of a Refusal is ENODEV if another daemon may
/// fit.
Result<std::optional<Handover>> talk(Connection&& connection, const Hello& wanted,
                                     std::chrono::milliseconds patience) {
  connection.set_timeout(patience);
  if (const auto sent = connection.send(emit(wanted)); !sent) {
    if (sent.error().code == EPIPE) return std::optional<Handover>();
    return sent.error();
  }
  Assembly assembly;
  for (;;) {
    auto received = connection.receive();
    if (!received) {
      const bool is_late = received.error().code == EAGAIN;
      return is_late ? Error(ETIMEDOUT,
                             "the other daemon does not respond: end it, and start this one "
                             "without --takeover")
                     : received.error();
    }
    if (!*received) return std::optional<Handover>();
    const auto is_complete = assembly.add(std::move(**received));
    if (!is_complete) return is_complete.error();
    if (!*is_complete) continue;
    connection.set_timeout({});
    return std::optional<Handover>(
        {std::move(connection), *assembly.offer(), std::move(assembly.interfaces())});
  }
}

}  // namespace

Result<bool> Assembly::add(Received&& received) {
  return std::visit(
      Overloaded{
          [&](Refusal& refusal) -> Result<bool> { return Error(refusal.code, refusal.text); },
          [&](Offer& offer) -> Result<bool> {
            if (offer_) return out_of_place("a second offer");
            if (offer.version < kOldestVersion || offer.version > kVersion) {
              return out_of_place("an offer of another version");
            }
            offer_ = std::move(offer);
            return false;
          },
          [&](Interface& interface) { return take(interface, std::move(received.descriptor)); },
          [&](Complete&) -> Result<bool> {
            if (!offer_ || interfaces_.empty()) return out_of_place("no interface");
            return true;
          },
          [&](Statics& statics) { return take(statics); },
          [&](Neighbours& neighbours) { return take(neighbours); },
          [&](SendGroups& groups) { return take(groups); },
          [&](Stations& stations) { return take(stations); },
          [&](StationGroups& groups) { return take(groups); },
          [](const Hello&) -> Result<bool> { return out_of_place("a message out of place"); },
          [](const Ready&) -> Result<bool> { return out_of_place("a message out of place"); },
          [](const Released&) -> Result<bool> { return out_of_place("a message out of place"); },
      },
      received.message);
}

Result<bool> Assembly::take(Interface& interface, FileDescriptor&& tun) {
  if (!offer_) return out_of_place("an interface without an offer");
  if (!tun) return out_of_place("an interface without its TUN");
  if (interfaces_.size() >= kMaxInterfaces || interfaces_.contains(interface.pkey)) {
    return out_of_place("too many interfaces");
  }
  current_ = &interfaces_[interface.pkey];
  current_->tun = std::move(tun);
  current_->mtu = interface.mtu;
  current_->cache.selection = std::move(interface.selection);
  return false;
}

Result<bool> Assembly::take(Statics& statics) {
  if (current_ == nullptr) return out_of_place("neighbours without an interface");
  return append(current_->statics, statics.neighbours, kMaxStatics);
}

Result<bool> Assembly::take(Neighbours& neighbours) {
  if (current_ == nullptr) return out_of_place("neighbours without an interface");
  return append(current_->cache.neighbours, neighbours.neighbours, kMaxNeighbours);
}

Result<bool> Assembly::take(SendGroups& groups) {
  if (current_ == nullptr) return out_of_place("groups without an interface");
  return append(current_->cache.send_groups, groups.mgids, kMaxSendGroups);
}

Result<bool> Assembly::take(Stations& stations) {
  if (current_ == nullptr) return out_of_place("stations without an interface");
  return append(current_->cache.stations, stations.stations, kMaxStations);
}

Result<bool> Assembly::take(StationGroups& groups) {
  if (current_ == nullptr) return out_of_place("groups without an interface");
  return append(current_->cache.station_groups, groups.groups, kMaxStationGroups);
}

Hello hello_of(const verbs::Device& device, std::vector<PKey> pkeys) {
  const auto port = device.query();
  return {.program_version = IPOIB_VERSION,
          .device = device.name(),
          .port = device.port(),
          .guid = port ? port->gid.guid() : Guid(),
          .pkeys = std::move(pkeys)};
}

std::optional<Handover> request_handover(const Hello& wanted, bool is_required, Logger& log,
                                         std::chrono::milliseconds patience) {
  bool found = false;
  for (auto& socket : control::connect_for_handover()) {
    auto handover = talk(Connection(std::move(socket)), wanted, patience);
    if (!handover) {
      if (handover.error().code == ENODEV) continue;
      throw std::runtime_error("cannot take over: " + handover.error().message);
    }
    if (*handover) return std::move(*handover);
    found = true;
  }
  const std::string why =
      found ? "the running ipoibd has ended" : "no ipoibd to take over from is running";
  if (is_required) throw std::runtime_error("--takeover=required: " + why);
  log.info("{}; starting as usual", why);
  return std::nullopt;
}

}  // namespace ipoib::daemon::handover
