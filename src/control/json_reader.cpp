// Members are looked up by name; their order does not matter.
#include "control/json_reader.hpp"

#include <boost/json/parse.hpp>
#include <cerrno>
#include <optional>

namespace ipoib::control {

namespace json = boost::json;

namespace {

std::optional<std::uint64_t> as_unsigned(const json::value& value) {
  if (value.is_uint64()) return value.get_uint64();
  if (!value.is_int64() || value.get_int64() < 0) return std::nullopt;
  return static_cast<std::uint64_t>(value.get_int64());
}

}  // namespace

void JsonReader::fail(std::string_view key, std::string_view expected) {
  if (!ok()) return;
  error_ = "\"" + std::string(key) + "\": expected " + std::string(expected);
}

bool JsonReader::boolean(std::string_view key) {
  const json::value* const value = object_.if_contains(key);
  if (value != nullptr && value->is_bool()) return value->get_bool();
  fail(key, "true or false");
  return false;
}

std::string JsonReader::text(std::string_view key) {
  const json::value* const value = object_.if_contains(key);
  if (value != nullptr && value->is_string()) return std::string(value->get_string());
  fail(key, "a string");
  return {};
}

std::uint64_t JsonReader::unsigned_below(std::string_view key, std::uint64_t highest) {
  const json::value* const value = object_.if_contains(key);
  const auto number = value != nullptr ? as_unsigned(*value) : std::nullopt;
  if (number && *number <= highest) return *number;
  fail(key, "an integer from 0 to " + std::to_string(highest));
  return 0;
}

std::int64_t JsonReader::integer(std::string_view key) {
  const json::value* const value = object_.if_contains(key);
  if (value != nullptr && value->is_int64()) return value->get_int64();
  fail(key, "an integer");
  return 0;
}

IpAddress JsonReader::address(std::string_view key) {
  const auto value = parse_ip_address(text(key));
  if (!value) fail(key, "an IP address");
  return value.value_or(IpAddress{});
}

HwAddress JsonReader::hardware(std::string_view key) {
  const auto value = HwAddress::parse(text(key));
  if (!value) fail(key, "20 bytes in hexadecimal with colons");
  return value.value_or(HwAddress{});
}

Gid JsonReader::gid(std::string_view key) {
  const auto value = Gid::parse(text(key));
  if (!value) fail(key, "a GID");
  return value.value_or(Gid{});
}

MacAddress JsonReader::mac(std::string_view key) {
  const auto value = MacAddress::parse(text(key));
  if (!value) fail(key, "an Ethernet address");
  return value.value_or(MacAddress{});
}

Qpn JsonReader::qpn(std::string_view key) {
  return Qpn(static_cast<std::uint32_t>(unsigned_below(key, kMulticastQpn.value())));
}

const json::array& JsonReader::array(std::string_view key) {
  static const json::array kEmpty;
  const json::value* const value = object_.if_contains(key);
  if (value != nullptr && value->is_array()) return value->get_array();
  fail(key, "an array");
  return kEmpty;
}

std::vector<std::uint64_t> JsonReader::numbers(std::string_view key) {
  std::vector<std::uint64_t> out;
  for (const json::value& value : array(key)) {
    const auto number = as_unsigned(value);
    if (!number) fail(key, "an array of numbers, none less than 0");
    out.push_back(number.value_or(0));
  }
  return out;
}

const json::object& JsonReader::object(std::string_view key) {
  static const json::object kEmpty;
  const json::value* const value = object_.if_contains(key);
  if (value != nullptr && value->is_object()) return value->get_object();
  fail(key, "an object");
  return kEmpty;
}

Result<json::object> parse_object(std::string_view line) {
  json::error_code error;
  json::parse_options options;
  options.allow_invalid_utf8 = true;  // an interface's name may contain any bytes
  json::value value = json::parse(line, error, {}, options);
  if (error) return Error{EINVAL, "not JSON: " + error.message()};
  if (!value.is_object()) return Error{EINVAL, "not a JSON object"};
  return std::move(value.get_object());
}

}  // namespace ipoib::control
