// Emits and parses responses.
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <utility>

#include "control/json_reader.hpp"
#include "control/protocol.hpp"
#include "control/value_json.hpp"

namespace ipoib::control {

namespace json = boost::json;

namespace {

TracePage read_page(JsonReader& reader) {
  TracePage page;
  page.rings = reader.number<std::uint32_t>("rings");
  page.thread = reader.text("thread");
  page.lines = read_all(reader, "lines", read_trace_line);
  page.next = reader.number<std::uint64_t>("next");
  page.end = reader.number<std::uint64_t>("end");
  return page;
}

/// Adds the members of a reply to {"ok":true}.
struct ReplyEmitter {
  json::object& out;

  void operator()(const EntryPage& page) const {
    out["entries"] = to_json_array(page.entries);
    if (page.next) out["next"] = *page.next;
  }
  void operator()(const StationPage& page) const {
    out["stations"] = to_json_array(page.stations);
    if (page.next) out["next"] = *page.next;
  }
  void operator()(const Entry& entry) const { out["entry"] = to_json(entry); }
  void operator()(const Resolution& found) const { out["resolution"] = to_json(found); }
  void operator()(const Done& /*done*/) const {}
  void operator()(const Flushed& flushed) const { out["flushed"] = flushed.entries; }
  void operator()(const std::vector<Counter>& all) const { out["counters"] = to_json_array(all); }
  void operator()(const std::vector<Histogram>& all) const {
    out["histograms"] = to_json_array(all);
  }
  void operator()(const InterfaceInfo& info) const { out["info"] = to_json(info); }
  void operator()(const std::vector<Member>& all) const { out["members"] = to_json_array(all); }
  void operator()(const std::vector<ModuleLevel>& all) const { out["levels"] = to_json_array(all); }
  void operator()(const TracePage& page) const {
    out["rings"] = page.rings;
    out["thread"] = page.thread;
    out["lines"] = to_json_array(page.lines);
    out["next"] = page.next;
    out["end"] = page.end;
  }
  void operator()(const AddedInterface& added) const {
    out["interface"] = added.name;
    if (!added.warning.empty()) out["warning"] = added.warning;
  }
};

/// Parses the reply to a request.
struct ReplyReader {
  JsonReader& reader;

  Reply operator()(const InterfaceRequest& request) const { return std::visit(*this, request); }
  Reply operator()(const ListRequest& /*request*/) const {
    EntryPage page{read_all(reader, "entries", read_entry), std::nullopt};
    if (reader.has("next")) page.next = reader.number<std::uint64_t>("next");
    return page;
  }
  Reply operator()(const GetRequest& /*request*/) const {
    return read_part(reader, "entry", read_entry);
  }
  Reply operator()(const ResolveRequest& /*request*/) const {
    return read_part(reader, "resolution", read_resolution);
  }
  Reply operator()(const SetRequest& /*request*/) const { return Done{}; }
  Reply operator()(const PinRequest& /*request*/) const { return Done{}; }
  Reply operator()(const DeleteRequest& /*request*/) const { return Done{}; }
  Reply operator()(const FlushRequest& /*request*/) const {
    return Flushed{reader.number<std::uint64_t>("flushed")};
  }
  Reply operator()(const SubscribeRequest& /*request*/) const { return Done{}; }
  Reply operator()(const FailoverRequest& /*request*/) const { return Done{}; }
  Reply operator()(const StatsRequest& /*request*/) const {
    return read_all(reader, "counters", read_counter);
  }
  Reply operator()(const HistogramsRequest& /*request*/) const {
    return read_all(reader, "histograms", read_histogram);
  }
  Reply operator()(const StationsRequest& /*request*/) const {
    StationPage page{read_all(reader, "stations", read_station), std::nullopt};
    if (reader.has("next")) page.next = reader.number<std::uint64_t>("next");
    return page;
  }
  Reply operator()(const InfoRequest& /*request*/) const {
    return read_part(reader, "info", read_info);
  }
  Reply operator()(const MembersRequest& /*request*/) const {
    return read_all(reader, "members", read_member);
  }
  Reply operator()(const LogRequest& /*request*/) const {
    return read_all(reader, "levels", read_level);
  }
  Reply operator()(const TraceRequest& /*request*/) const { return read_page(reader); }
  Reply operator()(const AddInterfaceRequest& /*request*/) const {
    AddedInterface added{reader.text("interface")};
    if (reader.has("warning")) added.warning = reader.text("warning");
    return added;
  }
  Reply operator()(const DeleteInterfaceRequest& /*request*/) const { return Done{}; }
  Reply operator()(const CaptureRequest& /*request*/) const { return Done{}; }
};

Error not_understood(const std::string& why) {
  return {EPROTO, "the response of ipoibd is not valid: " + why};
}

Response read_refusal(JsonReader& reader) {
  JsonReader part(reader.object("error"));
  reader.take(part);
  if (!reader.ok()) return not_understood(reader.error());
  const int code = part.number<std::uint16_t>("code");
  Error error{code, part.text("message")};
  if (!part.ok() || code == 0) return not_understood(part.ok() ? "error 0" : part.error());
  return error;
}

}  // namespace

std::string emit(const Response& response) {
  json::object out{{"ok", response.has_value()}};
  if (response.has_value()) {
    std::visit(ReplyEmitter{out}, *response);
  } else {
    const Error& error = response.error();
    out["error"] = {{"code", error.code == 0 ? EIO : error.code}, {"message", error.message}};
  }
  return json::serialize(out) + "\n";
}

Response parse_response(const Request& request, std::string_view line) {
  const auto object = parse_object(line);
  if (object.has_error()) return not_understood(object.error().message);
  JsonReader reader(*object);
  const bool ok = reader.boolean("ok");
  if (!reader.ok()) return not_understood(reader.error());
  if (!ok) return read_refusal(reader);
  Reply reply = std::visit(ReplyReader{reader}, request);
  if (!reader.ok()) return not_understood(reader.error());
  return reply;
}

}  // namespace ipoib::control
