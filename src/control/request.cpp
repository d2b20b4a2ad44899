// Requests, as lines and back.
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

Request read_list(JsonReader& reader) {
  return InterfaceRequest(
      ListRequest{reader.has("cursor") ? reader.number<std::uint64_t>("cursor") : 0});
}
Request read_get(JsonReader& reader) {
  return InterfaceRequest(GetRequest{reader.address("address")});
}
Request read_set(JsonReader& reader) {
  return InterfaceRequest(
      SetRequest{read_mode(reader), reader.address("address"), reader.hardware("lladdr")});
}
Request read_delete(JsonReader& reader) {
  return InterfaceRequest(DeleteRequest{reader.address("address")});
}
Request read_flush(JsonReader& /*reader*/) { return InterfaceRequest(FlushRequest{}); }
Request read_stats(JsonReader& /*reader*/) { return InterfaceRequest(StatsRequest{}); }
Request read_info(JsonReader& /*reader*/) { return InterfaceRequest(InfoRequest{}); }
Request read_members(JsonReader& reader) { return MembersRequest{reader.gid("mgid")}; }
Request read_log(JsonReader& reader) {
  LogRequest request;
  if (reader.has("set")) {
    for_each_object(reader, "set", [&request](JsonReader& part) {
      request.set.push_back({part.text("module"), part.text("level")});
    });
  }
  return request;
}
Request read_trace(JsonReader& reader) {
  return TraceRequest{reader.number<std::uint32_t>("ring"), reader.number<std::uint64_t>("from")};
}

struct Operation {
  std::string_view name;
  Request (*read)(JsonReader&);
};
constexpr std::array<Operation, 10> kOperations{{{"list", read_list},
                                                 {"get", read_get},
                                                 {"set", read_set},
                                                 {"delete", read_delete},
                                                 {"flush", read_flush},
                                                 {"stats", read_stats},
                                                 {"info", read_info},
                                                 {"members", read_members},
                                                 {"log", read_log},
                                                 {"trace", read_trace}}};

struct Emit {
  json::object operator()(const InterfaceRequest& request) const {
    return std::visit(*this, request);
  }
  json::object operator()(const ListRequest& request) const {
    return {{"op", "list"}, {"cursor", request.cursor}};
  }
  json::object operator()(const GetRequest& request) const {
    return {{"op", "get"}, {"address", to_string(request.address)}};
  }
  json::object operator()(const SetRequest& request) const {
    return {{"op", "set"},
            {"mode", name(request.mode)},
            {"address", to_string(request.address)},
            {"lladdr", request.hardware.to_string()}};
  }
  json::object operator()(const DeleteRequest& request) const {
    return {{"op", "delete"}, {"address", to_string(request.address)}};
  }
  json::object operator()(const FlushRequest& /*request*/) const { return {{"op", "flush"}}; }
  json::object operator()(const StatsRequest& /*request*/) const { return {{"op", "stats"}}; }
  json::object operator()(const InfoRequest& /*request*/) const { return {{"op", "info"}}; }
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
};

}  // namespace

bool is_change(const Request& request) {
  if (const auto* const log = std::get_if<LogRequest>(&request)) return !log->set.empty();
  const auto* const other = std::get_if<InterfaceRequest>(&request);
  return other != nullptr && (std::holds_alternative<SetRequest>(*other) ||
                              std::holds_alternative<DeleteRequest>(*other) ||
                              std::holds_alternative<FlushRequest>(*other));
}

bool is_for_root(const Request& request) {
  return is_change(request) || std::holds_alternative<MembersRequest>(request);
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
  return Error{EOPNOTSUPP,
               "unknown op; this daemon knows list, get, set, delete, flush, stats, info, "
               "members, log, trace"};
}

std::string emit(const Request& request) {
  return json::serialize(std::visit(Emit{}, request)) + "\n";
}

}  // namespace ipoib::control
