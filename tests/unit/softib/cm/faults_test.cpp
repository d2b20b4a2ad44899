// Thousands of connections between processes whose users act at random, over a network that loses,
// duplicates, delays and reorders MADs, while processes die and start again: each connection ends
// in the same way on both sides, and nothing is left.
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "cm_fixture.hpp"

namespace softib::cm::faults {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kNodes = 4;
constexpr std::uint32_t kSlots = 2;  ///< processes of a node; the first one listens
constexpr wire::ServiceId kDatagrams{0x0000000001111234};
constexpr std::uint8_t kCmRetries = 15;

struct Faults {
  unsigned loss = 0;  ///< percent
  unsigned duplicates = 0;
  unsigned late = 0;    ///< arrive up to 5 s later, so after many others
  unsigned deaths = 0;  ///< in all
};

/// What the user of one side has seen and done.
struct Side {
  bool is_active = false;
  std::pair<Lid, Handle> peer;  ///< the active side, or the passive one once it is known
  unsigned established = 0;     ///< told, or confirmed by the active side
  unsigned disconnected = 0;    ///< told: DREQ and the end may both be
  unsigned last = 0;            ///< last events
  bool unanswered = false;
  bool refused_by_user = false;
  bool gave_up = false;  ///< destroyed by its user
  bool died = false;     ///< with its process
};

class World {
 public:
  World(std::uint32_t seed, const Faults& faults, unsigned connects)
      : random_(seed), faults_(faults), connects_(connects) {
    for (std::size_t node = 0; node < kNodes; ++node) {
      ports_.push_back(port_with(Lid(static_cast<std::uint16_t>(4 * (node + 1)))));
      for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
        processes_.push_back({node, slot});
        start(processes_.size() - 1);
      }
    }
    for (unsigned i = 0; i < faults_.deaths; ++i) {
      at(within(60s), [this] { kill(below(processes_.size())); });
    }
  }

  void run() {
    for (std::size_t steps = 0;; ++steps) {
      ASSERT_LT(steps, 5'000'000U) << "does not come to rest";
      TimePoint next = agenda_.empty() ? ipoib::kNever : agenda_.begin()->first;
      for (const auto& one : processes_) {
        if (one.manager) next = std::min(next, one.manager->next_deadline());
      }
      if (next == ipoib::kNever) return;
      ASSERT_GE(next, now_) << "a deadline that has passed";
      now_ = next;
      for (std::size_t i = 0; i < processes_.size(); ++i) {
        if (!processes_[i].manager || processes_[i].manager->next_deadline() > now_) continue;
        processes_[i].manager->on_time(now_);
        flush(i);
      }
      while (!agenda_.empty() && agenda_.begin()->first <= now_) {
        const auto action = std::move(agenda_.extract(agenda_.begin()).mapped());
        action();
      }
    }
  }

  void check() const {
    for (const auto& one : processes_) {
      if (!one.manager) continue;
      EXPECT_EQ(one.manager->connection_count(), 0U);
      EXPECT_EQ(one.manager->resolution_count(), 0U);
      EXPECT_EQ(one.manager->pending_requests(), 0U);
      EXPECT_EQ(one.manager->counters().dropped(Drop::malformed), 0U);
      EXPECT_EQ(one.manager->counters().dropped(Drop::full), 0U);
    }
    for (const auto& [key, side] : sides_) {
      SCOPED_TRACE(testing::Message()
                   << "handle " << key.second.value() << " of LID " << key.first.value());
      check_side(side);
    }
    EXPECT_TRUE(resolving_.empty()) << "each request for a service ends";
  }

  [[nodiscard]] std::size_t established() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        sides_, [](const auto& one) { return !one.second.is_active && one.second.established; }));
  }
  [[nodiscard]] std::size_t refused() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        sides_, [](const auto& one) { return one.second.is_active && !one.second.established; }));
  }
  [[nodiscard]] std::size_t unanswered() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(sides_, [](const auto& one) { return one.second.unanswered; }));
  }
  [[nodiscard]] std::size_t resolved() const { return resolved_; }

 private:
  struct Process {
    std::size_t node;
    std::uint32_t slot;
    std::uint32_t epoch = 0;
    std::unique_ptr<CommunicationManager> manager{};
  };
  using Key = std::pair<Lid, Handle>;

  static void check_side(const Side& side) {
    EXPECT_LE(side.established, 1U);
    EXPECT_LE(side.last, 1U);
    const bool left = side.gave_up || side.died || side.refused_by_user;
    EXPECT_TRUE(left || side.last == 1) << "a user who waits is told the end";
    if (side.established == 1 && !left) {
      EXPECT_GE(side.disconnected, 1U);
    }
    // DREQ was received, and then the process of the peer died, or not.
    EXPECT_LE(side.disconnected, 1U);
  }

  // --- Time and chance --------------------------------------------------------------------------

  std::size_t below(std::size_t limit) { return random_() % limit; }
  bool happens(unsigned percent) { return random_() % 100 < percent; }
  Duration within(Duration most) {
    return Duration(
        static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most.count())));
  }
  void at(Duration later, std::function<void()> action) {
    agenda_.emplace(now_ + later, std::move(action));
  }
  /// For a user: not if his process has died meanwhile.
  void later(std::size_t process, Duration most, std::function<void()> action) {
    at(within(most), [this, process, epoch = processes_[process].epoch, action] {
      if (!processes_[process].manager || processes_[process].epoch != epoch) return;
      action();
      flush(process);
    });
  }

  // --- Processes --------------------------------------------------------------------------------

  void start(std::size_t process) {
    auto& one = processes_[process];
    ++one.epoch;
    one.manager = std::make_unique<CommunicationManager>(
        Self{Guid(one.node + 1), one.slot, one.epoch, kTimeCode - 2});
    if (one.slot == 0) {
      ASSERT_TRUE(one.manager->listen(kService));
      ASSERT_TRUE(one.manager->listen(kDatagrams));
    }
    for (unsigned i = 0; i < connects_; ++i) {
      later(process, 30s, [this, process] { happens(90) ? connect(process) : resolve(process); });
    }
  }

  void kill(std::size_t process) {
    auto& one = processes_[process];
    if (!one.manager) return;
    one.manager.reset();
    const Lid lid = ports_[one.node].lid;
    for (auto& [key, side] : sides_) {
      if (key.first == lid && is_of(key.second, one)) side.died = true;
    }
    std::erase_if(resolving_,
                  [&](const Key& key) { return key.first == lid && is_of(key.second, one); });
    for (std::size_t other = 0; other < processes_.size(); ++other) {
      later(other, 100ms, [this, other, lid, slot = one.slot, epoch = one.epoch] {
        processes_[other].manager->process_gone(Peer::of(lid, Gid(), 2), 2, slot, epoch, now_);
      });
    }
    at(within(2s), [this, process] { start(process); });
  }
  static bool is_of(Handle handle, const Process& process) {
    return CommIdLayout::slot(handle) == process.slot &&
           CommIdLayout::epoch(handle) == process.epoch;
  }

  // --- Network ----------------------------------------------------------------------------------

  /// Sends what a process has to send, and lets its user act on what it is told.
  void flush(std::size_t process) {
    auto& manager = *processes_[process].manager;
    for (const auto& event : manager.take_events()) act(process, event);
    for (const auto& packet : manager.take_outgoing()) transmit(packet);
  }
  void transmit(const MadPacket& packet) {
    const unsigned copies = happens(faults_.duplicates) ? 2 : 1;
    for (unsigned i = 0; i < copies; ++i) {
      if (happens(faults_.loss)) continue;
      at(happens(faults_.late) ? within(5s) : within(1ms), [this, packet] { deliver(packet); });
    }
  }
  /// Delivers as the subnet does: to the process that listens or that the remote ID names.
  void deliver(const MadPacket& packet) {
    const auto mad = wire::CmMad::parse(packet.mad);
    const std::size_t node = packet.dlid.value() / 4 - 1;
    const bool to_listener = std::holds_alternative<CmReq>(mad->message) ||
                             std::holds_alternative<wire::CmSidrReq>(mad->message);
    const CommId remote = remote_id(mad->message);
    bool taken = false;
    for (std::size_t i = node * kSlots; i < (node + 1) * kSlots; ++i) {
      const auto& one = processes_[i];
      const bool is_for_it = to_listener ? one.slot == 0 : remote == CommId() || is_of(remote, one);
      if (!one.manager || !is_for_it) continue;
      taken = true;
      one.manager->receive(packet, ports_[node], now_);
      flush(i);
    }
    if (to_listener && !taken) answer_for_nobody(packet, *mad);
  }
  void answer_for_nobody(const MadPacket& packet, const wire::CmMad& mad) {
    const auto route = Route::back(packet);
    if (const auto* const req = std::get_if<CmReq>(&mad.message)) {
      CmRej rej;
      rej.remote_id = req->local_id;
      rej.reason = CmRejReason::invalid_service_id;
      transmit(route.packet({mad.transaction_id, rej}));
    } else if (const auto* const sidr = std::get_if<wire::CmSidrReq>(&mad.message)) {
      wire::CmSidrRep rep;
      rep.request_id = sidr->request_id;
      rep.status = wire::CmSidrStatus::unsupported_service;
      transmit(route.packet({mad.transaction_id, rep}));
    }
  }
  static CommId remote_id(const wire::CmMessage& message) {
    return std::visit(
        [](const auto& one) {
          if constexpr (requires { one.remote_id; }) {
            return one.remote_id;
          } else if constexpr (requires { one.request_id; }) {
            return one.request_id;
          } else {
            return CommId();
          }
        },
        message);
  }

  // --- Users ------------------------------------------------------------------------------------

  [[nodiscard]] Key key(std::size_t process, Handle handle) const {
    return {ports_[processes_[process].node].lid, handle};
  }
  Side& side(std::size_t process, Handle handle) { return sides_.at(key(process, handle)); }
  CommunicationManager& manager(std::size_t process) { return *processes_[process].manager; }

  void connect(std::size_t process) {
    const auto& from = ports_[processes_[process].node];
    CmReq req = request_to_connect(Qpn(++last_qpn_));
    req.max_cm_retries = kCmRetries;
    if (happens(2)) req.service_id = wire::ServiceId(1);
    const Handle handle = manager(process)
                              .connect(req, path_between(from, ports_[below(kNodes)]), from, now_)
                              .value();
    sides_[key(process, handle)].is_active = true;
    if (happens(5)) later(process, 3s, [=, this] { destroy(process, handle); });
  }
  void resolve(std::size_t process) {
    const auto& from = ports_[processes_[process].node];
    wire::CmSidrReq req;
    req.service_id = kDatagrams;
    const auto to = path_between(from, ports_[below(kNodes)]);
    const auto handle = manager(process).resolve(req, to, {1s, kCmRetries}, from, now_).value();
    resolving_.insert(key(process, handle));
  }
  void destroy(std::size_t process, Handle handle) {
    auto& mine = side(process, handle);
    if (mine.last == 0 && !mine.refused_by_user) mine.gave_up = true;
    manager(process).destroy(handle, now_);
  }
  void reject(std::size_t process, Handle handle) {
    if (manager(process).reject(handle, {}, now_)) side(process, handle).refused_by_user = true;
  }
  /// Of an established connection, or to answer the peer.
  void leave(std::size_t process, Handle handle) {
    if (happens(30)) return destroy(process, handle);
    (void)manager(process).disconnect(handle, {}, now_);
  }

  void act(std::size_t process, const Event& event) {
    const Handle handle = event.handle;
    std::visit(
        Overloaded{
            [&](const ConnectionRequested& one) {
              auto& mine = sides_[key(process, handle)];
              mine.peer = {one.req.primary.local_lid, one.req.local_id};
              later(process, happens(80) ? 10ms : 8s, [=, this] { answer(process, handle); });
              if (happens(20)) (void)manager(process).prepare_mra(handle, {});
            },
            [&](const Accepted& one) {
              auto& mine = side(process, handle);
              EXPECT_EQ(mine.established, 0U);
              mine.peer.second = one.rep.local_id;
              later(process, happens(80) ? 10ms : 8s, [=, this] { confirm(process, handle); });
            },
            [&](const Established&) {
              auto& mine = side(process, handle);
              ++mine.established;
              const auto active = sides_.find(mine.peer);
              ASSERT_NE(active, sides_.end());
              EXPECT_EQ(active->second.established, 1U) << "the active side has confirmed it";
              EXPECT_EQ(active->second.peer.second, handle);
              if (happens(50)) later(process, 20s, [=, this] { leave(process, handle); });
            },
            [&](const Rejected&) {
              auto& mine = side(process, handle);
              EXPECT_EQ(mine.established, 0U);
              ++mine.last;
            },
            [&](const Unanswered&) {
              if (resolving_.erase(key(process, handle)) != 0) return;
              auto& mine = side(process, handle);
              mine.unanswered = true;
              ++mine.last;
            },
            [&](const Disconnected& one) {
              ++side(process, handle).disconnected;
              if (one.awaits_answer) {
                later(process, 3s, [=, this] { leave_for_good(process, handle); });
              } else if (happens(20)) {
                destroy(process, handle);
              }
            },
            [&](const TimeWaitOver&) { ++side(process, handle).last; },
            [&](const ServiceRequested&) {
              later(process, 100ms, [=, this] { (void)manager(process).answer(handle, {}, now_); });
            },
            [&](const ServiceResolved&) {
              ++resolved_;
              EXPECT_EQ(resolving_.erase(key(process, handle)), 1U);
            },
        },
        event.what);
  }
  void answer(std::size_t process, Handle handle) {
    const auto chance = below(100);
    if (chance < 5) return reject(process, handle);
    if (chance < 8) return destroy(process, handle);
    if (chance < 10) {
      if (manager(process).forget(handle)) sides_.erase(key(process, handle));
      return;
    }
    CmRep rep;
    rep.qpn = Qpn(++last_qpn_);
    if (!manager(process).accept(handle, rep, now_)) return;
    if (happens(5)) later(process, 10ms, [=, this] { reject(process, handle); });
    if (happens(5)) later(process, 5s, [=, this] { destroy(process, handle); });
  }
  void confirm(std::size_t process, Handle handle) {
    if (happens(5)) return reject(process, handle);
    if (happens(3)) return destroy(process, handle);
    if (!manager(process).confirm(handle, {})) return;
    side(process, handle).established = 1;
    later(process, 20s, [=, this] { leave(process, handle); });
  }
  /// The process of the peer may have died since it disconnected; then nothing is to be answered.
  void leave_for_good(std::size_t process, Handle handle) {
    if (happens(30)) return destroy(process, handle);
    (void)manager(process).disconnect(handle, {}, now_);
  }

  std::mt19937 random_;
  Faults faults_;
  unsigned connects_;
  TimePoint now_{1h};
  std::multimap<TimePoint, std::function<void()>> agenda_;
  std::vector<PortAttributes> ports_;
  std::vector<Process> processes_;
  std::map<Key, Side> sides_;
  std::set<Key> resolving_;
  std::size_t resolved_ = 0;
  std::uint32_t last_qpn_ = 0;
};

constexpr unsigned kConnects = 150;  ///< of each process
constexpr std::size_t kAll = kConnects * kNodes * kSlots;

TEST(CmFaults, WithoutFaultsEachConnectionIsAnsweredAtOnce) {
  World world(1, {}, kConnects);
  world.run();
  world.check();
  EXPECT_EQ(world.unanswered(), 0U);
  EXPECT_GT(world.established(), kAll * 6 / 10);
  EXPECT_GT(world.refused(), kAll / 20);
  EXPECT_GT(world.resolved(), kAll / 20);
}

TEST(CmFaults, EachConnectionEndsTheSameWayOnBothSides) {
  for (std::uint32_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed, {.loss = seed * 6, .duplicates = 10, .late = 5}, kConnects);
    world.run();
    world.check();
    EXPECT_EQ(world.unanswered(), 0U);
    EXPECT_GT(world.established(), kAll / 2);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(CmFaults, ProcessesThatDieLeaveNothing) {
  for (std::uint32_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed, {.loss = seed * 6, .duplicates = 10, .late = 5, .deaths = 20}, kConnects);
    world.run();
    world.check();
    EXPECT_GT(world.established(), kAll / 2);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace softib::cm::faults
