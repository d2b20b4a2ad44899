// In the order of an interface's life: news of port and host, questions and answers, its end.
#include "daemon/interface_control.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "daemon/interface_plan.hpp"
#include "daemon/port_watcher.hpp"
#include "ipoib/log.hpp"
#include "ipoib/monotonic_clock.hpp"
#include "ipoib/pkey_table.hpp"

namespace ipoib::daemon {

namespace {

// Enough for the administrator to answer a leave, or to have been asked again once.
constexpr std::chrono::seconds kLeavePatience{3};
// Between two dumps of the host's addresses, lest ten thousand changes be as many dumps.
constexpr std::chrono::milliseconds kHostPause{50};
// When the interface's mailbox was full.
constexpr std::chrono::milliseconds kRedeliver{10};

}  // namespace

InterfaceControl::InterfaceControl(const Parts& parts)
    : parts_(parts),
      host_alarm_(parts.context, [this] { look_at_host(); }),
      redeliver_alarm_(parts.context, [this] { deliver(); }),
      patience_alarm_(parts.context,
                      [this] {
                        leaves_.clear();
                        end_if_over();
                      }),
      netlink_watch_(parts.context, parts.netlink.descriptor(), [this] { on_host_event(); }),
      inbox_watch_(parts.context, parts.inbox.descriptor(), [this] { on_messages(); }),
      next_request_(first_control_request(parts.number)) {
  host_alarm_.set(monotonic_now());
}

// --- News ----------------------------------------------------------------------------------------

void InterfaceControl::on_port(const verbs::PortSnapshot& port) {
  note_partition(port);
  port_undelivered_ = port_status(port, parts_.pkey);
  deliver();
}

/// Says once what its membership means, until that is another one.
void InterfaceControl::note_partition(const verbs::PortSnapshot& port) {
  const auto found = find_partition(port.pkeys, parts_.pkey);
  const PKey entry = found ? found->pkey : PKey();
  if (std::exchange(entry_, entry) == entry) return;
  if (!found) {
    parts_.log.warn(
        "waits for partition {:#06x}: the port is in {}; the subnet manager has to add the port, "
        "or another --pkey is meant",
        parts_.pkey.value(), list_of(port.pkeys));
  } else if (!entry.is_full()) {
    parts_.log.warn(
        "limited member of partition {:#06x}: reaches its full members; limited members do not "
        "reach each other",
        parts_.pkey.value());
  }
}

void InterfaceControl::on_client_reregister() {
  reregister_undelivered_ = true;
  deliver();
}

/// One that there is no room for is made good by confirming everything.
void InterfaceControl::on_notice(const wire::Notice& notice) {
  if (!parts_.to_interface.post(SubnetNotice{notice})) reregister_undelivered_ = true;
  deliver();
}

/// The first of many changes is looked at straight away, the others after a pause, as one.
void InterfaceControl::on_host_event() {
  if (!parts_.netlink.take_events() || host_alarm_.is_set()) return;
  host_alarm_.set(std::max(monotonic_now(), host_not_before_));
}

void InterfaceControl::look_at_host() {
  auto update = parts_.netlink.update();
  const auto now = monotonic_now();
  host_not_before_ = now + kHostPause;
  if (!update) {
    if (host_retry_.failed()) {
      parts_.log.warn("{}; looks again until it can", update.error().message);
    }
    host_alarm_.set(now + std::max<Duration>(kHostPause, host_retry_.pause()));
  } else {
    if (host_retry_.succeeded()) parts_.log.info("the host's configuration is known again");
    if (auto& view = *update) {
      parts_.trace.record("host changed", now, view->addresses.size(), view->tables.size());
      if (view->routes_left_out > 0) {
        parts_.log.warn("{} routes lead through the interface beyond the {} that are followed",
                        view->routes_left_out, HostView::kMaxRoutes);
      }
      host_undelivered_ = std::move(view);
    }
  }
  if (!parts_.netlink.interface_exists()) return stop({Ending::Kind::deleted, {}});
  deliver();
}

void InterfaceControl::handle(control::InterfaceRequest request,
                              std::function<void(control::Response)> done) {
  ToInterface letter(AdminRequest{request, std::move(done)});
  if (parts_.to_interface.post(std::move(letter))) return;
  std::get<AdminRequest>(letter).done(Error(EBUSY, "the interface is too busy: try again"));
}

void InterfaceControl::find_members(const Gid& mgid, std::function<void(control::Response)> done) {
  const auto id = std::exchange(next_request_, wire::SaRequestId(next_request_.value() + 1));
  members_wanted_.emplace(id, std::move(done));
  parts_.sa.send({id, wire::members_query(mgid)});
}

// --- SA requests and responses -------------------------------------------------------------------

void InterfaceControl::on_messages() {
  parts_.inbox.drain(messages_);
  for (auto& message : messages_) {
    std::visit([this](auto& content) { take(content); }, message);
  }
  messages_.clear();
  end_if_over();
}

void InterfaceControl::take(wire::SaRequest& message) {
  if (std::holds_alternative<wire::LeaveQuery>(message.query)) leaves_.insert(message.id);
  parts_.sa.send(message);
}

void InterfaceControl::take(link::HostGroupsChanged&) {
  parts_.netlink.expect_change();
  on_host_event();
}

void InterfaceControl::take(AdminResponse& message) { message.done(std::move(message.response)); }

void InterfaceControl::on_response(const wire::SaResponse& response) {
  if (leaves_.erase(response.id) > 0) return end_if_over();
  if (const auto node = members_wanted_.extract(response.id)) {
    return give_members(response.result, node.mapped());
  }
  responses_undelivered_.push_back(response);
  deliver();
}

void InterfaceControl::give_members(const wire::SaResult& result, const MembersCallback& done) {
  const auto* const table = std::get_if<wire::McMemberTable>(&result);
  if (table == nullptr) return done(Error(EIO, wire::failure_of(result).text()));
  std::vector<control::Member> members;
  for (const auto& record : *table) members.push_back({record.port_gid, record.join_state});
  done(control::Reply(std::move(members)));
}

/// Tells the interface's thread all that it does not know yet. What its mailbox refuses stays
/// noted, and is said again soon, as it is by then.
void InterfaceControl::deliver() {
  if (!deliver_all()) redeliver_alarm_.set(monotonic_now() + kRedeliver);
}

bool InterfaceControl::deliver_all() {
  auto& to = parts_.to_interface;
  if (port_undelivered_) {
    if (!to.post(PortChanged{*port_undelivered_})) return false;
    port_undelivered_.reset();
  }
  if (reregister_undelivered_) {
    if (!to.post(ClientReregister{})) return false;
    reregister_undelivered_ = false;
  }
  if (host_undelivered_) {
    if (!to.post(HostChanged{*host_undelivered_})) return false;
    host_undelivered_.reset();
  }
  while (!responses_undelivered_.empty()) {
    if (!to.post(std::move(responses_undelivered_.front()))) return false;
    responses_undelivered_.pop_front();
  }
  if (stop_undelivered_) {
    if (!to.post(Stop{})) return false;
    stop_undelivered_ = false;
  }
  return true;
}

// --- The end -------------------------------------------------------------------------------------

void InterfaceControl::stop(Ending why) {
  if (life_ != Life::running) return;
  life_ = Life::stopping;
  ending_ = std::move(why);
  stop_undelivered_ = true;
  deliver();
}

void InterfaceControl::take(Stopped& message) {
  life_ = Life::over;
  if (!ending_) ending_ = std::move(message.why);
  patience_alarm_.set(monotonic_now() + kLeavePatience);
}

void InterfaceControl::end_if_over() {
  if (life_ != Life::over || !leaves_.empty()) return;
  life_ = Life::ended;
  parts_.owner.on_ended(parts_.number, *ending_);
}

}  // namespace ipoib::daemon
