// Converts values of the control protocol to JSON and back.
//
// A read_...() takes the members of an object; the caller checks JsonReader::ok().
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string_view>
#include <vector>

#include "control/json_reader.hpp"
#include "control/values.hpp"

namespace ipoib::control {

[[nodiscard]] boost::json::object to_json(const Entry& entry);
[[nodiscard]] Entry read_entry(JsonReader& reader);
[[nodiscard]] boost::json::object to_json(const Resolution& found);
[[nodiscard]] Resolution read_resolution(JsonReader& reader);
[[nodiscard]] boost::json::object to_json(const Counter& counter);
[[nodiscard]] Counter read_counter(JsonReader& reader);
[[nodiscard]] boost::json::object to_json(const Histogram& histogram);
[[nodiscard]] Histogram read_histogram(JsonReader& reader);
[[nodiscard]] boost::json::object to_json(const Station& station);
[[nodiscard]] Station read_station(JsonReader& reader);
[[nodiscard]] boost::json::object to_json(const Group& group);
[[nodiscard]] Group read_group(JsonReader& reader);
[[nodiscard]] boost::json::object to_json(const PortInfo& port);
[[nodiscard]] boost::json::object to_json(const InterfaceInfo& info);
[[nodiscard]] InterfaceInfo read_info(JsonReader& reader);
[[nodiscard]] InterfaceInfo read_info_without_groups(JsonReader& reader);
[[nodiscard]] boost::json::object to_json(const Member& member);
[[nodiscard]] Member read_member(JsonReader& reader);
[[nodiscard]] boost::json::object to_json(const ModuleLevel& level);
[[nodiscard]] ModuleLevel read_level(JsonReader& reader);
[[nodiscard]] boost::json::object to_json(const TraceLine& line);
[[nodiscard]] TraceLine read_trace_line(JsonReader& reader);

/// Converts each value with to_json().
template <class T>
boost::json::array to_json_array(const std::vector<T>& values) {
  boost::json::array out;
  out.reserve(values.size());
  for (const T& value : values) out.push_back(to_json(value));
  return out;
}

/// Reads each element of an array of objects with `read`.
template <class T>
std::vector<T> read_all(JsonReader& reader, std::string_view key, T (*read)(JsonReader&)) {
  std::vector<T> out;
  for_each_object(reader, key, [&](JsonReader& part) { out.push_back(read(part)); });
  return out;
}

/// Reads a member that is an object.
template <class T>
T read_part(JsonReader& reader, std::string_view key, T (*read)(JsonReader&)) {
  JsonReader member(reader.object(key));
  if (!reader.ok()) return {};
  T value = read(member);
  reader.take(member);
  return value;
}

}  // namespace ipoib::control
