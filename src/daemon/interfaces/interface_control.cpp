// In order of an interface's lifetime: port and host changes, SA requests and responses, end.
#include "daemon/interfaces/interface_control.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>

#include "daemon/options/interface_plan.hpp"
#include "daemon/port/port_watcher.hpp"
#include "daemon/pump/admin.hpp"
#include "ipoib/log.hpp"
#include "ipoib/monotonic_clock.hpp"
#include "ipoib/pkey_table.hpp"

namespace ipoib::daemon {

namespace {

// Long enough for the SA to respond to a leave, and for one retry.
constexpr std::chrono::seconds kLeaveTimeout{3};
// Until the next attempt to post to a full mailbox.
constexpr std::chrono::milliseconds kRedeliverPause{10};

void reply_members(const wire::SaResult& result, const InterfaceControl::Callback& done) {
  const auto* const table = std::get_if<wire::McMemberTable>(&result);
  if (table == nullptr) return done(Error(EIO, wire::failure_of(result).text()));
  std::vector<control::Member> members;
  for (const auto& record : *table) members.push_back({record.port_gid, record.join_state});
  done(control::Reply(std::move(members)));
}

/// Keeps permanent entries and pins for the next interface of the partition.
InterfaceControl::Callback stored(const std::shared_ptr<StaticNeighbours>& neighbours,
                                  const control::InterfaceRequest& request,
                                  const InterfaceControl::Callback& done) {
  return [neighbours, request, done](control::Response response) {
    if (response) neighbours->on_done(request);
    done(std::move(response));
  };
}

}  // namespace

InterfaceControl::InterfaceControl(const Dependencies& dependencies)
    : dependencies_(dependencies),
      host_({.context = dependencies.context,
             .host = dependencies.host,
             .trace = dependencies.trace,
             .log = dependencies.log,
             .changed =
                 [this](HostChanged message) {
                   addresses_ = message.view.addresses;
                   pending_.host = std::move(message);
                 },
             .updated = [this] { follow_host(); }}),
      redeliver_timer_(dependencies.context, [this] { deliver(); }),
      leave_timer_(dependencies.context,
                   [this] {
                     leaves_.clear();
                     end_if_done();
                   }),
      inbox_watch_(dependencies.context, dependencies.inbox.descriptor(),
                   [this] { on_messages(); }) {
  for (const PortRole role : kPortRoles)
    next_request_[role] = first_control_request(dependencies.number, role);
  auto neighbours = dependencies.neighbours->all();
  // The mailbox is new, so it has room.
  if (!neighbours.empty())
    (void)dependencies.to_interface.post(SetNeighbours{std::move(neighbours)});
}

// --- Port and host -------------------------------------------------------------------------------

/// What is on its way to the part before is not for the new one.
void InterfaceControl::replace_port(const PortReplaced& part) {
  std::erase_if(pending_.responses,
                [&](const auto& response) { return port_of(response.id) == part.role; });
  pending_.ports[part.role].reset();
  pending_.parts[part.role] = part;
  deliver();
}

void InterfaceControl::on_port(PortRole role, const verbs::PortSnapshot& port) {
  // A link that is up leaves its groups when it stops; one that lost the port could not.
  if (state_ != State::running) return;
  log_partition(role, port);
  // The backup port changes neither addresses of the host nor its DHCP client identifier.
  if (role == PortRole::primary) follow_guid(port);
  pending_.ports[role] = port_status(port, dependencies_.pkey);
  deliver();
}

/// Logs a changed membership in the partition.
void InterfaceControl::log_partition(PortRole role, const verbs::PortSnapshot& port) {
  const auto found = find_partition(port.pkeys, dependencies_.pkey);
  const PKey entry = found ? found->pkey : PKey();
  if (std::exchange(entry_[role], entry) == entry) return;
  if (!found) {
    const auto meant = meant_in_hexadecimal(port.pkeys, dependencies_.pkey);
    dependencies_.log.warn(
        "waiting for partition {:#06x}: the {} port is in {}; add the port in the subnet manager, "
        "or choose another P_Key{}",
        dependencies_.pkey.value(), name(role), list_of(port.pkeys),
        meant ? fmt::format(" (is {:#06x} meant? Hexadecimal numbers need 0x)", meant->value())
              : "");
  } else if (!entry.is_full()) {
    dependencies_.log.warn(
        "the {} port is a limited member of partition {:#06x}: reaches full members, but not other "
        "limited members",
        name(role), dependencies_.pkey.value());
  }
}

void InterfaceControl::on_client_reregister(PortRole role) {
  pending_.reregister[role] = true;
  deliver();
}

void InterfaceControl::on_object_failed(const void* object) {
  pending_.failures.push_back({object});
  deliver();
}

/// If the mailbox is full, makes the link confirm everything instead.
void InterfaceControl::on_notice(PortRole role, const wire::Notice& notice) {
  if (!dependencies_.to_interface.post(SubnetNotice{notice, role})) {
    pending_.reregister[role] = true;
  }
  deliver();
}

void InterfaceControl::on_host_name() { follow_host(); }

void InterfaceControl::follow_host() {
  if (!dependencies_.host.interface_exists()) {
    using Kind = StopReason::Kind;
    return stop({dependencies_.has_moved() ? Kind::moved : Kind::deleted, {}});
  }
  const auto& name = dependencies_.host.interface_name();
  if (!name.empty() && name != dependencies_.interface) {
    dependencies_.interface = name;
    pending_.name = name;
    dependencies_.renamed(name);
    dependencies_.owner.on_renamed(dependencies_.number, name);
  }
  if (dependencies_.host.link_local_is_duplicate()) replace_link_local();
  deliver();
}

/// Another interface of the same port and partition has the same identifier: in another network
/// namespace, or of another program.
void InterfaceControl::replace_link_local() {
  const auto address = dependencies_.link_local.on_duplicate();
  if (!address) return;
  dependencies_.log.warn(
      "another interface on the link has the IPv6 link-local address: using {} instead",
      address->to_string());
  dependencies_.host.set_link_local(*address);
  host_.update_soon();
}

void InterfaceControl::follow_guid(const verbs::PortSnapshot& port) {
  if (port.gid.is_zero()) return;
  const auto address = dependencies_.link_local.on_guid(port.gid.guid());
  if (!address) return;
  dependencies_.log.info("the port has another GUID: the IPv6 link-local address is {}",
                         address->to_string());
  dependencies_.host.set_link_local(*address);
  host_.update_soon();
}

void InterfaceControl::handle(control::InterfaceRequest request,
                              std::function<void(control::Response)> done) {
  if (std::holds_alternative<control::StatsRequest>(request)) done = with_common_counters(done);
  if (control::is_change(request)) done = stored(dependencies_.neighbours, request, done);
  ToInterface message(AdminRequest{request, std::move(done)});
  if (dependencies_.to_interface.post(std::move(message))) return;
  std::get<AdminRequest>(message).done(Error(EBUSY, "the interface is too busy: try again"));
}

/// Adds the counters of the port, which are read here because that may block, and of the process.
InterfaceControl::Callback InterfaceControl::with_common_counters(Callback done) const {
  auto common = sa_counters(dependencies_.sa.counters());
  std::ranges::copy(port_counters(dependencies_.of_ports()), std::back_inserter(common));
  std::ranges::copy(dependencies_.of_process(), std::back_inserter(common));
  return [done = std::move(done), common = std::move(common)](control::Response response) {
    auto* const counters =
        response ? std::get_if<std::vector<control::Counter>>(&*response) : nullptr;
    if (counters != nullptr) counters->insert(counters->end(), common.begin(), common.end());
    done(std::move(response));
  };
}

void InterfaceControl::find_members(const Gid& mgid, std::function<void(control::Response)> done) {
  auto& next = next_request_[active_];
  const auto id = std::exchange(next, wire::SaRequestId(next.value() + 1));
  members_wanted_.emplace(id, std::move(done));
  dependencies_.sa.send({id, wire::members_query(mgid)});
}

void InterfaceControl::add_interface(const control::AddInterfaceRequest& request, Callback done) {
  const auto name =
      dependencies_.owner.add_interface(dependencies_.number, request.pkey.as_full(), request.name);
  if (!name) return done(name.error());
  done(control::Reply(control::AddedInterface{*name}));
}

void InterfaceControl::delete_interface(Callback done) {
  dependencies_.owner.delete_interface(dependencies_.number,
                                       [done = std::move(done)](const Result<void>& deleted) {
                                         if (!deleted) return done(deleted.error());
                                         done(control::Reply(control::Done{}));
                                       });
}

// --- SA requests and responses ------------------------------------------------------------------

void InterfaceControl::on_messages() {
  dependencies_.inbox.drain(messages_);
  for (auto& message : messages_) {
    std::visit([this](auto& content) { on(content); }, message);
  }
  messages_.clear();
  end_if_done();
}

void InterfaceControl::on(wire::SaRequest& message) {
  if (std::holds_alternative<wire::LeaveQuery>(message.query)) leaves_.insert(message.id);
  dependencies_.sa.send(message);
}

void InterfaceControl::on(link::HostGroupsChanged&) { host_.expect_change(); }

void InterfaceControl::on(link::RedirectReceived&) { host_.expect_redirect(); }

/// If the mailbox is full the reply is lost; the requester repeats its request.
void InterfaceControl::on(link::ArpReplyCheck& message) {
  if (!dependencies_.host.permits_reply(message.request.target_protocol,
                                        message.request.sender_protocol)) {
    return;
  }
  (void)dependencies_.to_interface.post(ArpReplyPermitted{message.request});
}

void InterfaceControl::on(link::ArpPolicyUsed&) { host_.check_arp_policy(); }

void InterfaceControl::on(RoutesWanted&) { host_.expect_view(); }

void InterfaceControl::on(LinkReport& message) {
  active_ = message.active;
  dependencies_.owner.on_report(dependencies_.number, message);
}

void InterfaceControl::reconfigure(const Reconfigured& changes) {
  if (changes.poll) pending_.configuration.poll = changes.poll;
  for (const auto& [address, to] : changes.neighbours)
    pending_.configuration.neighbours.insert_or_assign(address, to);
  deliver();
}

bool InterfaceControl::has_address(const IpAddress& address) const {
  return std::ranges::any_of(addresses_,
                             [&](const auto& prefix) { return prefix.address == address; });
}

/// If the mailbox is full, the thread does not respond in time.
void InterfaceControl::request_report() {
  (void)dependencies_.to_interface.post(LinkReportRequest{});
}

void InterfaceControl::set_mode(PumpMode mode) {
  pending_.mode = mode;
  deliver();
}

void InterfaceControl::on(CacheSaved& message) { message.done(std::move(message.page)); }

void InterfaceControl::on(ModeReached& message) {
  dependencies_.owner.on_mode(dependencies_.number, message.mode);
}

void InterfaceControl::on(AdminResponse& message) { message.done(std::move(message.response)); }

void InterfaceControl::on(Events& message) {
  for (const auto& event : message.events) dependencies_.publish(event);
}

void InterfaceControl::on_response(const wire::SaResponse& response) {
  if (leaves_.erase(response.id) > 0) return end_if_done();
  if (const auto node = members_wanted_.extract(response.id)) {
    return reply_members(response.result, node.mapped());
  }
  pending_.responses.push_back(response);
  deliver();
}

/// Posts the pending messages; if the mailbox is full, tries again later with the then current
/// values.
void InterfaceControl::deliver() {
  if (!pending_.post_to(dependencies_.to_interface, *dependencies_.neighbours))
    redeliver_timer_.set(monotonic_now() + kRedeliverPause);
}

// --- End ----------------------------------------------------------------------------------------

void InterfaceControl::stop(StopReason why) {
  if (state_ != State::running) return;
  state_ = State::stopping;
  stop_reason_ = std::move(why);
  pending_.stop = true;
  pending_.ports = {};  // see on_port()
  deliver();
}

void InterfaceControl::on(Stopped& message) {
  state_ = State::stopped;
  if (!stop_reason_) stop_reason_ = std::move(message.why);
  leave_timer_.set(monotonic_now() + kLeaveTimeout);
}

void InterfaceControl::end_if_done() {
  if (state_ != State::stopped || !leaves_.empty()) return;
  state_ = State::ended;
  dependencies_.owner.on_ended(dependencies_.number, *stop_reason_);
}

}  // namespace ipoib::daemon
