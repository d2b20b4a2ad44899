#include "softib/control/protocol.hpp"

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cerrno>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "softib/control/client.hpp"
#include "softib/core/name.hpp"

namespace softib::control {

namespace json = boost::json;
using ipoib::Error;
using ipoib::Result;

namespace {

constexpr std::array<std::pair<HcaState, std::string_view>, 3> kHcaStates{
    {{HcaState::present, "present"}, {HcaState::failed, "failed"}, {HcaState::absent, "absent"}}};
constexpr std::array<std::pair<PortState, std::string_view>, 4> kPortStates{
    {{PortState::down, "down"},
     {PortState::init, "init"},
     {PortState::armed, "armed"},
     {PortState::active, "active"}}};
constexpr std::array<std::pair<subnet::Membership, std::string_view>, 3> kMemberships{
    {{subnet::Membership::none, "none"},
     {subnet::Membership::limited, "limited"},
     {subnet::Membership::full, "full"}}};

constexpr std::array<std::pair<subnet::CableState, std::string_view>, 4> kCableStates{
    {{subnet::CableState::up, "up"},
     {subnet::CableState::down, "down"},
     {subnet::CableState::flap, "flap"},
     {subnet::CableState::stall, "stall"}}};
constexpr std::array<std::pair<subnet::SwitchState, std::string_view>, 3> kSwitchStates{
    {{subnet::SwitchState::present, "present"},
     {subnet::SwitchState::absent, "absent"},
     {subnet::SwitchState::reset, "reset"}}};

/// IBA LinkWidthActive and LinkSpeedActive.
constexpr std::array<std::pair<std::uint8_t, std::string_view>, 5> kLinkWidths{
    {{1, "1x"}, {16, "2x"}, {2, "4x"}, {4, "8x"}, {8, "12x"}}};
constexpr std::array<std::pair<std::uint8_t, std::string_view>, 3> kLinkSpeeds{
    {{1, "SDR"}, {2, "DDR"}, {4, "QDR"}}};

template <class Value, std::size_t N>
std::string_view name_of(const std::array<std::pair<Value, std::string_view>, N>& names,
                         Value value) {
  for (const auto& [known, text] : names) {
    if (known == value) return text;
  }
  return "?";
}

template <class Value, std::size_t N>
std::optional<Value> value_of(const std::array<std::pair<Value, std::string_view>, N>& names,
                              std::string_view wanted) {
  for (const auto& [value, text] : names) {
    if (text == wanted) return value;
  }
  return std::nullopt;
}

/// Reads members of an object, and remembers the first one that is missing or invalid.
class Members {
 public:
  explicit Members(const json::object& object) : object_(object) {}

  std::string text(std::string_view key) {
    const auto* value = object_.if_contains(key);
    if (value == nullptr || !value->is_string()) return invalid(key), std::string();
    return std::string(value->get_string());
  }
  std::string hca() { return valid_name("hca"); }
  std::uint8_t hca_port() {
    if (!has("port")) return 0;
    const auto port = number<std::uint8_t>("port", kMaxHcaPorts);
    if (port == 0) invalid("port");
    return port;
  }
  std::string valid_name(std::string_view key) {
    auto name = text(key);
    if (!is_valid_name(name)) invalid(key);
    return name;
  }
  /// A list of different names.
  std::vector<std::string> valid_names(std::string_view key, std::size_t most) {
    std::vector<std::string> names;
    const auto* value = object_.if_contains(key);
    const auto* list = value != nullptr ? value->if_array() : nullptr;
    if (list == nullptr || list->size() > most) return invalid(key), names;
    for (const auto& each : *list) {
      const auto* const name = each.if_string();
      std::string text = name != nullptr ? std::string(*name) : std::string();
      if (!is_valid_name(text) || std::ranges::count(names, text) != 0) return invalid(key), names;
      names.push_back(std::move(text));
    }
    return names;
  }
  fabric::CaptureId capture_id() {
    const auto id = number("id", fabric::kMaxCaptureId);
    if (id == 0) invalid("id");
    return id;
  }
  [[nodiscard]] bool has(std::string_view key) const { return object_.contains(key); }
  template <class Number = std::uint16_t>
  Number number(std::string_view key, std::int64_t most = std::numeric_limits<Number>::max()) {
    const auto* value = object_.if_contains(key);
    const auto* number = value != nullptr ? value->if_int64() : nullptr;
    if (number == nullptr || *number < 0 || *number > most) {
      invalid(key);
      return 0;
    }
    return static_cast<Number>(*number);
  }
  PKey pkey() {
    std::string digits = text("pkey");
    std::uint16_t value = 0;
    const bool has_prefix = digits.starts_with("0x") && digits.size() == 6;
    const char* const end = digits.data() + digits.size();
    const auto [stop, error] =
        std::from_chars(digits.data() + (has_prefix ? 2 : 0), end, value, 16);
    if (!has_prefix || error != std::errc() || stop != end) invalid("pkey");
    return PKey(value);
  }
  IpAddress address() {
    const auto address = ipoib::parse_ip_address(text("address"));
    if (!address) invalid("address");
    return address.value_or(IpAddress());
  }
  subnet::CableEnd cable_end(std::string_view name, std::string_view port) {
    return {valid_name(name), number(port, kMaxSwitchPort)};
  }
  std::optional<subnet::CableEnd> other_cable_end() {
    return has("to") ? std::optional(cable_end("to", "to_port")) : std::nullopt;
  }
  /// A member that may be left out.
  std::optional<std::uint16_t> optional_number(std::string_view key, std::int64_t most) {
    return has(key) ? std::optional(number(key, most)) : std::nullopt;
  }
  template <class Value, std::size_t N>
  std::optional<Value> optional_one_of(
      std::string_view key, const std::array<std::pair<Value, std::string_view>, N>& names) {
    return has(key) ? std::optional(one_of(key, names)) : std::nullopt;
  }
  template <class Value, std::size_t N>
  Value one_of(std::string_view key,
               const std::array<std::pair<Value, std::string_view>, N>& names) {
    const auto value = value_of(names, text(key));
    if (!value) invalid(key);
    return value.value_or(Value{});
  }
  Result<Request> done(Request request) const {
    if (!invalid_.empty()) {
      return Error{
          EINVAL,
          "'" + invalid_ + "' is missing or invalid: use the softib that has started the subnet"};
    }
    return request;
  }

 private:
  void invalid(std::string_view key) {
    if (invalid_.empty()) invalid_ = key;
  }
  const json::object& object_;
  std::string invalid_;
};

json::object content(const Show&) { return {{"command", "show"}}; }
json::object content(const SetHca& request) {
  return {{"command", "set-hca"}, {"hca", request.hca}, {"state", name(request.state)}};
}
/// A command on a port of an HCA; 0: the only one.
json::object of_port(json::object command, std::uint8_t port) {
  if (port != 0) command["port"] = port;
  return command;
}
json::object content(const SetPort& request) {
  return of_port({{"command", "set-port"}, {"hca", request.hca}, {"state", name(request.state)}},
                 request.port);
}
json::object content(const SetLid& request) {
  return of_port({{"command", "set-lid"}, {"hca", request.hca}, {"lid", request.lid.value()}},
                 request.port);
}
json::object content(const SetMtu& request) {
  return of_port({{"command", "set-mtu"}, {"hca", request.hca}, {"mtu", request.mtu}},
                 request.port);
}
json::object content(const SetLink& request) {
  return of_port({{"command", "set-link"},
                  {"hca", request.hca},
                  {"loss", request.faults.loss},
                  {"duplicate", request.faults.duplicate},
                  {"reorder", request.faults.reorder},
                  {"delay", request.faults.delay},
                  {"corrupt", request.faults.corrupt},
                  {"cm_loss", request.faults.cm_loss},
                  {"seed", request.faults.seed}},
                 request.port);
}
json::object content(const FailQps& request) {
  return {{"command", "fail-qps"}, {"hca", request.hca}, {"qpn", request.qpn.value()}};
}
json::object content(const AddAddress& request) {
  return of_port({{"command", "add-address"},
                  {"hca", request.hca},
                  {"address", ipoib::to_string(request.address)}},
                 request.port);
}
json::object content(const DeleteAddress& request) {
  return of_port({{"command", "delete-address"},
                  {"hca", request.hca},
                  {"address", ipoib::to_string(request.address)}},
                 request.port);
}
json::object content(const SetPartition& request) {
  return {{"command", "set-partition"},
          {"hca", request.hca},
          {"pkey", subnet::pkey_text(request.pkey)},
          {"membership", name(request.membership)}};
}
json::object content(const DeletePartition& request) {
  return {{"command", "delete-partition"}, {"pkey", subnet::pkey_text(request.pkey)}};
}
json::object content(const MovePKey& request) {
  return of_port({{"command", "move-pkey"},
                  {"hca", request.hca},
                  {"pkey", subnet::pkey_text(request.pkey)},
                  {"index", request.index}},
                 request.port);
}
/// A command on the cable of these ends.
json::object cable_command(std::string_view command, const subnet::CableEnd& from,
                           const std::optional<subnet::CableEnd>& to) {
  json::object object{{"command", command}, {"from", from.name}, {"from_port", from.port}};
  if (to) {
    object["to"] = to->name;
    object["to_port"] = to->port;
  }
  return object;
}
json::object content(const SetCable& request) {
  auto object = cable_command("set-cable", request.from, request.to);
  object["state"] = name_of(kCableStates, request.state);
  return object;
}
json::object content(const ChangeCable& request) {
  auto object = cable_command("change-cable", request.from, request.to);
  const auto& settings = request.settings;
  if (settings.width) object["width"] = name_of(kLinkWidths, *settings.width);
  if (settings.speed) object["speed"] = name_of(kLinkSpeeds, *settings.speed);
  if (settings.loss) object["loss"] = *settings.loss;
  if (settings.delay) object["delay"] = *settings.delay;
  if (settings.overruns) object["overruns"] = *settings.overruns;
  return object;
}
json::object content(const SetSwitch& request) {
  return {{"command", "set-switch"},
          {"switch", request.name},
          {"state", name_of(kSwitchStates, request.state)}};
}
json::object content(const Capture& request) {
  return {{"command", "capture"},
          {"id", request.id},
          {"hcas", json::array(request.hcas.begin(), request.hcas.end())}};
}
json::object content(const RestartSm&) { return {{"command", "restart-sm"}}; }
json::object content(const Stop&) { return {{"command", "stop"}}; }

Result<json::object> parse_object(std::string_view line) {
  boost::system::error_code error;
  json::parse_options options;
  options.max_depth = 8;
  auto value = json::parse(line, error, {}, options);
  if (error) return Error{EINVAL, "not JSON: " + error.message()};
  if (!value.is_object()) return Error{EINVAL, "not a JSON object"};
  return std::move(value.get_object());
}

}  // namespace

std::string_view name(HcaState state) { return name_of(kHcaStates, state); }
std::string_view name(PortState state) { return name_of(kPortStates, state); }
std::string_view name(subnet::Membership membership) { return name_of(kMemberships, membership); }
std::optional<HcaState> parse_hca_state(std::string_view text) {
  return value_of(kHcaStates, text);
}
std::optional<PortState> parse_port_state(std::string_view text) {
  return value_of(kPortStates, text);
}
std::optional<subnet::Membership> parse_membership(std::string_view text) {
  return value_of(kMemberships, text);
}

std::optional<subnet::CableState> parse_cable_state(std::string_view text) {
  return value_of(kCableStates, text);
}
std::optional<std::uint8_t> parse_link_width(std::string_view text) {
  return value_of(kLinkWidths, text);
}
std::optional<std::uint8_t> parse_link_speed(std::string_view text) {
  return value_of(kLinkSpeeds, text);
}
std::optional<subnet::SwitchState> parse_switch_state(std::string_view text) {
  return value_of(kSwitchStates, text);
}

std::string emit(const Request& request) {
  return json::serialize(std::visit([](const auto& what) { return content(what); }, request)) +
         '\n';
}

Result<Request> parse_request(std::string_view line) {
  const auto object = parse_object(line);
  if (!object) return object.error();
  Members members(*object);
  const auto command = members.text("command");
  if (command == "show") return members.done(Show{});
  if (command == "restart-sm") return members.done(RestartSm{});
  if (command == "stop") return members.done(Stop{});
  if (command == "set-hca") {
    SetHca request{members.hca(), members.one_of("state", kHcaStates)};
    return members.done(request);
  }
  if (command == "set-port") {
    SetPort request{members.hca(), members.one_of("state", kPortStates), members.hca_port()};
    return members.done(request);
  }
  if (command == "set-lid") {
    SetLid request{members.hca(), Lid(members.number("lid")), members.hca_port()};
    return members.done(request);
  }
  if (command == "set-mtu") {
    SetMtu request{members.hca(), members.number("mtu"), members.hca_port()};
    return members.done(request);
  }
  if (command == "set-link") {
    SetLink request{
        members.hca(),
        {members.number("loss", LinkFaults::kAlways),
         members.number("duplicate", LinkFaults::kAlways),
         members.number("reorder", LinkFaults::kAlways),
         members.number("delay", LinkFaults::kMaxDelay),
         members.number("corrupt", LinkFaults::kAlways),
         members.number("cm_loss", LinkFaults::kAlways), members.number<std::uint32_t>("seed")},
        members.hca_port()};
    return members.done(request);
  }
  if (command == "fail-qps") {
    constexpr auto kLast = ipoib::kMulticastQpn.value() - 1;
    FailQps request{members.hca(), Qpn(members.number<std::uint32_t>("qpn", kLast))};
    return members.done(request);
  }
  if (command == "set-cable") {
    SetCable request{members.cable_end("from", "from_port"), members.other_cable_end(),
                     members.one_of("state", kCableStates)};
    return members.done(request);
  }
  if (command == "change-cable") {
    ChangeCable request{members.cable_end("from", "from_port"),
                        members.other_cable_end(),
                        {members.optional_one_of("width", kLinkWidths),
                         members.optional_one_of("speed", kLinkSpeeds),
                         members.optional_number("loss", LinkFaults::kAlways),
                         members.optional_number("delay", LinkFaults::kMaxDelay),
                         members.optional_number("overruns", subnet::kMaxOverruns)}};
    return members.done(request);
  }
  if (command == "set-switch") {
    SetSwitch request{members.valid_name("switch"), members.one_of("state", kSwitchStates)};
    return members.done(request);
  }
  if (command == "capture") {
    Capture request{members.capture_id(), members.valid_names("hcas", kMaxCapturedHcas)};
    return members.done(request);
  }
  if (command == "add-address") {
    AddAddress request{members.hca(), members.address(), members.hca_port()};
    return members.done(request);
  }
  if (command == "delete-address") {
    DeleteAddress request{members.hca(), members.address(), members.hca_port()};
    return members.done(request);
  }
  if (command == "set-partition") {
    SetPartition request{members.hca(), members.pkey(), members.one_of("membership", kMemberships)};
    return members.done(request);
  }
  if (command == "delete-partition") return members.done(DeletePartition{members.pkey()});
  if (command == "move-pkey") {
    MovePKey request{members.hca(), members.pkey(), members.number("index"), members.hca_port()};
    return members.done(request);
  }
  return Error{EINVAL, "unknown command '" + command + "'"};
}

std::string emit_response(const json::object& content) { return json::serialize(content) + '\n'; }

std::string emit_error(const Error& error) {
  std::string line = std::string(kErrorResponse) + std::to_string(error.code) + ' ' + error.message;
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line + '\n';
}

Result<json::object> parse_response(std::string_view line) {
  if (auto error = error_of(line)) return *error;
  return parse_object(line);
}

Result<void> parse_acknowledgement(std::string_view line) {
  if (auto error = error_of(line)) return *error;
  const auto content = parse_object(line);
  if (!content || !content->empty()) return unknown_response(line);
  return {};
}

Result<json::object> parse_subnet(std::string_view line) {
  if (auto error = error_of(line)) return *error;
  auto content = parse_object(line);
  const auto* const nodes = content ? content->if_contains("nodes") : nullptr;
  if (nodes == nullptr || !nodes->is_array()) return unknown_response(line);
  return content;
}

}  // namespace softib::control
