// Emits and parses events.
#include "control/events.hpp"

#include <boost/json/serialize.hpp>
#include <cerrno>

#include "control/json_reader.hpp"
#include "control/value_json.hpp"
#include "ipoib/overloaded.hpp"

namespace ipoib::control {

namespace json = boost::json;

namespace {

json::object to_json(const CounterDelta& delta) {
  json::object out = control::to_json(delta.counter);
  out["delta"] = delta.delta;
  return out;
}

CounterDelta read_delta(JsonReader& reader) {
  CounterDelta delta;
  delta.counter = read_counter(reader);
  delta.delta = reader.integer("delta");
  return delta;
}

json::object to_object(const NeighbourEvent& event) {
  return {{"event", "neighbour"},
          {"change", event.change},
          {"why", event.why},
          {"entry", control::to_json(event.entry)}};
}

json::object to_object(const LinkEvent& event) {
  json::array changed;
  for (const auto& each : event.changed) changed.emplace_back(each);
  json::object info = control::to_json(event.info);
  info.erase("groups");
  return {{"event", "link"}, {"changed", std::move(changed)}, {"info", std::move(info)}};
}

json::object to_object(const GroupEvent& event) {
  return {{"event", "group"},
          {"change", event.change},
          {"why", event.why},
          {"group", control::to_json(event.group)}};
}

json::object to_object(const StationEvent& event) {
  return {{"event", "station"},
          {"change", event.change},
          {"why", event.why},
          {"station", control::to_json(event.station)}};
}

json::object to_object(const StatsEvent& event) {
  json::array counters;
  for (const auto& each : event.counters) counters.push_back(to_json(each));
  return {{"event", "stats"},
          {"interval_ms", event.interval.count()},
          {"counters", std::move(counters)}};
}

json::object to_object(const LostEvent& event) {
  return {{"event", "lost"}, {"events", event.events}};
}

json::object to_object(const TakeoverEvent& /*event*/) { return {{"event", "takeover"}}; }

Event read_neighbour(JsonReader& reader) {
  return NeighbourEvent{reader.text("change"), reader.text("why"),
                        read_part(reader, "entry", read_entry)};
}

Event read_link(JsonReader& reader) {
  LinkEvent event;
  for (const auto& each : reader.array("changed")) {
    if (each.is_string()) {
      event.changed.emplace_back(each.get_string());
    } else {
      reader.fail("changed", "an array of strings");
    }
  }
  event.info = read_part(reader, "info", read_info_without_groups);
  return event;
}

Event read_group_event(JsonReader& reader) {
  return GroupEvent{reader.text("change"), reader.text("why"),
                    read_part(reader, "group", read_group)};
}

Event read_station_event(JsonReader& reader) {
  return StationEvent{reader.text("change"), reader.text("why"),
                      read_part(reader, "station", read_station)};
}

Event read_stats(JsonReader& reader) {
  return StatsEvent{std::chrono::milliseconds(reader.number<std::uint32_t>("interval_ms")),
                    read_all(reader, "counters", read_delta)};
}

Event read_lost(JsonReader& reader) { return LostEvent{reader.number<std::uint64_t>("events")}; }

Event read_takeover(JsonReader& /*reader*/) { return TakeoverEvent{}; }

struct Kind {
  std::string_view name;
  Event (*read)(JsonReader&);
};
constexpr std::array<Kind, std::variant_size_v<Event>> kKinds{{{"neighbour", read_neighbour},
                                                               {"link", read_link},
                                                               {"group", read_group_event},
                                                               {"station", read_station_event},
                                                               {"stats", read_stats},
                                                               {"lost", read_lost},
                                                               {"takeover", read_takeover}}};

Error invalid_event(const std::string& why) {
  return {EPROTO, "an event of ipoibd is not valid: " + why};
}

}  // namespace

std::string emit(const Event& event) {
  return json::serialize(std::visit([](const auto& each) { return to_object(each); }, event)) +
         "\n";
}

Result<Event> parse_event(std::string_view line) {
  const auto object = parse_object(line);
  if (object.has_error()) return invalid_event(object.error().message);
  JsonReader reader(*object);
  const std::string name = reader.text("event");
  if (!reader.ok()) return invalid_event(reader.error());
  for (const Kind& kind : kKinds) {
    if (kind.name != name) continue;
    Event event = kind.read(reader);
    if (!reader.ok()) return invalid_event(reader.error());
    return event;
  }
  return Error{EOPNOTSUPP, "ipoibd sends an event that this ibarp does not know: " + name};
}

}  // namespace ipoib::control
