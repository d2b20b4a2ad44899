// Emits and parses requests.
#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <utility>

#include "control/json_reader.hpp"
#include "control/protocol.hpp"

namespace ipoib::control {

namespace json = boost::json;

namespace {

constexpr std::array<std::pair<SetRequest::Mode, std::string_view>, 3> kModes{
    {{SetRequest::Mode::add, "add"},
     {SetRequest::Mode::change, "change"},
     {SetRequest::Mode::replace, "replace"}}};

std::string_view name(SetRequest::Mode mode) {
  return kModes[static_cast<std::size_t>(mode)].second;
}

SetRequest::Mode read_mode(JsonReader& reader) {
  const std::string text = reader.text("mode");
  for (const auto& [mode, word] : kModes) {
    if (text == word) return mode;
  }
  reader.fail("mode", "add, change or replace");
  return SetRequest::Mode::add;
}

Request list_request(JsonReader& reader) {
  return InterfaceRequest(
      ListRequest{reader.has("cursor") ? reader.number<std::uint64_t>("cursor") : 0});
}
Request get_request(JsonReader& reader) {
  return InterfaceRequest(GetRequest{reader.address("address")});
}
Request resolve_request(JsonReader& reader) {
  const ResolveRequest request{
      reader.address("address"),
      std::chrono::milliseconds(reader.number<std::uint32_t>("timeout_ms"))};
  if (request.timeout > ResolveRequest::kMaxTimeout) reader.fail("timeout_ms", "0 to 30000");
  return InterfaceRequest(request);
}
Request set_request(JsonReader& reader) {
  return InterfaceRequest(
      SetRequest{read_mode(reader), reader.address("address"), reader.hardware("lladdr")});
}
Request pin_request(JsonReader& reader) {
  return InterfaceRequest(
      PinRequest{read_mode(reader), reader.address("address"), reader.gid("gid")});
}
Request delete_request(JsonReader& reader) {
  return InterfaceRequest(DeleteRequest{reader.address("address")});
}
Filter read_filter(JsonReader& reader) {
  Filter filter;
  if (reader.has("family")) {
    const auto family = reader.number<std::uint8_t>("family");
    if (family != 4 && family != 6) reader.fail("family", "4 or 6");
    filter.family = family == 4 ? IpFamily::v4 : IpFamily::v6;
  }
  if (reader.has("prefix")) {
    filter.prefix = parse_prefix(reader.text("prefix"));
    if (!filter.prefix) reader.fail("prefix", "an IP prefix");
  }
  if (reader.has("states")) {
    const auto states = parse_states(reader.text("states"));
    if (states.has_value()) {
      filter.states = *states;
    } else {
      reader.fail("states", "names of states with commas");
    }
  }
  return filter;
}

Request flush_request(JsonReader& /*reader*/) { return InterfaceRequest(FlushRequest{}); }
Request flush_matching_request(JsonReader& reader) {
  return InterfaceRequest(FlushRequest{read_filter(reader)});
}
Request stats_request(JsonReader& /*reader*/) { return InterfaceRequest(StatsRequest{}); }
Request info_request(JsonReader& /*reader*/) { return InterfaceRequest(InfoRequest{}); }
Request failover_request(JsonReader& reader) {
  FailoverRequest request;
  if (!reader.has("device")) return InterfaceRequest(request);
  request.device = reader.text("device");
  if (request.device.empty()) reader.fail("device", "the name of an RDMA device");
  request.port = reader.number<std::uint8_t>("port");
  return InterfaceRequest(request);
}
Request histograms_request(JsonReader& /*reader*/) { return InterfaceRequest(HistogramsRequest{}); }
Request stations_request(JsonReader& reader) {
  return InterfaceRequest(
      StationsRequest{reader.has("cursor") ? reader.number<std::uint64_t>("cursor") : 0});
}
Request members_request(JsonReader& reader) { return MembersRequest{reader.gid("mgid")}; }
Request log_request(JsonReader& reader) {
  LogRequest request;
  if (reader.has("set")) {
    for_each_object(reader, "set", [&request](JsonReader& part) {
      request.set.push_back({part.text("module"), part.text("level")});
    });
  }
  return request;
}
Request trace_request(JsonReader& reader) {
  return TraceRequest{reader.number<std::uint32_t>("ring"), reader.number<std::uint64_t>("from")};
}

Request add_interface_request(JsonReader& reader) {
  return AddInterfaceRequest{PKey(reader.number<std::uint16_t>("pkey")),
                             reader.has("name") ? reader.text("name") : ""};
}
Request delete_interface_request(JsonReader& /*reader*/) { return DeleteInterfaceRequest{}; }
Request capture_request(JsonReader& reader) {
  CaptureRequest request;
  if (reader.has("neighbour")) request.neighbour = reader.address("neighbour");
  return request;
}

/// The topics that a client may subscribe to, for errors.
std::string some_topics() {
  std::string out;
  for (const auto& [name, topic] : kTopics) {
    out += (out.empty() ? "some of " : ", ") + std::string(name);
  }
  return out;
}

Request subscribe_request(JsonReader& reader) {
  SubscribeRequest request;
  for (const auto& each : reader.array("topics")) {
    const auto* const name = each.if_string();
    const auto* const topic = std::ranges::find_if(
        kTopics, [name](const auto& known) { return name != nullptr && *name == known.first; });
    if (topic == kTopics.end()) {
      reader.fail("topics", some_topics());
    } else {
      request.topics.*topic->second = true;
    }
  }
  if (!request.topics.any()) reader.fail("topics", some_topics());
  if (reader.has("interval_ms")) {
    request.interval = std::chrono::milliseconds(reader.number<std::uint32_t>("interval_ms"));
    if (request.interval < SubscribeRequest::kMinInterval ||
        request.interval > SubscribeRequest::kMaxInterval) {
      reader.fail("interval_ms", "100 to 3600000");
    }
  }
  return InterfaceRequest(request);
}

struct Operation {
  std::string_view name;
  Request (*read)(JsonReader&);
};
constexpr std::array<Operation, 20> kOperations{{{"list", list_request},
                                                 {"failover", failover_request},
                                                 {"subscribe", subscribe_request},
                                                 {"get", get_request},
                                                 {"resolve", resolve_request},
                                                 {"set", set_request},
                                                 {"pin", pin_request},
                                                 {"delete", delete_request},
                                                 {"flush", flush_request},
                                                 {"flush_matching", flush_matching_request},
                                                 {"stats", stats_request},
                                                 {"info", info_request},
                                                 {"histograms", histograms_request},
                                                 {"stations", stations_request},
                                                 {"members", members_request},
                                                 {"log", log_request},
                                                 {"trace", trace_request},
                                                 {"capture", capture_request},
                                                 {"add_interface", add_interface_request},
                                                 {"delete_interface", delete_interface_request}}};

struct RequestEmitter {
  json::object operator()(const InterfaceRequest& request) const {
    return std::visit(*this, request);
  }
  json::object operator()(const ListRequest& request) const {
    return {{"op", "list"}, {"cursor", request.cursor}};
  }
  json::object operator()(const GetRequest& request) const {
    return {{"op", "get"}, {"address", to_string(request.address)}};
  }
  json::object operator()(const ResolveRequest& request) const {
    return {{"op", "resolve"},
            {"address", to_string(request.address)},
            {"timeout_ms", request.timeout.count()}};
  }
  json::object operator()(const SetRequest& request) const {
    return {{"op", "set"},
            {"mode", name(request.mode)},
            {"address", to_string(request.address)},
            {"lladdr", request.hardware.to_string()}};
  }
  json::object operator()(const PinRequest& request) const {
    return {{"op", "pin"},
            {"mode", name(request.mode)},
            {"address", to_string(request.address)},
            {"gid", request.gid.to_string()}};
  }
  json::object operator()(const DeleteRequest& request) const {
    return {{"op", "delete"}, {"address", to_string(request.address)}};
  }
  // A flush with a filter is another operation, since a daemon that ignored the filter would delete
  // all entries.
  json::object operator()(const FlushRequest& request) const {
    const Filter& filter = request.filter;
    if (filter.is_empty()) return {{"op", "flush"}};
    json::object out{{"op", "flush_matching"}};
    if (filter.family) out["family"] = *filter.family == IpFamily::v4 ? 4 : 6;
    if (filter.prefix) out["prefix"] = to_string(*filter.prefix);
    std::string states;
    for (const auto& state : filter.states) states += (states.empty() ? "" : ",") + state;
    if (!states.empty()) out["states"] = states;
    return out;
  }
  json::object operator()(const StatsRequest& /*request*/) const { return {{"op", "stats"}}; }
  json::object operator()(const InfoRequest& /*request*/) const { return {{"op", "info"}}; }
  json::object operator()(const StationsRequest& request) const {
    return {{"op", "stations"}, {"cursor", request.cursor}};
  }
  json::object operator()(const HistogramsRequest& /*request*/) const {
    return {{"op", "histograms"}};
  }
  json::object operator()(const SubscribeRequest& request) const {
    json::array topics;
    for (const auto& [name, member] : kTopics) {
      if (request.topics.*member) topics.emplace_back(name);
    }
    return {{"op", "subscribe"},
            {"topics", std::move(topics)},
            {"interval_ms", request.interval.count()}};
  }
  json::object operator()(const FailoverRequest& request) const {
    if (request.device.empty()) return {{"op", "failover"}};
    return {{"op", "failover"}, {"device", request.device}, {"port", request.port}};
  }
  json::object operator()(const MembersRequest& request) const {
    return {{"op", "members"}, {"mgid", request.mgid.to_string()}};
  }
  json::object operator()(const LogRequest& request) const {
    json::array set;
    for (const auto& [module, level] : request.set) {
      set.push_back(json::object{{"module", module}, {"level", level}});
    }
    return {{"op", "log"}, {"set", std::move(set)}};
  }
  json::object operator()(const TraceRequest& request) const {
    return {{"op", "trace"}, {"ring", request.ring}, {"from", request.from}};
  }
  json::object operator()(const AddInterfaceRequest& request) const {
    json::object out{{"op", "add_interface"}, {"pkey", request.pkey.value()}};
    if (!request.name.empty()) out["name"] = request.name;
    return out;
  }
  json::object operator()(const DeleteInterfaceRequest& /*request*/) const {
    return {{"op", "delete_interface"}};
  }
  json::object operator()(const CaptureRequest& request) const {
    json::object out{{"op", "capture"}};
    if (request.neighbour) out["neighbour"] = to_string(*request.neighbour);
    return out;
  }
};

}  // namespace

bool is_change(const Request& request) {
  if (const auto* const log = std::get_if<LogRequest>(&request)) return !log->set.empty();
  if (std::holds_alternative<AddInterfaceRequest>(request) ||
      std::holds_alternative<DeleteInterfaceRequest>(request)) {
    return true;
  }
  const auto* const other = std::get_if<InterfaceRequest>(&request);
  return other != nullptr && (std::holds_alternative<SetRequest>(*other) ||
                              std::holds_alternative<PinRequest>(*other) ||
                              std::holds_alternative<DeleteRequest>(*other) ||
                              std::holds_alternative<FlushRequest>(*other) ||
                              std::holds_alternative<FailoverRequest>(*other));
}

bool is_restricted(const Request& request) {
  return is_change(request) || std::holds_alternative<MembersRequest>(request) ||
         std::holds_alternative<TraceRequest>(request) ||
         std::holds_alternative<CaptureRequest>(request);
}

Result<Request> parse_request(std::string_view line) {
  const auto object = parse_object(line);
  if (object.has_error()) return object.error();
  JsonReader reader(*object);
  const std::string op = reader.text("op");
  if (!reader.ok()) return Error{EINVAL, reader.error()};
  for (const Operation& operation : kOperations) {
    if (operation.name != op) continue;
    Request request = operation.read(reader);
    if (!reader.ok()) return Error{EINVAL, op + ": " + reader.error()};
    return request;
  }
  return Error{
      EOPNOTSUPP,
      "unknown op; this daemon knows list, get, resolve, set, pin, delete, flush, flush_matching, "
      "stats, "
      "info, histograms, stations, subscribe, failover, members, log, trace, capture, "
      "add_interface, delete_interface"};
}

std::string emit(const Request& request) {
  return json::serialize(std::visit(RequestEmitter{}, request)) + "\n";
}

}  // namespace ipoib::control
