// Emits and parses responses.
#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <functional>
#include <utility>

#include "control/json_reader.hpp"
#include "control/protocol.hpp"

namespace ipoib::control {

namespace json = boost::json;
using std::chrono::duration_cast;
using std::chrono::milliseconds;

namespace {

json::object to_json(const Entry& entry) {
  json::object out{{"address", to_string(entry.address)}, {"state", entry.state}};
  if (entry.hardware) out["lladdr"] = entry.hardware->to_string();
  if (entry.pinned) out["pinned_gid"] = entry.pinned->to_string();
  if (const auto& path = entry.path) {
    out["path"] = {{"dlid", path->dlid.value()},
                   {"sl", path->sl.value()},
                   {"mtu", path->mtu},
                   {"rate_mbps", path->rate_mbps}};
  }
  out["idle_ms"] = duration_cast<milliseconds>(entry.idle).count();
  out["uses"] = entry.uses;
  out["references"] = entry.references;
  out["waiting"] = entry.waiting;
  return out;
}

Entry read_entry(JsonReader& reader) {
  Entry entry;
  entry.address = reader.address("address");
  entry.state = reader.text("state");
  if (reader.has("lladdr")) entry.hardware = reader.hardware("lladdr");
  if (reader.has("pinned_gid")) entry.pinned = reader.gid("pinned_gid");
  if (reader.has("path")) {
    JsonReader path(reader.object("path"));
    entry.path =
        Path{Lid(path.number<std::uint16_t>("dlid")), ServiceLevel(path.number<std::uint8_t>("sl")),
             path.number<std::uint32_t>("mtu"), path.number<std::uint32_t>("rate_mbps")};
    reader.take(path);
  }
  constexpr std::int64_t kLongest = duration_cast<milliseconds>(Duration::max()).count();
  const std::int64_t idle = reader.integer("idle_ms");
  if (idle < 0 || idle > kLongest) {
    reader.fail("idle_ms", "milliseconds");
  } else {
    entry.idle = milliseconds(idle);
  }
  if (reader.has("uses")) entry.uses = reader.number<std::uint64_t>("uses");
  entry.references = reader.number<std::uint32_t>("references");
  entry.waiting = reader.number<std::uint32_t>("waiting");
  return entry;
}

json::object to_json(const Counter& counter) {
  json::object out{{"name", counter.name}, {"value", counter.value}, {"drop", counter.is_drop}};
  if (counter.is_gauge) out["gauge"] = true;
  return out;
}

Counter read_counter(JsonReader& reader) {
  return {reader.text("name"), reader.number<std::uint64_t>("value"), reader.boolean("drop"),
          reader.has("gauge") && reader.boolean("gauge")};
}

json::object to_json(const Histogram& histogram) {
  return {{"name", histogram.name},
          {"bounds_ns", json::array(histogram.bounds.begin(), histogram.bounds.end())},
          {"counts", json::array(histogram.counts.begin(), histogram.counts.end())},
          {"sum_ns", histogram.sum}};
}

Histogram read_histogram(JsonReader& reader) {
  Histogram out{reader.text("name"), reader.numbers("bounds_ns"), reader.numbers("counts"),
                reader.number<std::uint64_t>("sum_ns")};
  if (out.counts.size() != out.bounds.size() + 1) reader.fail("counts", "one more than bounds_ns");
  if (!std::is_sorted(out.bounds.begin(), out.bounds.end(), std::less_equal<>())) {
    reader.fail("bounds_ns", "ascending numbers");
  }
  return out;
}

json::object to_json(const Group& group) {
  json::object out{{"mgid", group.mgid.to_string()},
                   {"mlid", group.mlid.value()},
                   {"membership", group.membership},
                   {"waiting", group.waiting}};
  if (group.address) out["address"] = to_string(*group.address);
  return out;
}

Group read_group(JsonReader& reader) {
  Group group;
  group.mgid = reader.gid("mgid");
  group.mlid = Lid(reader.number<std::uint16_t>("mlid"));
  group.membership = reader.text("membership");
  if (reader.has("address")) group.address = reader.address("address");
  if (reader.has("waiting")) group.waiting = reader.number<std::uint32_t>("waiting");
  return group;
}

json::object to_json(const Member& member) {
  return {{"gid", member.port.to_string()}, {"join_state", member.join_state}};
}

Member read_member(JsonReader& reader) {
  return {reader.gid("gid"), reader.number<std::uint8_t>("join_state")};
}

json::object to_json(const ModuleLevel& level) {
  return {{"module", level.module}, {"level", level.level}};
}

ModuleLevel read_level(JsonReader& reader) { return {reader.text("module"), reader.text("level")}; }

json::object to_json(const TraceLine& line) {
  return {{"sequence", line.sequence},
          {"keyword", line.keyword},
          {"when_ns", line.when.time_since_epoch().count()},
          {"first", line.first},
          {"second", line.second}};
}

TraceLine read_line(JsonReader& reader) {
  TraceLine line;
  line.sequence = reader.number<std::uint64_t>("sequence");
  line.keyword = reader.text("keyword");
  line.when = TimePoint(Duration(reader.integer("when_ns")));
  line.first = reader.number<std::uint64_t>("first");
  line.second = reader.number<std::uint64_t>("second");
  return line;
}

template <class T>
json::array to_json(const std::vector<T>& values) {
  json::array out;
  out.reserve(values.size());
  for (const T& value : values) out.push_back(to_json(value));
  return out;
}

template <class T>
std::vector<T> read_all(JsonReader& reader, std::string_view key, T (*read)(JsonReader&)) {
  std::vector<T> out;
  for_each_object(reader, key, [&](JsonReader& part) { out.push_back(read(part)); });
  return out;
}

json::object to_json(const InterfaceInfo& info) {
  return {
      {"interface", info.interface}, {"device", info.device},     {"port", info.port},
      {"pkey", info.pkey.value()},   {"qkey", info.qkey.value()}, {"qpn", info.qpn.value()},
      {"gid", info.gid.to_string()}, {"lid", info.lid.value()},   {"mtu", info.mtu},
      {"admin_up", info.admin_up},   {"state", info.state},       {"waiting_for", info.waiting_for},
      {"version", info.version},     {"pid", info.pid},           {"groups", to_json(info.groups)}};
}

InterfaceInfo read_info(JsonReader& reader) {
  InterfaceInfo info;
  info.interface = reader.text("interface");
  info.device = reader.text("device");
  info.port = reader.number<std::uint8_t>("port");
  info.pkey = PKey(reader.number<std::uint16_t>("pkey"));
  info.qkey = QKey(reader.number<std::uint32_t>("qkey"));
  info.qpn = reader.qpn("qpn");
  info.gid = reader.gid("gid");
  info.lid = Lid(reader.number<std::uint16_t>("lid"));
  info.mtu = reader.number<std::uint32_t>("mtu");
  if (reader.has("admin_up")) info.admin_up = reader.boolean("admin_up");
  info.state = reader.text("state");
  info.waiting_for = reader.text("waiting_for");
  info.version = reader.text("version");
  info.pid = reader.number<std::uint32_t>("pid");
  info.groups = read_all(reader, "groups", read_group);
  return info;
}

TracePage read_page(JsonReader& reader) {
  TracePage page;
  page.rings = reader.number<std::uint32_t>("rings");
  page.thread = reader.text("thread");
  page.lines = read_all(reader, "lines", read_line);
  page.next = reader.number<std::uint64_t>("next");
  page.end = reader.number<std::uint64_t>("end");
  return page;
}

/// Adds the members of a reply to {"ok":true}.
struct ReplyEmitter {
  json::object& out;

  void operator()(const EntryPage& page) const {
    out["entries"] = to_json(page.entries);
    if (page.next) out["next"] = *page.next;
  }
  void operator()(const Entry& entry) const { out["entry"] = to_json(entry); }
  void operator()(const Done& /*done*/) const {}
  void operator()(const Flushed& flushed) const { out["flushed"] = flushed.entries; }
  void operator()(const std::vector<Counter>& all) const { out["counters"] = to_json(all); }
  void operator()(const std::vector<Histogram>& all) const { out["histograms"] = to_json(all); }
  void operator()(const InterfaceInfo& info) const { out["info"] = to_json(info); }
  void operator()(const std::vector<Member>& all) const { out["members"] = to_json(all); }
  void operator()(const std::vector<ModuleLevel>& all) const { out["levels"] = to_json(all); }
  void operator()(const TracePage& page) const {
    out["rings"] = page.rings;
    out["thread"] = page.thread;
    out["lines"] = to_json(page.lines);
    out["next"] = page.next;
    out["end"] = page.end;
  }
  void operator()(const AddedInterface& added) const { out["interface"] = added.name; }
};

/// Parses the reply to a request.
struct ReplyReader {
  JsonReader& reader;

  template <class T>
  T part(std::string_view key, T (*read)(JsonReader&)) const {
    JsonReader member(reader.object(key));
    if (!reader.ok()) return {};
    T value = read(member);
    reader.take(member);
    return value;
  }
  Reply operator()(const InterfaceRequest& request) const { return std::visit(*this, request); }
  Reply operator()(const ListRequest& /*request*/) const {
    EntryPage page{read_all(reader, "entries", read_entry), std::nullopt};
    if (reader.has("next")) page.next = reader.number<std::uint64_t>("next");
    return page;
  }
  Reply operator()(const GetRequest& /*request*/) const { return part("entry", read_entry); }
  Reply operator()(const SetRequest& /*request*/) const { return Done{}; }
  Reply operator()(const PinRequest& /*request*/) const { return Done{}; }
  Reply operator()(const DeleteRequest& /*request*/) const { return Done{}; }
  Reply operator()(const FlushRequest& /*request*/) const {
    return Flushed{reader.number<std::uint64_t>("flushed")};
  }
  Reply operator()(const StatsRequest& /*request*/) const {
    return read_all(reader, "counters", read_counter);
  }
  Reply operator()(const HistogramsRequest& /*request*/) const {
    return read_all(reader, "histograms", read_histogram);
  }
  Reply operator()(const InfoRequest& /*request*/) const { return part("info", read_info); }
  Reply operator()(const MembersRequest& /*request*/) const {
    return read_all(reader, "members", read_member);
  }
  Reply operator()(const LogRequest& /*request*/) const {
    return read_all(reader, "levels", read_level);
  }
  Reply operator()(const TraceRequest& /*request*/) const { return read_page(reader); }
  Reply operator()(const AddInterfaceRequest& /*request*/) const {
    return AddedInterface{reader.text("interface")};
  }
  Reply operator()(const DeleteInterfaceRequest& /*request*/) const { return Done{}; }
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
