// PKEY=full|limited[:HCA,...][,mtu=BYTES][,rate=GBITS][,nogroup]
//
// Names and settings are both separated by commas: "nogroup" and words with '=' are settings; other
// words before the first setting are names of HCAs.
#include "softib/subnet/partition.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <optional>

#include "ipoib/pkey_table.hpp"
#include "softib/core/name.hpp"
#include "softib/subnet/rates.hpp"
#include "wire/sa_records.hpp"
#include "wire/sa_values.hpp"

namespace softib::subnet {

using ipoib::Error;
using ipoib::Result;

namespace {

Error bad(std::string_view whole, const std::string& why) {
  return Error{EINVAL,
               "partition '" + std::string(whole) + "': " + why +
                   "; expected PKEY=full|limited[:HCA,...][,mtu=BYTES][,rate=GBITS][,nogroup]"};
}

/// Removes the text up to and including `mark` (all of it if there is none) from the front, and
/// returns it without the mark.
std::string_view split(std::string_view& text, char mark) {
  const auto at = text.find(mark);
  const auto front = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view{} : text.substr(at + 1);
  return front;
}

std::optional<std::uint32_t> number(std::string_view text) {
  const bool is_hex = text.starts_with("0x") || text.starts_with("0X");
  if (is_hex) text.remove_prefix(2);
  std::uint32_t value = 0;
  const auto end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, is_hex ? 16 : 10);
  if (error != std::errc{} || stop != end || text.empty()) return std::nullopt;
  return value;
}

/// Applies a setting. Returns an error message if it is invalid.
std::optional<std::string> apply(Partition& partition, std::string_view word) {
  if (word == "nogroup") {
    partition.broadcast_group = false;
    return std::nullopt;
  }
  std::string_view value = word;
  const auto key = split(value, '=');
  if (key == "mtu") {
    const auto bytes = number(value);
    partition.mtu = bytes ? ipoib::wire::mtu_code(*bytes) : std::uint8_t{0};
    if (partition.mtu == 0) return "mtu is one of 256, 512, 1024, 2048, 4096";
  } else if (key == "rate") {
    partition.rate = ipoib::wire::rate_code(value);
    if (partition.rate == 0) return "rate is one of " + ipoib::wire::known_rates();
  } else {
    return "unknown setting '" + std::string(word) + "'";
  }
  return std::nullopt;
}

bool is_setting(std::string_view word) {
  return word == "nogroup" || word.find('=') != std::string_view::npos;
}

}  // namespace

std::string pkey_text(PKey key) {
  std::array<char, 8> text{};
  (void)std::snprintf(text.data(), text.size(), "0x%04x", unsigned{key.value()});
  return text.data();
}

bool Partition::names(std::string_view hca) const {
  return std::any_of(members.begin(), members.end(),
                     [&](const Member& member) { return member.hca == hca; });
}

Membership Partition::membership(std::string_view hca) const {
  const auto named = std::find_if(members.begin(), members.end(),
                                  [&](const Member& member) { return member.hca == hca; });
  return named == members.end() ? others : named->membership;
}

void Partition::set(std::string_view hca, Membership membership) {
  const auto named = std::find_if(members.begin(), members.end(),
                                  [&](const Member& member) { return member.hca == hca; });
  if (named != members.end()) {
    named->membership = membership;
  } else {
    members.push_back({std::string(hca), membership});
  }
}

Partition default_partition() {
  Partition partition;
  partition.pkey = ipoib::kDefaultPKey;
  partition.others = Membership::full;
  return partition;
}

Result<Partition> parse_partition(std::string_view text) {
  std::string_view rest = text;
  const auto key = ipoib::parse_pkey(split(rest, '='));
  if (!key) return bad(text, "the P_Key is " + std::string(ipoib::kPKeyRange));
  Partition partition;
  partition.pkey = key->as_full();

  const std::size_t end = std::min(rest.find(':'), rest.find(','));
  const auto word = rest.substr(0, end);
  if (word != "full" && word != "limited") return bad(text, "membership is full or limited");
  const Membership membership = word == "full" ? Membership::full : Membership::limited;
  const bool has_names = end != std::string_view::npos && rest[end] == ':';
  rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  if (end != std::string_view::npos && rest.empty()) return bad(text, "incomplete");

  bool names_allowed = has_names;
  while (!rest.empty()) {
    const auto next = split(rest, ',');
    if (is_setting(next)) {
      names_allowed = false;
      if (const auto why = apply(partition, next)) return bad(text, *why);
    } else if (names_allowed) {
      if (!is_valid_name(next)) return bad(text, invalid_name("HCA", next).message);
      if (partition.members.size() == kMaxNamedMembers) return bad(text, "too many names");
      partition.set(next, membership);
    } else {
      return bad(text, "'" + std::string(next) + "' is not a setting");
    }
  }
  if (has_names && partition.members.empty()) return bad(text, "no HCA is named after ':'");
  if (!has_names) partition.others = membership;
  return partition;
}

Result<void> check_mtus(const std::vector<Partition>& partitions, std::uint8_t ports) {
  for (const auto& partition : partitions) {
    if (partition.mtu <= ports) continue;
    return Error{EINVAL, "partition " + pkey_text(partition.pkey) +
                             ": no port can join a group of MTU " +
                             std::to_string(ipoib::wire::mtu_bytes(partition.mtu)) +
                             ", because the MTU of the ports is " +
                             std::to_string(ipoib::wire::mtu_bytes(ports))};
  }
  return {};
}

Result<std::vector<Partition>> make_partitions(const std::vector<std::string>& options) {
  std::vector<Partition> partitions{default_partition()};
  bool has_default = false;
  for (const auto& option : options) {
    auto parsed = parse_partition(option);
    if (!parsed) return parsed.error();
    if (parsed->pkey == ipoib::kDefaultPKey && !has_default) {
      has_default = true;
      partitions.front() = *parsed;
      continue;
    }
    const auto same = std::find_if(partitions.begin(), partitions.end(),
                                   [&](const auto& other) { return other.pkey == parsed->pkey; });
    if (same == partitions.end()) {
      if (partitions.size() == kMaxPartitions) {
        return Error{EINVAL, "more than " + std::to_string(kMaxPartitions) + " partitions"};
      }
      partitions.push_back(*parsed);
      continue;
    }
    for (const auto& member : parsed->members) same->set(member.hca, member.membership);
    if (parsed->members.empty()) same->others = parsed->others;
    if (parsed->mtu != 0) same->mtu = parsed->mtu;
    if (parsed->rate != Partition::kDefaultRate) same->rate = parsed->rate;
    same->broadcast_group = same->broadcast_group && parsed->broadcast_group;
  }
  return partitions;
}

}  // namespace softib::subnet
