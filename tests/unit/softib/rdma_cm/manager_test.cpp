// Two processes on two nodes, with a network and an SA between them.
#include "softib/rdma_cm/manager.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fake_node.hpp"
#include "softib/rdma_cm/limits.hpp"
#include "wire/cm_ip_header.hpp"

namespace softib::rdma_cm {
namespace {

using ipoib::Duration;
using ipoib::TimePoint;
using wire::CmMad;
using wire::SaHeader;

constexpr std::uint16_t kPort = 7174;
constexpr Duration kTimeout = std::chrono::seconds(2);
constexpr std::uint64_t kUid = 0x1000;

IpEndpoint ip(NodeIndex node, std::uint16_t port = 0) {
  return {address_of(node, IpFamily::v4), port};
}

struct Process {
  explicit Process(NodeIndex index)
      : node(index),
        manager({{{.ca_guid = Guid(index), .slot = 0, .epoch = 1U + index}, index}}, node, index) {
    channel = manager.open_channel().value();
  }
  /// The next event; the test fails if there is none.
  Event event() {
    auto one = manager.take_event(channel);
    EXPECT_TRUE(one) << "no event";
    return one ? *one : Event{};
  }
  [[nodiscard]] bool has_event() const { return manager.has_event(channel); }
  [[nodiscard]] IdState state(IdHandle id) const { return (*manager.find(channel, id))->state; }
  [[nodiscard]] const Id& id(IdHandle handle) const { return **manager.find(channel, handle); }

  FakeNode node;
  Manager manager;
  ChannelId channel;
};

class ManagerTest : public ::testing::Test {
 protected:
  /// Carries MADs until there are no more.
  void carry() {
    for (bool is_busy = true; is_busy;) {
      is_busy = false;
      for (Process* const from : {&client, &server}) {
        for (const auto& packet : from->manager.take_outgoing(0)) {
          is_busy = true;
          deliver(packet);
        }
      }
    }
  }
  void deliver(MadPacket packet) {
    if (packet.dlid == Lid(1)) return answer_query(packet);
    if (is_cut) return;
    left_by.push_back(packet.port);
    const auto has = [&](Process& process, std::uint8_t number) {
      const auto ports = process.node.ports(0);
      if (!ports.has(number) || ports[number].lid != packet.dlid) return false;
      packet.port = number;
      return true;
    };
    const bool is_for_client = has(client, 1) || has(client, 2);
    ASSERT_TRUE(is_for_client || has(server, 1) || has(server, 2));
    Process& to = is_for_client ? client : server;
    if (const auto mad = CmMad::parse(packet.mad)) {
      messages.push_back(mad->message.index());
      if (const auto* const req = std::get_if<wire::CmReq>(&mad->message)) last_req = *req;
    }
    if (to.manager.is_recipient(0, packet)) to.manager.receive(0, packet, now);
  }
  /// Memberships: the MGID that a join leaves open is chosen.
  void answer_join(const MadPacket& packet, SaHeader header) {
    const auto data = ipoib::ConstBytes(packet.mad).subspan(wire::kSaHeaderSize);
    auto record = wire::McMemberRecord::parse(data).value();
    const bool is_join = header.mad.method == wire::method::kSet;
    memberships.push_back({is_join, record.mgid, record.join_state});
    if (record.mgid.is_zero()) record.mgid = Gid(0xff12'a01b'0000'0000, Guid(5));
    if (granted_mgid) record.mgid = *granted_mgid;
    record.mlid = Lid(0xc001);
    record.sl = ipoib::ServiceLevel(3);
    record.flow_label = 0xabcde;
    record.traffic_class = 0x20;
    record.hop_limit = 4;
    record.mtu = 5;
    record.rate = 6;
    MadPacket response = packet;
    response.reverse();
    header.mad.method = is_join ? wire::method::kGetResp : wire::method::kDeleteResp;
    header.mad.status = sa_status;
    header.emit(response.mad);
    record.emit(ipoib::MutableBytes(response.mad).subspan(wire::kSaHeaderSize));
    client.manager.receive(0, response, now);
  }
  void answer_query(const MadPacket& packet) {
    auto header = SaHeader::parse(packet.mad).value();
    EXPECT_EQ(packet.sl, ipoib::ServiceLevel(2)) << "that of the port to the SM";
    ++queries;
    if (is_sa_silent) return;
    if (header.mad.attribute_id == wire::attribute::kMcMemberRecord) {
      return answer_join(packet, header);
    }
    last_components = header.component_mask;
    last_query =
        wire::PathRecord::parse(ipoib::ConstBytes(packet.mad).subspan(wire::kSaHeaderSize)).value();
    header.mad.method = wire::method::kGetResp;
    header.mad.status = sa_status;
    MadPacket response = packet;
    response.reverse();
    header.emit(response.mad);
    path_for(packet).emit(ipoib::MutableBytes(response.mad).subspan(wire::kSaHeaderSize));
    ASSERT_TRUE(client.manager.is_recipient(0, response));
    client.manager.receive(0, response, now);
  }
  void pass(Duration time) {
    now += time;
    client.manager.on_time(now);
    server.manager.on_time(now);
    carry();
  }

  IdHandle listen(PortSpace space = PortSpace::tcp, unsigned backlog = 0) {
    const auto id = server.manager.create(server.channel, kUid, space, Service::reliable).value();
    EXPECT_TRUE(server.manager.bind(server.channel, id, IpEndpoint{ipoib::Ipv4Address(), kPort}));
    EXPECT_TRUE(server.manager.listen(server.channel, id, backlog));
    return id;
  }
  IdHandle create(PortSpace space = PortSpace::tcp, Service service = Service::reliable) {
    return client.manager.create(client.channel, ++uids, space, service).value();
  }
  void resolve_address(IdHandle id, const Address& to) {
    ASSERT_TRUE(client.manager.resolve_address(client.channel, id, Address(), to, kTimeout, now));
  }
  void resolve_route(IdHandle id) {
    ASSERT_TRUE(client.manager.resolve_route(client.channel, id, kTimeout, now));
    carry();
  }
  static ConnectionParameters parameters(Qpn qpn, std::string_view text = "") {
    ConnectionParameters one;
    one.qpn = qpn;
    one.responder_resources = 4;
    one.initiator_depth = 5;
    one.retry_count = 9;
    one.rnr_retry_count = 9;
    one.srq = one.flow_control = true;
    one.data = UserData::of({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
    return one;
  }
  /// One service ID at the port of the server.
  static IbEndpoint service_of_server(std::uint64_t service_id) {
    IbEndpoint service;
    service.gid = port_of_node(2).gid();
    service.service_id = service_id;
    service.service_mask = ~std::uint64_t{0};
    return service;
  }
  /// An ID that is ready to connect.
  IdHandle route_to(const Address& to, PortSpace space = PortSpace::tcp,
                    Service service = Service::reliable) {
    const auto id = create(space, service);
    resolve_address(id, to);
    EXPECT_EQ(client.event().type, EventType::address_resolved);
    resolve_route(id);
    EXPECT_EQ(client.event().type, EventType::route_resolved);
    return id;
  }
  void connect(IdHandle id, std::string_view text = "") {
    ASSERT_TRUE(client.manager.connect(client.channel, id, parameters(Qpn(next_qpn++), text), now));
    carry();
  }
  void accept(IdHandle id, std::string_view text = "") {
    ASSERT_TRUE(
        server.manager.accept(server.channel, id, kUid + 1, parameters(Qpn(0x22), text), now));
    carry();
  }
  /// Both ends are established; `active` and `passive` are their IDs.
  void establish() {
    if (listener == IdHandle()) listener = listen();
    active = route_to(ip(2, kPort));
    connect(active);
    passive = server.event().id;
    accept(passive);
    ASSERT_EQ(client.event().type, EventType::connect_response);
    ASSERT_TRUE(client.manager.confirm(client.channel, active, now));
    carry();
    ASSERT_EQ(server.event().type, EventType::established);
  }
  static std::string text_of(const Event& event) {
    const auto& data =
        std::visit([](const auto& p) -> const UserData& { return p.data; }, event.parameters);
    const auto bytes = data.data();
    const auto end = std::ranges::find(bytes, std::uint8_t{0});
    return {bytes.begin(), end};
  }

  TimePoint now{std::chrono::hours(1)};
  Process client{1};
  Process server{2};
  std::uint64_t uids = 0x2000;
  std::uint32_t next_qpn = 0x11;
  bool is_cut = false;
  bool is_sa_silent = false;
  std::uint16_t sa_status = 0;
  struct Membership {
    bool is_join;
    Gid mgid;
    std::uint8_t join_state;
  };
  std::vector<Membership> memberships;  ///< joins and leaves
  std::optional<Gid> granted_mgid;      ///< instead of that of the join
  unsigned queries = 0;
  wire::PathRecord last_query;
  std::uint64_t last_components = 0;
  std::vector<std::size_t> messages;
  wire::CmReq last_req;
  std::vector<std::uint8_t> left_by;  ///< the ports by which they left
  IdHandle listener;
  IdHandle active;
  IdHandle passive;
};

TEST_F(ManagerTest, AnAddressOfAnIpInterfaceMayBeFoundLater) {
  const IpAddress own = ipoib::parse_ip_address("10.44.0.1").value();
  const IpAddress peer = ipoib::parse_ip_address("10.44.0.2").value();
  const PKey pkey(0x8001);
  client.node.interface = Node::Local{{}, pkey, own};
  active = create();
  resolve_address(active, IpEndpoint{peer, kPort});
  EXPECT_FALSE(client.has_event());
  EXPECT_EQ(client.node.wanted.at(peer), now + kTimeout);
  client.manager.retry_addresses(now);
  EXPECT_FALSE(client.has_event());
  client.node.neighbours[peer] = port_of_node(2).gid();
  client.manager.retry_addresses(now);
  EXPECT_EQ(client.event().type, EventType::address_resolved);
  EXPECT_EQ(std::get<IpEndpoint>(client.id(active).source).address, own);
  EXPECT_EQ(client.id(active).dgid, port_of_node(2).gid());
  resolve_route(active);
  EXPECT_EQ(last_query.pkey, pkey);
  client.manager.retry_addresses(now);
  EXPECT_EQ(client.event().type, EventType::route_resolved);
  EXPECT_FALSE(client.has_event()) << "it is resolved once";
}

TEST_F(ManagerTest, IsBoundToTheAddressOfAnIpInterface) {
  const IpAddress own = ipoib::parse_ip_address("10.44.0.1").value();
  server.node.interface = Node::Local{{}, PKey(0x8001), own};
  const auto id =
      server.manager.create(server.channel, kUid, PortSpace::tcp, Service::reliable).value();
  ASSERT_TRUE(server.manager.bind(server.channel, id, IpEndpoint{own, kPort}));
  EXPECT_EQ(server.id(id).local, LocalPort());
  EXPECT_EQ(server.id(id).pkey, PKey(0x8001));
  EXPECT_EQ(client.manager.bind(client.channel, create(), IpEndpoint{own, kPort}).error().code,
            EADDRNOTAVAIL);
}

TEST_F(ManagerTest, AConnectionFromRequestToTheEndOfTimeWait) {
  listener = listen();
  EXPECT_EQ(server.node.services, std::set{wire::ServiceId(0x0106'0000U + kPort)});
  active = create();
  resolve_address(active, ip(2, kPort));
  auto event = client.event();
  EXPECT_EQ(event.type, EventType::address_resolved);
  EXPECT_EQ(event.id, active);
  EXPECT_EQ(event.uid, uids);
  EXPECT_EQ(std::get<IpEndpoint>(client.id(active).source).address, address_of(1, IpFamily::v4));
  EXPECT_GE(port_of(client.id(active).source), kFirstEphemeralPort);
  ASSERT_TRUE(client.manager.set_tos(client.channel, active, 3));
  resolve_route(active);
  EXPECT_EQ(client.event().type, EventType::route_resolved);
  EXPECT_EQ(last_query.service_id, 0x0106'0000U + kPort);
  EXPECT_EQ(last_components & 3, 3U) << "OpenSM refuses a half of a service ID";
  EXPECT_EQ(last_query.qos_class, 3);
  EXPECT_EQ(last_query.dgid, port_of_node(2).gid());

  connect(active, "hello");
  event = server.event();
  EXPECT_EQ(event.type, EventType::connect_request);
  EXPECT_EQ(event.uid, kUid) << "that of the listener";
  passive = event.id;
  const auto& asked = std::get<ConnectionParameters>(event.parameters);
  EXPECT_EQ(asked.qpn, Qpn(0x11));
  EXPECT_EQ(asked.responder_resources, 5);
  EXPECT_EQ(asked.initiator_depth, 4);
  EXPECT_EQ(asked.retry_count, 7);
  EXPECT_EQ(asked.rnr_retry_count, 7);
  EXPECT_TRUE(asked.srq && asked.flow_control);
  EXPECT_EQ(asked.data.size, 56) << "92 bytes without the IP header";
  EXPECT_EQ(text_of(event), "hello");
  EXPECT_EQ(server.id(passive).source, Address(ip(2, kPort)));
  EXPECT_EQ(server.id(passive).destination, client.id(active).source);

  accept(passive, "welcome");
  event = client.event();
  EXPECT_EQ(event.type, EventType::connect_response);
  const auto& answered = std::get<ConnectionParameters>(event.parameters);
  EXPECT_EQ(answered.qpn, Qpn(0x22));
  EXPECT_EQ(answered.responder_resources, 5);
  EXPECT_EQ(answered.initiator_depth, 4);
  EXPECT_EQ(answered.rnr_retry_count, 7);
  EXPECT_TRUE(answered.srq && answered.flow_control);
  EXPECT_EQ(answered.data.size, 196);
  EXPECT_EQ(text_of(event), "welcome");
  ASSERT_TRUE(client.manager.confirm(client.channel, active, now));
  carry();
  event = server.event();
  EXPECT_EQ(event.type, EventType::established);
  EXPECT_EQ(event.id, passive);
  EXPECT_EQ(event.uid, kUid + 1);

  ASSERT_TRUE(client.manager.disconnect(client.channel, active, now));
  carry();
  EXPECT_EQ(server.event().type, EventType::disconnected);
  EXPECT_FALSE(client.has_event()) << "the other side has not answered";
  ASSERT_TRUE(server.manager.disconnect(server.channel, passive, now));
  carry();
  EXPECT_EQ(client.event().type, EventType::disconnected);
  while (client.manager.next_deadline() != ipoib::kNever) {
    pass(client.manager.next_deadline() - now);
  }
  EXPECT_EQ(client.event().type, EventType::time_wait_exit);
  EXPECT_EQ(server.event().type, EventType::time_wait_exit);
  EXPECT_FALSE(client.has_event() || server.has_event());
  EXPECT_EQ(client.manager.destroy(client.channel, active, now).value(), 5U);
  EXPECT_EQ(server.manager.destroy(server.channel, passive, now).value(), 3U);
  EXPECT_EQ(server.manager.destroy(server.channel, listener, now).value(), 1U) << "the request";
  EXPECT_TRUE(server.node.services.empty() && server.node.locked.empty());
  EXPECT_TRUE(client.node.locked.empty());
}

TEST_F(ManagerTest, TheAttributesOfQueuePairs) {
  listener = listen();
  active = route_to(ip(2, kPort));
  const auto of = [&](Process& process, IdHandle id, std::uint32_t state) {
    return process.manager.init_qp(process.channel, id, state);
  };
  using Q = QpAttributes;
  EXPECT_EQ(of(client, active, Q::kInit)->mask,
            unsigned{Q::kState | Q::kPKeyIndex | Q::kPort | Q::kAccessFlags});
  EXPECT_EQ(of(client, active, Q::kInit)->access, 0U) << "no connection yet";
  EXPECT_EQ(of(client, active, Q::kRtr).error().code, EINVAL);
  EXPECT_EQ(of(server, listener, Q::kInit).error().message,
            "the ID is not bound to a port: bind it to an address of one, or resolve an address "
            "before");
  connect(active);
  passive = server.event().id;
  const auto there = of(server, passive, Q::kRtr).value();
  accept(passive);
  const auto here = of(client, active, Q::kRtr).value();
  for (const auto& each : {there, here}) {
    EXPECT_EQ(each.mask, unsigned{Q::kState | Q::kAddressVector | Q::kPathMtu | Q::kDestination |
                                  Q::kRqPsn | Q::kMaxDestinationReads | Q::kMinRnrTimer});
    EXPECT_EQ(each.path.mtu, 4);
  }
  EXPECT_EQ(here.destination, Qpn(0x22));
  EXPECT_EQ(there.destination, Qpn(0x11));
  EXPECT_EQ(here.path.dlid, Lid(3));
  EXPECT_EQ(there.path.dlid, Lid(2));
  EXPECT_EQ(here.rq_psn, of(server, passive, Q::kRts)->sq_psn);
  EXPECT_EQ(there.rq_psn, of(client, active, Q::kRts)->sq_psn);
  EXPECT_EQ(of(client, active, Q::kInit)->access,
            unsigned{Q::kRemoteWrite | Q::kRemoteRead | Q::kAtomic});
  EXPECT_EQ(of(client, active, Q::kRts)->max_reads, 4) << "what the other side answers";
  EXPECT_EQ(here.max_destination_reads, 5);
  ASSERT_TRUE(client.manager.set_ack_timeout(client.channel, active, 9));
  EXPECT_EQ(of(client, active, Q::kRts)->timeout, 9);
}

TEST(QpAttributesTest, EachServiceHasItsOwn) {
  using Q = QpAttributes;
  cm::QpParameters parameters;
  parameters.responder_resources = 1;
  const auto mask = [&](Service service, std::uint32_t state) {
    Id id;
    id.pkey = ipoib::kDefaultPKey;
    id.service = service;
    const auto attributes = qp_attributes(id, state, port_of_node(1), &parameters);
    return attributes ? attributes->mask : 0;
  };
  const unsigned rtr = Q::kState | Q::kAddressVector | Q::kPathMtu | Q::kDestination | Q::kRqPsn;
  const unsigned responder = Q::kMaxDestinationReads | Q::kMinRnrTimer;
  EXPECT_EQ(mask(Service::unreliable, Q::kRtr), rtr);
  EXPECT_EQ(mask(Service::extended_initiator, Q::kRtr), rtr);
  EXPECT_EQ(mask(Service::extended_target, Q::kRtr), rtr | responder);
  const unsigned rts = Q::kState | Q::kSqPsn;
  const unsigned requester = Q::kRetryCount | Q::kRnrRetry | Q::kMaxReads;
  EXPECT_EQ(mask(Service::unreliable, Q::kRts), rts);
  EXPECT_EQ(mask(Service::extended_initiator, Q::kRts), rts | Q::kTimeout | requester);
  EXPECT_EQ(mask(Service::extended_target, Q::kRts), rts | Q::kTimeout);
  EXPECT_EQ(mask(Service::reliable, Q::kRts), rts | Q::kTimeout | requester);
  EXPECT_EQ(mask(Service::reliable, Q::kRts + 1), 0U) << "no state of a new connection";
}

TEST(QpAttributesTest, ThePKeyIsThatOfTheFullMember) {
  Id id;
  id.pkey = PKey(0x8007);
  auto port = port_of_node(1);
  port.pkeys[0] = PKey(0x0007);
  port.pkeys[1] = PKey(0xffff);
  port.pkeys[2] = PKey(0x8007);
  EXPECT_EQ(qp_attributes(id, QpAttributes::kInit, port, nullptr)->pkey_index, 2);
  port.pkeys[2] = PKey();
  EXPECT_EQ(qp_attributes(id, QpAttributes::kInit, port, nullptr)->pkey_index, 0);
}

TEST_F(ManagerTest, NobodyIsAtTheAddress) {
  active = create();
  resolve_address(active, ip(7, kPort));
  EXPECT_FALSE(client.has_event()) << "it may still come";
  pass(kTimeout - Duration(1));
  EXPECT_FALSE(client.has_event());
  pass(Duration(1));
  auto event = client.event();
  EXPECT_EQ(event.type, EventType::address_error);
  EXPECT_EQ(event.status, -ETIMEDOUT);
  client.node.nodes = 8;
  resolve_address(active, ip(7, kPort));
  EXPECT_EQ(client.event().type, EventType::address_resolved) << "again after an error";
}

TEST_F(ManagerTest, ConnectsToTheHcaItself) {
  for (const Address& to : {Address(IpEndpoint{ipoib::Ipv4Address(), 9}),
                            Address(IpEndpoint{ipoib::Ipv4Address(0x7f000001), 9})}) {
    active = create();
    resolve_address(active, to);
    EXPECT_EQ(client.event().type, EventType::address_resolved);
    EXPECT_EQ(client.id(active).dgid, port_of_node(1).gid());
  }
}

TEST_F(ManagerTest, TheSaRefusesOrIsSilent) {
  active = create();
  resolve_address(active, ip(2, kPort));
  (void)client.event();
  sa_status = 0x0300;
  resolve_route(active);
  auto event = client.event();
  EXPECT_EQ(event.type, EventType::route_error);
  EXPECT_EQ(event.status, -EINVAL) << "whatever the SA says, as by Linux";
  EXPECT_EQ(client.state(active), IdState::address_resolved);
  is_sa_silent = true;
  const auto before = queries;
  resolve_route(active);
  pass(kSaInterval);
  EXPECT_EQ(queries, before + 2);
  pass(kTimeout - kSaInterval);
  event = client.event();
  EXPECT_EQ(event.type, EventType::route_error);
  EXPECT_EQ(event.status, -ETIMEDOUT);
  is_sa_silent = false;
  sa_status = 1;
  resolve_route(active);
  sa_status = 0;
  pass(kSaInterval);
  EXPECT_EQ(client.event().type, EventType::route_resolved) << "it was busy";
}

TEST_F(ManagerTest, AUserCanGiveThePath) {
  active = create();
  resolve_address(active, ip(2, kPort));
  (void)client.event();
  wire::PathRecord path;
  path.dlid = Lid(3);
  ASSERT_TRUE(client.manager.set_path(client.channel, active, path));
  EXPECT_EQ(client.event().type, EventType::route_resolved);
  EXPECT_EQ(client.id(active).path.value().dlid, Lid(3));
  EXPECT_EQ(queries, 0U);
}

TEST_F(ManagerTest, AnEthernetPortKnowsThePath) {
  client.node.is_ethernet = true;
  client.node.interface =
      Node::Local{{}, ipoib::kDefaultPKey, IpAddress(ipoib::Ipv4Address(0x0a000001))};
  active = create();
  ASSERT_TRUE(client.manager.resolve_address(client.channel, active,
                                             IpEndpoint{client.node.interface->address, 0},
                                             ip(2, kPort), kTimeout, now));
  EXPECT_EQ(client.event().type, EventType::address_resolved);
  ASSERT_TRUE(client.manager.set_tos(client.channel, active, 0x20));
  resolve_route(active);
  EXPECT_EQ(client.event().type, EventType::route_resolved);
  EXPECT_EQ(queries, 0U);
  const auto path = client.id(active).path.value();
  EXPECT_EQ(path.dgid, port_of_node(2).gid());
  EXPECT_EQ(path.sgid, gid_of_ipv4(0x0a000001)) << "that of the source address";
  EXPECT_EQ(path.pkey, ipoib::kDefaultPKey);
  EXPECT_EQ(path.hop_limit, 64);
  EXPECT_EQ(path.traffic_class, 0x20);
  EXPECT_EQ(path.mtu, port_of_node(1).mtu);
  EXPECT_EQ(path.rate, 7) << "40 Gb/s";
  EXPECT_EQ(path.lifetime, 16);
  EXPECT_TRUE(path.reversible);
}

TEST(SourceGid, OfAnAddressThatTheEthernetPortLacksIsThatOfThePort) {
  FakeNode node{1};
  Id id;
  id.source = IpEndpoint{ipoib::Ipv4Address(0x0a000001), 0};
  EXPECT_EQ(source_gid(id, node.port({})), port_of_node(1).gid()) << "InfiniBand";
  node.is_ethernet = true;
  EXPECT_EQ(source_gid(id, node.port({})), gid_of_ipv4(0x0a000001));
  id.source = IpEndpoint{ipoib::Ipv4Address(0x0a000009), 0};
  auto port = node.port({});
  EXPECT_EQ(source_gid(id, port), port.gid());
  port.gids[1] = gid_of_ipv4(0x0a000009);
  EXPECT_EQ(source_gid(id, port), port.gids[1]);
  id.source = IbEndpoint{};
  EXPECT_EQ(source_gid(id, node.port({})), node.port({}).gid()) << "no IP address";
}

TEST_F(ManagerTest, ARejectionHasReasonAndData) {
  listener = listen();
  active = route_to(ip(2, kPort));
  connect(active);
  passive = server.event().id;
  const std::array<std::uint8_t, 2> text{'n', 'o'};
  EXPECT_EQ(
      server.manager.reject(server.channel, passive, {}, wire::CmRejReason::stale_connection, now)
          .error()
          .message,
      "a program may reject for the reasons 28 (consumer) and 35 (vendor) only");
  ASSERT_TRUE(server.manager.reject(server.channel, passive, UserData::of(text),
                                    wire::CmRejReason::consumer, now));
  carry();
  const auto event = client.event();
  EXPECT_EQ(event.type, EventType::rejected);
  EXPECT_EQ(event.status, 28);
  EXPECT_EQ(text_of(event), "no");
  EXPECT_EQ(std::get<ConnectionParameters>(event.parameters).data.size, 148);
}

TEST_F(ManagerTest, NobodyAnswers) {
  listener = listen();
  active = route_to(ip(2, kPort));
  is_cut = true;
  connect(active);
  const auto interval = cm::time_of(20) + 2 * cm::time_of(16);
  for (int i = 0; i < 16 && !client.has_event(); ++i) {
    EXPECT_EQ(client.manager.next_deadline(), now + interval) << i;
    pass(interval);
  }
  const auto event = client.event();
  EXPECT_EQ(event.type, EventType::unreachable);
  EXPECT_EQ(event.status, -ETIMEDOUT);
}

TEST_F(ManagerTest, ABacklogThatIsFullDropsRequestsWithoutAnAnswer) {
  listener = listen(PortSpace::tcp, 2);
  std::vector<IdHandle> all;
  for (int i = 0; i < 3; ++i) {
    all.push_back(route_to(ip(2, kPort)));
    connect(all.back());
  }
  EXPECT_EQ(server.manager.id_count(), 3U) << "the listener and two requests";
  (void)server.event();
  EXPECT_FALSE(client.has_event());
  pass(client.manager.next_deadline() - now);
  EXPECT_EQ(server.manager.id_count(), 4U) << "the third is repeated when there is room";
}

TEST_F(ManagerTest, ADestroyedListenerRejectsRequestsThatNobodyHasSeen) {
  listener = listen();
  active = route_to(ip(2, kPort));
  connect(active);
  EXPECT_EQ(server.manager.destroy(server.channel, listener, now).value(), 0U);
  carry();
  EXPECT_EQ(client.event().type, EventType::rejected);
  EXPECT_EQ(server.manager.id_count(), 0U);
  EXPECT_FALSE(server.has_event());
}

TEST_F(ManagerTest, ARequestThatNobodyHasSeenMayGoBeforeItsListener) {
  listener = listen(PortSpace::tcp, 1);
  connect(route_to(ip(2, kPort)));
  const IdHandle unseen(listener.value() + 1);
  EXPECT_EQ(server.manager.destroy(server.channel, unseen, now).value(), 0U);
  carry();
  EXPECT_EQ(client.event().type, EventType::rejected);
  EXPECT_FALSE(server.has_event());
  connect(route_to(ip(2, kPort)));
  EXPECT_EQ(server.event().type, EventType::connect_request) << "there is room again";
  EXPECT_EQ(server.manager.destroy(server.channel, listener, now).value(), 1U);
}

TEST_F(ManagerTest, AnAcceptThatFailsIsARejection) {
  listener = listen();
  connect(route_to(ip(2, kPort)));
  passive = server.event().id;
  const auto too_much = std::string(200, 'x');
  EXPECT_EQ(server.manager.accept(server.channel, passive, kUid, parameters(Qpn(1), too_much), now)
                .error()
                .code,
            EINVAL);
  carry();
  const auto event = client.event();
  EXPECT_EQ(event.type, EventType::rejected);
  EXPECT_EQ(event.status, static_cast<int>(wire::CmRejReason::consumer)) << "as by Linux";
}

TEST_F(ManagerTest, ADisconnectionThatNobodyAnswersSaysSo) {
  establish();
  is_cut = true;
  ASSERT_TRUE(client.manager.disconnect(client.channel, active, now));
  carry();
  while (!client.has_event()) pass(client.manager.next_deadline() - now);
  const auto event = client.event();
  EXPECT_EQ(event.type, EventType::disconnected);
  EXPECT_EQ(event.status, -ETIMEDOUT);
}

TEST_F(ManagerTest, AnIdSharesItsAddressFromNowOn) {
  const auto bound = [&](bool shares) {
    const auto id = create();
    if (shares) {
      EXPECT_TRUE(client.manager.set_reuses_address(client.channel, id, true));
    }
    const auto done = client.manager.bind(client.channel, id, ip(1, kPort));
    return std::pair(id, done ? 0 : done.error().code);
  };
  const auto [first, done] = bound(false);
  ASSERT_EQ(done, 0);
  EXPECT_EQ(bound(true).second, EADDRINUSE) << "the other one does not share";
  EXPECT_TRUE(client.manager.set_reuses_address(client.channel, first, true));
  EXPECT_EQ(client.manager.set_reuses_address(client.channel, first, false).error().code, EINVAL);
  const auto [second, shared] = bound(true);
  EXPECT_EQ(shared, 0);
  ASSERT_TRUE(client.manager.destroy(client.channel, second, now));
  ASSERT_TRUE(client.manager.listen(client.channel, first, 0));
  EXPECT_FALSE(client.id(first).reuses_address) << "a listener does not";
  EXPECT_EQ(client.manager.set_reuses_address(client.channel, first, true).error().code, EINVAL);
}

TEST_F(ManagerTest, RequestsThatNobodyHasAcceptedReportNothing) {
  listener = listen();
  active = route_to(ip(2, kPort));
  connect(active);
  passive = server.event().id;
  ASSERT_EQ(client.manager.destroy(client.channel, active, now).value(), 2U);
  carry();
  EXPECT_FALSE(server.has_event());
  EXPECT_EQ(server.manager.accept(server.channel, passive, 5, parameters(Qpn(1)), now).error().code,
            EINVAL);
}

TEST_F(ManagerTest, DestroyingEndsTheConnection) {
  establish();
  EXPECT_EQ(client.manager.destroy(client.channel, active, now).value(), 3U);
  carry();
  EXPECT_EQ(server.event().type, EventType::disconnected);
  establish();
  client.manager.close_channel(client.channel, now);
  carry();
  EXPECT_EQ(server.event().type, EventType::disconnected);
  EXPECT_EQ(client.manager.id_count(), 0U);
  EXPECT_TRUE(client.node.locked.empty());
}

TEST_F(ManagerTest, TheEndOfThePeersProcessIsADisconnection) {
  establish();
  client.manager.process_gone(0, {server.node.port({}).lid, Gid()}, 0, 3, now);
  EXPECT_EQ(client.event().type, EventType::disconnected);
}

TEST_F(ManagerTest, TheLossOfTheHcaIsReported) {
  establish();
  const auto unbound = create();
  (void)client.manager.take_changed_ids();
  client.manager.hca_lost(0, now);
  EXPECT_EQ(client.event().type, EventType::device_removal);
  EXPECT_FALSE(client.has_event()) << "an ID without a port does not use the HCA";
  EXPECT_EQ(client.manager.take_changed_ids(), std::set{active});
  EXPECT_FALSE(client.id(active).connection);
  EXPECT_EQ(client.state(unbound), IdState::idle);
}

TEST_F(ManagerTest, TheStatusOfAnIdHasBothEndsOfItsConnection) {
  establish();
  const auto here = client.manager.status(active).value();
  const auto there = server.manager.status(passive).value();
  EXPECT_EQ(here.handle, active);
  EXPECT_EQ(here.space, PortSpace::tcp);
  EXPECT_EQ(here.state, IdState::connect);
  EXPECT_EQ(here.source, client.id(active).source);
  EXPECT_EQ(here.destination, Address(ip(2, kPort)));
  for (const auto& each : {here, there}) {
    EXPECT_EQ(each.service, wire::ServiceId(0x0106'0000U + kPort));
    EXPECT_EQ(cm::kConnectionStates.at(each.connection.value()), "Established");
  }
  EXPECT_EQ(here.qpn, Qpn(0x11));
  EXPECT_EQ(here.remote_qpn, Qpn(0x22));
  EXPECT_EQ(there.qpn, here.remote_qpn);
  EXPECT_EQ(there.remote_qpn, here.qpn);
  EXPECT_NE(here.local_id, wire::CommId());
  EXPECT_EQ(there.remote_id, here.local_id);
  EXPECT_EQ(there.local_id, here.remote_id);
  const auto waiting = server.manager.status(listener).value();
  EXPECT_EQ(waiting.state, IdState::listen);
  EXPECT_EQ(waiting.service, here.service);
  EXPECT_FALSE(waiting.connection);
  EXPECT_FALSE(server.manager.status(IdHandle(77)));
}

TEST_F(ManagerTest, AnIdMovesToAnotherChannelWithItsEvents) {
  const auto other = client.manager.open_channel().value();
  active = create();
  const auto stays = create();
  resolve_address(active, ip(2, kPort));
  resolve_address(stays, ip(2, kPort));
  EXPECT_EQ(client.manager.migrate(other, client.channel, active).value(), 0U);
  EXPECT_EQ(client.event().id, stays);
  EXPECT_FALSE(client.has_event());
  EXPECT_EQ(client.manager.take_event(other)->id, active);
  EXPECT_EQ(client.manager.resolve_route(client.channel, active, kTimeout, now).error().code,
            EINVAL);
  EXPECT_EQ(client.manager.migrate(client.channel, other, active).value(), 1U) << "was reported";
  EXPECT_EQ(client.manager.migrate(client.channel, other, active).error().code, EINVAL)
      << "it is not there any more";
}

TEST_F(ManagerTest, ARequestIsForTheListenerOfItsPort) {
  listener = listen();
  const auto at_address =
      server.manager.create(server.channel, 0x77, PortSpace::tcp, Service::reliable).value();
  EXPECT_EQ(server.manager.bind(server.channel, at_address, ip(2, kPort)).error().code,
            EADDRNOTAVAIL);
  ASSERT_TRUE(server.manager.bind(server.channel, at_address, ip(2, kPort + 1)));
  ASSERT_TRUE(server.manager.listen(server.channel, at_address, 0));
  EXPECT_EQ(server.node.services.size(), 2U);
  active = route_to(ip(2, kPort + 1));
  connect(active);
  EXPECT_EQ(server.event().uid, 0x77U);
}

TEST_F(ManagerTest, ARequestForAnAddressOfThePortThatNobodyListensOnIsRejectedAtOnce) {
  listener = server.manager.create(server.channel, kUid, PortSpace::tcp, Service::reliable).value();
  ASSERT_TRUE(server.manager.bind(server.channel, listener, ip(2, kPort)));
  ASSERT_TRUE(server.manager.listen(server.channel, listener, 0));
  active = route_to(IpEndpoint{address_of(2, IpFamily::v6), kPort});
  connect(active);
  EXPECT_FALSE(server.has_event());
  const auto event = client.event();
  EXPECT_EQ(event.type, EventType::rejected);
  EXPECT_EQ(event.status, static_cast<int>(wire::CmRejReason::consumer)) << "as Linux does";
}

/// Client and server have HCAs of two ports: 1 and 3, 2 and 4.
class TwoPortTest : public ManagerTest {
 protected:
  TwoPortTest() {
    client.node.nodes = server.node.nodes = 5;
    client.node.second = NodeIndex{3};
    server.node.second = NodeIndex{4};
  }
  /// An ID that is resolved from an address of the client.
  IdHandle resolved(const Address& from, const Address& to) {
    const auto id = create();
    EXPECT_TRUE(client.manager.resolve_address(client.channel, id, from, to, kTimeout, now));
    EXPECT_EQ(client.event().type, EventType::address_resolved);
    resolve_route(id);
    EXPECT_EQ(client.event().type, EventType::route_resolved);
    return id;
  }
  IdHandle listen_at(const Address& address) {
    const auto id = server.manager.create(server.channel, kUid, PortSpace::tcp, Service::reliable);
    EXPECT_TRUE(server.manager.bind(server.channel, *id, address));
    EXPECT_TRUE(server.manager.listen(server.channel, *id, 0));
    return *id;
  }
  /// Connects to the second port of the server, which accepts.
  void connect_to_second(IdHandle id) {
    left_by.clear();
    connect(id);
    const Event request = server.event();
    ASSERT_EQ(request.type, EventType::connect_request);
    EXPECT_EQ(server.id(request.id).local, (LocalPort{0, 2}));
    accept(request.id);
  }
  static constexpr wire::ServiceId kService{0x0106'0000 | kPort};
};

TEST_F(TwoPortTest, AnAddressOfThePortIsBoundToThatPort) {
  const auto id = create();
  ASSERT_TRUE(client.manager.bind(client.channel, id, ip(3)));
  EXPECT_EQ(client.id(id).local, (LocalPort{0, 2}));
  EXPECT_EQ(client.manager.init_qp(client.channel, id, QpAttributes::kInit)->port, 2);
  const auto other = create();
  ASSERT_TRUE(client.manager.bind(client.channel, other, ip(1)));
  EXPECT_EQ(client.id(other).local, (LocalPort{0, 1}));
  const auto by_gid = client.manager.create(client.channel, kUid, PortSpace::ib, Service::reliable);
  IbEndpoint gid;
  gid.gid = port_of_node(3).gid();
  ASSERT_TRUE(client.manager.bind(client.channel, *by_gid, gid));
  EXPECT_EQ(client.id(*by_gid).local, (LocalPort{0, 2}));
}

TEST_F(TwoPortTest, AConnectionGoesBySecondPortsOnly) {
  (void)listen();
  const auto id = resolved(ip(3), ip(4, kPort));
  EXPECT_EQ(last_query.sgid, port_of_node(3).gid());
  EXPECT_EQ(last_query.dgid, port_of_node(4).gid());
  ASSERT_NO_FATAL_FAILURE(connect_to_second(id));
  ASSERT_EQ(client.event().type, EventType::connect_response);
  ASSERT_TRUE(client.manager.confirm(client.channel, id, now));
  carry();
  EXPECT_EQ(server.event().type, EventType::established);
  ASSERT_TRUE(client.manager.disconnect(client.channel, id, now));
  carry();
  EXPECT_EQ(server.event().type, EventType::disconnected);
  EXPECT_THAT(left_by, testing::AllOf(testing::SizeIs(testing::Ge(4U)), testing::Each(2)));
}

TEST_F(TwoPortTest, ADatagramServiceIsResolvedBySecondPorts) {
  (void)listen(PortSpace::udp);
  const auto id = create(PortSpace::udp);
  ASSERT_TRUE(
      client.manager.resolve_address(client.channel, id, ip(3), ip(4, kPort), kTimeout, now));
  EXPECT_EQ(client.event().type, EventType::address_resolved);
  resolve_route(id);
  EXPECT_EQ(client.event().type, EventType::route_resolved);
  ASSERT_NO_FATAL_FAILURE(connect_to_second(id));
  EXPECT_EQ(client.event().type, EventType::established);
  EXPECT_THAT(left_by, testing::ElementsAre(2, 2));
}

TEST_F(TwoPortTest, AWildcardHearsBothPortsAndAnAddressOne) {
  const auto id = listen_at(ip(4, kPort));
  EXPECT_THAT(server.node.services, testing::IsEmpty());
  EXPECT_THAT(server.node.services_of_second, testing::ElementsAre(kService));
  // At the other port nobody listens, so the request is for none of this process.
  connect(resolved(ip(1), ip(2, kPort)));
  EXPECT_FALSE(server.has_event());
  ASSERT_TRUE(server.manager.destroy(server.channel, id, now));
  EXPECT_THAT(server.node.services_of_second, testing::IsEmpty());

  (void)listen();
  EXPECT_THAT(server.node.services, testing::ElementsAre(kService));
  EXPECT_THAT(server.node.services_of_second, testing::ElementsAre(kService));
  for (const NodeIndex port : {NodeIndex{2}, NodeIndex{4}}) {
    connect(resolved(ip(1), ip(port, kPort)));
    EXPECT_EQ(server.event().type, EventType::connect_request) << port;
  }
}

TEST_F(TwoPortTest, EachPortHasListenersOfItsOwn) {
  const auto first = listen_at(ip(2, kPort));
  const auto second = listen_at(ip(4, kPort));
  connect(resolved(ip(1), ip(4, kPort)));
  const Event request = server.event();
  EXPECT_EQ(request.type, EventType::connect_request);
  EXPECT_EQ(server.id(first).undelivered + server.id(second).undelivered, 0U);
  EXPECT_TRUE(is_same_host(server.id(request.id).source, ip(4)));
}

TEST_F(TwoPortTest, WithoutASourceThePortIsOneThatIsUp) {
  client.node.is_first_down = true;
  const auto id = create();
  resolve_address(id, ip(2, kPort));
  EXPECT_EQ(client.event().type, EventType::address_resolved);
  EXPECT_EQ(client.id(id).local, (LocalPort{0, 2}));
  EXPECT_TRUE(is_same_host(client.id(id).source, ip(3)));
}

TEST_F(TwoPortTest, WithoutASourceAPortConnectsToItself) {
  for (const NodeIndex to : {NodeIndex{1}, NodeIndex{3}}) {
    const auto id = create();
    resolve_address(id, ip(to, kPort));
    EXPECT_EQ(client.event().type, EventType::address_resolved);
    EXPECT_EQ(client.id(id).local, (LocalPort{0, static_cast<std::uint8_t>(to == 1 ? 1 : 2)}));
  }
}

TEST_F(ManagerTest, WrongStatesAreRefused) {
  active = create();
  auto& m = client.manager;
  const auto code = [](const auto& result) { return result ? 0 : result.error().code; };
  const auto why = [](const auto& result) { return result.error().message; };
  EXPECT_EQ(code(m.resolve_route(client.channel, active, kTimeout, now)), EINVAL);
  EXPECT_EQ(code(m.connect(client.channel, active, parameters(Qpn(1)), now)), EINVAL);
  EXPECT_EQ(code(m.accept(client.channel, active, 1, parameters(Qpn(1)), now)), EINVAL);
  EXPECT_EQ(code(m.disconnect(client.channel, active, now)), EINVAL);
  EXPECT_EQ(code(m.communication_established(client.channel, active, now)), EINVAL);
  EXPECT_EQ(code(m.bind(client.channel, active, ip(2, 5))), EADDRNOTAVAIL) << "of another node";
  EXPECT_EQ(why(m.bind(client.channel, active, ip(2, 5))),
            "no port of the process has this IP address: bind to one that softib show prints, or "
            "to that of an interface of ipoibd");
  IbEndpoint foreign;
  foreign.gid = port_of_node(2).gid();
  EXPECT_EQ(why(m.bind(client.channel, active, foreign)),
            "no port of the process has this GID: ibv_devinfo -v prints those that are");
  const std::string two =
      "source and destination are of two address families: give both of the same";
  const IpEndpoint six{address_of(2, IpFamily::v6), 5};
  EXPECT_EQ(why(m.resolve_address(client.channel, active, ip(1), six, kTimeout, now)), two);
  EXPECT_EQ(code(m.bind(client.channel, active, ip(1, 5000))), 0);
  EXPECT_EQ(code(m.bind(client.channel, active, ip(1, 5001))), EINVAL);
  EXPECT_EQ(code(m.listen(client.channel, active, 1)), 0);
  EXPECT_EQ(code(m.resolve_address(client.channel, active, {}, ip(2, 5), kTimeout, now)), EINVAL);
  const auto bound = create();
  ASSERT_TRUE(m.bind(client.channel, bound, ip(1, 5002)));
  EXPECT_EQ(why(m.resolve_address(client.channel, bound, {}, six, kTimeout, now)), two);
  const auto datagrams = create(PortSpace::udp);
  EXPECT_EQ(why(m.set_ack_timeout(client.channel, datagrams, 9)),
            "only IDs of reliable connections have an ACK time-out");
  EXPECT_EQ(code(m.destroy(client.channel, IdHandle(99), now)), ENOENT);
  EXPECT_EQ(code(m.destroy(ChannelId(99), active, now)), EINVAL);
  EXPECT_EQ(why(m.destroy(ChannelId(99), active, now)),
            "the ID belongs to another event channel: rdma_migrate_id() moves it");
}

TEST_F(ManagerTest, IdsAndChannelsAreBounded) {
  auto& m = client.manager;
  for (std::size_t i = 1; i < kMaxChannels; ++i) ASSERT_TRUE(m.open_channel());
  EXPECT_EQ(m.open_channel().error().message,
            "a process can have 16384 event channels: destroy some");
  for (std::size_t i = 0; i < kMaxIds; ++i) (void)create();
  EXPECT_EQ(m.create(client.channel, 1, PortSpace::tcp, Service::reliable).error().message,
            "a process can have 65535 IDs: destroy some");
}

TEST_F(ManagerTest, AServiceNeedsTheFolderOfTheNode) {
  const auto id = create();
  ASSERT_TRUE(client.manager.bind(client.channel, id, ip(1, 5000)));
  client.node.is_folder_lost = true;
  EXPECT_EQ(client.manager.listen(client.channel, id, 1).error().message,
            "the service cannot be locked in the folder of the node: see whether the subnet still "
            "runs (softib list)");
}

TEST_F(ManagerTest, AddressesOfInfiniBand) {
  const auto probe =
      client.manager.create(client.channel, 1, PortSpace::ib, Service::reliable).value();
  IbEndpoint any;
  any.service_id = 0x0106'0000;
  any.service_mask = 0xffff'ffff'ffff'0000;
  ASSERT_TRUE(client.manager.bind(client.channel, probe, any)) << "what librdmacm begins with";
  EXPECT_FALSE(client.id(probe).local);
  EXPECT_EQ(client.node.locked.size(), 1U);
  ASSERT_TRUE(client.manager.destroy(client.channel, probe, now));
  EXPECT_TRUE(client.node.locked.empty()) << "the port space was that of its service ID";
  const auto bad =
      client.manager.create(client.channel, 1, PortSpace::ib, Service::reliable).value();
  any.service_id = 0x1000'0000'0000'0000;
  any.gid = port_of_node(1).gid();
  EXPECT_EQ(client.manager.bind(client.channel, bad, any).error().code, EPROTONOSUPPORT);
  EXPECT_EQ(client.manager.bind(client.channel, bad, any).error().message,
            "the service ID is in no port space: its prefix must be that of RDMA_PS_TCP, "
            "RDMA_PS_UDP or RDMA_PS_IB");
  EXPECT_FALSE(client.id(bad).local) << "it may be bound to another port";

  const auto id =
      server.manager.create(server.channel, kUid, PortSpace::ib, Service::reliable).value();
  const IbEndpoint local = service_of_server(0x013f'0000 | kPort);
  ASSERT_TRUE(server.manager.bind(server.channel, id, local));
  ASSERT_TRUE(server.manager.listen(server.channel, id, 0));
  active = route_to(local, PortSpace::ib);
  connect(active, std::string(90, 'x'));
  const auto event = server.event();
  EXPECT_EQ(event.type, EventType::connect_request);
  EXPECT_EQ(std::get<ConnectionParameters>(event.parameters).data.size, 92) << "all of it";
  EXPECT_EQ(std::get<IbEndpoint>(server.id(event.id).destination).gid, port_of_node(1).gid());
  EXPECT_EQ(std::get<IbEndpoint>(client.id(active).source).gid, port_of_node(1).gid());
}

TEST_F(ManagerTest, AnAddressOfInfiniBandMayNameThePartition) {
  IbEndpoint to;
  to.pkey = PKey(0x8001);
  to.gid = port_of_node(2).gid();
  to.service_id = 0x013f'0000 | kPort;
  IbEndpoint from;
  from.gid = port_of_node(1).gid();
  from.service_id = 0x013f'0000;
  from.service_mask = 0xffff'ffff'ffff'0000;
  active = create(PortSpace::ib);
  ASSERT_TRUE(client.manager.bind(client.channel, active, from));
  resolve_address(active, to);
  EXPECT_EQ(client.id(active).pkey, to.pkey);
  EXPECT_EQ(std::get<IbEndpoint>(client.id(active).source).pkey, to.pkey);
}

TEST_F(ManagerTest, ARequestNamesTheTransportOfItsService) {
  const auto id =
      server.manager.create(server.channel, kUid, PortSpace::ib, Service::reliable).value();
  const IbEndpoint local = service_of_server(0x0106'0000 | kPort);
  ASSERT_TRUE(server.manager.bind(server.channel, id, local));
  const auto tcp =
      server.manager.create(server.channel, kUid, PortSpace::tcp, Service::reliable).value();
  EXPECT_EQ(server.manager.bind(server.channel, tcp, IpEndpoint{ipoib::Ipv4Address(), kPort})
                .error()
                .code,
            EADDRNOTAVAIL)
      << "the port is one of TCP";
  ASSERT_TRUE(server.manager.listen(server.channel, id, 0));
  using Transport = wire::CmTransport;
  for (const auto& [service, transport] : {std::pair(Service::reliable, Transport::reliable),
                                           {Service::unreliable, Transport::unreliable},
                                           {Service::extended_initiator, Transport::extended},
                                           {Service::extended_target, Transport::extended}}) {
    connect(route_to(local, PortSpace::ib, service));
    EXPECT_EQ(last_req.transport, transport);
    EXPECT_EQ(last_req.extended_transport,
              transport == Transport::extended ? wire::kXrcTransport : 0);
    EXPECT_EQ(server.id(server.event().id).space, PortSpace::ib) << "that of the listener";
  }
}

TEST_F(ManagerTest, DatagramServicesAreResolved) {
  listener = listen(PortSpace::udp);
  active = route_to(ip(2, kPort), PortSpace::udp);
  EXPECT_EQ(client.manager.init_qp(client.channel, active, QpAttributes::kInit)->qkey,
            kDefaultQKey);
  connect(active, "who");
  EXPECT_EQ(client.manager.next_deadline(), now + cm::time_of(20));
  auto event = server.event();
  EXPECT_EQ(event.type, EventType::connect_request);
  EXPECT_EQ(text_of(event), "who");
  EXPECT_EQ(std::get<DatagramParameters>(event.parameters).data.size, 180);
  EXPECT_EQ(std::get<DatagramParameters>(event.parameters).path.dlid, Lid(2)) << "to the peer";
  accept(event.id, "me");
  event = client.event();
  EXPECT_EQ(event.type, EventType::established);
  const auto& found = std::get<DatagramParameters>(event.parameters);
  EXPECT_EQ(found.qpn, Qpn(0x22));
  EXPECT_EQ(found.qkey, kDefaultQKey);
  EXPECT_EQ(found.path.dlid, Lid(3));
  EXPECT_EQ(text_of(event), "me");
  active = route_to(ip(2, kPort), PortSpace::udp);
  connect(active);
  event = server.event();
  ASSERT_TRUE(
      server.manager.reject(server.channel, event.id, {}, wire::CmRejReason::consumer, now));
  carry();
  event = client.event();
  EXPECT_EQ(event.type, EventType::unreachable);
  EXPECT_EQ(event.status, 2);
}

class MulticastTest : public ManagerTest {
 protected:
  MulticastTest() : id_(create(PortSpace::udp)) {
    EXPECT_TRUE(client.manager.bind(client.channel, id_, ip(1)));
  }
  JoinHandle join(const Address& group, bool is_send_only = false) {
    const auto joined =
        client.manager.join(client.channel, id_, 0x55, group, is_send_only, now).value();
    carry();
    return joined;
  }
  static Address group(const char* text) {
    return IpEndpoint{ipoib::parse_ip_address(text).value(), 0};
  }

  const IdHandle id_;
};

TEST_F(MulticastTest, AnEthernetPortAsksNobody) {
  client.node.is_ethernet = true;
  const auto joined = join(group("239.1.2.3"));
  const auto event = client.event();
  EXPECT_EQ(event.type, EventType::multicast_join);
  EXPECT_EQ(event.join, joined);
  const auto& found = std::get<DatagramParameters>(event.parameters);
  EXPECT_EQ(found.qpn, ipoib::kMulticastQpn);
  EXPECT_EQ(found.qkey, kDefaultQKey);
  EXPECT_EQ(found.path.dgid, gid_of_ipv4(0xef010203));
  EXPECT_EQ(found.path.sgid, client.node.port({}).gids[0]);
  EXPECT_EQ(client.manager.leave(client.channel, joined, now).value(), 1U);
  (void)join(group("ff15::1"));
  EXPECT_EQ(std::get<DatagramParameters>(client.event().parameters).path.dgid.to_string(),
            "ff15::1");
  const auto refused =
      client.manager.join(client.channel, id_, 0x55, group("10.0.0.1"), false, now);
  EXPECT_EQ(refused.error().message, "the address is no multicast address");
  EXPECT_TRUE(memberships.empty());
  EXPECT_TRUE(client.node.held.empty());
}

TEST_F(MulticastTest, AJoinReportsThePathToTheGroup) {
  const auto joined = join(group("239.1.2.3"));
  const auto event = client.event();
  EXPECT_EQ(event.type, EventType::multicast_join);
  EXPECT_EQ(event.join, joined);
  EXPECT_EQ(event.uid, 0x55U);
  const auto& found = std::get<DatagramParameters>(event.parameters);
  EXPECT_EQ(found.qpn, ipoib::kMulticastQpn);
  EXPECT_EQ(found.qkey, kDefaultQKey);
  EXPECT_EQ(found.path.dlid, Lid(0xc001));
  EXPECT_EQ(found.path.sl, ipoib::ServiceLevel(3));
  EXPECT_EQ(found.path.flow_label, 0xabcdeU);
  EXPECT_EQ(found.path.traffic_class, 0x20);
  EXPECT_EQ(found.path.hop_limit, 4);
  EXPECT_EQ(found.path.mtu, 5);
  EXPECT_EQ(found.path.rate, 6);
  EXPECT_EQ(found.path.dgid.to_string(), "ff12:4001:ffff::f01:203") << "not a group of IPoIB";
  EXPECT_EQ(client.node.held.size(), 1U);
  EXPECT_EQ(client.manager.leave(client.channel, joined, now).value(), 1U);
  carry();
  ASSERT_EQ(memberships.size(), 2U);
  EXPECT_FALSE(memberships[1].is_join);
  EXPECT_EQ(memberships[1].mgid, memberships[0].mgid);
  EXPECT_TRUE(client.node.held.empty());
  EXPECT_EQ(client.manager.leave(client.channel, joined, now).error().message,
            "the process has no such membership: it has left the group");
  EXPECT_EQ(client.manager.destroy(client.channel, id_, now).value(), 1U);
}

TEST_F(MulticastTest, TheLastMemberOfTheNodeLeaves) {
  const auto first = join(group("239.1.2.3"));
  const auto second = join(group("239.1.2.3"));
  const auto sender = join(group("239.1.2.3"), true);
  ASSERT_EQ(memberships.size(), 3U);
  EXPECT_EQ(memberships[2].join_state, wire::McMemberRecord::kSendOnlyFullMember);
  ASSERT_TRUE(client.manager.leave(client.channel, first, now));
  carry();
  EXPECT_EQ(memberships.size(), 3U) << "this process has another membership";
  client.node.has_another_member = true;
  ASSERT_TRUE(client.manager.leave(client.channel, second, now));
  carry();
  EXPECT_EQ(memberships.size(), 3U) << "another process has one";
  client.node.has_another_member = false;
  ASSERT_TRUE(client.manager.leave(client.channel, sender, now));
  carry();
  EXPECT_EQ(memberships.size(), 4U);
}

TEST_F(MulticastTest, AnIdLeavesWhenItIsDestroyed) {
  (void)join(group("239.1.2.3"));
  EXPECT_EQ(client.manager.destroy(client.channel, id_, now).value(), 0U);
  carry();
  EXPECT_EQ(memberships.size(), 2U);
  EXPECT_FALSE(client.has_event());
}

TEST_F(MulticastTest, GroupsOfOtherAddresses) {
  (void)join(group("ff15::1"));
  EXPECT_EQ(memberships.back().mgid.to_string(), "ff12:6001:ffff::1");
  (void)join(group("ff12:a01b::5"));
  EXPECT_EQ(memberships.back().mgid.to_string(), "ff12:a01b::5") << "as the SA has chosen it";
  while (client.has_event()) (void)client.event();
  (void)join(group("0.0.0.0"));
  EXPECT_TRUE(memberships.back().mgid.is_zero());
  const auto event = client.event();
  EXPECT_EQ(std::get<DatagramParameters>(event.parameters).path.dgid.to_string(), "ff12:a01b::5");
  IbEndpoint ib;
  ib.gid = Gid(0xff12'0000'0000'0000, Guid(9));
  (void)join(ib);
  EXPECT_EQ(memberships.back().mgid, ib.gid);
}

TEST_F(MulticastTest, TheSaMayRefuse) {
  sa_status = 0x0200;
  (void)join(group("239.1.2.3"));
  auto event = client.event();
  EXPECT_EQ(event.type, EventType::multicast_error);
  EXPECT_EQ(event.status, -EINVAL);
  EXPECT_TRUE(client.node.held.empty());
  is_sa_silent = true;
  (void)join(group("239.1.2.3"));
  pass(kJoinTimeout);
  event = client.event();
  EXPECT_EQ(event.type, EventType::multicast_error);
  EXPECT_EQ(event.status, -ETIMEDOUT);
}

TEST_F(MulticastTest, ARefusedJoinLeavesAnotherMembershipAsItIs) {
  const auto first = join(group("239.1.2.3"));
  sa_status = 0x0200;
  const auto refused = join(group("239.1.2.3"));
  EXPECT_EQ(client.node.held.size(), 1U) << "of the first one";
  ASSERT_TRUE(client.manager.leave(client.channel, refused, now));
  carry();
  EXPECT_EQ(client.node.held.size(), 1U);
  EXPECT_EQ(memberships.size(), 2U) << "nobody has left";
  ASSERT_TRUE(client.manager.leave(client.channel, first, now));
  carry();
  EXPECT_THAT(client.node.held, testing::IsEmpty());
  ASSERT_EQ(memberships.size(), 3U);
  EXPECT_FALSE(memberships.back().is_join);
}

TEST_F(MulticastTest, TheSaMustGrantTheGroupThatWasAskedFor) {
  granted_mgid = Gid(0xff12'a01b'0000'0000, Guid(6));
  (void)join(group("239.1.2.3"));
  auto event = client.event();
  EXPECT_EQ(event.type, EventType::multicast_error);
  EXPECT_EQ(event.status, -EINVAL);
  EXPECT_THAT(client.node.held, testing::IsEmpty());
  granted_mgid = Gid();
  (void)join(group("0.0.0.0"));
  event = client.event();
  EXPECT_EQ(event.type, EventType::multicast_error);
  EXPECT_THAT(client.node.held, testing::IsEmpty());
}

TEST_F(MulticastTest, OnlyDatagramIdsOfAnHcaJoin) {
  auto& m = client.manager;
  const auto code = [&](IdHandle id) {
    return m.join(client.channel, id, 1, group("239.1.2.3"), false, now).error().code;
  };
  EXPECT_EQ(code(create()), EINVAL);
  const auto unbound = create(PortSpace::udp);
  EXPECT_EQ(code(unbound), EINVAL);
  const auto connected = create(PortSpace::tcp);
  ASSERT_TRUE(m.bind(client.channel, connected, ip(1)));
  EXPECT_EQ(code(connected), EINVAL);
  EXPECT_EQ(m.join(client.channel, connected, 1, group("239.1.2.3"), false, now).error().message,
            "only an ID of RDMA_PS_UDP or RDMA_PS_IPOIB that is bound to a port can join a group");
}

TEST_F(MulticastTest, MembershipsAreBoundedAndNeedTheFolderOfTheNode) {
  const auto try_to_join = [&] {
    return client.manager.join(client.channel, id_, 1, group("239.1.2.3"), false, now);
  };
  client.node.is_folder_lost = true;
  EXPECT_EQ(try_to_join().error().message,
            "the membership cannot be locked in the folder of the node: see whether the subnet "
            "still runs (softib list)");
  client.node.is_folder_lost = false;
  client.node.is_ethernet = true;  // nobody is asked
  for (std::size_t i = 0; i < kMaxJoins; ++i) ASSERT_TRUE(try_to_join());
  EXPECT_EQ(try_to_join().error().message,
            "a process can have 4096 memberships of groups: leave some");
}

TEST_F(MulticastTest, AGroupIsResolvedWithoutAnybodysAnswer) {
  ASSERT_TRUE(client.manager.resolve_address(client.channel, id_, Address(), group("239.1.2.3"),
                                             kTimeout, now));
  EXPECT_EQ(client.event().type, EventType::address_resolved);
  EXPECT_EQ(client.id(id_).dgid.to_string(), "ff12:4001:ffff::f01:203");
}

TEST_F(ManagerTest, TooMuchPrivateDataIsRefused) {
  listener = listen();
  active = route_to(ip(2, kPort));
  const std::string most(57, 'x');
  EXPECT_EQ(
      client.manager.connect(client.channel, active, parameters(Qpn(1), most), now).error().code,
      EINVAL);
  EXPECT_EQ(client.state(active), IdState::route_resolved);
  connect(active, most.substr(1));
  EXPECT_EQ(text_of(server.event()), most.substr(1));
}

}  // namespace
}  // namespace softib::rdma_cm
