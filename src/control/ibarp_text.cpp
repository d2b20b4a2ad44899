// libibarp: parses and formats addresses; texts of errors.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "control/ibarp_values.hpp"
#include "control/neighbour_file.hpp"

namespace ipoib::control {

std::optional<IpAddress> from_c(const ibarp_address& address) {
  if (address.family == AF_INET) {
    Ipv4Address::Bytes bytes;
    std::copy_n(address.bytes, bytes.size(), bytes.begin());
    return Ipv4Address(bytes);
  }
  if (address.family == AF_INET6) {
    Ipv6Address::Bytes bytes;
    std::copy_n(address.bytes, bytes.size(), bytes.begin());
    return Ipv6Address(bytes);
  }
  return std::nullopt;
}

ibarp_address to_c(const IpAddress& address) {
  ibarp_address out{};
  out.family = std::holds_alternative<Ipv4Address>(address) ? AF_INET : AF_INET6;
  std::visit(
      [&out](const auto& any) { std::copy_n(any.bytes().begin(), any.bytes().size(), out.bytes); },
      address);
  return out;
}

std::optional<HwAddress> from_c(const ibarp_hardware& hardware) {
  if (hardware.qpn > kMulticastQpn.value()) return std::nullopt;
  Gid::Bytes gid;
  std::copy_n(hardware.gid, gid.size(), gid.begin());
  return HwAddress{hardware.flags, Qpn(hardware.qpn), Gid(gid)};
}

ibarp_hardware to_c(const HwAddress& hardware) {
  ibarp_hardware out{};
  out.flags = hardware.flags;
  out.qpn = hardware.qpn.value();
  std::copy_n(hardware.gid.bytes().begin(), Gid::kSize, out.gid);
  return out;
}

}  // namespace ipoib::control

using namespace ipoib;           // NOLINT: the C functions are in no namespace
using namespace ipoib::control;  // NOLINT

extern "C" {

const char* ibarp_strerror(int error) {
  switch (error) {
    case 0:
      return "success";
    case -ENOENT:
      return "no such entry";
    case -EEXIST:
      return "it exists already";
    case -EPERM:
      return "not permitted";
    case -ENODEV:
      return "no ipoibd runs this interface in this network namespace";
    case -ESRCH:
      return "its ipoibd is not running: start it again, or delete the interface";
    case -ENXIO:
      return "ipoibd waits for its RDMA device";
    case -EACCES:
      return "no permission for the interface's control socket";
    case -ETIMEDOUT:
      return "ipoibd does not respond";
    case -EPIPE:
      return "ipoibd has closed the connection";
    case -EAGAIN:
      return "no event in time";
    case -ENOTCONN:
      return "there is no subscription";
    case -EPROTO:
      return "the response of ipoibd is not valid";
    default:
      break;
  }
  const char* const text = strerrordesc_np(-error);
  return text == nullptr ? "unknown error" : text;
}

int ibarp_parse_address(const char* text, ibarp_address* address) {
  return guarded([&] {
    const auto value = text == nullptr ? std::nullopt : parse_ip_address(text);
    if (!value || address == nullptr) return -EINVAL;
    *address = to_c(*value);
    return 0;
  });
}

int ibarp_parse_prefix(const char* text, ibarp_address* prefix, std::uint32_t* length) {
  return guarded([&] {
    const auto value = text == nullptr ? std::nullopt : parse_prefix(text);
    if (!value || prefix == nullptr || length == nullptr) return -EINVAL;
    *prefix = to_c(value->address);
    *length = value->length;
    return 0;
  });
}

int ibarp_parse_hardware(const char* text, ibarp_hardware* hardware) {
  return guarded([&] {
    if (text == nullptr || hardware == nullptr) return -EINVAL;
    const auto value = ipoib::control::parse_hardware(text);
    if (!value) return -EINVAL;
    *hardware = to_c(*value);
    return 0;
  });
}

const char* ibarp_format_address(const ibarp_address* address, char text[IBARP_ADDRESS_TEXT]) {
  text[0] = '\0';
  guarded([&] {
    if (const auto value = from_c(*address)) copy_text(to_string(*value), text, IBARP_ADDRESS_TEXT);
    return 0;
  });
  return text;
}

const char* ibarp_format_hardware(const ibarp_hardware* hardware, char text[IBARP_HARDWARE_TEXT]) {
  text[0] = '\0';
  guarded([&] {
    if (const auto value = from_c(*hardware)) {
      copy_text(value->to_string(), text, IBARP_HARDWARE_TEXT);
    }
    return 0;
  });
  return text;
}

}  // extern "C"
