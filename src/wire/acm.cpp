// Header, and for Operation::resolve the entries after it:
//
//   0         1           2        3       4           5           6        8
//   | version | operation | status |           3 x data            | length | transaction id 64 |
//
//   0         4      6      8
//   | flags   | type | resv | address, or a PathRecord: 64 |
//
// With Operation::resolve the numbers of header and entry have the byte order of the host, else
// that of the network.
#include "wire/acm.hpp"

#include <algorithm>
#include <cassert>

namespace ipoib::wire::acm {

namespace {

constexpr std::uint8_t kVersion = 1;
constexpr std::uint8_t kOperationMask = 0x0f;
constexpr std::uint8_t kResponse = 0x80;

constexpr std::size_t kStatusAt = 2;
constexpr std::size_t kDataAt = 3;
constexpr std::size_t kLengthAt = 6;
constexpr std::size_t kTypeAt = 4;
constexpr std::size_t kInfoAt = 8;

enum Flags : std::uint32_t {
  kSource = 1U << 0,
  kDestination = 1U << 1,
  kNoDelay = 1U << 30,
};
enum Type : std::uint16_t { kIpv4 = 2, kIpv6 = 3, kPath = 16 };

/// The IBV_PATH_FLAG_* that the kernel wants for the path of a connection (RDMA_OPTION_IB_PATH).
constexpr std::uint32_t kPathFlags = 1U << 0 /* for CM messages */ | 1U << 1 /* the primary one */ |
                                     1U << 3 /* outbound */ | 1U << 5 /* inbound, reversed */;

bool is_resolve(Header header) {
  return (header[1] & kOperationMask) == static_cast<std::uint8_t>(Operation::resolve);
}

struct Entry {
  explicit Entry(ConstBytes bytes)
      : flags(load_native<std::uint32_t>(bytes.data())),
        type(load_native<std::uint16_t>(bytes.data() + kTypeAt)),
        info(bytes.subspan(kInfoAt)) {}

  [[nodiscard]] std::optional<IpAddress> address() const {
    ByteReader reader(info);
    if (type == kIpv4) return Ipv4Address(reader.array<Ipv4Address::kSize>());
    if (type == kIpv6) return Ipv6Address(reader.array<Ipv6Address::kSize>());
    return std::nullopt;
  }

  std::uint32_t flags;
  std::uint16_t type;
  ConstBytes info;
};

std::vector<std::uint8_t> response(Header request, Status status, std::size_t entries) {
  const std::size_t size = kHeaderSize + entries * kEntrySize;
  std::vector<std::uint8_t> out(size);
  std::ranges::copy(request, out.begin());
  out[1] |= kResponse;
  out[kStatusAt] = static_cast<std::uint8_t>(status);
  std::fill_n(out.begin() + kDataAt, kLengthAt - kDataAt, std::uint8_t{0});
  const auto length = static_cast<std::uint16_t>(size);
  if (is_resolve(request)) {
    store_native(&out[kLengthAt], length);
  } else {
    store_be(&out[kLengthAt], length);
  }
  return out;
}

/// Writes the header of an entry, and returns where its 64 bytes of information go.
MutableBytes put_entry(MutableBytes at, std::uint32_t flags, Type type) {
  store_native(at.data(), flags);
  store_native(at.data() + kTypeAt, static_cast<std::uint16_t>(type));
  return at.first(kEntrySize).subspan(kInfoAt);
}

}  // namespace

std::optional<std::size_t> message_size(Header header) {
  if (header[0] != kVersion || (header[1] & ~kOperationMask) != 0) return std::nullopt;
  const std::uint8_t* const at = &header[kLengthAt];
  switch (static_cast<Operation>(header[1])) {
    case Operation::resolve: {
      const std::size_t size = load_native<std::uint16_t>(at);
      const bool has_entries = size >= kHeaderSize && (size - kHeaderSize) % kEntrySize == 0;
      return has_entries && size <= kMaxMessage ? std::optional(size) : std::nullopt;
    }
    case Operation::query_counters:
    case Operation::query_endpoint: {
      const std::size_t size = load_be<std::uint16_t>(at);
      return size >= kHeaderSize && size <= kMaxMessage ? std::optional(size) : std::nullopt;
    }
  }
  return std::nullopt;
}

std::variant<Wanted, Status> parse(ConstBytes message) {
  assert(message.size() >= kHeaderSize);
  if (!is_resolve(message.first<kHeaderSize>())) return Status::invalid;
  std::optional<IpAddress> source;
  std::optional<Wanted> wanted;
  for (auto rest = message.subspan(kHeaderSize); !rest.empty(); rest = rest.subspan(kEntrySize)) {
    const Entry entry(rest.first(kEntrySize));
    if (entry.type == kPath && entry.flags == 0) continue;  // a hint of what the path may be
    if ((entry.flags & kSource) != 0) {
      if (source) return Status::source_address;
      source = entry.address();
      if (!source) return Status::source_type;
    }
    if ((entry.flags & kDestination) != 0) {
      if (wanted) return Status::destination_address;
      const auto address = entry.address();
      if (!address) return Status::destination_type;
      wanted = Wanted{*address, std::nullopt, (entry.flags & kNoDelay) != 0};
    }
  }
  if (!wanted) return Status::destination_type;
  if (source && source->index() != wanted->destination.index()) return Status::source_type;
  wanted->source = source;
  return *wanted;
}

std::vector<std::uint8_t> refusal(Header request, Status why) { return response(request, why, 0); }

std::vector<std::uint8_t> answer(Header request, const Found& found) {
  auto out = response(request, Status::success, found.source ? 2 : 1);
  const MutableBytes entries = MutableBytes(out).subspan(kHeaderSize);
  found.path.emit(put_entry(entries, kPathFlags, kPath));
  if (!found.source) return out;
  const auto type = std::holds_alternative<Ipv4Address>(*found.source) ? kIpv4 : kIpv6;
  const auto to = put_entry(entries.subspan(kEntrySize), kSource, type);
  std::visit([&](const auto& address) { std::ranges::copy(address.bytes(), to.begin()); },
             *found.source);
  return out;
}

}  // namespace ipoib::wire::acm
