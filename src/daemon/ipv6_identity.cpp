#include "daemon/ipv6_identity.hpp"

#include <algorithm>
#include <boost/uuid/name_generator_sha1.hpp>
#include <boost/uuid/string_generator.hpp>
#include <fstream>
#include <stdexcept>

#include "wire/ipv6.hpp"

namespace ipoib::daemon {
namespace {

/// Hashes the machine id with an application id, as machine-id(5) recommends.
Ipv6Address secret_of(const std::string& machine_id, Guid port, PKey pkey) {
  const auto application = boost::uuids::string_generator()("6f2b8a54-31f5-4a0e-9d52-7c0f1c44b1a9");
  const boost::uuids::name_generator_sha1 hash(application);
  constexpr unsigned kPartition = 0x7fff;  // without the membership bit
  const auto made = hash(machine_id + "/" + std::to_string(port.value()) + "/" +
                         std::to_string(pkey.value() & kPartition));
  Ipv6Address::Bytes bytes;
  std::copy(made.begin(), made.end(), bytes.begin());
  return Ipv6Address(bytes);
}

}  // namespace

Ipv6Identity ipv6_identity(bool stable_privacy, Guid port, PKey pkey,
                           const std::string& machine_id_file) {
  if (!stable_privacy) return {.link_local = wire::link_local_address(port)};
  std::string machine_id;
  if (!(std::ifstream(machine_id_file) >> machine_id)) {
    throw std::runtime_error("--stable-privacy needs " + machine_id_file +
                             ", which cannot be read: create it with systemd-machine-id-setup");
  }
  return {.stable_secret = secret_of(machine_id, port, pkey)};
}

}  // namespace ipoib::daemon
