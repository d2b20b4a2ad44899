// The control protocol of the subnet process: one line for each request and each response.
//
//   attach NAME[:PORT]                                              -> node INDEX
//   {"command":"show"}                                              -> the subnet as a JSON object
//   {"command":"set-hca","hca":"a","state":"failed"}                present, failed, absent
//   {"command":"set-port","hca":"a","state":"down"}                 down, init, armed, active
//   {"command":"set-lid","hca":"a","lid":7}
//   {"command":"set-mtu","hca":"a","mtu":1024}
//   {"command":"set-link","hca":"a","loss":150,"duplicate":0,"reorder":0,"delay":5,
//   "corrupt":0,"cm_loss":0,"seed":0}                 hundredths of a percent, milliseconds
//   {"command":"fail-qps","hca":"a","qpn":4097}                     0: all queue pairs
//   {"command":"add-address","hca":"a","address":"10.0.0.1"}       delete-address
//   {"command":"set-partition","hca":"a","pkey":"0x0012","membership":"limited"}
//                                                                   none, limited, full
//   {"command":"delete-partition","pkey":"0x0012"}
//   {"command":"move-pkey","hca":"a","pkey":"0x0012","index":3}
//   {"command":"set-cable","from":"leaf-1","from_port":3,"to":"spine-1","to_port":1,
//   "state":"down"}             up, down, flap; a port of 0 is any; without to: any other end
//   {"command":"change-cable","from":"a","from_port":0,"width":"4x","speed":"QDR","loss":150,
//   "delay":5}                  ends as above; only what is given changes; units as of set-link
//   {"command":"set-switch","switch":"leaf-1","state":"absent"}     present, absent, reset
//   {"command":"capture","id":1234,"hcas":["a","b"]}               no HCAs: all that is sent
//   {"command":"restart-sm"}
//   {"command":"stop"}                                              ends the subnet process
//
// set-port, set-lid, set-mtu, set-link, move-pkey, add-address and delete-address need
// "port":NUMBER if the HCA has two ports.
// A request without a result gets {}. A failed one gets "error CODE REASON", with an errno value.
// A P_Key is a string of four hexadecimal digits after 0x.
// HCA processes send only attach, which is plain text because libsoftib.so has no JSON library
// (client.hpp). This file has the JSON requests.
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ipoib/result.hpp"
#include "softib/core/link_faults.hpp"
#include "softib/core/node_addresses.hpp"
#include "softib/fabric/capture_slots.hpp"
#include "softib/subnet/partition.hpp"
#include "softib/subnet/subnet_types.hpp"

namespace softib::control {

struct Show {};
enum class HcaState : std::uint8_t { present, failed, absent };
struct SetHca {
  std::string hca;
  HcaState state = HcaState::present;
};
struct SetPort {
  std::string hca;
  PortState state = PortState::active;
  std::uint8_t port = 0;  ///< of the HCA; 0: the only one that has a cable
};
struct SetLid {
  std::string hca;
  Lid lid;
  std::uint8_t port = 0;  ///< of the HCA; 0: the only one that has a cable
};
struct SetMtu {
  std::string hca;
  std::uint16_t mtu = 0;  ///< bytes
  std::uint8_t port = 0;  ///< of the HCA; 0: the only one that has a cable
};
struct SetLink {
  std::string hca;
  LinkFaults faults;
  std::uint8_t port = 0;  ///< of the HCA; 0: the only one that has a cable
};
struct FailQps {
  std::string hca;
  Qpn qpn;  ///< 0: all
};
struct AddAddress {
  std::string hca;
  IpAddress address;
  std::uint8_t port = 0;  ///< of the HCA; 0: the only one that has a cable
};
struct DeleteAddress {
  std::string hca;
  IpAddress address;
  std::uint8_t port = 0;  ///< of the HCA; 0: the only one that has a cable
};
struct SetPartition {
  std::string hca;
  PKey pkey;
  subnet::Membership membership = subnet::Membership::none;
};
struct DeletePartition {
  PKey pkey;
};
struct MovePKey {
  std::string hca;
  PKey pkey;
  std::uint16_t index = 0;
  std::uint8_t port = 0;  ///< of the HCA; 0: the only one that has a cable
};
struct SetCable {
  subnet::CableEnd from;
  std::optional<subnet::CableEnd> to;
  subnet::CableState state = subnet::CableState::up;
};
struct ChangeCable {
  subnet::CableEnd from;
  std::optional<subnet::CableEnd> to;
  subnet::CableSettings settings;
};
struct SetSwitch {
  std::string name;
  subnet::SwitchState state = subnet::SwitchState::present;
};
inline constexpr std::size_t kMaxCapturedHcas = 48;  ///< of the longest names in one line
/// Has the processes of these HCAs pass on what they send and receive; or, if there are none, those
/// of all what they send. They connect to the socket of the capture; so does the subnet process,
/// and ends the capture when that connection ends.
struct Capture {
  fabric::CaptureId id = 0;
  std::vector<std::string> hcas;
};
struct RestartSm {};
struct Stop {};

using Request = std::variant<Show, SetHca, SetPort, SetLid, SetMtu, SetLink, FailQps, AddAddress,
                             DeleteAddress, SetPartition, DeletePartition, MovePKey, SetCable,
                             ChangeCable, SetSwitch, Capture, RestartSm, Stop>;

/// The line of a request, with newline.
[[nodiscard]] std::string emit(const Request& request);
/// Parses a line without newline; the error says what is wrong with it.
[[nodiscard]] ipoib::Result<Request> parse_request(std::string_view line);

/// Response lines, with newline.
[[nodiscard]] std::string emit_response(const boost::json::object& content);
[[nodiscard]] std::string emit_error(const ipoib::Error& error);
/// Parses a response line without newline. Returns its content, or the error that it carries.
[[nodiscard]] ipoib::Result<boost::json::object> parse_response(std::string_view line);
/// Parses the response to a request without a result. Fails with EPROTO if it is anything but {},
/// such as that of a subnet process of another version.
[[nodiscard]] ipoib::Result<void> parse_acknowledgement(std::string_view line);
/// Parses the response to `show`. Fails with EPROTO unless it describes a subnet.
[[nodiscard]] ipoib::Result<boost::json::object> parse_subnet(std::string_view line);

[[nodiscard]] std::string_view name(HcaState state);
[[nodiscard]] std::string_view name(PortState state);
[[nodiscard]] std::string_view name(subnet::Membership membership);
[[nodiscard]] std::optional<HcaState> parse_hca_state(std::string_view text);
[[nodiscard]] std::optional<PortState> parse_port_state(std::string_view text);
[[nodiscard]] std::optional<subnet::Membership> parse_membership(std::string_view text);
[[nodiscard]] std::optional<subnet::CableState> parse_cable_state(std::string_view text);
/// IBA codes of LinkWidthActive and LinkSpeedActive.
[[nodiscard]] std::optional<std::uint8_t> parse_link_width(std::string_view text);
[[nodiscard]] std::optional<std::uint8_t> parse_link_speed(std::string_view text);
[[nodiscard]] std::optional<subnet::SwitchState> parse_switch_state(std::string_view text);

}  // namespace softib::control
