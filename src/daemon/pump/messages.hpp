// Messages between the control thread and the thread of an interface.
//
// The bound of both mailboxes is well above the number of messages under way: the link limits its
// SA requests and the control server its clients; other messages are repeated if a mailbox was
// full.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "control/neighbour_file.hpp"
#include "control/protocol.hpp"
#include "daemon/pump/handover_steps.hpp"
#include "daemon/pump/host_messages.hpp"
#include "daemon/pump/poll_policy.hpp"
#include "daemon/pump/port_parts.hpp"
#include "daemon/pump/port_role.hpp"
#include "ipoib/file_descriptor.hpp"
#include "link/events.hpp"
#include "linux/mailbox.hpp"
#include "wire/notice.hpp"

namespace ipoib::daemon {

inline constexpr std::size_t kMailboxCapacity = 4096;

// --- From the control thread to the interface's -------------------------------------------------
struct PortChanged {
  link::PortStatus status;
  PortRole role = PortRole::primary;
};
struct ClientReregister {
  PortRole role = PortRole::primary;
};
/// See verbs::RecoverableUdPort::on_object_failed().
struct ObjectFailed {
  const void* object = nullptr;
};
/// A report of the SA.
struct SubnetNotice {
  wire::Notice notice;
  PortRole role = PortRole::primary;
};
/// The host's routes permit a reply to an ARP request.
struct ArpReplyPermitted {
  wire::Arp request;
};
/// Permanent entries and pins, at the start of the thread.
struct SetNeighbours {
  std::vector<control::StaticNeighbour> neighbours;
};
/// Permanent entries and pins that were changed or, with nullopt, removed.
using NeighbourChanges = std::map<IpAddress, std::optional<decltype(control::StaticNeighbour::to)>>;
/// What has changed in the configuration.
struct Reconfigured {
  std::optional<PollMode> poll = {};
  NeighbourChanges neighbours = {};
};
/// `done` is not called on the interface's thread; it is returned with the response.
struct AdminRequest {
  control::InterfaceRequest request;
  std::function<void(control::Response)> done;
};
/// The network interface has this name now.
struct Renamed {
  std::string name;
};
/// Begin a capture; the interface's thread responds on the connection.
struct StartCapture {
  control::CaptureRequest request;
  FileDescriptor connection;
};
struct LinkReportRequest {};  ///< LinkReport follows
/// Tells the thread to leave its groups and end.
struct Stop {};
using ToInterface = std::variant<PortChanged, ClientReregister, ObjectFailed, SubnetNotice,
                                 HostChanged, wire::SaResponse, ArpReplyPermitted, SetNeighbours,
                                 Reconfigured, AdminRequest, Renamed, PortReplaced, StartCapture,
                                 LinkReportRequest, SaveCache, RestoreCache, SetMode, Stop>;

// --- From the interface's thread to the control thread ------------------------------------------
/// The state of the link, whenever it has changed, and on request.
struct LinkReport {
  std::string waiting_for;  ///< what the link needs to come up, as text; empty if it is up
  PortRole active = PortRole::primary;  ///< the port that serves the interface
};
struct AdminResponse {
  control::Response response;
  std::function<void(control::Response)> done;
};
/// Events for those who have subscribed.
struct Events {
  std::vector<control::Event> events;
};
/// Why an interface has ended.
struct StopReason {
  enum class Kind : std::uint8_t {
    requested,    ///< by the message Stop
    deleted,      ///< the network interface was deleted
    moved,        ///< the network interface was moved to another network namespace
    failed,       ///< something that it needs has failed, see `reason`
    handed_over,  ///< another daemon serves the network interface
  };
  Kind kind = Kind::requested;
  std::string reason;
};
/// The last message of the thread.
struct Stopped {
  StopReason why;
};
using ToControl =
    std::variant<wire::SaRequest, link::HostGroupsChanged, link::RedirectReceived,
                 link::ArpReplyCheck, link::ArpPolicyUsed, RoutesWanted, LinkReport, AdminResponse,
                 Events, CacheSaved, ModeReached, PortReleased, Stopped>;

using InterfaceMailbox = linux::Mailbox<ToInterface>;
using ControlMailbox = linux::Mailbox<ToControl>;

}  // namespace ipoib::daemon
