// The functions are in the order of an interface's life: port and host changes, SA requests and
// responses, end.
#include "daemon/interfaces/interface_control.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "daemon/options/interface_plan.hpp"
#include "daemon/port/port_watcher.hpp"
#include "daemon/pump/admin.hpp"
#include "ipoib/log.hpp"
#include "ipoib/pkey_table.hpp"

namespace ipoib::daemon {

namespace {

void reply_members(const wire::SaResult& result, const InterfaceControl::Callback& done) {
  const auto* const table = std::get_if<wire::McMemberTable>(&result);
  if (table == nullptr) return done(Error(EIO, wire::failure_of(result).text()));
  std::vector<control::Member> members;
  for (const auto& record : *table) members.push_back({record.port_gid, record.join_state});
  done(control::Reply(std::move(members)));
}

/// What keeps a port with this P_Key table from the whole partition; empty if nothing does.
std::string partition_warning(const std::vector<PKey>& table, PKey pkey, std::string_view port) {
  const auto found = find_partition(table, pkey);
  if (!found) {
    const auto meant = meant_in_hexadecimal(table, pkey);
    return fmt::format(
        "waiting for partition {:#06x}: {} is in {}; add the port in the subnet manager, "
        "or choose another P_Key{}",
        pkey.value(), port, list_of(table),
        meant ? fmt::format(" (is {:#06x} meant? Hexadecimal numbers need 0x)", meant->value())
              : "");
  }
  if (found->pkey.is_full()) return {};
  return fmt::format(
      "{} is a limited member of partition {:#06x}: reaches full members, but not other limited "
      "members; only the subnet manager can make it a full member",
      port, pkey.value());
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
      outbox_(dependencies.context, dependencies.to_interface),
      host_({.context = dependencies.context,
             .host = dependencies.host,
             .trace = dependencies.trace,
             .log = dependencies.log,
             .interface = dependencies.interface,
             .link_local = dependencies.link_local,
             .changed = [this](HostChanged message) { outbox_.post(std::move(message)); },
             .renamed = [this](const std::string& name) { on_renamed(name); },
             .gone =
                 [this] {
                   using Kind = StopReason::Kind;
                   stop({dependencies_.has_moved() ? Kind::moved : Kind::deleted, {}});
                 }}),
      leaves_(dependencies.context,
              [this] { dependencies_.owner.on_ended(dependencies_.number, *stop_reason_); }),
      inbox_watch_(dependencies.context, dependencies.inbox.descriptor(),
                   [this] { on_messages(); }) {
  for (const PortRole role : kPortRoles)
    next_request_[role] = first_control_request(dependencies.number, role);
  auto neighbours = dependencies.neighbours->all();
  if (!neighbours.empty()) outbox_.post(SetNeighbours{std::move(neighbours)});
}

// --- Port and host -------------------------------------------------------------------------------

void InterfaceControl::on_event(const InterfaceEvent& event) {
  std::visit([this](const auto& one) { on(one); }, event);
}

void InterfaceControl::replace_port(const PortReplaced& part) {
  outbox_.post(part);
  outbox_.post(SetNeighbours{dependencies_.neighbours->all()});
}

void InterfaceControl::on(const PortUpdate& update) {
  // A link that is up leaves its groups when it stops; one that lost the port could not.
  if (stop_reason_) return;
  pkeys_[update.role] = update.port.pkeys;
  log_partition(update.role, update.port);
  // The backup port changes neither addresses of the host nor its DHCP client identifier.
  if (update.role == PortRole::primary && !update.port.gid.is_zero()) {
    host_.on_guid(update.port.gid.guid());
  }
  outbox_.post(PortChanged{port_status(update.port, dependencies_.pkey), update.role});
}

/// Most interfaces have no backup port, so the other one needs no name.
static std::string_view text_of(PortRole role) {
  return role == PortRole::backup ? "the backup port" : "the port";
}

/// Logs a changed membership in the partition.
void InterfaceControl::log_partition(PortRole role, const verbs::PortSnapshot& port) {
  const auto found = find_partition(port.pkeys, dependencies_.pkey);
  const PKey entry = found ? found->pkey : PKey();
  if (std::exchange(entry_[role], entry) == entry) return;
  const auto warning = partition_warning(port.pkeys, dependencies_.pkey, text_of(role));
  if (!warning.empty()) dependencies_.log.warn("{}", warning);
}

/// If the mailbox is full, makes the link confirm everything instead.
void InterfaceControl::on(const SubnetNotice& notice) {
  if (!outbox_.try_post(SubnetNotice(notice))) outbox_.post(ClientReregister{notice.role});
}

/// If the mailbox is full, the thread does not respond in time.
void InterfaceControl::on(const LinkReportRequest& request) {
  (void)outbox_.try_post(LinkReportRequest(request));
}

void InterfaceControl::on_renamed(const std::string& name) {
  outbox_.post(Renamed{name});
  dependencies_.renamed(name);
  dependencies_.owner.on_renamed(dependencies_.number, name);
}

void InterfaceControl::set_mode(PumpMode mode) { outbox_.post(SetMode{mode}); }

void InterfaceControl::handle(control::InterfaceRequest request,
                              std::function<void(control::Response)> done) {
  if (std::holds_alternative<control::StatsRequest>(request)) done = with_common_counters(done);
  if (control::is_change(request)) done = stored(dependencies_.neighbours, request, done);
  ToInterface message(AdminRequest{request, std::move(done)});
  if (outbox_.try_post(std::move(message))) return;
  std::get<AdminRequest>(message).done(Error(EBUSY, "the interface is too busy: try again"));
}

/// If the mailbox is full, the connection is closed.
void InterfaceControl::start_capture(const control::CaptureRequest& request,
                                     FileDescriptor connection) {
  (void)outbox_.try_post(StartCapture{request, std::move(connection)});
}

/// Adds the counters of the port, which are read here because that may block, and of the process.
InterfaceControl::Callback InterfaceControl::with_common_counters(Callback done) const {
  auto common = sa_counters(dependencies_.sa.counters());
  std::ranges::copy(dependencies_.common_counters(), std::back_inserter(common));
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
  done(control::Reply(control::AddedInterface{
      *name, partition_warning(pkeys_[active_], request.pkey.as_full(), text_of(active_))}));
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
}

void InterfaceControl::on(wire::SaRequest& message) {
  leaves_.on_request(message);
  dependencies_.sa.send(message);
}

/// If the mailbox is full the reply is lost; the requester repeats its request.
void InterfaceControl::on(link::ArpReplyCheck& message) {
  if (host_.permits_reply(message.request)) {
    (void)outbox_.try_post(ArpReplyPermitted{message.request});
  }
}

void InterfaceControl::on(LinkReport& message) {
  active_ = message.active;
  dependencies_.owner.on_report(dependencies_.number, message);
}

void InterfaceControl::on(Events& message) {
  for (const auto& event : message.events) dependencies_.publish(event);
}

void InterfaceControl::on(const wire::SaResponse& response) {
  if (leaves_.on_response(response.id)) return;
  if (const auto node = members_wanted_.extract(response.id)) {
    return reply_members(response.result, node.mapped());
  }
  outbox_.post(response);
}

// --- End ----------------------------------------------------------------------------------------

void InterfaceControl::stop(StopReason why) {
  if (stop_reason_) return;
  stop_reason_ = std::move(why);
  outbox_.post(Stop{});
}

void InterfaceControl::on(Stopped& message) {
  if (!stop_reason_) stop_reason_ = std::move(message.why);
  leaves_.wait();
}

}  // namespace ipoib::daemon
