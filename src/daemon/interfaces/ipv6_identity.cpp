#include "daemon/interfaces/ipv6_identity.hpp"

#include <algorithm>
#include <array>
#include <boost/uuid/name_generator_sha1.hpp>
#include <boost/uuid/string_generator.hpp>
#include <fstream>
#include <stdexcept>

#include "wire/ipv6.hpp"

namespace ipoib::daemon {
namespace {

using Digest = std::array<std::uint8_t, 16>;

Digest digest_of(const std::string& text) {
  const auto application = boost::uuids::string_generator()("6f2b8a54-31f5-4a0e-9d52-7c0f1c44b1a9");
  const boost::uuids::name_generator_sha1 hash(application);
  const auto made = hash(text);
  Digest out;
  std::copy(made.begin(), made.end(), out.begin());
  return out;
}

std::string port_and_partition(Guid port, PKey pkey) {
  constexpr unsigned kPartition = 0x7fff;  // without the membership bit
  return std::to_string(port.value()) + "/" + std::to_string(pkey.value() & kPartition);
}

/// Hashes the machine id with an application id, as machine-id(5) recommends.
Ipv6Address secret_of(const std::string& machine_id, Guid port, PKey pkey) {
  return Ipv6Address(digest_of(machine_id + "/" + port_and_partition(port, pkey)));
}

}  // namespace

Ipv6Address link_local_of(Guid port, PKey pkey, unsigned attempt) {
  if (attempt == 0) return wire::link_local_address(port);
  const auto digest = digest_of(port_and_partition(port, pkey) + "/" + std::to_string(attempt));
  auto bytes = wire::link_local_address(port).bytes();
  std::copy_n(digest.begin(), 8, bytes.begin() + 8);
  constexpr std::uint8_t kUniversal = 2;  // of the identifier's first byte (RFC 4291, 2.5.1)
  bytes[8] &= static_cast<std::uint8_t>(~kUniversal);
  return Ipv6Address(bytes);
}

Ipv6Identity ipv6_identity(bool stable_privacy, Guid port, PKey pkey,
                           const std::string& machine_id_file) {
  if (!stable_privacy) return {.link_local = link_local_of(port, pkey)};
  std::string machine_id;
  if (!(std::ifstream(machine_id_file) >> machine_id)) {
    throw std::runtime_error("--stable-privacy needs " + machine_id_file +
                             ", which cannot be read: create it with systemd-machine-id-setup");
  }
  return {.stable_secret = secret_of(machine_id, port, pkey)};
}

}  // namespace ipoib::daemon
