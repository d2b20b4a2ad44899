#include "sa_client_host.hpp"

#include <gmock/gmock.h>
#include <infiniband/umad.h>
#include <poll.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <iostream>
#include <random>
#include <stdexcept>

namespace ipoib::sa::test {

namespace {

using std::chrono::milliseconds;

std::vector<Gid> ports;  ///< from the command line

Host open_port() {
  Host out;
  char names[UMAD_MAX_DEVICES][UMAD_CA_NAME_LEN];
  umad_port_t port{};
  if (umad_get_cas_names(names, UMAD_MAX_DEVICES) < 1 || umad_get_port(names[0], 1, &port) != 0) {
    throw std::runtime_error("no InfiniBand port here");
  }
  out.device = names[0];
  out.lid = Lid(static_cast<std::uint16_t>(port.base_lid));
  out.rate = port.rate;
  out.gid = Gid(be64toh(port.gid_prefix), Guid(be64toh(port.port_guid)));
  out.sm = {Lid(static_cast<std::uint16_t>(port.sm_lid)),
            ServiceLevel(static_cast<std::uint8_t>(port.sm_sl)), 0};
  umad_release_port(&port);
  out.mads = verbs::UmadPort::open(out.device, out.port).value();
  out.peer = ports.front();
  out.others.assign(ports.begin() + 1, ports.end());
  return out;
}

}  // namespace

Gid group(std::uint32_t number) {
  return wire::multicast_gid(Ipv4Address(0xe0000100 + number), kDefaultPKey);
}

TimePoint now() {
  return TimePoint(
      std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

Host& host() {
  static Host host = open_port();
  return host;
}

void turn(SaClient& client) {
  constexpr std::int64_t kMaxWait = 100;
  const auto left = std::chrono::ceil<milliseconds>(client.next_deadline() - now()).count();
  pollfd port{host().mads->fd(), POLLIN, 0};
  (void)poll(&port, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, kMaxWait)));
  client.on_readable(now());
  client.on_time(now());
}

std::vector<wire::SaResponse> responses(SaClient& client, std::size_t count) {
  while (client.responses().size() < count) turn(client);
  return std::exchange(client.responses(), {});
}

wire::JoinQuery join(const Gid& mgid, PKey pkey, std::uint8_t state) {
  return wire::join_query(mgid, host().gid, pkey, state);
}

wire::JoinQuery create(const Gid& mgid, std::uint8_t state) {
  wire::McMemberRecord group = join(mgid, kDefaultPKey, state).record;
  group.qkey = QKey(0x0b1b);
  group.mtu = 4;
  group.rate = 3;
  return wire::create_query(group);
}

/// Clients have different transaction ids: a MAD layer takes a table with the id of one that it has
/// just received for a repetition.
RandomSource random_source() {
  return [entropy = std::make_shared<std::random_device>()] { return (*entropy)(); };
}

ClientTest::ClientTest()
    : log("sa", std::make_shared<spdlog::sinks::stdout_sink_st>()),
      client({}, *host().mads, log, ++clients, random_source()) {
  client.set_sm(host().sm, now());
}

std::uint64_t ClientTest::clients = 0;

wire::SaResult ClientTest::request(const wire::SaQuery& query) {
  client.request({wire::SaRequestId(1), query}, now());
  return responses(client).front().result;
}

wire::SaStatus ClientTest::refusal(const wire::SaQuery& query) {
  const auto result = request(query);
  const auto* failure = std::get_if<wire::SaFailure>(&result);
  return failure != nullptr ? failure->status.value_or(wire::SaStatus::ok) : wire::SaStatus::ok;
}

int run(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  for (int i = 2; i < argc; ++i) ports.push_back(Gid::parse(argv[i]).value_or(Gid()));
  if (ports.empty() || std::string_view(argv[1]) != "--peer" ||
      std::ranges::count(ports, Gid()) > 0) {
    std::cerr << "usage: " << argv[0] << " --peer GID [OTHER-GID]...\n";
    return 2;
  }
  return RUN_ALL_TESTS();
}

}  // namespace ipoib::sa::test
