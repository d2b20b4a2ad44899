// The control protocol of the subnet process: one JSON object a line in both directions.
//
//   {"command":"attach","hca":"a"}                                   -> {"ok":true,"node":1}
//   {"command":"attach","hca":"a","port":2}                          by which port, if need be
//   {"command":"show"}                                               -> {"ok":true, the picture}
//   {"command":"set-hca","hca":"a","state":"failed"}                 present, failed, absent
//   {"command":"set-port","hca":"a","state":"down"}                  down, init, armed, active
//   {"command":"set-lid","hca":"a","lid":7}
//   {"command":"set-mtu","hca":"a","octets":1024}
//   {"command":"set-partition","hca":"a","pkey":18,"membership":"limited"}      none, limited, full
//   {"command":"move-pkey","hca":"a","pkey":18,"index":3}
//   {"command":"restart-sm"}
//
// An answer without more to say is {"ok":true}; a refusal {"ok":false,"code":2,"error":"why"}, with
// an errno value.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>
#include <variant>

#include "ipoib/result.hpp"
#include "softib/subnet/partition.hpp"

namespace softib::control {

struct Attach {
  std::string hca;
  std::uint8_t port = 0;  ///< 0: not said
};
struct Show {};
enum class HcaState : std::uint8_t { present, failed, absent };
struct SetHca {
  std::string hca;
  HcaState state = HcaState::present;
};
struct SetPort {
  std::string hca;
  PortState state = PortState::active;
};
struct SetLid {
  std::string hca;
  Lid lid;
};
struct SetMtu {
  std::string hca;
  std::uint16_t octets = 0;
};
struct SetPartition {
  std::string hca;
  PKey pkey;
  subnet::Membership membership = subnet::Membership::none;
};
struct MovePKey {
  std::string hca;
  PKey pkey;
  std::uint16_t index = 0;
};
struct RestartSm {};

using Request =
    std::variant<Attach, Show, SetHca, SetPort, SetLid, SetMtu, SetPartition, MovePKey, RestartSm>;

/// The line of a request, with its newline.
[[nodiscard]] std::string emit(const Request& request);
/// From a line without newline. Never throws; the error says what is wrong with the line.
[[nodiscard]] ipoib::Result<Request> parse_request(std::string_view line);

/// The line of an answer: `ok` is added to `content`.
[[nodiscard]] std::string emit_answer(boost::json::object content);
[[nodiscard]] std::string emit_refusal(const ipoib::Error& error);
/// The content of an answer, or the refusal.
[[nodiscard]] ipoib::Result<boost::json::object> parse_answer(std::string_view line);

[[nodiscard]] std::string_view name(HcaState state);
[[nodiscard]] std::string_view name(PortState state);
[[nodiscard]] std::string_view name(subnet::Membership membership);
[[nodiscard]] std::optional<HcaState> parse_hca_state(std::string_view text);
[[nodiscard]] std::optional<PortState> parse_port_state(std::string_view text);
[[nodiscard]] std::optional<subnet::Membership> parse_membership(std::string_view text);

}  // namespace softib::control
