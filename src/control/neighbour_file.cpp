#include "control/neighbour_file.hpp"

#include <net/if.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>

#include "ipoib/number.hpp"

namespace ipoib::control {

namespace {

using Words = std::vector<std::string_view>;

/// The words of a line, without a comment. Blanks and tabs separate words.
Words words_of(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r";
  line = line.substr(0, line.find('#'));
  Words words;
  for (;;) {
    const auto begin = line.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) return words;
    line.remove_prefix(begin);
    const auto end = std::min(line.find_first_of(kBlanks), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

/// A word of a file that may contain anything, for an error.
std::string quoted(std::string_view word) {
  constexpr std::size_t kMost = 64;
  std::string text(word.substr(0, kMost));
  std::ranges::replace_if(
      text, [](char c) { return std::isprint(static_cast<unsigned char>(c)) == 0; }, '?');
  return "\"" + text + (word.size() > kMost ? "...\"" : "\"");
}

bool is_interface(std::string_view name) {
  return name.size() < IFNAMSIZ && name != "." && name != ".." &&
         std::ranges::none_of(name, [](char c) {
           return c == '/' || c == ':' || std::isgraph(static_cast<unsigned char>(c)) == 0;
         });
}

Result<StaticNeighbour> parse_words(const Words& words) {
  StaticNeighbour entry;
  if (const auto hardware = parse_hardware(words[0])) {
    entry.to = *hardware;
  } else if (const auto gid = Gid::parse(words[0])) {
    entry.to = *gid;
  } else {
    return Error{EINVAL, quoted(words[0]) +
                             " is no link-layer address; expected 20 bytes in hexadecimal with "
                             "colons, QPN@GID, or a GID, and behind it an IP address"};
  }
  if (words.size() < 2) return Error{EINVAL, "the IP address is missing"};
  const auto address = parse_ip_address(words[1]);
  if (!address) return Error{EINVAL, quoted(words[1]) + " is no IP address"};
  entry.address = *address;
  if (words.size() > 3) return Error{EINVAL, quoted(words[3]) + " is not expected here"};
  if (words.size() == 3) {
    if (!is_interface(words[2])) {
      return Error{EINVAL, quoted(words[2]) + " is no name of an interface"};
    }
    entry.interface = words[2];
  }
  return entry;
}

}  // namespace

std::optional<HwAddress> parse_hardware(std::string_view text) {
  if (const auto bytes = HwAddress::parse(text)) return bytes;
  const auto at = text.find('@');
  if (at == std::string_view::npos) return std::nullopt;
  const auto gid = Gid::parse(text.substr(at + 1));
  std::string_view number = text.substr(0, at);
  int base = 10;
  if (number.size() > 2 && number[0] == '0' && (number[1] == 'x' || number[1] == 'X')) {
    number.remove_prefix(2);
    base = 16;
  }
  const auto qpn = parse_number<std::uint32_t>(number, base);
  if (!gid || !qpn || *qpn > kMulticastQpn.value()) return std::nullopt;
  return HwAddress{0, Qpn(*qpn), *gid};
}

std::vector<StaticNeighbour> neighbours_for(std::string_view interface,
                                            std::span<const StaticNeighbour> file) {
  std::vector<StaticNeighbour> out;
  const auto append_those_of = [&](std::string_view name) {
    std::ranges::copy_if(file, std::back_inserter(out),
                         [&](const auto& entry) { return entry.interface == name; });
  };
  append_those_of("");
  if (!interface.empty()) append_those_of(interface);
  return out;
}

Result<std::vector<StaticNeighbour>> parse_neighbours(std::string_view text,
                                                      const std::string& name) {
  std::vector<StaticNeighbour> out;
  std::set<std::pair<IpAddress, std::string>> seen;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const auto fail = [&](const std::string& why) {
      return Error{EINVAL, name + ":" + std::to_string(number) + ": " + why};
    };
    const auto end = std::min(text.find('\n'), text.size());
    const Words words = words_of(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (words.empty()) continue;
    auto entry = parse_words(words);
    if (!entry) return fail(entry.error().message);
    if (!seen.emplace(entry->address, entry->interface).second) {
      return fail(to_string(entry->address) + " was given before");
    }
    if (out.size() == kMaxStaticNeighbours) {
      return fail("more than " + std::to_string(kMaxStaticNeighbours) + " entries");
    }
    out.push_back(std::move(*entry));
  }
  return out;
}

Result<std::vector<StaticNeighbour>> read_neighbours(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{errno == 0 ? EIO : errno, path + ": " + std::strerror(errno)};
  std::string text(kMaxNeighbourFile + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return Error{EIO, path + ": " + std::strerror(errno == 0 ? EIO : errno)};
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMaxNeighbourFile) {
    return Error{EFBIG, path + ": larger than " + std::to_string(kMaxNeighbourFile >> 20) + " MiB"};
  }
  return parse_neighbours(text, path);
}

}  // namespace ipoib::control
