// What the two threads of ipoibd say to each other.
//
// Both mailboxes are bounded well above what can be under way at a time: the link bounds its
// SA requests, the control server its clients, and the rest is said again when it was refused.
#pragma once

#include <functional>
#include <string>
#include <variant>

#include "control/protocol.hpp"
#include "ipoib/host_view.hpp"
#include "link/events.hpp"
#include "linux/mailbox.hpp"
#include "wire/notice.hpp"

namespace ipoib::daemon {

inline constexpr std::size_t kMailboxCapacity = 4096;

// --- From the control thread to the interface's ------------------------------------------------
struct PortChanged {
  link::PortStatus status;
};
struct ClientReregister {};
/// The subnet administrator has reported something.
struct SubnetNotice {
  wire::Notice notice;
};
struct HostChanged {
  HostView view;
};
/// `done` is not called there: it travels back with the response.
struct AdminRequest {
  control::InterfaceRequest request;
  std::function<void(control::Response)> done;
};
/// Leave the groups and end.
struct Stop {};
using ToInterface = std::variant<PortChanged, ClientReregister, SubnetNotice, HostChanged,
                                 wire::SaResponse, AdminRequest, Stop>;

// --- From the interface's thread to the control thread -----------------------------------------
struct AdminResponse {
  control::Response response;
  std::function<void(control::Response)> done;
};
/// Why an interface has ended.
struct Ending {
  enum class Kind : std::uint8_t {
    asked,    ///< it was told to
    deleted,  ///< the administrator has deleted the network interface
    failed,   ///< something that it cannot do without has failed; `reason` says what
  };
  Kind kind = Kind::asked;
  std::string reason;
};
/// The last message.
struct Stopped {
  Ending why;
};
using ToControl = std::variant<wire::SaRequest, link::HostGroupsChanged, AdminResponse, Stopped>;

using InterfaceMailbox = host::Mailbox<ToInterface>;
using ControlMailbox = host::Mailbox<ToControl>;

}  // namespace ipoib::daemon
