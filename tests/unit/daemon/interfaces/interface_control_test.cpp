#include "daemon/interfaces/interface_control.hpp"

#include <gmock/gmock.h>
#include <spdlog/sinks/ringbuffer_sink.h>

#include <boost/asio/io_context.hpp>
#include <set>

#include "daemon/interfaces/ipv6_identity.hpp"
#include "daemon/pump/admin.hpp"
#include "ipoib/log.hpp"
#include "ipoib/monotonic_clock.hpp"
#include "linux/wake_up.hpp"
#include "tests/unit/link/object_fixture.hpp"
#include "wire/sa_request.hpp"

namespace ipoib::daemon {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class FakeMirror final : public linux::HostMirror {
 public:
  [[nodiscard]] int descriptor() const override { return events.descriptor(); }
  [[nodiscard]] Pending take_events() override {
    events.clear();
    return pending;
  }
  void expect_change() override { ++expected; }
  void expect_routes() override {
    ++routes_expected;
    pending = Pending::any;
  }
  [[nodiscard]] Result<std::optional<HostView>> update() override {
    ++updates;
    if (fails) return Error{0, "netlink: no memory"};
    return std::exchange(next, std::nullopt);
  }
  [[nodiscard]] bool interface_exists() const override { return exists; }
  [[nodiscard]] bool permits_reply(Ipv4Address target, Ipv4Address sender) override {
    return target == permitted_target && sender == permitted_sender;
  }
  [[nodiscard]] bool check_arp_policy() override { return arp_changed; }
  [[nodiscard]] const std::string& interface_name() const override { return name; }
  [[nodiscard]] bool link_local_is_duplicate() const override {
    return !addresses.empty() ? duplicates.contains(addresses.back()) : is_duplicate;
  }
  void set_link_local(const Ipv6Address& address) override { addresses.push_back(address); }

  void change(HostView view) {
    next = std::move(view);
    events.signal();
  }

  linux::WakeUp events;
  std::optional<HostView> next = HostView();
  std::string name = "ibx";
  std::vector<Ipv6Address> addresses;  ///< as set by the daemon
  std::set<Ipv6Address> duplicates;    ///< of `addresses`
  bool is_duplicate = false;           ///< the address before
  bool exists = true;
  bool fails = false;
  unsigned updates = 0;
  unsigned expected = 0;
  unsigned routes_expected = 0;
  Pending pending = Pending::any;
  Ipv4Address permitted_target{0x0a2c0009};
  Ipv4Address permitted_sender{0x0a2c0002};
  bool arp_changed = false;
};

class InterfaceControlTest : public ::testing::Test, public InterfaceOwner, public SaRequestPort {
 protected:
  static constexpr InterfaceNumber kNumber{3};
  static constexpr PKey kPartition{0x8012};
  static constexpr PKey kAdded{0x8013};

  void on_ended(InterfaceNumber interface, const StopReason& why) override {
    EXPECT_EQ(interface, kNumber);
    ended.push_back(why);
  }
  void on_report(InterfaceNumber interface, const LinkReport& report) override {
    EXPECT_EQ(interface, kNumber);
    reports.push_back(report.waiting_for);
  }
  void on_mode(InterfaceNumber interface, PumpMode mode) override {
    EXPECT_EQ(interface, kNumber);
    modes.push_back(mode);
  }
  void on_renamed(InterfaceNumber interface, const std::string& name) override {
    EXPECT_EQ(interface, kNumber);
    owner_renamed.push_back(name);
  }
  void on_handover(FileDescriptor /*connection*/) override {}
  [[nodiscard]] Result<std::string> add_interface(InterfaceNumber beside, PKey partition,
                                                  const std::string& name) override {
    EXPECT_EQ(beside, kNumber);
    if (partition != kAdded) return Error{EEXIST, "there is one"};
    return name.empty() ? "usual" : name;
  }
  void delete_interface(InterfaceNumber interface,
                        std::function<void(Result<void>)> done) override {
    EXPECT_EQ(interface, kNumber);
    deletion = std::move(done);
  }
  void send(const wire::SaRequest& request) override { requests.push_back(request); }
  [[nodiscard]] sa::Counters counters() const override { return of_sa; }

  /// Runs the control thread until `holds`.
  void run_until(const std::function<bool()>& holds) {
    constexpr int kPatience = 2000;
    for (int i = 0; i < kPatience && !holds(); ++i) context.run_one_for(10ms);
    ASSERT_TRUE(holds());
  }
  /// The messages to the interface's thread, whose mailbox is empty then.
  std::vector<ToInterface> taken() {
    std::vector<ToInterface> out;
    to_interface.drain(out);
    return out;
  }
  template <class Message>
  static std::vector<Message> only(const std::vector<ToInterface>& all) {
    std::vector<Message> out;
    for (const auto& each : all) {
      if (const auto* const one = std::get_if<Message>(&each)) out.push_back(*one);
    }
    return out;
  }
  /// Waits for messages of a kind.
  template <class Message>
  std::vector<Message> await() {
    std::vector<Message> out;
    run_until([&] {
      for (const auto& one : only<Message>(taken())) out.push_back(one);
      return !out.empty();
    });
    return out;
  }
  [[nodiscard]] InterfaceControl::Dependencies dependencies(FakeMirror& host,
                                                            InterfaceMailbox& mailbox,
                                                            ControlMailbox& inbox) {
    return {.context = context,
            .number = kNumber,
            .pkey = kPartition,
            .host = host,
            .to_interface = mailbox,
            .inbox = inbox,
            .owner = *this,
            .sa = *this,
            .neighbours = neighbours,
            .trace = trace,
            .log = *link::silent_logger(),
            .interface = "ibx",
            .link_local = {kGuid, kPartition, false},
            .renamed = [this](const std::string& name) { names.push_back(name); },
            .has_moved = [this] { return has_moved; },
            .common_counters = [this] { return common_counters; },
            .port_released = [this](PortRole role) { released.push_back(role); },
            .publish = [this](const control::Event& event) { published.push_back(event); }};
  }
  void fill_mailbox() {
    while (to_interface.post(HostChanged{})) {
    }
  }
  void from_interface(ToControl&& message) { ASSERT_TRUE(to_control.post(std::move(message))); }
  [[nodiscard]] static verbs::PortSnapshot port_with(Lid lid) {
    verbs::PortSnapshot port;
    port.active = true;
    port.lid = lid;
    port.pkeys = {kPartition};
    return port;
  }
  [[nodiscard]] static wire::Notice in_service() {
    wire::Notice notice;
    notice.trap_number = wire::trap::kInService;
    return notice;
  }
  [[nodiscard]] static wire::SaRequest leave(std::uint64_t id) {
    return {wire::SaRequestId(id), wire::LeaveQuery{}};
  }

  boost::asio::io_context context{1};
  FakeMirror mirror;
  InterfaceMailbox to_interface{2};
  ControlMailbox to_control{16};
  TraceRing trace{"test"};
  std::vector<PumpMode> modes;
  std::vector<std::string> owner_renamed;
  std::vector<PortRole> released;
  std::vector<std::string> reports;
  std::vector<StopReason> ended;
  std::vector<wire::SaRequest> requests;
  std::vector<control::Counter> common_counters;
  std::vector<control::Event> published;
  sa::Counters of_sa;
  std::vector<std::string> names;
  std::function<void(Result<void>)> deletion;
  bool has_moved = false;
  static constexpr Guid kGuid{0x0002c90300000001};
  static inline const Gid kGid = *Gid::parse("fe80::2");
  static constexpr Ipv4Address kPeer{0x0a2c0002};
  const std::shared_ptr<StaticNeighbours> neighbours =
      std::make_shared<StaticNeighbours>(std::span<const control::StaticNeighbour>(), "ibx");
  InterfaceControl control{dependencies(mirror, to_interface, to_control)};
};

TEST_F(InterfaceControlTest, PassesOnReportsOfTheLink) {
  control.on_event(LinkReportRequest{});
  EXPECT_EQ(await<LinkReportRequest>().size(), 1U);
  from_interface(LinkReport{"the SA"});
  run_until([&] { return !reports.empty(); });
  EXPECT_EQ(reports, std::vector<std::string>{"the SA"});
}

TEST_F(InterfaceControlTest, PassesOnTheHostsConfiguration) {
  HostView view;
  view.addresses = {{Ipv4Address(0x0a2c0001), 24}};
  mirror.next = view;
  EXPECT_EQ(await<HostChanged>().back().view, view);
  view.addresses.clear();
  mirror.change(view);
  EXPECT_EQ(await<HostChanged>().back().view, view);
}

/// The interface's thread follows routes itself.
TEST_F(InterfaceControlTest, RoutesAreReadAgainLater) {
  run_until([&] { return mirror.updates == 1; });
  mirror.pending = linux::HostMirror::Pending::routes;
  mirror.change({});
  const auto began = std::chrono::steady_clock::now();
  run_until([&] { return mirror.updates == 2; });
  EXPECT_GE(std::chrono::steady_clock::now() - began, 900ms);
}

TEST_F(InterfaceControlTest, AnotherChangeDoesNotWaitForRoutes) {
  run_until([&] { return mirror.updates == 1; });
  mirror.pending = linux::HostMirror::Pending::routes;
  mirror.change({});
  context.run_one_for(10ms);
  mirror.pending = linux::HostMirror::Pending::any;
  const auto began = std::chrono::steady_clock::now();
  mirror.change({});
  run_until([&] { return mirror.updates == 2; });
  EXPECT_LT(std::chrono::steady_clock::now() - began, 900ms);
}

TEST_F(InterfaceControlTest, GivesAViewToAThreadThatDoesNotKnowTheRoutes) {
  run_until([&] { return mirror.updates == 1; });
  (void)taken();
  mirror.pending = linux::HostMirror::Pending::none;
  mirror.next = HostView();
  from_interface(RoutesWanted{});
  EXPECT_THAT(await<HostChanged>(), SizeIs(1));
  EXPECT_EQ(mirror.routes_expected, 1U);
}

TEST_F(InterfaceControlTest, TheRoutesOfAViewComeBuilt) {
  HostView view;
  view.rules = {{.family = IpFamily::v4, .table = 254}};
  view.tables = {{254, {{.destination = {Ipv4Address(), 0}, .metric = 0, .hops = {RouteHop{}}}}}};
  const auto before = monotonic_now();
  mirror.next = view;
  const auto changed = await<HostChanged>().back();
  EXPECT_TRUE(changed.view.tables.empty());
  ASSERT_TRUE(changed.routes);
  EXPECT_FALSE(
      changed.routes->find({.source = Ipv4Address(), .destination = Ipv4Address(0x0a2c0002)})
          .empty());
  EXPECT_GE(changed.began, before);
}

TEST_F(InterfaceControlTest, ReadsTheHostAgainAfterAFailure) {
  mirror.fails = true;
  run_until([&] { return mirror.updates >= 2; });
  mirror.fails = false;
  EXPECT_THAT(await<HostChanged>(), SizeIs(1));
}

TEST_F(InterfaceControlTest, LooksForGroupsThatTheKernelDoesNotAnnounce) {
  from_interface(link::HostGroupsChanged{});
  run_until([&] { return mirror.expected == 1 && mirror.updates > 0; });
}

TEST_F(InterfaceControlTest, DeliversANoticeAtOnce) {
  control.on_event(SubnetNotice{in_service(), PortRole::primary});
  EXPECT_THAT(only<SubnetNotice>(taken()), SizeIs(1));
}

TEST_F(InterfaceControlTest, ANoticeThatFindsAFullMailboxBecomesAReregistrationLater) {
  fill_mailbox();
  control.on_event(SubnetNotice{in_service(), PortRole::primary});
  EXPECT_THAT(only<ClientReregister>(taken()), IsEmpty());
  EXPECT_THAT(await<ClientReregister>(), SizeIs(1));
}

TEST_F(InterfaceControlTest, DeliversTheLastPortStatusLaterIfTheMailboxIsFull) {
  fill_mailbox();
  control.on_event(PortUpdate{PortRole::primary, port_with(Lid(7))});
  control.on_event(PortUpdate{PortRole::primary, port_with(Lid(8))});
  control.on_event(ClientReregister{PortRole::primary});
  (void)taken();
  const auto changes = await<PortChanged>();
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].status.lid, Lid(8));
}

TEST_F(InterfaceControlTest, DeliversTheHostsConfigurationLaterIfTheMailboxIsFull) {
  run_until([&] { return mirror.updates == 1; });
  fill_mailbox();
  HostView view;
  view.is_ipv6_router = true;
  mirror.change(view);
  run_until([&] { return mirror.updates == 2; });
  (void)taken();
  const auto changes = await<HostChanged>();
  EXPECT_TRUE(changes.back().view.is_ipv6_router);
}

TEST_F(InterfaceControlTest, DeliversEachFailedObject) {
  int one = 0;
  int other = 0;
  fill_mailbox();
  control.on_event(ObjectFailed{&one});
  control.on_event(ObjectFailed{&other});
  (void)taken();
  std::vector<const void*> failed;
  run_until([&] {
    for (const auto& each : only<ObjectFailed>(taken())) failed.push_back(each.object);
    return failed.size() == 2;
  });
  EXPECT_THAT(failed, ::testing::UnorderedElementsAre(&one, &other));
}

TEST_F(InterfaceControlTest, DeliversResponsesInOrderEvenIfTheMailboxIsFull) {
  fill_mailbox();
  const auto first = first_link_request(kNumber).value();
  for (std::uint64_t i = 0; i < 5; ++i) {
    control.on_event(wire::SaResponse{wire::SaRequestId(first + i), wire::McMemberRecord{}});
  }
  (void)taken();
  std::vector<std::uint64_t> order;
  run_until([&] {
    for (const auto& each : only<wire::SaResponse>(taken())) {
      order.push_back(each.id.value() - first);
    }
    return order.size() == 5;
  });
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4));
}

// --- End ----------------------------------------------------------------------------------------

/// A link that learns that the port has left its partition can no longer leave its groups.
TEST_F(InterfaceControlTest, StopsBeforeTheLinkLearnsWhatHasChangedLast) {
  fill_mailbox();
  control.on_event(PortUpdate{PortRole::primary, port_with(Lid(7))});
  control.stop({});
  control.on_event(PortUpdate{PortRole::primary, {}});
  control.on_event(PortUpdate{PortRole::primary, port_with(Lid(8))});
  (void)taken();
  std::vector<ToInterface> all;
  run_until([&] {
    for (auto& each : taken()) all.push_back(std::move(each));
    return !only<Stop>(all).empty();
  });
  EXPECT_THAT(only<PortChanged>(all), IsEmpty());
}

TEST_F(InterfaceControlTest, EndsAfterTheResponsesToItsLeaves) {
  control.stop({});
  from_interface(leave(100));
  from_interface(leave(101));
  from_interface(Stopped{});
  run_until([&] { return requests.size() == 2; });
  context.run_for(1ms);
  EXPECT_THAT(ended, IsEmpty());
  control.on_event(wire::SaResponse{wire::SaRequestId(100), wire::McMemberRecord{}});
  EXPECT_THAT(ended, IsEmpty());
  control.on_event(wire::SaResponse{wire::SaRequestId(101), wire::McMemberRecord{}});
  ASSERT_THAT(ended, SizeIs(1));
  EXPECT_EQ(ended[0].kind, StopReason::Kind::requested);
}

TEST_F(InterfaceControlTest, EndsWithoutResponsesAfterAWhile) {
  from_interface(leave(100));
  from_interface(Stopped{});
  run_until([&] { return !ended.empty(); });
}

TEST_F(InterfaceControlTest, ADeletedInterfaceEnds) {
  mirror.exists = false;
  EXPECT_THAT(await<Stop>(), SizeIs(1));
  from_interface(Stopped{});
  run_until([&] { return !ended.empty(); });
  EXPECT_EQ(ended[0].kind, StopReason::Kind::deleted);
}

TEST_F(InterfaceControlTest, AMovedInterfaceEndsHere) {
  mirror.exists = false;
  has_moved = true;
  EXPECT_THAT(await<Stop>(), SizeIs(1));
  from_interface(Stopped{});
  run_until([&] { return !ended.empty(); });
  EXPECT_EQ(ended[0].kind, StopReason::Kind::moved);
}

TEST_F(InterfaceControlTest, FollowsARename) {
  (void)await<HostChanged>();
  EXPECT_THAT(names, IsEmpty());
  mirror.name = "iby";
  mirror.change({});
  EXPECT_EQ(await<Renamed>().back().name, "iby");
  EXPECT_THAT(names, ElementsAre("iby"));
  EXPECT_THAT(owner_renamed, ElementsAre("iby"));
}

TEST_F(InterfaceControlTest, ANewPartComesBeforeTheStateOfItsPort) {
  (void)await<HostChanged>();
  fill_mailbox();
  control.on_event(
      wire::SaResponse{first_link_request(kNumber, PortRole::backup), wire::SaFailure()});
  control.on_event(
      wire::SaResponse{first_link_request(kNumber, PortRole::primary), wire::SaFailure()});
  control.on_event(PortUpdate{PortRole::backup, {}});
  control.replace_port({.role = PortRole::backup});
  control.on_event(PortUpdate{PortRole::backup, {}});
  std::vector<ToInterface> all;
  run_until([&] {
    for (auto& each : taken()) all.push_back(std::move(each));
    return !only<PortChanged>(all).empty();
  });
  std::vector<std::size_t> kinds;
  for (const auto& each : all) {
    if (!std::holds_alternative<HostChanged>(each)) kinds.push_back(each.index());
  }
  const std::vector<std::size_t> expected{
      ToInterface(wire::SaResponse{}).index(), ToInterface(PortReplaced{}).index(),
      ToInterface(SetNeighbours{}).index(), ToInterface(PortChanged{}).index()};
  EXPECT_EQ(kinds, expected) << "the response to the old part is dropped";
  EXPECT_EQ(port_of(only<wire::SaResponse>(all)[0].id), PortRole::primary);
}

TEST_F(InterfaceControlTest, SaysWhenAPartThatWasReplacedIsFree) {
  ASSERT_TRUE(to_control.post(PortReleased{PortRole::backup}));
  run_until([this] { return !released.empty(); });
  EXPECT_THAT(released, ElementsAre(PortRole::backup));
}

TEST_F(InterfaceControlTest, ReplacesALinkLocalAddressThatHasAnotherOwner) {
  const auto second = link_local_of(kGuid, kPartition, 1);
  const auto third = link_local_of(kGuid, kPartition, 2);
  mirror.is_duplicate = true;
  mirror.duplicates = {second};
  run_until([&] { return mirror.addresses.size() == 2; });
  EXPECT_THAT(mirror.addresses, ElementsAre(second, third));
  mirror.change({});
  (void)await<HostChanged>();
  EXPECT_THAT(mirror.addresses, SizeIs(2)) << "the third one has no other owner";
}

TEST_F(InterfaceControlTest, GivesUpAfterManyLinkLocalAddresses) {
  mirror.is_duplicate = true;
  for (unsigned i = 0; i < 100; ++i) mirror.duplicates.insert(link_local_of(kGuid, kPartition, i));
  run_until([&] { return mirror.addresses.size() == LinkLocalChoice::kAttempts; });
  const auto updates = mirror.updates;
  mirror.change({});
  run_until([&] { return mirror.updates > updates; });
  EXPECT_THAT(mirror.addresses, SizeIs(16));
}

TEST_F(InterfaceControlTest, LinkLocalAddressFollowsThePortsGuid) {
  auto port = port_with(Lid(7));
  port.gid = Gid(Gid::kLinkLocalPrefix, kGuid);
  control.on_event(PortUpdate{PortRole::primary, port});
  port.gid = Gid(0xfec0'0000'0000'0000, kGuid);
  control.on_event(PortUpdate{PortRole::primary, port});
  EXPECT_THAT(mirror.addresses, IsEmpty()) << "another subnet prefix is no other GUID";
  port.gid = Gid();
  control.on_event(PortUpdate{PortRole::primary, port});
  EXPECT_THAT(mirror.addresses, IsEmpty()) << "a RoCE port without a GID";
  const Guid other(0x0002c90300000099);
  port.gid = Gid(Gid::kLinkLocalPrefix, other);
  control.on_event(PortUpdate{PortRole::primary, port});
  EXPECT_THAT(mirror.addresses, ElementsAre(link_local_of(other, kPartition)));
}

/// It is another port of the same host, which has one address.
TEST_F(InterfaceControlTest, LinkLocalAddressDoesNotFollowTheBackupPort) {
  auto port = port_with(Lid(4));
  port.gid = Gid(Gid::kLinkLocalPrefix, Guid(kGuid.value() + 1));
  control.on_event(PortUpdate{PortRole::backup, port});
  EXPECT_THAT(mirror.addresses, IsEmpty());
  control.on_event(PortUpdate{PortRole::primary, port});
  EXPECT_THAT(mirror.addresses, SizeIs(1));
}

TEST_F(InterfaceControlTest, SaysOnceThatItsPortIsALimitedMemberOrNone) {
  const auto lines = std::make_shared<spdlog::sinks::ringbuffer_sink_st>(512);
  link::silent_logger()->sinks().push_back(lines);
  const auto count = [&lines](std::string_view words) {
    const auto all = lines->last_formatted();
    return std::ranges::count_if(
        all, [words](const std::string& line) { return line.find(words) != line.npos; });
  };
  auto port = port_with(Lid(4));
  for (int i = 0; i < 2; ++i) control.on_event(PortUpdate{PortRole::primary, port});
  EXPECT_EQ(count("limited member"), 0);
  port.pkeys = {PKey(0x0012)};
  for (int i = 0; i < 2; ++i) control.on_event(PortUpdate{PortRole::primary, port});
  EXPECT_EQ(count("the port is a limited member of partition 0x8012"), 1);
  port.pkeys = {};
  for (int i = 0; i < 2; ++i) control.on_event(PortUpdate{PortRole::primary, port});
  EXPECT_EQ(count("waiting for partition 0x8012: the port is in"), 1);
  std::erase(link::silent_logger()->sinks(), lines);
}

TEST_F(InterfaceControlTest, TheFirstReasonToStopCounts) {
  control.stop({StopReason::Kind::failed, "the first"});
  control.stop({StopReason::Kind::deleted, {}});
  from_interface(Stopped{{StopReason::Kind::deleted, {}}});
  run_until([&] { return !ended.empty(); });
  EXPECT_EQ(ended[0].kind, StopReason::Kind::failed);
  EXPECT_EQ(ended[0].reason, "the first");
}

// --- Control requests ---------------------------------------------------------------------------

TEST_F(InterfaceControlTest, PassesOnARequestAndItsResponse) {
  std::vector<control::Response> responses;
  control.handle(control::InfoRequest{},
                 [&](const control::Response& response) { responses.push_back(response); });
  auto passed_on = taken();
  auto& request = std::get<AdminRequest>(passed_on.at(0));
  from_interface(AdminResponse{control::Reply(control::Done{}), std::move(request.done)});
  run_until([&] { return !responses.empty(); });
  EXPECT_TRUE(responses[0]);
}

TEST_F(InterfaceControlTest, KeepsThePermanentEntriesAndPinsOfTheOperator) {
  const auto carry_out = [this](const control::InterfaceRequest& request, bool works) {
    control.handle(request, [](const control::Response&) {});
    const AdminRequest sent = only<AdminRequest>(taken()).at(0);
    const auto response = works ? control::Response(control::Reply(control::Done{}))
                                : control::Response(Error{ENOBUFS, "the table is full"});
    bool done = false;
    from_interface(AdminResponse{response, [&](const control::Response& r) {
                                   sent.done(r);
                                   done = true;
                                 }});
    run_until([&done] { return done; });
  };
  const control::PinRequest pin{control::SetRequest::Mode::add, kPeer, kGid};
  carry_out(pin, false);
  EXPECT_THAT(neighbours->all(), IsEmpty());
  carry_out(pin, true);
  EXPECT_THAT(neighbours->all(), ElementsAre(control::StaticNeighbour{kPeer, kGid, ""}));
  carry_out(control::DeleteRequest{kPeer}, false);
  EXPECT_THAT(neighbours->all(), SizeIs(1));
  carry_out(control::DeleteRequest{kPeer}, true);
  EXPECT_THAT(neighbours->all(), IsEmpty());
}

TEST_F(InterfaceControlTest, GivesTheStaticNeighboursToTheNextInterface) {
  neighbours->on_done(control::PinRequest{control::SetRequest::Mode::add, kPeer, kGid});
  InterfaceMailbox next{2};
  ControlMailbox from_next{16};
  FakeMirror its_mirror;
  const InterfaceControl second(dependencies(its_mirror, next, from_next));
  std::vector<ToInterface> messages;
  next.drain(messages);
  ASSERT_THAT(messages, SizeIs(1));
  EXPECT_EQ(std::get<SetNeighbours>(messages[0]).neighbours, neighbours->all());
}

TEST_F(InterfaceControlTest, DeliversAChangedConfigurationTogetherIfTheMailboxIsFull) {
  fill_mailbox();
  control.on_event(Reconfigured{.poll = PollMode::busy, .neighbours = {{kPeer, kGid}}});
  control.on_event(Reconfigured{.poll = PollMode::event});
  control.on_event(Reconfigured{.neighbours = {{kPeer, std::nullopt}}});
  (void)taken();
  const auto changes = await<Reconfigured>();
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].poll, PollMode::event);
  EXPECT_EQ(changes[0].neighbours, (NeighbourChanges{{kPeer, std::nullopt}}));
  control.on_event(PortUpdate{PortRole::primary, port_with(Lid(7))});
  EXPECT_THAT(only<Reconfigured>(taken()), IsEmpty()) << "only once";
}

TEST_F(InterfaceControlTest, RefusesARequestIfTheInterfaceIsBusy) {
  fill_mailbox();
  std::vector<control::Response> responses;
  control.handle(control::InfoRequest{},
                 [&](const control::Response& response) { responses.push_back(response); });
  ASSERT_EQ(responses.size(), 1U);
  EXPECT_EQ(responses[0].error().code, EBUSY);
  EXPECT_EQ(responses[0].error().message, "the interface is too busy: try again");
}

TEST_F(InterfaceControlTest, AddsTheCommonCounters) {
  const auto reported = [&] {
    std::vector<control::Counter> out;
    control.handle(control::StatsRequest{}, [&](const control::Response& response) {
      out = std::get<std::vector<control::Counter>>(*response);
    });
    auto passed_on = taken();
    std::get<AdminRequest>(passed_on.at(0)).done(control::Reply(std::vector<control::Counter>{}));
    return out;
  };
  of_sa.foreign_responses = 3;
  EXPECT_EQ(reported(), sa_counters(of_sa));
  EXPECT_THAT(reported(), Contains(control::Counter{"drop_sa_foreign_response", 3, true}));
  common_counters = port_counters({.missing_receives = 12, .bad_pkey = 3, .bad_qkey = 4});
  for (const auto& counter : common_counters) {
    EXPECT_EQ(std::ranges::count(reported(), counter), 1) << counter.name;
  }
  EXPECT_EQ(reported().back(), common_counters.back());
}

TEST_F(InterfaceControlTest, AddsInterfacesForKeysOfEitherMembership) {
  std::vector<control::Response> responses;
  const auto take = [&](const control::Response& one) { responses.push_back(one); };
  control.add_interface({PKey(kAdded.base()), "red"}, take);
  control.add_interface({kAdded, ""}, take);
  control.add_interface({kPartition, ""}, take);
  ASSERT_EQ(responses.size(), 3U);
  EXPECT_EQ(std::get<control::AddedInterface>(*responses[0]).name, "red");
  EXPECT_EQ(std::get<control::AddedInterface>(*responses[1]).name, "usual");
  EXPECT_EQ(responses[2].error().code, EEXIST);
}

TEST_F(InterfaceControlTest, WarnsOfThePartitionOfAnAddedInterface) {
  const auto warning_with = [&](std::vector<PKey> table) {
    verbs::PortSnapshot port;
    port.pkeys = std::move(table);
    control.on_event(PortUpdate{PortRole::primary, port});
    std::string out;
    control.add_interface({kAdded, ""}, [&](const control::Response& response) {
      out = std::get<control::AddedInterface>(*response).warning;
    });
    return out;
  };
  EXPECT_EQ(warning_with({kAdded}), "");
  EXPECT_THAT(warning_with({PKey(kAdded.base())}), HasSubstr("limited member of partition 0x8013"));
  EXPECT_THAT(warning_with({kPartition}), HasSubstr("waiting for partition 0x8013"));
  // 0x8013 without its membership bit is 19 in decimal.
  EXPECT_THAT(warning_with({PKey(0x8019)}),
              HasSubstr("is 0x8019 meant? Hexadecimal numbers need 0x"));
}

TEST_F(InterfaceControlTest, RespondsToADeletionWhenItIsDone) {
  for (const bool works : {true, false}) {
    std::vector<control::Response> responses;
    control.delete_interface([&](const control::Response& one) { responses.push_back(one); });
    EXPECT_TRUE(responses.empty());
    deletion(works ? Result<void>() : Result<void>(Error{EBUSY, "the last one"}));
    ASSERT_EQ(responses.size(), 1U);
    EXPECT_EQ(responses[0].has_value(), works);
  }
}

TEST_F(InterfaceControlTest, FindsTheMembersOfAGroup) {
  std::vector<control::Response> responses;
  const auto find = [&] {
    control.find_members(Gid(), [&](const control::Response& one) { responses.push_back(one); });
    return requests.back().id;
  };
  const auto id = find();
  EXPECT_EQ(interface_of(id), kNumber);
  wire::McMemberRecord member;
  member.port_gid = link::port_gid(5);
  member.join_state = 3;
  control.on_event(wire::SaResponse{id, wire::McMemberTable{member}});
  ASSERT_EQ(responses.size(), 1U);
  const auto members = std::get<std::vector<control::Member>>(*responses[0]);
  ASSERT_THAT(members, SizeIs(1));
  EXPECT_EQ(members[0].port, link::port_gid(5));
  EXPECT_EQ(members[0].join_state, 3);
  control.on_event(wire::SaResponse{find(), wire::SaFailure(wire::SaFailure::Kind::no_sm)});
  ASSERT_EQ(responses.size(), 2U);
  EXPECT_FALSE(responses[1]);
  EXPECT_THAT(only<wire::SaResponse>(taken()), IsEmpty()) << "the link has not asked for it";
}

TEST_F(InterfaceControlTest, PublishesEventsInOrder) {
  const control::LinkEvent link{{"state"}, {}};
  from_interface(Events{{link, control::LostEvent{3}}});
  from_interface(Events{{control::LostEvent{4}}});
  run_until([&] { return published.size() >= 3; });
  EXPECT_THAT(published, ElementsAre(control::Event(link), control::Event(control::LostEvent{3}),
                                     control::Event(control::LostEvent{4})));
}

TEST_F(InterfaceControlTest, RepliesToArpThatTheRoutesPermit) {
  wire::Arp request;
  request.sender_protocol = mirror.permitted_sender;
  request.target_protocol = Ipv4Address(0x0a2c0008);
  from_interface(link::ArpReplyCheck{request});
  request.target_protocol = mirror.permitted_target;
  from_interface(link::ArpReplyCheck{request});
  const auto permitted = await<ArpReplyPermitted>();
  ASSERT_THAT(permitted, SizeIs(1));
  EXPECT_EQ(permitted[0].request, request);
}

TEST_F(InterfaceControlTest, ReadsTheHostAgainWhenTheSettingsForArpHaveChanged) {
  (void)await<HostChanged>();
  const unsigned before = mirror.updates;
  wire::Arp request;
  request.sender_protocol = mirror.permitted_sender;
  request.target_protocol = mirror.permitted_target;
  from_interface(link::ArpPolicyUsed{});
  from_interface(link::ArpReplyCheck{request});
  (void)await<ArpReplyPermitted>();
  EXPECT_EQ(mirror.updates, before) << "they have not changed";
  HostView view;
  view.arp.ignore = 1;
  mirror.next = view;
  mirror.arp_changed = true;
  from_interface(link::ArpPolicyUsed{});
  EXPECT_EQ(await<HostChanged>().at(0).view.arp.ignore, 1);
}

TEST_F(InterfaceControlTest, PassesOnModesAndPagesOfTheCache) {
  control.set_mode(PumpMode::retired);
  EXPECT_EQ(await<SetMode>().at(0).mode, PumpMode::retired);
  from_interface(ModeReached{PumpMode::retired});
  run_until([this] { return !modes.empty(); });
  EXPECT_THAT(modes, ElementsAre(PumpMode::retired));
  std::uint32_t mtu = 0;
  SavedCache page;
  page.mtu = 2044;
  from_interface(CacheSaved{page, [&mtu](const SavedCache& saved) { mtu = saved.mtu; }});
  run_until([&mtu] { return mtu != 0; });
  EXPECT_EQ(mtu, 2044U);
}

TEST_F(InterfaceControlTest, ReadsTheHostAgainAfterARedirect) {
  (void)await<HostChanged>();
  HostView view;
  view.redirects = {{Ipv4Address(0x08080808), Ipv4Address(0x0a2c0009)}};
  mirror.next = view;
  const unsigned before = mirror.expected;
  from_interface(link::RedirectReceived{});
  EXPECT_THAT(await<HostChanged>().at(0).view.redirects, SizeIs(1));
  EXPECT_EQ(mirror.expected, before + 1);
  from_interface(link::RedirectReceived{});
  for (int i = 0; i < 10; ++i) context.run_one_for(10ms);
  EXPECT_EQ(mirror.expected, before + 1) << "not again within a second";
}

}  // namespace
}  // namespace ipoib::daemon
