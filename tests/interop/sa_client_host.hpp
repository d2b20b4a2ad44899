// A port with an SA client over libibumad, for programs that test the client against other SAs. A
// program has one port and one MAD agent: ibsim supports one per class and process.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "ipoib/log.hpp"
#include "sa/sa_client.hpp"
#include "verbs/umad_port.hpp"
#include "wire/mgid.hpp"

namespace ipoib::sa::test {

constexpr PKey kRed{0x8012};      // its group's MTU is beyond the port's
constexpr PKey kForeign{0x9234};  // not in the port's table
inline const Gid kBroadcast = wire::broadcast_gid(kDefaultPKey);
[[nodiscard]] Gid group(std::uint32_t number);

[[nodiscard]] TimePoint now();

/// The port of this process, as sysfs and umad show it.
struct Host {
  std::string device;
  std::uint8_t port = 1;
  Lid lid;
  Gid gid;
  std::uint32_t rate = 0;  ///< Gb/s
  MadDestination sm;
  std::unique_ptr<verbs::UmadPort> mads;
  Gid peer;
  std::vector<Gid> others;  ///< further ports, to be members of groups
};
[[nodiscard]] Host& host();

/// For the transaction ids of a client.
[[nodiscard]] RandomSource random_source();

/// Runs a client until a MAD has arrived, its deadline, or 100 ms have passed.
void turn(SaClient& client);
/// Runs a client until it has `count` responses.
[[nodiscard]] std::vector<wire::SaResponse> responses(SaClient& client, std::size_t count = 1);

[[nodiscard]] wire::JoinQuery join(const Gid& mgid, PKey pkey, std::uint8_t state);
/// Creates a group with the parameters of the broadcast group (RFC 4391, 10).
[[nodiscard]] wire::JoinQuery create(const Gid& mgid, std::uint8_t state);

class ClientTest : public testing::Test {
 protected:
  ClientTest();

  [[nodiscard]] wire::SaResult request(const wire::SaQuery& query);
  template <class Record>
  [[nodiscard]] Record record(const wire::SaQuery& query) {
    const auto result = request(query);
    if (const auto* failure = std::get_if<wire::SaFailure>(&result)) {
      throw std::runtime_error(failure->text());
    }
    return std::get<Record>(result);
  }
  [[nodiscard]] wire::SaStatus refusal(const wire::SaQuery& query);

  static std::uint64_t clients;  ///< number of them so far
  Logger log;
  SaClient client;
};

/// main() of such a program: `--peer GID [GID]...` names other ports; GoogleTest takes the rest.
[[nodiscard]] int run(int argc, char** argv);

}  // namespace ipoib::sa::test
