// The control thread of a daemon whose ports, SAs and interfaces are in memory.
#include "daemon/port_control.hpp"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <boost/asio/post.hpp>
#include <csignal>
#include <cstdlib>

#include "ipoib/monotonic_clock.hpp"
#include "linux/wake_up.hpp"
#include "tests/unit/daemon/interfaces/interfaces_fixture.hpp"
#include "tests/unit/link/object_fixture.hpp"

namespace ipoib::daemon::port_control_tests {
namespace {

using namespace std::chrono_literals;
using handover::Connection;
using handover::Message;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kDeviceFailed = "the RDMA device has failed or was removed";

class FakePort final : public PortSource {
 public:
  void raise(Changes changes) {
    next_ = std::move(changes);
    event_.signal();
  }
  [[nodiscard]] int descriptor() const override { return event_.descriptor(); }
  [[nodiscard]] Changes update() override {
    event_.clear();
    ++updates;
    return std::exchange(next_, {});
  }
  [[nodiscard]] const verbs::PortSnapshot& snapshot() const override { return state; }
  [[nodiscard]] const Retry& retry() const override { return queries; }
  void report_violations() override {}

  verbs::PortSnapshot state;
  Retry queries;
  unsigned updates = 0;

 private:
  linux::WakeUp event_;
  Changes next_{.changed = true};
};

class FakeSa final : public SaBackend {
 public:
  void on_port(const verbs::PortSnapshot& port, TimePoint /*now*/) override { lid = port.lid; }
  void on_client_reregister() override { ++reregistrations; }
  void request(const wire::SaRequest& request, TimePoint /*now*/) override {
    requests.push_back(request);
  }
  void on_readable(TimePoint /*now*/) override { arrived.clear(); }
  void on_time(TimePoint /*now*/) override {
    ++times;
    due = kNever;
  }
  void end(TimePoint /*now*/) override { ++ends; }
  [[nodiscard]] TimePoint next_deadline() const override { return due; }
  [[nodiscard]] int descriptor() const override { return arrived.descriptor(); }
  [[nodiscard]] bool has_failed() const override { return failed; }
  [[nodiscard]] std::vector<wire::SaResponse>& responses() override { return waiting_responses; }
  [[nodiscard]] sa::Counters counters() const override { return {.requests = requests.size()}; }
  [[nodiscard]] std::vector<wire::Notice>& notices() override { return waiting_notices; }

  void respond(wire::SaRequestId id, wire::SaResult result) {
    waiting_responses.push_back({id, std::move(result)});
    arrived.signal();
  }

  Lid lid;
  std::vector<wire::SaRequest> requests;
  std::vector<wire::SaResponse> waiting_responses;
  std::vector<wire::Notice> waiting_notices;
  linux::WakeUp arrived;
  TimePoint due = kNever;
  bool failed = false;
  unsigned reregistrations = 0, times = 0, ends = 0;
};

struct Side {
  FakePort port;
  FakeSa sa;
};

/// A service manager that notes what it is told.
class FakeServiceManager {
 public:
  FakeServiceManager() {
    const std::string name = "@ipoibd-test-" + std::to_string(::getpid());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path, sizeof(address.sun_path) - 1);
    address.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  FakeServiceManager(const FakeServiceManager&) = delete;
  FakeServiceManager& operator=(const FakeServiceManager&) = delete;
  ~FakeServiceManager() { ::unsetenv("NOTIFY_SOCKET"); }

  /// The first lines of what it was told since the last call.
  std::vector<std::string> told() {
    std::vector<std::string> out;
    std::array<char, 512> text{};
    for (;;) {
      const auto size = ::recv(socket_.get(), text.data(), text.size(), MSG_DONTWAIT);
      if (size < 0) return out;
      const std::string all(text.data(), static_cast<std::size_t>(size));
      out.push_back(all.substr(0, all.find('\n')));
    }
  }

 private:
  FileDescriptor socket_{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
};

class PortControlTest : public InterfacesFixture {
 protected:
  PortControlTest() {
    std::uint16_t lid = 10;
    for (Side* const side : {&primary, &backup, &repaired}) {
      side->port.state = port_in({kDefaultPKey});
      side->port.state.lid = Lid(lid++);
      side->port.state.sm_lid = Lid(1);
      side->port.state.gid = link::port_gid(lid);
    }
  }
  [[nodiscard]] static PortControl::Port port_of(Side& side) { return {side.port, side.sa}; }
  void make(bool with_backup, std::optional<PortControl::Predecessor> predecessor = {}) {
    control.emplace(PortControl::Dependencies{
                        .context = context,
                        .primary = port_of(primary),
                        .backup = with_backup ? std::optional(port_of(backup)) : std::nullopt,
                        .reopen = [this](PortRole role) -> std::optional<PortControl::Port> {
                          reopened.push_back(role);
                          if (reopened.size() < tries_to_reopen) return std::nullopt;
                          return port_of(repaired);
                        },
                        .factory = *this,
                        .options = options,
                        .kept = kept,
                        .changes = changes,
                        .handed = handed,
                        .own = [] { return own(); },
                        .trace = trace,
                        .signals = signals,
                        .reload = [this]() -> Reloaded {
                          ++reloads;
                          return {.poll = PollMode::busy};
                        },
                        .log = *link::silent_logger(),
                        .on_serving = [this] { ++servings; }},
                    std::move(predecessor));
    control->start(primary.port.state);
  }
  /// Up to the first wait for an event.
  void run() {
    boost::asio::post(context, [this] { context.stop(); });
    (void)control->run();
    poll();
  }
  void begin(bool with_backup = false) {
    make(with_backup);
    run();
    calls.clear();
  }
  template <class Condition>
  void run_until(Condition&& holds) {
    context.restart();
    for (int i = 0; i < 1000; ++i) {
      if (holds()) return;
      context.run_one_for(10ms);
    }
    FAIL() << "it does not happen";
  }
  void signal(int number) {
    ASSERT_EQ(::kill(::getpid(), number), 0);
    poll();
  }
  /// The interfaces end as they were told to.
  PortControl::Ended finish() {
    for (const auto& [name, interface] : by_name) interface->end();
    context.restart();
    return control->run();
  }
  [[nodiscard]] FakeInterface& ib0() { return *by_name.at("ib0"); }
  [[nodiscard]] wire::SaRequest request_of(PortRole role) {
    return {first_link_request(ib0().id().number, role),
            wire::path_query(Gid(), Gid(), kDefaultPKey)};
  }
  [[nodiscard]] static handover::Hello own() {
    return {.program_version = "0.2.0", .device = "mlx5_0", .port = 1, .guid = Guid(1)};
  }
  [[nodiscard]] static std::pair<FileDescriptor, Connection> connection() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    return {FileDescriptor(ends[0]), Connection(FileDescriptor(ends[1]))};
  }
  void say(Connection& peer, const Message& message) {
    ASSERT_TRUE(peer.send(emit(message)));
    poll();
  }
  static std::vector<Message> received_by(Connection& peer) {
    std::vector<Message> out;
    for (;;) {
      auto received = peer.receive();
      if (!received || !*received) return out;
      out.push_back(std::move((*received)->message));
    }
  }

  const HandledSignals signals;
  TraceRing trace{"control"};
  Side primary, backup, repaired;
  std::size_t tries_to_reopen = 1;
  std::vector<PortRole> reopened;
  unsigned reloads = 0, servings = 0;
  std::optional<PortControl> control;
};

TEST_F(PortControlTest, StartsTheInterfacesAndServesThem) {
  handed[kRed] = {};  // which the port is not in
  make(false);
  EXPECT_EQ(servings, 1U);
  EXPECT_THAT(handed, IsEmpty()) << "it ends with the other daemon";
  EXPECT_THAT(taken(), ElementsAre("ib0 port"));
  run();
  EXPECT_EQ(primary.sa.lid, primary.port.state.lid);
  EXPECT_THAT(taken(), ElementsAre("ib0 port"));
}

// --- Signals -------------------------------------------------------------------------------------

TEST_F(PortControlTest, ASignalEndsReportsAndInterfaces) {
  FakeServiceManager manager;
  begin(true);
  signal(SIGTERM);
  EXPECT_THAT(manager.told(), ElementsAre("STOPPING=1"));
  EXPECT_EQ(primary.sa.ends, 1U);
  EXPECT_EQ(backup.sa.ends, 1U);
  EXPECT_THAT(taken(), ElementsAre("ib0 stop"));
  const auto ended = finish();
  EXPECT_EQ(ended.reason, "");
  EXPECT_FALSE(ended.device_lost);
}

TEST_F(PortControlTest, ASecondSignalEndsAtOnce) {
  begin();
  signal(SIGTERM);
  (void)taken();
  ASSERT_EQ(::kill(::getpid(), SIGINT), 0);
  context.restart();
  EXPECT_EQ(control->run().reason, "");
  EXPECT_THAT(taken(), ElementsAre("ib0 remove", "ib0 ~"));
}

TEST_F(PortControlTest, ASignalCountsMoreThanALossOfTheDevice) {
  begin();
  primary.port.raise({.device_failed = true});
  poll();
  signal(SIGTERM);
  const auto ended = finish();
  EXPECT_EQ(ended.reason, "");
  EXPECT_TRUE(ended.device_lost);
}

TEST_F(PortControlTest, AHangupMakesTheInterfacesFollowTheConfiguration) {
  FakeServiceManager manager;
  begin();
  signal(SIGHUP);
  EXPECT_EQ(reloads, 1U);
  EXPECT_THAT(taken(), ElementsAre("ib0 reconfigure poll"));
  EXPECT_THAT(manager.told(), ElementsAre("RELOADING=1", "READY=1"));
  signal(SIGTERM);
  signal(SIGHUP);
  EXPECT_EQ(reloads, 1U) << "it ends";
}

// --- The service manager -------------------------------------------------------------------------

TEST_F(PortControlTest, TellsTheServiceManagerWhatTheInterfacesWaitFor) {
  FakeServiceManager manager;
  begin();
  ib0().owner().on_report(ib0().id().number, {"the SA"});
  EXPECT_THAT(manager.told(), ElementsAre("STATUS=ib0 waits for the SA"));
}

TEST_F(PortControlTest, TheWatchdogIsFedOnlyWhileAllThreadsRespond) {
  FakeServiceManager manager;
  ::setenv("WATCHDOG_USEC", "40000", 1);
  ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
  begin();
  EXPECT_THAT(manager.told(), ElementsAre("WATCHDOG=1"));
  const auto later = monotonic_now() + 100ms;
  run_until([&] { return monotonic_now() > later; });
  EXPECT_THAT(manager.told(), IsEmpty()) << "its thread was asked for a report";
  ib0().owner().on_report(ib0().id().number, {});
  auto told = manager.told();  // the status
  run_until([&] { return !(told = manager.told()).empty(); });
  EXPECT_THAT(told, ElementsAre("WATCHDOG=1"));
  EXPECT_THAT(taken(), ElementsAre("ib0 report"));
  ::unsetenv("WATCHDOG_USEC");
  ::unsetenv("WATCHDOG_PID");
}

// --- A port --------------------------------------------------------------------------------------

TEST_F(PortControlTest, EventsOfAPortReachItsSaAndTheInterfaces) {
  begin(true);
  backup.port.state.lid = Lid(77);
  backup.port.raise({.changed = true});
  poll();
  EXPECT_EQ(backup.sa.lid, Lid(77));
  EXPECT_EQ(ib0().ports[PortRole::backup].lid, Lid(77));
  EXPECT_THAT(taken(), ElementsAre("ib0 backup port"));
  backup.port.raise({.reregister = true});
  poll();
  EXPECT_EQ(backup.sa.reregistrations, 1U);
  EXPECT_EQ(primary.sa.reregistrations, 0U);
  EXPECT_THAT(taken(), ElementsAre("ib0 backup reregister"));
  primary.port.raise({.failed_objects = {this}});
  poll();
  EXPECT_THAT(taken(), ElementsAre("ib0 object failed"));
}

TEST_F(PortControlTest, APortThatCannotBeQueriedIsQueriedAgain) {
  begin();
  const unsigned before = primary.port.updates;
  (void)primary.port.queries.failed();
  primary.port.raise({});
  run_until([&] { return primary.port.updates > before + 2; });
}

TEST_F(PortControlTest, RequestsGoToTheSaOfTheirPort) {
  begin(true);
  sa->send(request_of(PortRole::primary));
  const std::size_t tests = primary.sa.requests.size() - 1;
  sa->send(request_of(PortRole::backup));
  EXPECT_EQ(primary.sa.requests.back(), request_of(PortRole::primary));
  EXPECT_EQ(backup.sa.requests.back(), request_of(PortRole::backup));
  EXPECT_EQ(sa->counters().requests, 2 * (tests + 1)) << "of both";
  primary.sa.respond(request_of(PortRole::primary).id, wire::PathRecord());
  poll();
  EXPECT_THAT(taken(), ElementsAre("ib0 response"));
  backup.sa.waiting_notices.push_back({});
  backup.sa.due = monotonic_now();
  sa->send(request_of(PortRole::backup));
  EXPECT_THAT(taken(), ElementsAre("ib0 backup notice"));
  run_until([this] { return backup.sa.times > 0; });
}

// --- Loss ----------------------------------------------------------------------------------------

TEST_F(PortControlTest, TheLossOfTheOnlyPortEndsTheInterfaces) {
  begin();
  primary.port.raise({.device_failed = true});
  poll();
  EXPECT_THAT(taken(), ElementsAre("ib0 stop"));
  const auto ended = finish();
  EXPECT_EQ(ended.reason, kDeviceFailed);
  EXPECT_TRUE(ended.device_lost);
  EXPECT_EQ(kept.count("ib0"), 1U) << "until the device is back";
  EXPECT_THAT(reopened, IsEmpty());
}

TEST_F(PortControlTest, TheLossOfItsSaIsTheLossOfAPort) {
  begin();
  primary.sa.failed = true;
  primary.sa.arrived.signal();
  poll();
  EXPECT_EQ(finish().reason, "the device for management datagrams has failed or was removed");
}

TEST_F(PortControlTest, APortThatIsNotActiveIsLookedAtAgainWithoutAnEvent) {
  begin();
  primary.port.state.active = false;
  primary.port.raise({.changed = true});
  poll();
  const unsigned updates = primary.port.updates;
  run_until([&] { return primary.port.updates > updates; });
}

TEST_F(PortControlTest, OneOfTwoPortsMayBeLostAndComeBack) {
  tries_to_reopen = 2;
  begin(true);
  primary.port.raise({.device_failed = true});
  poll();
  EXPECT_THAT(taken(), ElementsAre("ib0 port"));
  EXPECT_FALSE(ib0().ports[PortRole::primary].active);
  const auto before = primary.sa.requests.size();
  sa->send(request_of(PortRole::primary));
  EXPECT_THAT(taken(), ElementsAre("ib0 response")) << "that there is no SM";
  EXPECT_EQ(primary.sa.requests.size(), before);
  const unsigned updates = primary.port.updates;
  primary.port.raise({.changed = true});
  poll();
  EXPECT_EQ(primary.port.updates, updates) << "nobody looks at it any more";
  ib0().on_replaced = [this] { sa->send(request_of(PortRole::primary)); };
  run_until([this] { return repaired.port.updates > 0; });
  EXPECT_THAT(reopened, ElementsAre(PortRole::primary, PortRole::primary)) << "tried twice";
  EXPECT_THAT(taken(), ElementsAre("ib0 replace", "ib0 port"));
  EXPECT_EQ(ib0().ports[PortRole::primary].lid, repaired.port.state.lid);
  EXPECT_EQ(repaired.sa.requests.front(), request_of(PortRole::primary));
}

TEST_F(PortControlTest, TheLossOfBothPortsEndsTheInterfaces) {
  begin(true);
  backup.port.raise({.device_failed = true});
  poll();
  EXPECT_THAT(taken(), ElementsAre("ib0 backup port"));
  primary.port.raise({.device_failed = true});
  poll();
  EXPECT_THAT(taken(), ElementsAre("ib0 stop"));
  const auto ended = finish();
  EXPECT_EQ(ended.reason, kDeviceFailed);
  EXPECT_TRUE(ended.device_lost);
}

// --- Tests of both ports -------------------------------------------------------------------------

class TestedPorts : public PortControlTest {
 protected:
  /// Both ports have asked, and this is what they have got.
  void answer(wire::SaResult of_primary, wire::SaResult of_backup) {
    ASSERT_THAT(primary.sa.requests, SizeIs(1));
    ASSERT_THAT(backup.sa.requests, SizeIs(1));
    primary.sa.respond(primary.sa.requests[0].id, std::move(of_primary));
    backup.sa.respond(backup.sa.requests[0].id, std::move(of_backup));
    poll();
  }
  const wire::SaFailure silence{wire::SaFailure::Kind::timeout};
};

TEST_F(TestedPorts, APortWhoseRequestsAloneTimeOutIsSilent) {
  begin(true);
  const auto& query = std::get<wire::PathQuery>(primary.sa.requests.at(0).query).record;
  EXPECT_EQ(query.sgid, primary.port.state.gid);
  EXPECT_EQ(query.dgid, primary.port.state.gid);
  answer(wire::PathRecord(), silence);
  EXPECT_THAT(taken(), ElementsAre("ib0 backup port"));
  EXPECT_TRUE(ib0().ports[PortRole::backup].silent);
  EXPECT_FALSE(ib0().ports[PortRole::primary].silent);
  backup.port.raise({.changed = true});
  poll();
  EXPECT_TRUE(ib0().ports[PortRole::backup].silent) << "also after it has changed";
  backup.port.state.active = false;
  backup.port.raise({.changed = true});
  poll();
  EXPECT_FALSE(ib0().ports[PortRole::backup].silent) << "it cannot be tested any more";
}

TEST_F(TestedPorts, ARefusalIsAnAnswer) {
  begin(true);
  answer(wire::PathRecord(), wire::SaFailure(wire::SaFailure::Kind::no_sm));
  EXPECT_THAT(taken(), IsEmpty());
}

/// Two SAs may have different faults; a port without an SA, or one of RoCE, asks nothing.
TEST_F(TestedPorts, AreAskedOnlyIfBothHaveTheSameSa) {
  for (const auto& change : std::initializer_list<void (*)(verbs::PortSnapshot&)>{
           [](auto& port) { port.gid = Gid(Gid::kLinkLocalPrefix + 1, port.gid.guid()); },
           [](auto& port) { port.sm_lid = Lid(2); }, [](auto& port) { port.active = false; },
           [](auto& port) { port.link_layer = verbs::LinkLayer::roce; }}) {
    const auto before = backup.port.state;
    change(backup.port.state);
    backup.port.raise({.changed = true});
    begin(true);
    EXPECT_THAT(primary.sa.requests, IsEmpty());
    EXPECT_THAT(backup.sa.requests, IsEmpty());
    backup.port.state = before;
    control.reset();
  }
}

// --- Handover ------------------------------------------------------------------------------------

TEST_F(PortControlTest, HandsItsInterfacesOver) {
  tun = STDOUT_FILENO;
  begin();
  auto [own_end, peer] = connection();
  ib0().owner().on_handover(std::move(own_end));
  say(peer, own());
  ib0().saving({});
  poll();
  EXPECT_THAT(received_by(peer), SizeIs(3)) << "offer, interface, the end";
  say(peer, handover::Ready{{kDefaultPKey}});
  ib0().owner().on_mode(ib0().id().number, PumpMode::retired);
  EXPECT_THAT(received_by(peer), ElementsAre(Message(handover::Released{})));
  EXPECT_THAT(taken(), ElementsAre("ib0 save 0", "ib0 retired"));
  signal(SIGTERM);
  EXPECT_EQ(primary.sa.ends, 1U);
  EXPECT_THAT(taken(), ElementsAre("ib0 stop"));
  EXPECT_EQ(finish().reason, "");
  EXPECT_THAT(taken(), ElementsAre("ib0 ~")) << "it stays for the other daemon";
}

TEST_F(PortControlTest, TakesInterfacesOver) {
  handed[kDefaultPKey] = {};
  auto [own_end, peer] = connection();
  make(false, PortControl::Predecessor{Connection(std::move(own_end)), 4711});
  run();
  calls.clear();
  EXPECT_EQ(servings, 0U) << "the other daemon serves them";
  ib0().owner().on_mode(ib0().id().number, PumpMode::held);
  EXPECT_THAT(received_by(peer), ElementsAre(Message(handover::Ready{{kDefaultPKey}})));
  say(peer, handover::Released{});
  EXPECT_EQ(servings, 1U);
  EXPECT_THAT(taken(), ElementsAre("ib0 active"));
}

TEST_F(PortControlTest, EndsIfItCannotTakeOver) {
  handed[kDefaultPKey] = {};
  auto [own_end, peer] = connection();
  make(false, PortControl::Predecessor{Connection(std::move(own_end)), 4711});
  run();
  say(peer, handover::Refusal{ECANCELED, "it is ending"});
  const auto ended = finish();
  EXPECT_EQ(ended.reason, "cannot take over from process 4711: it is ending");
  EXPECT_FALSE(ended.device_lost);
}

TEST_F(PortControlTest, TheOtherDaemonWaitsForTheDeviceUntilItHasHandedOver) {
  handed[kDefaultPKey] = {};
  auto [own_end, peer] = connection();
  make(false, PortControl::Predecessor{Connection(std::move(own_end)), 4711});
  run();
  primary.port.raise({.device_failed = true});
  poll();
  const auto ended = finish();
  EXPECT_EQ(ended.reason, kDeviceFailed);
  EXPECT_FALSE(ended.device_lost);
}

}  // namespace
}  // namespace ipoib::daemon::port_control_tests
