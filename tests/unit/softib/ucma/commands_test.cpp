// Commands of the rdma_cm device as librdmacm writes them, in two processes with an SA between
// them: each field of a command, and each field of a response.
#include "softib/ucma/commands.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "softib/core/network_order.hpp"
#include "tests/unit/softib/rdma_cm/fake_node.hpp"
#include "wire/mc_member_record.hpp"

namespace softib::ucma::commands {
namespace {

using ipoib::ConstBytes;
using ipoib::wire::PathRecord;
using rdma_cm::port_of_node;

constexpr std::uint16_t kPort = 7174;
constexpr std::uint32_t kPathFlags = 0x2b;  // GMP, primary, outbound, inbound reverse
constexpr int kOtherChannel = 5;            // its descriptor

/// The values of enum ibv_qp_type.
enum QpType : std::uint8_t { kRc = 2, kUc, kUd, kXrcInitiator = 9, kXrcTarget };

sockaddr_in6 ip(NodeIndex node, std::uint16_t port) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(port);
  in.sin_addr.s_addr = htonl(0x7f4d'0000 | node);
  sockaddr_in6 to{};
  std::memcpy(&to, &in, sizeof in);
  return to;
}

__kernel_sockaddr_storage storage_of(const sockaddr_in6& address) {
  __kernel_sockaddr_storage to{};
  std::memcpy(&to, &address, sizeof address);
  return to;
}

/// An address of AF_IB, as the kernel lays it out.
struct SockaddrIb {
  std::uint16_t family;
  std::uint16_t pkey;
  std::uint32_t flow_info;
  std::array<std::uint8_t, 16> gid;
  std::uint64_t service_id;
  std::uint64_t service_mask;
  std::uint64_t scope_id;
};

template <class To, class From>
To start_of(const From& from) {
  To to{};
  std::memcpy(&to, &from, sizeof to);
  return to;
}

class Process {
 public:
  explicit Process(NodeIndex index)
      : node(index),
        manager({{{.ca_guid = Guid(index), .slot = 0, .epoch = 1U + index}, index}}, node, index),
        channel(manager.open_channel().value()),
        other_channel(manager.open_channel().value()) {}

  /// Writes a command with this many bytes of its body and room for this many of the response.
  /// Returns 0, or an errno value.
  template <class Body>
  int write(std::uint32_t number, const Body& body, std::size_t out = 0,
            std::size_t size = sizeof(Body)) {
    const rdma_ucm_cmd_hdr header{number, static_cast<std::uint16_t>(size),
                                  static_cast<std::uint16_t>(out)};
    std::array<std::uint8_t, sizeof header + sizeof body> bytes{};
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memcpy(&bytes[sizeof header], &body, sizeof body);
    const CommandContext context{
        manager, node, channel, now, [&](int fd) -> std::optional<rdma_cm::ChannelId> {
          return fd == kOtherChannel ? std::optional(other_channel) : std::nullopt;
        }};
    const auto done = execute(context, bytes);
    why = done ? "" : done.error().message;
    return done ? 0 : done.error().code;
  }
  /// The response to a command, which has room for `out` bytes of it.
  template <class Response, class Body>
  Response ask(std::uint32_t number, Body body, std::size_t out = sizeof(Response)) {
    Response response;
    std::memset(&response, 0, sizeof response);  // one has an array without a size at its end
    body.response = reinterpret_cast<std::uint64_t>(&response);
    EXPECT_EQ(write(number, body, out), 0);
    return response;
  }
  std::uint32_t create(rdma_ucm_port_space space = RDMA_PS_TCP, QpType type = kRc) {
    rdma_ucm_create_id body{};
    body.uid = ++uid;
    body.ps = space;
    body.qp_type = type;
    return ask<rdma_ucm_create_id_resp>(RDMA_USER_CM_CMD_CREATE_ID, body).id;
  }
  int bind(std::uint32_t id, const sockaddr_in6& address) {
    rdma_ucm_bind_ip body{};
    body.id = id;
    body.addr = address;
    return write(RDMA_USER_CM_CMD_BIND_IP, body);
  }
  int listen(std::uint32_t id) { return write(RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{id, 3}); }
  rdma_ucm_event_resp event() {
    return ask<rdma_ucm_event_resp>(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{});
  }
  ib_uverbs_qp_attr qp(std::uint32_t id, std::uint32_t state) {
    rdma_ucm_init_qp_attr body{};
    body.id = id;
    body.qp_state = state;
    return ask<ib_uverbs_qp_attr>(RDMA_USER_CM_CMD_INIT_QP_ATTR, body);
  }
  template <class Response>
  Response query(std::uint32_t id, std::uint32_t option, std::size_t out = sizeof(Response)) {
    rdma_ucm_query body{};
    body.id = id;
    body.option = option;
    return ask<Response>(RDMA_USER_CM_CMD_QUERY, body, out);
  }
  int set_option(std::uint32_t id, std::uint32_t level, std::uint32_t name, const void* value,
                 std::size_t size) {
    rdma_ucm_set_option body{};
    body.optval = reinterpret_cast<std::uint64_t>(value);
    body.id = id;
    body.level = level;
    body.optname = name;
    body.optlen = static_cast<std::uint32_t>(size);
    return write(RDMA_USER_CM_CMD_SET_OPTION, body);
  }
  [[nodiscard]] const rdma_cm::Id& id(std::uint32_t handle) const {
    return **manager.find(channel, rdma_cm::IdHandle(handle));
  }

  rdma_cm::FakeNode node;
  rdma_cm::Manager manager;
  const rdma_cm::ChannelId channel;
  const rdma_cm::ChannelId other_channel;
  ipoib::TimePoint now{std::chrono::hours(1)};
  std::uint64_t uid = 0x1'0000'0000;
  std::string why;  ///< the last command has failed
};

/// The path that the SA grants; nothing in it is like anything else.
PathRecord granted_path(const MadPacket& query) {
  PathRecord path = rdma_cm::path_for(query);
  path.flow_label = 0x12345;
  path.hop_limit = 1;
  path.traffic_class = 7;
  path.reversible = true;
  path.numb_path = 2;
  path.sl = ipoib::ServiceLevel(5);
  path.mtu_selector = path.rate_selector = ipoib::wire::Selector::exactly;
  path.mtu = 4;
  path.rate = 3;
  path.lifetime_selector = ipoib::wire::Selector::exactly;
  path.lifetime = 16;
  path.preference = 9;
  return path;
}

class CommandsTest : public ::testing::Test {
 protected:
  void carry() {
    for (bool is_busy = true; is_busy;) {
      is_busy = false;
      for (Process* const from : {&client, &server}) {
        for (const auto& packet : from->manager.take_outgoing(0)) {
          is_busy = true;
          if (packet.dlid == Lid(1)) {
            answer(*from, packet);
          } else {
            Process& to = packet.dlid == client.node.port({}).lid ? client : server;
            if (to.manager.is_recipient(0, packet)) to.manager.receive(0, packet, to.now);
          }
        }
      }
    }
  }
  /// As the SA does.
  void answer(Process& from, MadPacket packet) {
    auto header = ipoib::wire::SaHeader::parse(packet.mad).value();
    const auto record = ipoib::MutableBytes(packet.mad).subspan(ipoib::wire::kSaHeaderSize);
    if (header.mad.attribute_id == ipoib::wire::attribute::kMcMemberRecord) {
      auto member = ipoib::wire::McMemberRecord::parse(record).value();
      join_states.push_back(member.join_state);
      member.mlid = Lid(0xc001);
      member.emit(record);
    } else {
      path = granted_path(packet);
      path.emit(record);
    }
    packet.reverse();
    header.mad.method = ipoib::wire::method::kGetResp;
    header.emit(packet.mad);
    from.manager.receive(0, packet, from.now);
  }
  std::uint32_t listen(rdma_ucm_port_space space = RDMA_PS_TCP) {
    const auto id = server.create(space);
    EXPECT_EQ(server.bind(id, ip(2, kPort)), 0);
    EXPECT_EQ(server.listen(id), 0);
    return id;
  }
  /// An ID of the client with a route to the listener.
  std::uint32_t route(rdma_ucm_port_space space = RDMA_PS_TCP) {
    const auto id = client.create(space);
    rdma_ucm_resolve_ip resolve{};
    resolve.src_addr = ip(1, source_port++);
    resolve.dst_addr = ip(2, kPort);
    resolve.id = id;
    resolve.timeout_ms = 2000;
    EXPECT_EQ(client.write(RDMA_USER_CM_CMD_RESOLVE_IP, resolve), 0);
    EXPECT_EQ(client.event().event, 0U);
    EXPECT_EQ(client.write(RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{id, 2000}), 0);
    carry();
    EXPECT_EQ(client.event().event, 2U);
    return id;
  }
  static rdma_ucm_conn_param parameters(std::uint32_t qpn, std::string_view text) {
    rdma_ucm_conn_param one{};
    one.qp_num = qpn;
    one.srq = 1;
    one.responder_resources = 4;
    one.initiator_depth = 5;
    one.flow_control = 1;
    one.retry_count = 6;
    one.rnr_retry_count = 3;
    one.valid = 1;
    text.copy(reinterpret_cast<char*>(one.private_data), text.size());
    one.private_data_len = static_cast<std::uint8_t>(text.size());
    return one;
  }
  /// Connects the client's ID; returns that of the server.
  std::uint32_t connect(std::uint32_t id) {
    rdma_ucm_connect body{};
    body.id = id;
    body.conn_param = parameters(0x11, "who");
    EXPECT_EQ(client.write(RDMA_USER_CM_CMD_CONNECT, body, 0, offsetof(rdma_ucm_connect, ece)), 0);
    carry();
    request = server.event();
    EXPECT_EQ(request.event, 4U);
    return request.id;
  }
  void accept(std::uint32_t id) {
    rdma_ucm_accept body{};
    body.id = id;
    body.uid = 0x77;
    body.conn_param = parameters(0x22, "me");
    EXPECT_EQ(server.write(RDMA_USER_CM_CMD_ACCEPT, body, 0, offsetof(rdma_ucm_accept, ece)), 0);
    carry();
  }
  static ib_uverbs_ah_attr to_lid(std::uint16_t lid) {
    ib_uverbs_ah_attr to{};
    to.dlid = lid;
    to.sl = 5;
    to.static_rate = 3;
    to.port_num = 1;
    return to;
  }
  template <class T>
  static std::vector<std::uint8_t> bytes_of(const T& value) {
    const auto* const first = reinterpret_cast<const std::uint8_t*>(&value);
    return {first, first + sizeof value};
  }

  Process client{1};
  Process server{2};
  std::uint16_t source_port = 5000;
  PathRecord path;  ///< that the SA has granted last
  std::vector<std::uint8_t> join_states;
  rdma_ucm_event_resp request{};
};

TEST_F(CommandsTest, QueriesHaveAddressesAndPath) {
  (void)listen();
  const auto id = route();
  const auto addresses = client.query<rdma_ucm_query_addr_resp>(id, RDMA_USER_CM_QUERY_ADDR);
  rdma_ucm_query_addr_resp expected{};
  expected.node_guid = to_network(std::uint64_t{0x101});
  expected.port_num = 1;
  expected.pkey = 0xffff;
  expected.src_size = expected.dst_size = sizeof(sockaddr_in);
  expected.src_addr = storage_of(ip(1, 5000));
  expected.dst_addr = storage_of(ip(2, kPort));
  EXPECT_EQ(bytes_of(addresses), bytes_of(expected));

  // The same ends by their GIDs.
  const auto gids = client.query<rdma_ucm_query_addr_resp>(id, RDMA_USER_CM_QUERY_GID);
  EXPECT_EQ(gids.src_size, sizeof(SockaddrIb));
  EXPECT_EQ(gids.dst_size, sizeof(SockaddrIb));
  SockaddrIb end{};
  end.family = 27;
  end.pkey = 0xffff;
  end.gid = port_of_node(1).gid().bytes();
  end.service_id = to_network(std::uint64_t{0x0106'0000 | 5000});
  end.service_mask = ~std::uint64_t{0};
  EXPECT_EQ(bytes_of(start_of<SockaddrIb>(gids.src_addr)), bytes_of(end));
  end.gid = port_of_node(2).gid().bytes();
  end.service_id = to_network(std::uint64_t{0x0106'0000 | kPort});
  EXPECT_EQ(bytes_of(start_of<SockaddrIb>(gids.dst_addr)), bytes_of(end));

  struct Paths {
    std::uint32_t count;
    std::uint32_t reserved;
    ib_path_rec_data data;
  };
  const auto paths = client.query<Paths>(id, RDMA_USER_CM_QUERY_PATH);
  EXPECT_EQ(paths.count, 1U);
  EXPECT_EQ(paths.data.flags, kPathFlags);
  EXPECT_EQ(PathRecord::parse(bytes_of(paths.data.path_rec)), path);
  const auto no_room = client.query<Paths>(id, RDMA_USER_CM_QUERY_PATH, sizeof(Paths) - 1);
  EXPECT_EQ(no_room.count, 1U);
  EXPECT_EQ(bytes_of(no_room.data), bytes_of(ib_path_rec_data{})) << "the number alone";

  rdma_ucm_query query{};
  query.id = id;
  const auto whole = client.ask<rdma_ucm_query_route_resp>(RDMA_USER_CM_CMD_QUERY_ROUTE, query);
  rdma_ucm_query_route_resp all{};
  all.node_guid = expected.node_guid;
  all.src_addr = ip(1, 5000);
  all.dst_addr = ip(2, kPort);
  all.num_paths = 1;
  all.port_num = 1;
  auto& route = all.ib_route[0];
  const auto copy = [](const Gid& gid, std::uint8_t* to) { std::ranges::copy(gid.bytes(), to); };
  copy(port_of_node(2).gid(), route.dgid);
  copy(port_of_node(1).gid(), route.sgid);
  route.dlid = to_network(std::uint16_t{3});
  route.slid = to_network(std::uint16_t{2});
  route.flow_label = to_network(std::uint32_t{0x12345});
  route.reversible = 1;
  route.mtu = 4;
  route.pkey = 0xffff;
  route.hop_limit = 1;
  route.traffic_class = 7;
  route.numb_path = 2;
  route.sl = 5;
  route.mtu_selector = route.rate_selector = route.packet_life_time_selector = 2;
  route.rate = 3;
  route.packet_life_time = 16;
  route.preference = 9;
  EXPECT_EQ(bytes_of(whole), bytes_of(all));
  query.option = 3;
  EXPECT_EQ(client.write(RDMA_USER_CM_CMD_QUERY, query, sizeof whole), ENOSYS);
}

TEST_F(CommandsTest, BeforeTheRouteIsKnownItsEndsAre) {
  const auto id = client.create();
  rdma_ucm_resolve_addr resolve{};
  resolve.id = id;
  resolve.timeout_ms = 2000;
  resolve.dst_addr = storage_of(ip(2, kPort));
  resolve.dst_size = sizeof(sockaddr_in);
  ASSERT_EQ(client.write(RDMA_USER_CM_CMD_RESOLVE_ADDR, resolve), 0);
  rdma_ucm_query query{};
  query.id = id;
  const auto whole = client.ask<rdma_ucm_query_route_resp>(RDMA_USER_CM_CMD_QUERY_ROUTE, query);
  EXPECT_EQ(whole.num_paths, 0U);
  const auto& route = whole.ib_route[0];
  EXPECT_EQ(std::memcmp(route.dgid, port_of_node(2).gid().bytes().data(), 16), 0);
  EXPECT_EQ(std::memcmp(route.sgid, port_of_node(1).gid().bytes().data(), 16), 0);
  EXPECT_EQ(route.pkey, 0xffff);
  EXPECT_EQ(client.query<rdma_ucm_query_path_resp>(id, RDMA_USER_CM_QUERY_PATH).num_paths, 0U);
}

TEST_F(CommandsTest, AConnectionHasTheParametersOfBothUsers) {
  (void)listen();
  const auto active = route();
  const auto passive = connect(active);
  EXPECT_EQ(request.uid, server.uid) << "that of the listener";
  EXPECT_EQ(request.status, 0U);
  auto seen = request.param.conn;
  EXPECT_STREQ(reinterpret_cast<const char*>(seen.private_data), "who");
  EXPECT_EQ(seen.private_data_len, 56);
  rdma_ucm_conn_param expected{};
  std::memcpy(expected.private_data, seen.private_data, sizeof seen.private_data);
  expected.private_data_len = seen.private_data_len;
  expected.qp_num = 0x11;
  expected.srq = 1;
  expected.responder_resources = 5;
  expected.initiator_depth = 4;
  expected.flow_control = 1;
  expected.retry_count = 6;
  expected.rnr_retry_count = 3;
  EXPECT_EQ(bytes_of(seen), bytes_of(expected));

  accept(passive);
  const auto response = client.event();
  EXPECT_EQ(response.event, 5U);
  EXPECT_EQ(response.id, active);
  EXPECT_EQ(response.uid, client.uid);
  seen = response.param.conn;
  EXPECT_EQ(seen.qp_num, 0x22U);
  EXPECT_STREQ(reinterpret_cast<const char*>(seen.private_data), "me");

  // What the queue pairs need.
  auto attributes = client.qp(active, 1);
  ib_uverbs_qp_attr wanted{};
  wanted.qp_attr_mask = 0x39;  // state, access flags, P_Key index, port
  wanted.qp_state = 1;
  wanted.qp_access_flags = 0xe;  // remote write, remote read, atomic
  wanted.port_num = 1;
  EXPECT_EQ(bytes_of(attributes), bytes_of(wanted));
  attributes = client.qp(active, 2);
  wanted = {};
  wanted.qp_attr_mask = 0x12'9181;  // state, address, MTU, destination, RQ PSN, reads, RNR timer
  wanted.qp_state = 2;
  wanted.path_mtu = 4;
  wanted.rq_psn = server.qp(passive, 3).sq_psn;
  wanted.dest_qp_num = 0x22;
  wanted.ah_attr = to_lid(3);
  wanted.max_dest_rd_atomic = 5;
  EXPECT_EQ(bytes_of(attributes), bytes_of(wanted));
  attributes = client.qp(active, 3);
  wanted = {};
  wanted.qp_attr_mask = 0x1'2e01;  // state, time-out, retries, RNR retries, reads, SQ PSN
  wanted.qp_state = 3;
  wanted.sq_psn = server.qp(passive, 2).rq_psn;
  wanted.max_rd_atomic = 4;
  wanted.timeout = attributes.timeout;
  wanted.retry_cnt = 6;
  wanted.rnr_retry = 3;
  EXPECT_EQ(bytes_of(attributes), bytes_of(wanted));
  EXPECT_GT(attributes.timeout, 16) << "at least the packet life time";
  EXPECT_EQ(server.qp(passive, 2).ah_attr.dlid, 2);

  rdma_ucm_accept confirm{};
  confirm.id = active;
  ASSERT_EQ(client.write(RDMA_USER_CM_CMD_ACCEPT, confirm), 0);
  EXPECT_EQ(server.write(RDMA_USER_CM_CMD_NOTIFY, rdma_ucm_notify{passive, 3}), EINVAL);
  ASSERT_EQ(server.write(RDMA_USER_CM_CMD_NOTIFY, rdma_ucm_notify{passive, 4}), 0)
      << "data have come before the RTU";
  auto event = server.event();
  EXPECT_EQ(event.event, 9U);
  EXPECT_EQ(event.uid, 0x77U);
  carry();
  ASSERT_EQ(server.write(RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{passive}), 0);
  carry();
  EXPECT_EQ(client.event().event, 10U);

  rdma_ucm_destroy_id destroy{};
  destroy.id = active;
  EXPECT_EQ(
      client.ask<rdma_ucm_destroy_id_resp>(RDMA_USER_CM_CMD_DESTROY_ID, destroy).events_reported,
      4U);
}

TEST_F(CommandsTest, ARejectionHasReasonAndData) {
  (void)listen();
  rdma_ucm_reject reject{};
  std::memcpy(reject.private_data, "no", 2);
  reject.private_data_len = 2;
  for (const std::uint8_t reason : std::array<std::uint8_t, 2>{0, 35}) {
    reject.id = connect(route());
    reject.reason = reason;
    ASSERT_EQ(server.write(RDMA_USER_CM_CMD_REJECT, reject), 0);
    carry();
    const auto event = client.event();
    EXPECT_EQ(event.event, 8U);
    EXPECT_EQ(event.status, reason == 0 ? 28U : 35U) << "28: by the consumer";
    EXPECT_STREQ(reinterpret_cast<const char*>(event.param.conn.private_data), "no");
  }
}

TEST_F(CommandsTest, DatagramsHaveAnAddressVector) {
  (void)listen(RDMA_PS_UDP);
  const auto active = route(RDMA_PS_UDP);
  accept(connect(active));
  EXPECT_STREQ(reinterpret_cast<const char*>(request.param.ud.private_data), "who");
  const auto event = client.event();
  EXPECT_EQ(event.event, 9U);
  const auto& found = event.param.ud;
  EXPECT_EQ(found.qp_num, 0x22U);
  EXPECT_EQ(found.qkey, 0x01234567U) << "that of RDMA_PS_UDP";
  EXPECT_STREQ(reinterpret_cast<const char*>(found.private_data), "me");
  EXPECT_EQ(bytes_of(found.ah_attr), bytes_of(to_lid(3)));
  EXPECT_EQ(client.qp(active, 1).qkey, 0x01234567U);
}

TEST_F(CommandsTest, MulticastGroups) {
  const auto id = client.create(RDMA_PS_UDP);
  ASSERT_EQ(client.bind(id, ip(1, 0)), 0);
  auto group = ip(0, 0);
  constexpr std::array<std::uint8_t, 4> kGroup{239, 1, 2, 3};
  std::memcpy(reinterpret_cast<std::uint8_t*>(&group) + 4, kGroup.data(), kGroup.size());
  rdma_ucm_join_mcast join{};
  join.id = id;
  join.uid = 0x55;
  join.addr = storage_of(group);
  join.addr_size = sizeof(sockaddr_in);
  std::vector<std::uint32_t> joined;
  for (const std::uint16_t flags : std::array<std::uint16_t, 2>{0, 1}) {
    join.join_flags = flags;
    joined.push_back(client.ask<rdma_ucm_create_id_resp>(RDMA_USER_CM_CMD_JOIN_MCAST, join).id);
    carry();
  }
  EXPECT_EQ(join_states, (std::vector<std::uint8_t>{1, 8})) << "the second is send-only";
  join.join_flags = 2;
  EXPECT_EQ(client.write(RDMA_USER_CM_CMD_JOIN_MCAST, join, 4), EINVAL);
  rdma_ucm_join_ip_mcast older{};
  older.id = id;
  older.uid = 0x66;
  older.addr = group;
  joined.push_back(client.ask<rdma_ucm_create_id_resp>(RDMA_USER_CM_CMD_JOIN_IP_MCAST, older).id);
  carry();
  for (const std::uint64_t uid : {0x55, 0x55, 0x66}) {
    const auto event = client.event();
    EXPECT_EQ(event.event, 12U);
    EXPECT_EQ(event.uid, uid);
    EXPECT_EQ(event.id,
              joined[event.uid == 0x66 ? 2 : static_cast<std::size_t>(event.id == joined[1])]);
    EXPECT_EQ(event.param.ud.qp_num, 0xff'ffffU);
    const auto& vector = event.param.ud.ah_attr;
    EXPECT_EQ(vector.dlid, 0xc001);
    EXPECT_EQ(vector.is_global, 1) << "multicast has a GRH";
    EXPECT_EQ(vector.grh.dgid[0], 0xff);
    EXPECT_EQ(vector.grh.dgid[15], 3);
  }
  rdma_ucm_destroy_id leave{};
  leave.id = joined[0];
  EXPECT_EQ(
      client.ask<rdma_ucm_destroy_id_resp>(RDMA_USER_CM_CMD_LEAVE_MCAST, leave).events_reported,
      1U);
  EXPECT_EQ(client.write(RDMA_USER_CM_CMD_LEAVE_MCAST, leave, 4), ENOENT);

  // A response without memory undoes the join.
  join.join_flags = 0;
  join.response = 16;
  const auto members = client.node.held.size();
  EXPECT_EQ(client.write(RDMA_USER_CM_CMD_JOIN_MCAST, join, 4), EFAULT);
  carry();
  EXPECT_EQ(client.node.held.size(), members);
}

TEST_F(CommandsTest, OptionsOfAnId) {
  const auto id = client.create();
  const std::uint8_t byte = 9;
  const int on = 1;
  const int off = 0;
  const auto set = [&](std::uint32_t name, const auto& value) {
    return client.set_option(id, RDMA_OPTION_ID, name, &value, sizeof value);
  };
  EXPECT_EQ(set(RDMA_OPTION_ID_TOS, byte), 0);
  EXPECT_EQ(client.id(id).tos, 9);
  EXPECT_FALSE(client.id(id).ack_timeout);
  EXPECT_EQ(set(RDMA_OPTION_ID_ACK_TIMEOUT, byte), 0);
  EXPECT_EQ(client.id(id).ack_timeout, 9);
  EXPECT_EQ(set(RDMA_OPTION_ID_REUSEADDR, on), 0);
  EXPECT_TRUE(client.id(id).reuses_address);
  EXPECT_FALSE(client.id(id).is_family_only);
  EXPECT_EQ(set(RDMA_OPTION_ID_AFONLY, on), 0);
  EXPECT_TRUE(client.id(id).is_family_only);
  EXPECT_EQ(set(RDMA_OPTION_ID_REUSEADDR, off), 0);
  EXPECT_FALSE(client.id(id).reuses_address);
  EXPECT_EQ(set(RDMA_OPTION_ID_AFONLY, off), 0);
  EXPECT_FALSE(client.id(id).is_family_only);
  EXPECT_EQ(set(RDMA_OPTION_ID_TOS, on), EINVAL) << "it has one byte";
  EXPECT_EQ(set(RDMA_OPTION_ID_AFONLY, byte), EINVAL) << "it is an int";
  EXPECT_EQ(set(4, byte), ENOSYS);
  EXPECT_EQ(client.why, "the option is unknown: those of rdma_set_option(3) are known");
  EXPECT_EQ(client.set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, nullptr, 1), EFAULT);
  EXPECT_EQ(client.why, "the command names memory that the program has not mapped");
  EXPECT_EQ(client.set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, nullptr, 4), EFAULT);
  EXPECT_EQ(client.set_option(id, 2, RDMA_OPTION_ID_TOS, &byte, 1), ENOSYS);
}

TEST_F(CommandsTest, TheFirstPathForBothDirectionsIsUsed) {
  const auto id = route();
  const auto set = [&](const auto& paths, std::size_t size) {
    return client.set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, paths.data(), size);
  };
  std::array<ib_path_rec_data, 7> paths{};
  EXPECT_EQ(set(paths, 0), EINVAL);
  EXPECT_EQ(set(paths, sizeof paths[0] - 1), EINVAL);
  paths[6].flags = kPathFlags;
  EXPECT_EQ(set(paths, sizeof paths), EINVAL) << "only six are read";
  const auto resolve = [&] {
    rdma_ucm_resolve_addr body{};
    body.id = client.create();
    body.timeout_ms = 2000;
    body.dst_addr = storage_of(ip(2, kPort));
    body.dst_size = sizeof(sockaddr_in);
    EXPECT_EQ(client.write(RDMA_USER_CM_CMD_RESOLVE_ADDR, body), 0);
    EXPECT_EQ(client.event().event, 0U);
    return body.id;
  };
  for (const std::size_t at : {0, 5}) {
    paths = {};
    PathRecord wanted;
    wanted.dlid = Lid(static_cast<std::uint16_t>(0x30 + at));
    paths[at].flags = kPathFlags;
    std::array<std::uint8_t, PathRecord::kSize> record{};
    wanted.emit(record);
    std::memcpy(paths[at].path_rec, record.data(), record.size());
    const auto with_path = resolve();
    ASSERT_EQ(client.set_option(with_path, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, paths.data(),
                                sizeof paths),
              0);
    EXPECT_EQ(client.event().event, 2U);
    EXPECT_EQ(client.id(with_path).path, wanted);
  }
  EXPECT_EQ(client.set_option(id, RDMA_OPTION_IB, 2, paths.data(), sizeof paths), ENOSYS);
}

TEST_F(CommandsTest, PortSpacesAndQueuePairs) {
  struct Row {
    std::uint16_t space;
    std::uint8_t type;
    int error;
    rdma_cm::Service service;
  };
  using rdma_cm::Service;
  for (const Row& row : {Row{RDMA_PS_TCP, 0, 0, Service::reliable},
                         {RDMA_PS_UDP, 0, 0, Service::datagram},
                         {RDMA_PS_IPOIB, 0, 0, Service::datagram},
                         {RDMA_PS_IB, kRc, 0, Service::reliable},
                         {RDMA_PS_IB, kUc, 0, Service::unreliable},
                         {RDMA_PS_IB, kUd, 0, Service::datagram},
                         {RDMA_PS_IB, kXrcInitiator, 0, Service::extended_initiator},
                         {RDMA_PS_IB, kXrcTarget, 0, Service::extended_target},
                         {RDMA_PS_IB, 5, EINVAL, {}},
                         {0x107, kRc, EINVAL, {}}}) {
    rdma_ucm_create_id body{};
    rdma_ucm_create_id_resp response{};
    body.ps = row.space;
    body.qp_type = row.type;
    body.response = reinterpret_cast<std::uint64_t>(&response);
    EXPECT_EQ(client.write(RDMA_USER_CM_CMD_CREATE_ID, body, sizeof response), row.error)
        << row.space << ' ' << int{row.type};
    if (row.error == 0) {
      EXPECT_EQ(client.id(response.id).service, row.service);
    }
  }
  // An ID whose number nobody learns is destroyed.
  const auto ids = client.manager.id_count();
  rdma_ucm_create_id body{};
  body.ps = RDMA_PS_TCP;
  body.response = 16;
  EXPECT_EQ(client.write(RDMA_USER_CM_CMD_CREATE_ID, body, 4), EFAULT);
  EXPECT_EQ(client.manager.id_count(), ids);
}

TEST_F(CommandsTest, AddressesMustFitTheirFamily) {
  const auto id = client.create();
  auto bind = start_of<rdma_ucm_bind>(rdma_ucm_bind{});
  bind.id = id;
  bind.addr = storage_of(ip(1, 5000));
  const auto with_size = [&](std::uint16_t size, std::uint16_t reserved = 0) {
    bind.addr_size = size;
    bind.reserved = reserved;
    return client.write(RDMA_USER_CM_CMD_BIND, bind);
  };
  EXPECT_EQ(with_size(0), EINVAL);
  EXPECT_EQ(with_size(sizeof(sockaddr_in) - 1), EINVAL);
  EXPECT_EQ(with_size(sizeof(sockaddr_in6)), EINVAL);
  EXPECT_EQ(with_size(sizeof(sockaddr_in), 1), EINVAL);
  EXPECT_EQ(with_size(sizeof(sockaddr_in)), 0);
  EXPECT_EQ(with_size(sizeof(sockaddr_in)), EINVAL) << "it is bound";
  auto none = ip(1, 5000);
  none.sin6_family = AF_UNSPEC;
  const auto other = client.create();
  EXPECT_EQ(client.bind(other, none), EINVAL);
  none.sin6_family = 27;
  EXPECT_EQ(client.bind(other, none), EINVAL) << "not an IP address";
  none.sin6_family = AF_UNIX;
  EXPECT_EQ(client.bind(other, none), EINVAL);

  rdma_ucm_resolve_addr resolve{};
  resolve.id = other;
  resolve.dst_addr = storage_of(ip(2, kPort));
  const auto code = [&] { return client.write(RDMA_USER_CM_CMD_RESOLVE_ADDR, resolve); };
  EXPECT_EQ(code(), EINVAL) << "no destination";
  resolve.dst_size = sizeof(sockaddr_in);
  resolve.src_size = 1;
  EXPECT_EQ(code(), EINVAL) << "a source of no family";
  resolve.src_size = 0;
  resolve.reserved = 1;
  EXPECT_EQ(code(), EINVAL);
  resolve.reserved = 0;
  EXPECT_EQ(code(), 0);
}

TEST_F(CommandsTest, AnIdIsMovedFromTheChannelOfADescriptor) {
  const auto id = client.create();
  ASSERT_TRUE(client.manager.migrate(client.other_channel, client.channel, rdma_cm::IdHandle(id)));
  EXPECT_EQ(client.listen(id), EINVAL) << "it is in another channel";
  rdma_ucm_migrate_id migrate{};
  migrate.id = id;
  migrate.fd = kOtherChannel + 1;
  EXPECT_EQ(client.write(RDMA_USER_CM_CMD_MIGRATE_ID, migrate, 4), EINVAL);
  EXPECT_EQ(client.why, "the descriptor is not that of an event channel of this process");
  migrate.fd = kOtherChannel;
  EXPECT_EQ(client.ask<rdma_ucm_migrate_resp>(RDMA_USER_CM_CMD_MIGRATE_ID, migrate).events_reported,
            0U);
  EXPECT_EQ(client.bind(id, ip(1, 5000)), 0) << "it is in this channel";
}

/// A body of any command: most begin with the address of the response.
struct Body {
  std::uint64_t response = 0;
  std::array<std::uint8_t, 600> rest{};
};

struct Size {
  std::uint32_t command;
  std::size_t body;      ///< the fewest bytes of the command that are enough
  std::size_t response;  ///< the fewest bytes of room that are enough
  int error;             ///< with these, if all else is 0
};

TEST_F(CommandsTest, ShortCommandsAndTooLittleRoomAreRefused) {
  constexpr std::size_t kConnect = offsetof(rdma_ucm_connect, ece);
  constexpr std::size_t kAccept = offsetof(rdma_ucm_accept, ece);
  constexpr std::size_t kEvent = offsetof(rdma_ucm_event_resp, reserved);
  for (const Size& row :
       {Size{RDMA_USER_CM_CMD_CREATE_ID, sizeof(rdma_ucm_create_id), 4, EINVAL},
        {RDMA_USER_CM_CMD_DESTROY_ID, sizeof(rdma_ucm_destroy_id), 4, ENOENT},
        {RDMA_USER_CM_CMD_BIND_IP, sizeof(rdma_ucm_bind_ip), 0, EINVAL},
        {RDMA_USER_CM_CMD_RESOLVE_IP, sizeof(rdma_ucm_resolve_ip), 0, ENOENT},
        {RDMA_USER_CM_CMD_RESOLVE_ROUTE, sizeof(rdma_ucm_resolve_route), 0, ENOENT},
        {RDMA_USER_CM_CMD_QUERY_ROUTE, offsetof(rdma_ucm_query, option), 0, ENOENT},
        {RDMA_USER_CM_CMD_CONNECT, kConnect, 0, EINVAL},
        {RDMA_USER_CM_CMD_LISTEN, sizeof(rdma_ucm_listen), 0, ENOENT},
        {RDMA_USER_CM_CMD_ACCEPT, kAccept, 0, ENOENT},
        {RDMA_USER_CM_CMD_REJECT, sizeof(rdma_ucm_reject), 0, ENOENT},
        {RDMA_USER_CM_CMD_DISCONNECT, sizeof(rdma_ucm_disconnect), 0, ENOENT},
        {RDMA_USER_CM_CMD_INIT_QP_ATTR, sizeof(rdma_ucm_init_qp_attr), sizeof(ib_uverbs_qp_attr),
         ENOENT},
        {RDMA_USER_CM_CMD_GET_EVENT, sizeof(rdma_ucm_get_event), kEvent, EAGAIN},
        {RDMA_USER_CM_CMD_SET_OPTION, sizeof(rdma_ucm_set_option), 0, EINVAL},
        {RDMA_USER_CM_CMD_NOTIFY, sizeof(rdma_ucm_notify), 0, EINVAL},
        {RDMA_USER_CM_CMD_JOIN_IP_MCAST, sizeof(rdma_ucm_join_ip_mcast), 4, ENOENT},
        {RDMA_USER_CM_CMD_LEAVE_MCAST, sizeof(rdma_ucm_destroy_id), 4, ENOENT},
        {RDMA_USER_CM_CMD_MIGRATE_ID, sizeof(rdma_ucm_migrate_id), 0, EINVAL},
        {RDMA_USER_CM_CMD_QUERY, sizeof(rdma_ucm_query), 0, ENOENT},
        {RDMA_USER_CM_CMD_BIND, sizeof(rdma_ucm_bind), 0, EINVAL},
        {RDMA_USER_CM_CMD_RESOLVE_ADDR, sizeof(rdma_ucm_resolve_addr), 0, EINVAL},
        {RDMA_USER_CM_CMD_JOIN_MCAST, sizeof(rdma_ucm_join_mcast), 4, EINVAL}}) {
    const auto code = [&](std::size_t out, std::size_t size) {
      return client.write(row.command, Body{}, out, size);
    };
    EXPECT_EQ(code(row.response, row.body), row.error) << row.command;
    EXPECT_EQ(code(row.response, row.body - 1), EINVAL) << row.command;
    if (row.response > 0) {
      EXPECT_EQ(code(row.response - 1, row.body), ENOSPC) << row.command;
      EXPECT_EQ(client.why, "the response does not fit: the command leaves too few bytes for it");
    }
  }
  constexpr rdma_ucm_listen kListen{65'000, 1};
  EXPECT_EQ(client.write(RDMA_USER_CM_CMD_LISTEN, kListen, 0, sizeof kListen + 1), EINVAL)
      << "the header says more than there is";
  EXPECT_EQ(client.write(RDMA_USER_CM_CMD_GET_OPTION, Body{}), ENOSYS);
  EXPECT_EQ(client.write(RDMA_USER_CM_CMD_JOIN_MCAST + 1, Body{}), EINVAL);
  EXPECT_EQ(client.why, "what is written to the device is no command of librdmacm");
  // Responses that librdmacm has always read in full; a wildcard has no device.
  const auto id = client.create();
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  ASSERT_EQ(client.bind(id, any), 0);
  const auto none = client.query<rdma_ucm_query_addr_resp>(id, RDMA_USER_CM_QUERY_ADDR);
  EXPECT_EQ(none.node_guid, 0U);
  EXPECT_EQ(none.src_size, sizeof(sockaddr_in6));
  EXPECT_EQ(none.dst_size, 0U);
  rdma_ucm_query query{};
  query.id = id;
  std::array<std::uint8_t, 400> response{};
  query.response = reinterpret_cast<std::uint64_t>(response.data());
  struct Room {
    std::uint32_t command, option;
    std::size_t least;
  };
  for (const Room& row :
       {Room{RDMA_USER_CM_CMD_QUERY, RDMA_USER_CM_QUERY_ADDR,
             offsetof(rdma_ucm_query_addr_resp, ibdev_index)},
        {RDMA_USER_CM_CMD_QUERY, RDMA_USER_CM_QUERY_GID,
         offsetof(rdma_ucm_query_addr_resp, ibdev_index)},
        {RDMA_USER_CM_CMD_QUERY, RDMA_USER_CM_QUERY_PATH, sizeof(rdma_ucm_query_path_resp)},
        {RDMA_USER_CM_CMD_QUERY_ROUTE, 0, offsetof(rdma_ucm_query_route_resp, ibdev_index)}}) {
    query.option = row.option;
    EXPECT_EQ(client.write(row.command, query, row.least), 0);
    EXPECT_EQ(client.write(row.command, query, row.least - 1), ENOSPC) << row.command;
  }
  query.option = 99;
  EXPECT_EQ(client.write(RDMA_USER_CM_CMD_QUERY, query, sizeof response), ENOSYS);
  EXPECT_EQ(client.why, "the query is unknown: addresses, path and GIDs are known");
}

TEST_F(CommandsTest, OnlyOneCommandWaits) {
  rdma_ucm_cmd_hdr header{RDMA_USER_CM_CMD_GET_EVENT, 8, 0};
  EXPECT_TRUE(is_get_event(bytes_of(header)));
  EXPECT_FALSE(is_get_event(ConstBytes(bytes_of(header)).first(sizeof header - 1)));
  header.cmd = RDMA_USER_CM_CMD_LISTEN;
  EXPECT_FALSE(is_get_event(bytes_of(header)));
  const CommandContext context{client.manager, client.node, client.channel, client.now, {}};
  EXPECT_EQ(execute(context, ConstBytes(bytes_of(header)).first(sizeof header - 1)).error().code,
            EINVAL);
}

}  // namespace
}  // namespace softib::ucma::commands
