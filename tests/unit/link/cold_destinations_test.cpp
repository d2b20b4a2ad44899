// A host starts to send to ten thousand neighbours at once. Each of them answers ARP at once; the
// SA takes a fixed time for each path request.
#include <deque>
#include <numeric>

#include "tests/unit/link/link_fixture.hpp"

namespace ipoib::link {
namespace {

class ColdDestinations : public LinkFixture {
 protected:
  static constexpr std::uint32_t kDestinations = 10'000;
  static constexpr std::uint32_t kFirst = 0x0a2d0000;
  static constexpr Duration kSaResponseTime = 1ms;

  void start() {
    view.addresses = {{kOwnIp, 8}};
    const Link::Dependencies deps{handles, frames, frames, *silent_logger(), kHashKey};
    link = std::make_unique<Link>(config, deps, kOwnQpn, 42);
    link->on_host_changed(view, now);
    link->on_port(port, now);
    grant_joins();
    ASSERT_EQ(link->state(), LinkState::up);
    forget();
  }
  void send_to(std::uint32_t destination) {
    Frame frame = frames.take();
    ASSERT_TRUE(frame);
    Frame packet = ip_packet(Ipv4Address(kFirst + destination), kOwnIp, 28);
    frame.window(kHeadroom, packet.size());
    std::ranges::copy(packet.bytes(), frame.bytes().begin());
    send(std::move(frame));
    ++sent;
    serve();
  }
  /// Drains the link: counts the packets, answers the ARP requests, queues the path requests.
  void serve() {
    std::vector<Ipv4Address> solicited;
    for (const Outgoing& out : link->sends()) {
      const ConstBytes bytes = out.frame.bytes();
      if (wire::parse_encapsulation(bytes) == wire::EtherType::arp) {
        solicited.push_back(
            wire::Arp::parse(bytes.subspan(wire::kEncapsulationSize))->target_protocol);
      } else {
        const auto to = load_be<std::uint32_t>(bytes.data() + wire::kEncapsulationSize + 16);
        ++arrived.at(to - kFirst);
      }
    }
    link->sends().clear();
    for (const PathRequest& request : take<PathRequest>()) {
      requests.push_back({request, now + kSaResponseTime});
      ASSERT_LE(requests.size(), config.limits.path_requests);
    }
    for (const Ipv4Address address : solicited) {
      const std::uint32_t i = address.number() - kFirst;
      if (i >= kDestinations) continue;  // our own announcement
      wire::Arp reply = arp_from_peer(wire::ArpOperation::reply);
      reply.sender_hardware = hardware(100 + i, 0x1000 + i);
      reply.sender_protocol = address;
      receive_arp(reply);
    }
    if (!solicited.empty()) serve();
  }
  /// Sends the path responses that are due next.
  void respond() {
    now = requests.front().due;
    link->tick(now);
    while (!requests.empty() && requests.front().due <= now) {
      const PathRequest request = requests.front().request;
      requests.pop_front();
      link->on_response({request.id, path_record(request.record.dgid, 7)}, now);
      serve();
    }
  }
  [[nodiscard]] std::uint64_t total_arrived() const {
    return std::accumulate(arrived.begin(), arrived.end(), std::uint64_t{0});
  }
  [[nodiscard]] std::uint64_t dropped() const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < kCounterCount; ++i) {
      const auto counter = static_cast<Counter>(i);
      if (is_drop(counter)) sum += count(counter);
    }
    return sum;
  }

  struct PendingRequest {
    PathRequest request;
    TimePoint due;
  };
  FramePool frames{kDestinations + 64, 128};
  std::deque<PendingRequest> requests;
  std::vector<std::uint64_t> arrived = std::vector<std::uint64_t>(kDestinations);
  std::uint64_t sent = 0;
};

TEST_F(ColdDestinations, AreLimitedOnlyByTheSaWithoutLoss) {
  Limits& limits = config.limits;
  limits.unresolved = limits.parked = kDestinations;
  limits.parked_bytes = kDestinations * frames.slot_size();
  limits.solicitations = 8 * kDestinations;
  start();
  const TimePoint begin = now;
  for (std::uint32_t i = 0; i < kDestinations; ++i) send_to(i);
  EXPECT_EQ(total_arrived(), 0U);
  while (!requests.empty()) {
    const std::size_t left = kDestinations - total_arrived();
    ASSERT_EQ(requests.size(), std::min(limits.path_requests, left)) << "the limit is used";
    respond();
  }
  EXPECT_EQ(arrived, std::vector<std::uint64_t>(kDestinations, 1));
  EXPECT_EQ(dropped(), 0U);
  EXPECT_EQ(now - begin, kSaResponseTime * kDestinations / limits.path_requests);
  EXPECT_EQ(count(Counter::path_requests), kDestinations);
}

/// The host repeats its packets until each neighbour has been reached. Every lost packet is counted
/// as dropped for lack of room; no packet is lost after it was parked.
TEST_F(ColdDestinations, WithDefaultLimitsAllAreReachedAndEachLossIsCounted) {
  start();
  const TimePoint begin = now;
  while (std::ranges::count(arrived, 0U) > 0) {
    for (std::uint32_t i = 0; i < kDestinations; ++i) {
      if (arrived[i] == 0) send_to(i);
    }
    const TimePoint next = now + 1s;
    while (!requests.empty()) respond();
    while (link->next_deadline() <= next) {
      now = std::max(now, link->next_deadline());
      link->tick(now);
      serve();
      while (!requests.empty()) respond();
    }
    now = next;
  }
  const auto per_second = config.limits.solicitations / 2;  // for new neighbours
  EXPECT_LE(now - begin, 1s * (kDestinations / per_second) * 3 / 2);
  EXPECT_EQ(sent, total_arrived() + dropped());
  EXPECT_EQ(dropped(), count(Counter::drop_solicitation_limit) +
                           count(Counter::drop_unresolved_limit) +
                           count(Counter::drop_parked_total_limit));
}

}  // namespace
}  // namespace ipoib::link
