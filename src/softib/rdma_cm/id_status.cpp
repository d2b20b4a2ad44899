#include "softib/rdma_cm/id_status.hpp"

#include "ipoib/bytes.hpp"
#include "ipoib/overloaded.hpp"
#include "softib/cm/connection.hpp"

namespace softib::rdma_cm {

using ipoib::Ipv4Address;
using ipoib::Ipv6Address;
using ipoib::Overloaded;

namespace {

//   word 0 | handle 32 | port space 16 | state 8 | connection 8 |
//        1 | kinds of the addresses 8, 8 | their ports 16, 16 | 0 |
//     2, 3 | source         4, 5 | destination         6 | service ID
//        7 | communication IDs, local 32, remote 32 |
//        8 | QPN |
enum class Kind : std::uint8_t { none, v4, v6, ib };
constexpr std::uint8_t kNoConnection = 0xff;

using Half = std::array<std::uint64_t, 2>;

/// An address without its port.
struct Packed {
  Kind kind = Kind::none;
  Half bytes{};
};

template <class Bytes>
Half half_of(const Bytes& bytes) {
  std::array<std::uint8_t, sizeof(Half)> padded{};
  std::copy(bytes.begin(), bytes.end(), padded.begin());
  return {ipoib::load_be<std::uint64_t>(padded.data()),
          ipoib::load_be<std::uint64_t>(padded.data() + sizeof(std::uint64_t))};
}

Packed pack(const Address& address) {
  return std::visit(
      Overloaded{
          [](std::monostate) { return Packed(); },
          [](const IpEndpoint& ip) {
            return Packed{
                family(ip.address) == IpFamily::v4 ? Kind::v4 : Kind::v6,
                std::visit([](const auto& one) { return half_of(one.bytes()); }, ip.address)};
          },
          [](const IbEndpoint& ib) {
            return Packed{Kind::ib, half_of(ib.gid.bytes())};
          },
      },
      address);
}

std::optional<Address> unpack(std::uint8_t kind, const Half& half, std::uint16_t port) {
  Ipv6Address::Bytes bytes;
  ipoib::store_be(bytes.data(), half[0]);
  ipoib::store_be(bytes.data() + sizeof(std::uint64_t), half[1]);
  switch (static_cast<Kind>(kind)) {
    case Kind::none:
      return Address();
    case Kind::v4:
      return IpEndpoint{Ipv4Address(static_cast<std::uint32_t>(half[0] >> 32)), port};
    case Kind::v6:
      return IpEndpoint{Ipv6Address(bytes), port};
    case Kind::ib: {
      IbEndpoint ib;
      ib.gid = Gid(bytes);
      return ib;
    }
  }
  return std::nullopt;
}

bool is_space(std::uint16_t value) {
  switch (static_cast<PortSpace>(value)) {
    case PortSpace::ipoib:
    case PortSpace::tcp:
    case PortSpace::udp:
    case PortSpace::ib:
      return true;
  }
  return false;
}

}  // namespace

IdStatus::Words IdStatus::words() const {
  const Packed from = pack(source);
  const Packed to = pack(destination);
  return {
      std::uint64_t{handle.value()} << 32 | std::uint64_t{static_cast<std::uint16_t>(space)} << 16 |
          std::uint64_t{static_cast<std::uint8_t>(state)} << 8 | connection.value_or(kNoConnection),
      std::uint64_t{static_cast<std::uint8_t>(from.kind)} << 56 |
          std::uint64_t{static_cast<std::uint8_t>(to.kind)} << 48 |
          std::uint64_t{port_of(source)} << 32 | std::uint64_t{port_of(destination)} << 16,
      from.bytes[0],
      from.bytes[1],
      to.bytes[0],
      to.bytes[1],
      service.value(),
      std::uint64_t{local_id.value()} << 32 | remote_id.value(),
      std::uint64_t{remote_qpn.value()} << 32 | qpn.value()};
}

std::optional<IdStatus> IdStatus::parse(const Words& words) {
  const auto bits = [&](std::size_t word, unsigned shift) { return words[word] >> shift; };
  IdStatus id;
  id.handle = IdHandle(static_cast<std::uint32_t>(bits(0, 32)));
  const auto space = static_cast<std::uint16_t>(bits(0, 16));
  const auto state = static_cast<std::uint8_t>(bits(0, 8));
  const auto connection = static_cast<std::uint8_t>(bits(0, 0));
  const bool has_connection = connection != kNoConnection;
  const auto source = unpack(static_cast<std::uint8_t>(bits(1, 56)), {words[2], words[3]},
                             static_cast<std::uint16_t>(bits(1, 32)));
  const auto destination = unpack(static_cast<std::uint8_t>(bits(1, 48)), {words[4], words[5]},
                                  static_cast<std::uint16_t>(bits(1, 16)));
  const bool is_valid = id.handle != IdHandle() && is_space(space) &&
                        state <= static_cast<std::uint8_t>(IdState::listen) && source &&
                        destination &&
                        (!has_connection || connection < cm::kConnectionStates.size());
  if (!is_valid) return std::nullopt;
  id.space = static_cast<PortSpace>(space);
  id.state = static_cast<IdState>(state);
  if (has_connection) id.connection = connection;
  id.source = *source;
  id.destination = *destination;
  id.service = wire::ServiceId(words[6]);
  id.local_id = CommId(static_cast<std::uint32_t>(bits(7, 32)));
  id.remote_id = CommId(static_cast<std::uint32_t>(bits(7, 0)));
  constexpr std::uint64_t kQpnMask = 0xff'ffff;
  id.qpn = Qpn(static_cast<std::uint32_t>(bits(8, 0) & kQpnMask));
  id.remote_qpn = Qpn(static_cast<std::uint32_t>(bits(8, 32) & kQpnMask));
  return id;
}

std::string_view name(PortSpace space) {
  switch (space) {
    case PortSpace::ipoib:
      return "ipoib";
    case PortSpace::tcp:
      return "tcp";
    case PortSpace::udp:
      return "udp";
    case PortSpace::ib:
      return "ib";
  }
  return "";
}

std::string to_string(const Address& address) {
  return std::visit(Overloaded{
                        [](std::monostate) { return std::string(); },
                        [](const IpEndpoint& ip) {
                          const std::string text = ipoib::to_string(ip.address);
                          const bool is_v6 = family(ip.address) == IpFamily::v6;
                          return (is_v6 ? "[" + text + "]" : text) + ":" + std::to_string(ip.port);
                        },
                        [](const IbEndpoint& ib) { return ib.gid.to_string(); },
                    },
                    address);
}

}  // namespace softib::rdma_cm
