#include "daemon/interfaces/handover_messages.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <optional>

#include "daemon/options/interface_plan.hpp"
#include "daemon/options/option_values.hpp"
#include "ipoib/overloaded.hpp"

namespace ipoib::daemon::handover {

namespace {

constexpr std::uint32_t kMagic = 0x4950'4f48;  // "IPOH"
constexpr std::size_t kHeader = 8;
constexpr std::size_t kAddress = 17;
constexpr std::size_t kStaticRecord = kAddress + 1 + HwAddress::kSize;
constexpr std::size_t kNeighbourRecord = kAddress + HwAddress::kSize + 16 + 1 + 8 + 8 + 8;
constexpr std::size_t kStationRecord = kAddress + MacAddress::kSize + 1 + 8;
constexpr std::size_t kStationGroupRecord = kAddress + MacAddress::kSize;
static_assert(kHeader + 4 + kMaxRecords * kNeighbourRecord <= kMaxMessage);
static_assert(kMaxInterfaces <= kMaxRecords);

/// The type of a message as a byte: its index in Message, plus one.
template <class T, std::size_t I = 0>
constexpr std::uint8_t type_of() {
  if constexpr (std::is_same_v<std::variant_alternative_t<I, Message>, T>) {
    return I + 1;
  } else {
    return type_of<T, I + 1>();
  }
}

using Milliseconds = std::chrono::milliseconds;

// --- Writing -------------------------------------------------------------------------------------

void write_text(ByteWriter& out, const std::string& text) {
  const std::size_t size = std::min(text.size(), kMaxText);
  out.u16(static_cast<std::uint16_t>(size));
  for (const char each : text.substr(0, size)) {
    const bool is_printable = each >= ' ' && each <= '~';
    out.u8(static_cast<std::uint8_t>(is_printable ? each : '?'));
  }
}

void write_address(ByteWriter& out, const IpAddress& address) {
  std::visit(Overloaded{[&](const Ipv4Address& v4) {
                          out.u8(4);
                          out.bytes(v4.bytes());
                          out.zeros(Ipv6Address::kSize - Ipv4Address::kSize);
                        },
                        [&](const Ipv6Address& v6) {
                          out.u8(6);
                          out.bytes(v6.bytes());
                        }},
             address);
}

constexpr std::uint64_t kNoDuration = ~std::uint64_t{0};

/// Writes milliseconds.
void write_duration(ByteWriter& out, const std::optional<Duration>& duration) {
  if (!duration) return out.u64(kNoDuration);
  const auto number = std::chrono::duration_cast<Milliseconds>(*duration).count();
  out.u64(static_cast<std::uint64_t>(std::max<decltype(number)>(number, 0)));
}

template <class List, class Write>
void write_list(ByteWriter& out, const List& list, std::size_t record, Write&& write) {
  assert(list.size() <= kMaxRecords);
  const std::size_t count = std::min(list.size(), kMaxRecords);
  out.u16(static_cast<std::uint16_t>(count));
  out.u16(static_cast<std::uint16_t>(record));
  for (std::size_t i = 0; i < count; ++i) write(list[i]);
}

void write_pkeys(ByteWriter& out, const std::vector<PKey>& pkeys) {
  write_list(out, pkeys, 2, [&](PKey pkey) { out.u16(pkey.value()); });
}

void write_path(ByteWriter& out, const link::SavedPath& path) {
  const auto& to = path.attributes;
  out.u16(to.dlid.value());
  out.u8(to.sl.value());
  out.u8(to.rate);
  out.u8(to.source_path_bits);
  out.u8(to.sgid_index);
  out.u8(to.hop_limit);
  out.u8(to.traffic_class);
  out.u32(to.flow_label);
  out.u32(path.mtu);
}

void write(ByteWriter& out, const Hello& hello) {
  out.u16(hello.oldest);
  out.u16(hello.newest);
  write_text(out, hello.program_version);
  write_text(out, hello.device);
  out.u8(hello.port);
  out.u64(hello.guid.value());
  write_pkeys(out, hello.pkeys);
}
void write(ByteWriter& out, const Refusal& refusal) {
  out.u32(static_cast<std::uint32_t>(refusal.code));
  write_text(out, refusal.text);
}
void write(ByteWriter& out, const Offer& offer) {
  out.u16(offer.version);
  out.u32(offer.pid);
  write_text(out, offer.program_version);
  write_list(out, offer.added, 0, [&](const auto& each) {
    out.u16(each.first.value());
    write_text(out, each.second);
  });
  write_pkeys(out, offer.deleted);
}
void write(ByteWriter& out, const Interface& interface) {
  out.u16(interface.pkey.value());
  out.u32(interface.mtu);
  const auto& [port, is_chosen, hold_down_factor] = interface.selection;
  write_text(out, port.device);
  out.u8(port.port);
  out.u8(is_chosen ? 1 : 0);
  out.u8(hold_down_factor);
}
void write(ByteWriter& out, const Statics& statics) {
  write_list(out, statics.neighbours, kStaticRecord, [&](const auto& each) {
    write_address(out, each.address);
    const auto* const gid = std::get_if<Gid>(&each.to);
    out.u8(gid != nullptr ? 1 : 0);
    out.bytes((gid != nullptr ? HwAddress{0, {}, *gid} : std::get<HwAddress>(each.to)).bytes());
  });
}
void write(ByteWriter& out, const Neighbours& message) {
  write_list(out, message.neighbours, kNeighbourRecord, [&](const auto& each) {
    write_address(out, each.address);
    out.bytes(each.hardware.bytes());
    write_path(out, each.path);
    out.u8(0);
    write_duration(out, each.reachable_for);
    write_duration(out, each.used);
    out.u64(each.uses);
  });
}
void write(ByteWriter& out, const SendGroups& groups) {
  write_list(out, groups.mgids, Gid::kSize, [&](const Gid& mgid) { out.bytes(mgid.bytes()); });
}
void write(ByteWriter& out, const Stations& message) {
  write_list(out, message.stations, kStationRecord, [&](const auto& each) {
    write_address(out, each.address);
    out.bytes(each.mac.bytes());
    out.u8(each.is_router ? 1 : 0);
    write_duration(out, each.idle);
  });
}
void write(ByteWriter& out, const StationGroups& message) {
  write_list(out, message.groups, kStationGroupRecord, [&](const auto& each) {
    write_address(out, each.group);
    out.bytes(each.station.bytes());
  });
}
void write(ByteWriter& /*out*/, const Complete& /*message*/) {}
void write(ByteWriter& out, const Ready& ready) { write_pkeys(out, ready.pkeys); }
void write(ByteWriter& /*out*/, const Released& /*message*/) {}

// --- Reading -------------------------------------------------------------------------------------

/// Remembers whether anything was invalid, like a ByteReader.
struct Input {
  ByteReader bytes;
  bool valid = true;

  void require(bool what) { valid = valid && what; }
  [[nodiscard]] bool ok() const { return valid && bytes.ok(); }
};

std::string read_text(Input& in) {
  const std::size_t size = in.bytes.u16();
  in.require(size <= kMaxText);
  const auto text = in.bytes.take(in.ok() ? size : 0);
  in.require(std::ranges::all_of(text, [](std::uint8_t c) { return c >= ' ' && c <= '~'; }));
  return {text.begin(), text.end()};
}

IpAddress read_address(Input& in) {
  const auto family = in.bytes.u8();
  const auto bytes = in.bytes.array<Ipv6Address::kSize>();
  in.require(family == 4 || family == 6);
  if (family == 6) return Ipv6Address(bytes);
  ByteReader first(bytes);
  return Ipv4Address(first.array<Ipv4Address::kSize>());
}

HwAddress read_hardware(Input& in) {
  return HwAddress::from_bytes(in.bytes.array<HwAddress::kSize>());
}

/// Of a station.
MacAddress read_mac(Input& in) {
  const MacAddress mac(in.bytes.array<MacAddress::kSize>());
  in.require(!mac.is_multicast());
  return mac;
}

std::optional<Duration> read_duration(Input& in) {
  constexpr Milliseconds kLongest = std::chrono::hours(24 * 365);
  const std::uint64_t number = in.bytes.u64();
  if (number == kNoDuration) return std::nullopt;
  // A longer duration is of no use, and could overflow.
  return Milliseconds(std::min(number, static_cast<std::uint64_t>(kLongest.count())));
}

/// Calls `read` with each record, of at least `record` bytes. If that is 0, a record tells where it
/// ends.
template <class Read>
void read_list(Input& in, std::size_t record, std::size_t most, Read&& read) {
  const std::size_t count = in.bytes.u16();
  const std::size_t size = in.bytes.u16();
  in.require(count <= most && size >= record);
  for (std::size_t i = 0; i < count && in.ok(); ++i) {
    if (record == 0) {
      read(in);
      continue;
    }
    Input one{ByteReader(in.bytes.take(size))};
    if (!in.ok()) return;
    read(one);
    in.require(one.ok());
  }
}

std::vector<PKey> read_pkeys(Input& in) {
  std::vector<PKey> out;
  read_list(in, 2, kMaxInterfaces, [&out](Input& one) {
    out.emplace_back(one.bytes.u16());
    one.require(out.back().is_valid() && out.back().is_full());
  });
  return out;
}

link::SavedPath read_path(Input& in) {
  link::SavedPath path;
  auto& to = path.attributes;
  to.dlid = Lid(in.bytes.u16());
  to.sl = ServiceLevel(in.bytes.u8());
  to.rate = in.bytes.u8();
  to.source_path_bits = in.bytes.u8();
  to.sgid_index = in.bytes.u8();
  to.hop_limit = in.bytes.u8();
  to.traffic_class = in.bytes.u8();
  to.flow_label = in.bytes.u32();
  path.mtu = in.bytes.u32();
  return path;
}

void read(Input& in, Hello& hello) {
  hello.oldest = in.bytes.u16();
  hello.newest = in.bytes.u16();
  in.require(hello.oldest <= hello.newest);
  hello.program_version = read_text(in);
  hello.device = read_text(in);
  hello.port = in.bytes.u8();
  hello.guid = Guid(in.bytes.u64());
  hello.pkeys = read_pkeys(in);
}
void read(Input& in, Refusal& refusal) {
  constexpr std::uint32_t kMostErrno = 4095;
  const auto code = in.bytes.u32();
  in.require(code <= kMostErrno);
  refusal.code = static_cast<int>(std::min(code, kMostErrno));
  refusal.text = read_text(in);
}
void read(Input& in, Offer& offer) {
  offer.version = in.bytes.u16();
  offer.pid = in.bytes.u32();
  offer.program_version = read_text(in);
  read_list(in, 0, kMaxInterfaces, [&offer](Input& one) {
    const PKey pkey(one.bytes.u16());
    offer.added.emplace_back(pkey, read_text(one));
    one.require(pkey.is_valid() && pkey.is_full() && is_interface_name(offer.added.back().second));
  });
  offer.deleted = read_pkeys(in);
}
void read(Input& in, Interface& interface) {
  interface.pkey = PKey(in.bytes.u16());
  interface.mtu = in.bytes.u32();
  in.require(interface.pkey.is_valid() && interface.pkey.is_full());
  if (in.bytes.left() == 0) return;  // of a daemon that does not tell the port
  auto& [port, is_chosen, hold_down_factor] = interface.selection;
  port.device = read_text(in);
  port.port = in.bytes.u8();
  const auto chosen = in.bytes.u8();
  hold_down_factor = in.bytes.u8();
  in.require(chosen <= 1 && hold_down_factor >= 1 &&
             hold_down_factor <= PortSelection::kMaxHoldDownFactor);
  is_chosen = chosen == 1;
}
void read(Input& in, Statics& statics) {
  read_list(in, kStaticRecord, kMaxRecords, [&statics](Input& one) {
    const auto address = read_address(one);
    const auto is_pin = one.bytes.u8();
    const auto hardware = read_hardware(one);
    one.require(is_pin <= 1);
    if (is_pin == 1) {
      statics.neighbours.push_back({address, hardware.gid, {}});
    } else {
      statics.neighbours.push_back({address, hardware, {}});
    }
  });
}
void read(Input& in, Neighbours& message) {
  read_list(in, kNeighbourRecord, kMaxRecords, [&message](Input& one) {
    link::SavedNeighbour each;
    each.address = read_address(one);
    each.hardware = read_hardware(one);
    each.path = read_path(one);
    one.bytes.skip(1);
    each.reachable_for = read_duration(one);
    each.used = read_duration(one);
    each.uses = one.bytes.u64();
    message.neighbours.push_back(each);
  });
}
void read(Input& in, SendGroups& groups) {
  read_list(in, Gid::kSize, kMaxRecords, [&groups](Input& one) {
    groups.mgids.emplace_back(one.bytes.array<Gid::kSize>());
    one.require(groups.mgids.back().is_multicast());
  });
}
void read(Input& in, Stations& message) {
  read_list(in, kStationRecord, kMaxRecords, [&message](Input& one) {
    ethernet::SavedStation each;
    each.address = read_address(one);
    each.mac = read_mac(one);
    const auto is_router = one.bytes.u8();
    const auto idle = read_duration(one);
    one.require(is_router <= 1 && idle.has_value());
    each.is_router = is_router == 1;
    each.idle = idle.value_or(Duration{});
    message.stations.push_back(each);
  });
}
void read(Input& in, StationGroups& message) {
  read_list(in, kStationGroupRecord, kMaxRecords, [&message](Input& one) {
    const auto group = read_address(one);
    message.groups.push_back({group, read_mac(one)});
    one.require(std::visit([](const auto& any) { return any.is_multicast(); }, group));
  });
}
void read(Input& /*in*/, Complete& /*message*/) {}
void read(Input& in, Ready& ready) { ready.pkeys = read_pkeys(in); }
void read(Input& /*in*/, Released& /*message*/) {}

template <std::size_t I = 0>
Result<Message> read_type(std::uint8_t type, Input& in) {
  if constexpr (I == std::variant_size_v<Message>) {
    return Error{
        EPROTO,
        fmt::format(
            "the other daemon sends a message of the unknown type {}: it is of another version",
            type)};
  } else {
    if (type != I + 1) return read_type<I + 1>(type, in);
    std::variant_alternative_t<I, Message> contents;
    read(in, contents);
    if (!in.ok()) {
      return Error{
          EPROTO,
          fmt::format(
              "the other daemon sends an invalid message of type {}: it is of another version",
              type)};
    }
    return Message(std::move(contents));
  }
}

}  // namespace

std::vector<std::uint8_t> emit(const Message& message) {
  std::vector<std::uint8_t> bytes(kMaxMessage);
  ByteWriter out(bytes);
  out.u32(kMagic);
  std::visit(
      [&out]<class T>(const T& contents) {
        out.u8(type_of<T>());
        out.zeros(3);
        write(out, contents);
      },
      message);
  assert(out.ok());
  bytes.resize(out.written());
  return bytes;
}

Result<Message> parse(ConstBytes bytes) {
  Input in{ByteReader(bytes)};
  if (in.bytes.u32() != kMagic) return Error{EPROTO, "not a message of ipoibd"};
  const auto type = in.bytes.u8();
  in.bytes.skip(3);
  return read_type(type, in);
}

}  // namespace ipoib::daemon::handover
