// A host that begins to send to ten thousand neighbours at once: each of them answers, and the
// subnet administrator takes its time for every path.
#include <deque>
#include <numeric>

#include "tests/unit/link/link_fixture.hpp"

namespace ipoib::link {
namespace {

class ColdDestinations : public LinkFixture {
 protected:
  static constexpr std::uint32_t kDestinations = 10'000;
  static constexpr std::uint32_t kFirst = 0x0a2d0000;
  static constexpr Duration kAnswerTime = 1ms;

  void start() {
    view.addresses = {{kOwnIp, 8}};
    link = std::make_unique<Link>(config, Link::Dependencies{handles, frames, *silent_logger()},
                                  kOwnQpn, 42);
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
  /// Takes what the link has said: packets arrive, neighbours answer, questions wait.
  void serve() {
    std::vector<Ipv4Address> asked_for;
    for (const Outgoing& out : link->sends()) {
      const ConstBytes octets = out.frame.bytes();
      if (wire::parse_encapsulation(octets) == wire::EtherType::arp) {
        asked_for.push_back(
            wire::Arp::parse(octets.subspan(wire::kEncapsulationSize))->target_protocol);
      } else {
        const auto to = load_be<std::uint32_t>(octets.data() + wire::kEncapsulationSize + 16);
        ++arrived.at(to - kFirst);
      }
    }
    link->sends().clear();
    for (const PathRequest& question : take<PathRequest>()) {
      questions.push_back({question, now + kAnswerTime});
      ASSERT_LE(questions.size(), config.limits.path_requests);
    }
    for (const Ipv4Address address : asked_for) {
      const std::uint32_t i = address.number() - kFirst;
      if (i >= kDestinations) continue;  // an announcement of ours
      wire::Arp reply = arp_from_peer(wire::ArpOperation::reply);
      reply.sender_hardware = hardware(100 + i, 0x1000 + i);
      reply.sender_protocol = address;
      hear_arp(reply);
    }
    if (!asked_for.empty()) serve();
  }
  /// The answers that are due next, all at once.
  void answer() {
    now = questions.front().due;
    link->tick(now);
    while (!questions.empty() && questions.front().due <= now) {
      const PathRequest question = questions.front().question;
      questions.pop_front();
      link->on_response({question.id, path_record(question.record.dgid, 7)}, now);
      serve();
    }
  }
  [[nodiscard]] std::uint64_t all_arrived() const {
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

  struct Asked {
    PathRequest question;
    TimePoint due;
  };
  FramePool frames{kDestinations + 64, 128};
  std::deque<Asked> questions;
  std::vector<std::uint64_t> arrived = std::vector<std::uint64_t>(kDestinations);
  std::uint64_t sent = 0;
};

TEST_F(ColdDestinations, ResolveAsFastAsTheAdministratorAnswersAndLoseNothing) {
  Limits& limits = config.limits;
  limits.unresolved = limits.parked = kDestinations;
  limits.parked_bytes = kDestinations * frames.slot_size();
  limits.solicitations = 8 * kDestinations;
  start();
  const TimePoint begin = now;
  for (std::uint32_t i = 0; i < kDestinations; ++i) send_to(i);
  EXPECT_EQ(all_arrived(), 0U);
  while (!questions.empty()) {
    const std::size_t left = kDestinations - all_arrived();
    ASSERT_EQ(questions.size(), std::min(limits.path_requests, left)) << "as many as may be";
    answer();
  }
  EXPECT_EQ(arrived, std::vector<std::uint64_t>(kDestinations, 1));
  EXPECT_EQ(dropped(), 0U);
  EXPECT_EQ(now - begin, kAnswerTime * kDestinations / limits.path_requests);
  EXPECT_EQ(count(Counter::path_questions), kDestinations);
}

/// The host goes on until each has been reached; what it loses meanwhile had no room, is counted,
/// and nothing is lost once it was parked.
TEST_F(ColdDestinations, WithinTheUsualBoundsEachIsReachedAndEachLossIsCounted) {
  start();
  const TimePoint begin = now;
  while (std::ranges::count(arrived, 0U) > 0) {
    for (std::uint32_t i = 0; i < kDestinations; ++i) {
      if (arrived[i] == 0) send_to(i);
    }
    const TimePoint next = now + 1s;
    while (!questions.empty()) answer();
    while (link->next_deadline() <= next) {
      now = std::max(now, link->next_deadline());
      link->tick(now);
      serve();
      while (!questions.empty()) answer();
    }
    now = next;
  }
  const auto per_second = config.limits.solicitations / 2;  // for new neighbours
  EXPECT_LE(now - begin, 1s * (kDestinations / per_second) * 3 / 2);
  EXPECT_EQ(sent, all_arrived() + dropped());
  EXPECT_EQ(dropped(), count(Counter::drop_solicitation_limit) +
                           count(Counter::drop_unresolved_limit) +
                           count(Counter::drop_parked_total_limit));
}

}  // namespace
}  // namespace ipoib::link
