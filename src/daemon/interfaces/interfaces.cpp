#include "daemon/interfaces/interfaces.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <exception>
#include <utility>

#include "daemon/options/option_values.hpp"
#include "ipoib/log.hpp"
#include "ipoib/monotonic_clock.hpp"
#include "ipoib/pkey_table.hpp"

namespace ipoib::daemon {

namespace {
constexpr std::size_t kMaxStatus = 512;  // bytes of the line for the operator

/// Whether all interfaces are VLANs, so that no network interface carries them.
bool are_vlans(const std::map<InterfaceNumber, PKey>& partitions, const Options& options) {
  return std::ranges::all_of(partitions,
                             [&](const auto& each) { return options.vlans.contains(each.second); });
}

Error is_ending() { return {ESHUTDOWN, "the interface is ending: start ipoibd again"}; }

}  // namespace

Interfaces::Interfaces(const Dependencies& dependencies)
    : dependencies_(dependencies),
      plan_(dependencies.options.pkeys, dependencies.options.interface, dependencies.changes,
            dependencies.options.vlans),
      retry_timer_(dependencies.context, [this] { apply_plan(); }) {}

void Interfaces::start(const verbs::PortSnapshot& primary) {
  ports_[PortRole::primary] = primary;
  try {
    for (const PKey partition : update_plan().create) create(partition);
  } catch (...) {
    undo_start();
    throw;
  }
  if (knows_partitions()) discard_kept();
  if (interfaces_.empty())
    dependencies_.log.info("waiting for a partition in the port's P_Key table");
}

void Interfaces::undo_start() {
  for (auto& [number, interface] : interfaces_) {
    if (interface->adopted()) {
      dependencies_.kept.insert_or_assign(interface->id().name, interface->kept());
    } else {
      interface->set_ending(kRemoved);
    }
  }
}

void Interfaces::on_event(const InterfaceEvent& event) {
  if (const auto* const response = std::get_if<wire::SaResponse>(&event)) {
    if (auto* const interface = find(interface_of(response->id))) interface->on_event(event);
    return;
  }
  if (const auto* const update = std::get_if<PortUpdate>(&event)) {
    ports_[update->role] = update->port;
    // The plan is applied first, since an interface whose partition has gone can leave its groups
    // only while its link is up.
    apply_plan();
  }
  for (auto& [number, interface] : interfaces_) interface->on_event(event);
}

void Interfaces::replace_port(PortRole role) {
  for (auto& [number, interface] : interfaces_) {
    try {
      interface->replace_port(role);
    } catch (const std::exception& error) {
      interface->stop({StopReason::Kind::failed, error.what()});
    }
  }
}

void Interfaces::reconfigure(const Reloaded& changes) {
  // These come first, since a new interface has the new configuration.
  for (auto& [number, interface] : interfaces_) {
    const auto neighbours = changes.neighbours.find(interface->id().pkey);
    const bool has_others = neighbours != changes.neighbours.end();
    if (!changes.poll && !has_others) continue;
    interface->on_event(Reconfigured{
        .poll = changes.poll, .neighbours = has_others ? neighbours->second : NeighbourChanges()});
  }
  if (!changes.pkeys) return;
  plan_.choose(*changes.pkeys);
  apply_plan();
}

// --- Creation and removal ------------------------------------------------------------------------

/// A port that is not active may be in any partition.
bool Interfaces::knows_partitions() const {
  return ports_[PortRole::primary].active &&
         (!dependencies_.has_backup || ports_[PortRole::backup].active);
}

/// A partition that either port is in has an interface.
InterfacePlan::Changes Interfaces::update_plan() {
  auto pkeys = ports_[PortRole::primary].pkeys;
  const auto& of_backup = ports_[PortRole::backup].pkeys;
  pkeys.insert(pkeys.end(), of_backup.begin(), of_backup.end());
  if (knows_partitions()) log_missing_vlans(pkeys);
  return plan_.update(knows_partitions(), pkeys);
}

/// If the partitions are not chosen, a VLAN whose partition is missing has no interface that says
/// so.
void Interfaces::log_missing_vlans(const std::vector<PKey>& table) {
  if (!dependencies_.options.pkeys.empty()) return;
  for (const auto& [pkey, vlan] : dependencies_.options.vlans) {
    if (find_partition(table, pkey)) {
      missing_vlans_.erase(pkey);
    } else if (missing_vlans_.insert(pkey).second) {
      dependencies_.log.warn(
          "--vlan {}={:#06x}: waiting for the partition: the port is in {}; add the port in the "
          "subnet manager, or choose another P_Key",
          vlan.value(), pkey.value(), list_of(table));
    }
  }
}

void Interfaces::apply_plan() {
  if (stopping_) return;
  const auto changes = update_plan();
  for (const PKey partition : changes.remove) remove(partition);
  if (changes.left_out > left_out_) {
    dependencies_.log.warn(
        "{} partitions have no interface: the maximum is {}; choose partitions with --pkey",
        changes.left_out, kMaxInterfaces);
  }
  left_out_ = changes.left_out;
  std::string failure;
  for (const PKey partition : changes.create) {
    try {
      create(partition);
    } catch (const std::exception& error) {
      plan_.on_removed(partition);
      failure = error.what();
    }
  }
  if (failure.empty()) {
    if (knows_partitions()) discard_kept();
    (void)retry_.succeeded();
    return retry_timer_.set(kNever);
  }
  if (retry_.failed()) dependencies_.log.error("{}; trying again", failure);
  retry_timer_.set(monotonic_now() + retry_.pause());
}

void Interfaces::create(PKey partition) {
  last_number_ = InterfaceNumber(last_number_.value() + 1);
  const std::string name = plan_.name_of(partition);
  if (const auto kept = dependencies_.kept.find(name); kept != dependencies_.kept.end()) {
    homes_[partition] = kept->second.home;
  }
  if (const auto at = dependencies_.handed.find(partition); at != dependencies_.handed.end()) {
    homes_[partition] = at->second.home;
  }
  const auto home = homes_.find(partition);
  auto made = dependencies_.factory.create(
      {last_number_, partition, name, home != homes_.end() ? home->second : nullptr}, *this,
      dependencies_.sa);
  for (const PortRole role : kPortRoles) {
    if (role == PortRole::backup && !dependencies_.has_backup) continue;
    made->on_event(PortUpdate{role, ports_[role]});
  }
  dependencies_.kept.erase(made->id().name);
  const auto& options = dependencies_.options;
  // It may have been renamed under another daemon.
  if (!options.vlans.empty() && partition == base_partition(options.pkeys)) {
    trunk_ = made->kept().name;
  }
  interfaces_.emplace(last_number_, std::move(made));
  rename_vlans();
}

/// VLANs are named after the TAP that carries them.
void Interfaces::on_renamed(InterfaceNumber number, const std::string& name) {
  const auto& options = dependencies_.options;
  const auto at = interfaces_.find(number);
  if (at == interfaces_.end() || options.vlans.empty()) return;
  if (at->second->id().pkey != base_partition(options.pkeys)) return;
  trunk_ = name;
  rename_vlans();
}

/// A name that is too long for ibarp(8) does not follow.
void Interfaces::rename_vlans() {
  if (trunk_.empty()) return;
  for (auto& [number, interface] : interfaces_) {
    const auto vlan = dependencies_.options.vlan_of(interface->id().pkey);
    if (!vlan) continue;
    const auto name = trunk_ + "." + std::to_string(vlan->value());
    if (is_interface_name(name)) interface->rename(name);
  }
}

/// Removes network interfaces of partitions that the port is no longer in.
void Interfaces::discard_kept() {
  for (const auto& [name, kept] : std::exchange(dependencies_.kept, {})) {
    dependencies_.log.info("{}: the port is no longer in its partition: removing the interface",
                           kept.name);
    if (const auto done = dependencies_.factory.discard(kept); !done)
      dependencies_.log.warn("{}", done.error().message);
  }
}

void Interfaces::remove(PKey partition) {
  for (auto& [number, interface] : interfaces_) {
    if (interface->id().pkey != partition) continue;
    dependencies_.log.info("{}: the port is no longer in partition {:#06x}: removing the interface",
                           interface->id().name, partition.value());
    interface->stop({});
  }
}

Result<std::string> Interfaces::add_interface(InterfaceNumber beside, PKey partition,
                                              const std::string& name) {
  const auto at = interfaces_.find(beside);
  if (stopping_ || at == interfaces_.end()) return is_ending();
  if (auto added = plan_.add(partition, name); !added) return added.error();
  auto its_name = plan_.name_of(partition);
  dependencies_.log.info("{}: adding the interface of partition {:#06x}, as requested", its_name,
                         partition.value());
  homes_[partition] = at->second->id().home;
  try {
    create(partition);
  } catch (const std::exception& error) {
    homes_.erase(partition);
    plan_.cancel_add(partition);
    return Error{EIO, error.what()};
  }
  return its_name;
}

void Interfaces::delete_interface(InterfaceNumber number, Deleted done) {
  const auto at = interfaces_.find(number);
  if (stopping_ || at == interfaces_.end()) return done(is_ending());
  const auto& id = at->second->id();
  if (auto removed = plan_.remove(id.pkey); !removed) return done(removed.error());
  dependencies_.log.info("{}: deleting the interface of partition {:#06x}, as requested", id.name,
                         id.pkey.value());
  deleting_.emplace(number, std::move(done));
  at->second->stop({});
}

// --- Watching -----------------------------------------------------------------------------------

std::string Interfaces::status() const {
  if (interfaces_.empty()) return "waiting for a partition in the port's P_Key table";
  std::string text;
  for (const auto& [number, interface] : interfaces_) {
    const auto awaited = awaited_.find(number);
    text += (text.empty() ? "" : "; ") + interface->id().name;
    if (awaited == awaited_.end()) {
      text += " starts";
    } else {
      text += awaited->second.empty() ? " is up" : " waits for " + awaited->second;
    }
    if (text.size() > kMaxStatus) return text.substr(0, kMaxStatus) + " ...";
  }
  return text;
}

void Interfaces::check_threads() {
  for (auto& [number, interface] : interfaces_) {
    unanswered_.insert(number);
    interface->on_event(LinkReportRequest{});
  }
}

void Interfaces::on_report(InterfaceNumber number, const LinkReport& report) {
  unanswered_.erase(number);
  const auto [at, is_new] = awaited_.try_emplace(number, report.waiting_for);
  const bool is_changed = std::exchange(at->second, report.waiting_for) != report.waiting_for;
  if (is_new || is_changed) dependencies_.owner.on_status();
}

// --- End ----------------------------------------------------------------------------------------

void Interfaces::stop(const StopReason& why) {
  if (stopping_) return;
  stopping_ = why;
  for (auto& [number, interface] : interfaces_) interface->stop(why);
  if (interfaces_.empty()) dependencies_.owner.on_finished(why.reason);
}

void Interfaces::hand_over(const std::set<InterfaceNumber>& taken) {
  if (stopping_) return;
  stopping_ = StopReason{StopReason::Kind::handed_over, {}};
  for (auto& [number, interface] : interfaces_) {
    interface->stop(taken.contains(number) ? *stopping_ : StopReason{});
  }
  if (interfaces_.empty()) dependencies_.owner.on_finished({});
}

std::map<InterfaceNumber, PKey> Interfaces::partitions() const {
  std::map<InterfaceNumber, PKey> out;
  for (const auto& [number, interface] : interfaces_) out.emplace(number, interface->id().pkey);
  return out;
}

PartitionInterface* Interfaces::find(InterfaceNumber number) const {
  const auto at = interfaces_.find(number);
  return at != interfaces_.end() ? at->second.get() : nullptr;
}

PartitionInterface* Interfaces::find(const IpAddress& address) const {
  for (const auto& [number, interface] : interfaces_) {
    if (interface->has_address(address)) return interface.get();
  }
  return nullptr;
}

void Interfaces::stop_now() {
  for (auto& [number, interface] : interfaces_) remove_at_end(*interface);
  interfaces_.clear();
}

/// Removes the network interface of an interface that ends, unless it is for the next daemon.
void Interfaces::remove_at_end(PartitionInterface& interface) {
  const bool is_wanted = stopping_ && dependencies_.options.keep;
  if (is_wanted && interface.is_at_home()) return;
  if (is_wanted) {
    dependencies_.log.warn(
        "{}: is in another network namespace, where the next daemon would not find it: removing it",
        interface.id().name);
  }
  interface.set_ending(kRemoved);
}

void Interfaces::on_mode(InterfaceNumber number, PumpMode mode) {
  dependencies_.owner.on_mode(number, mode);
}

void Interfaces::on_handover(FileDescriptor connection) {
  dependencies_.owner.on_handover(std::move(connection));
}

/// It was moved at the moment at which the daemon ends, or at which the device is lost.
void Interfaces::end_moved(PartitionInterface& interface) {
  const bool waits_for_device = stopping_->kind == StopReason::Kind::failed;
  if (!waits_for_device) return remove_at_end(interface);
  dependencies_.kept.insert_or_assign(interface.id().name, interface.kept());
}

/// Destroys the interface later, not within its own call.
void Interfaces::on_ended(InterfaceNumber number, const StopReason& why) {
  boost::asio::post(dependencies_.context, [this, alive = std::weak_ptr(alive_), number, why] {
    if (!alive.expired()) destroy(number, why);
  });
}

void Interfaces::destroy(InterfaceNumber number, const StopReason& why) {
  auto interface = std::move(interfaces_.extract(number).mapped());
  awaited_.erase(number);
  unanswered_.erase(number);
  const bool was_stopping = stopping_.has_value();
  if (const auto deletion = deleting_.extract(number);
      deletion && why.kind != StopReason::Kind::failed) {
    // This holds also if the interface was moved or deleted meanwhile.
    finish_deletion(std::move(interface), deletion.mapped());
  } else {
    settle(*interface, why);
  }
  interface.reset();  // apply_plan() may create another one of this name
  if (!stopping_) return apply_plan();
  if (was_stopping && interfaces_.empty()) dependencies_.owner.on_finished(stopping_->reason);
}

/// What the end of an interface means for its network interface, the plan, and the other
/// interfaces.
void Interfaces::settle(PartitionInterface& interface, const StopReason& why) {
  const auto partition = interface.id().pkey;
  const auto& name = interface.id().name;
  switch (why.kind) {
    case StopReason::Kind::requested:
      remove_at_end(interface);
      homes_.erase(partition);
      plan_.on_removed(partition);
      break;
    case StopReason::Kind::handed_over:
      break;
    case StopReason::Kind::moved:
      follow(partition, interface);
      if (stopping_) end_moved(interface);
      break;
    case StopReason::Kind::deleted: {
      const StopReason deleted{why.kind, "interface " + name + " was deleted"};
      dependencies_.log.warn("{}", deleted.reason);
      plan_.forget(partition);
      interface.set_ending(kDeletedOnHost);
      if (are_vlans(partitions(), dependencies_.options)) stop(deleted);
      break;
    }
    case StopReason::Kind::failed:
      dependencies_.kept.insert_or_assign(name, interface.kept());
      stop({why.kind, name + ": " + why.reason});
      break;
  }
}

/// The operator has deleted it.
void Interfaces::finish_deletion(std::unique_ptr<PartitionInterface> interface,
                                 const Deleted& done) {
  const auto partition = interface->id().pkey;
  interface->set_ending(kDeletedByDaemon);
  homes_.erase(partition);
  plan_.on_removed(partition);
  done({});
  destroy_later(std::move(interface));
}

/// The response to the request that has deleted it is written by its own control server.
void Interfaces::destroy_later(std::unique_ptr<PartitionInterface> interface) {
  ended_.push_back(std::move(interface));
  boost::asio::post(dependencies_.context, [this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) ended_.clear();
  });
}

/// apply_plan() adopts the network interface where it is now.
void Interfaces::follow(PKey partition, const PartitionInterface& interface) {
  plan_.on_removed(partition);
  homes_[partition] = interface.current_namespace();
  dependencies_.log.info("{}: was moved to another network namespace: following it",
                         interface.id().name);
}

}  // namespace ipoib::daemon
