#include "archive.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace ipoib::ibarp {

namespace {

constexpr std::size_t kBlock = 512;

/// A field of the header.
struct Field {
  std::size_t offset;
  std::size_t size;
};
constexpr Field kNameField{0, 100};
constexpr Field kModeField{100, 8};
constexpr Field kUserField{108, 8};
constexpr Field kGroupField{116, 8};
constexpr Field kSizeField{124, 12};
constexpr Field kTimeField{136, 12};
constexpr Field kChecksumField{148, 8};
constexpr Field kTypeField{156, 1};
constexpr Field kMagicField{257, 8};  ///< with the version

using Header = std::array<char, kBlock>;

void put(Header& header, Field field, std::string_view text) {
  std::copy_n(text.begin(), std::min(text.size(), field.size), header.begin() + field.offset);
}

/// Octal digits with leading zeros, and a NUL.
void put_number(Header& header, Field field, unsigned long long value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%0*llo", static_cast<int>(field.size - 1), value);
  put(header, field, text.data());
}

}  // namespace

void Archive::add(std::string_view name, std::string_view contents) {
  if (name.size() > kNameField.size) {
    throw std::length_error("the name has more than " + std::to_string(kNameField.size) + " bytes");
  }
  Header header{};
  put(header, kNameField, name);
  put_number(header, kModeField, 0600);
  put_number(header, kUserField, 0);
  put_number(header, kGroupField, 0);
  put_number(header, kSizeField, contents.size());
  put_number(header, kTimeField, static_cast<unsigned long long>(std::max<std::time_t>(when_, 0)));
  put(header, kTypeField, "0");
  put(header, kMagicField, std::string_view("ustar\00000", 8));
  // The checksum counts its own field as spaces.
  put(header, kChecksumField, std::string(kChecksumField.size, ' '));
  const auto sum = std::accumulate(header.begin(), header.end(), 0ULL, [](auto total, char byte) {
    return total + static_cast<unsigned char>(byte);
  });
  put_number(header, kChecksumField, sum);
  bytes_.append(header.data(), header.size()).append(contents);
  bytes_.resize((bytes_.size() + kBlock - 1) / kBlock * kBlock);
}

std::string Archive::finish() && {
  bytes_.resize(bytes_.size() + 2 * kBlock);
  return std::move(bytes_);
}

}  // namespace ipoib::ibarp
