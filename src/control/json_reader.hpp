// Reads members of a JSON object into values and keeps the first error.
//
// As with ByteReader, a member that is missing, of the wrong type or out of range yields a default
// value, and the caller checks ok() once, after the last member.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "ipoib/address.hpp"
#include "ipoib/ip.hpp"
#include "ipoib/mac_address.hpp"
#include "ipoib/result.hpp"

namespace ipoib::control {

class JsonReader {
 public:
  /// `object` must outlive this object.
  explicit JsonReader(const boost::json::object& object) : object_(object) {}

  [[nodiscard]] bool has(std::string_view key) const { return object_.contains(key); }
  [[nodiscard]] bool boolean(std::string_view key);
  [[nodiscard]] std::string text(std::string_view key);
  template <std::unsigned_integral T>
  [[nodiscard]] T number(std::string_view key) {
    return static_cast<T>(unsigned_below(key, std::numeric_limits<T>::max()));
  }
  [[nodiscard]] std::int64_t integer(std::string_view key);
  [[nodiscard]] IpAddress address(std::string_view key);
  [[nodiscard]] HwAddress hardware(std::string_view key);
  [[nodiscard]] Gid gid(std::string_view key);
  [[nodiscard]] MacAddress mac(std::string_view key);
  [[nodiscard]] Qpn qpn(std::string_view key);
  [[nodiscard]] const boost::json::array& array(std::string_view key);
  /// Reads an array of unsigned numbers.
  [[nodiscard]] std::vector<std::uint64_t> numbers(std::string_view key);
  [[nodiscard]] const boost::json::object& object(std::string_view key);

  /// Records that a member is invalid, for checks that the caller makes.
  void fail(std::string_view key, std::string_view expected);
  /// Takes over the error of the reader of a member.
  void take(const JsonReader& part) {
    if (ok()) error_ = part.error_;
  }
  [[nodiscard]] bool ok() const { return error_.empty(); }
  /// A phrase that names the member and what was expected.
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  [[nodiscard]] std::uint64_t unsigned_below(std::string_view key, std::uint64_t highest);
  const boost::json::object& object_;
  std::string error_;
};

/// Calls `read(JsonReader&)` for each element of an array of objects.
template <class Read>
void for_each_object(JsonReader& reader, std::string_view key, Read read) {
  for (const auto& element : reader.array(key)) {
    if (!element.is_object()) return reader.fail(key, "an array of objects");
    JsonReader part(element.get_object());
    read(part);
    reader.take(part);
    if (!reader.ok()) return;
  }
}

/// Parses a line. EINVAL if it is not a JSON object.
[[nodiscard]] Result<boost::json::object> parse_object(std::string_view line);

}  // namespace ipoib::control
