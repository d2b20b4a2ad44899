// The rdma_cm device as librdmacm uses it, on a subnet whose SA is this test. As in any program,
// the process has one endpoint until it ends; its connections are to itself.
#include "softib/ucma/ucma_host.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_user_cm.h>

#include <array>
#include <cstring>

#include "packets.hpp"
#include "softib/fabric/cm_locks.hpp"
#include "softib/ucma/commands.hpp"
#include "test_subnet.hpp"
#include "wire/path_record.hpp"

namespace softib::ucma {
namespace {

using ipoib::wire::PathRecord;
using ipoib::wire::SaHeader;
using test::eventually;
using test::TestSubnet;

constexpr std::uint16_t kPort = 7174;
constexpr ipoib::wire::ServiceId kService{0x0106'0000 | kPort};
constexpr NodeIndex kSelf = 1;

/// Answers each request for a path with one.
class Sa : public endpoint::MadReceiver {
 public:
  explicit Sa(endpoint::Endpoint& endpoint) : endpoint_(endpoint) {}
  bool receive_mad(const MadPacket& request) override {
    MadPacket packet = request;
    auto header = SaHeader::parse(packet.mad);
    if (!header) return false;
    const auto record = ipoib::MutableBytes(packet.mad).subspan(ipoib::wire::kSaHeaderSize);
    auto path = PathRecord::parse(record).value();
    path.slid = packet.slid;
    path.dlid = TestSubnet::lid(kSelf);
    path.mtu = 4;
    path.rate = 3;
    path.lifetime = 10;
    path.emit(record);
    packet.reverse();
    header->mad.method = ipoib::wire::method::kGetResp;
    header->emit(packet.mad);
    std::array<std::uint8_t, MadPacket::kMaxPacketSize> to;
    endpoint_.send_mad(1, packet.emit(to));
    return true;
  }

 private:
  endpoint::Endpoint& endpoint_;
};

/// One for all tests; never destroyed, as the endpoint of the process.
struct World {
  TestSubnet subnet{2};
  std::unique_ptr<endpoint::Endpoint> sm = subnet.attach(0);
  Sa sa{*sm};

  World() {
    sm->add_mad_receiver(sa);
    const std::string& path = subnet.folder().path();
    ::setenv(fabric::kDirectoryVariable, path.substr(0, path.rfind('/')).c_str(), 1);
    ::setenv(fabric::kSubnetVariable, subnet.folder().name().c_str(), 1);
    ::setenv(fabric::kHcaVariable, "host1", 1);
  }
};

World& world() {
  static World& one = *new World;
  static const test::FolderAtExit at_exit(one.subnet.folder());
  return one;
}

template <class Body>
std::vector<std::uint8_t> command(std::uint32_t number, const Body& body, std::size_t out = 0) {
  const rdma_ucm_cmd_hdr header{number, sizeof body, static_cast<std::uint16_t>(out)};
  std::vector<std::uint8_t> bytes(sizeof header + sizeof body);
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, &body, sizeof body);
  return bytes;
}

template <class T>
std::uint64_t address_of(T& object) {
  return reinterpret_cast<std::uint64_t>(&object);
}

/// An event channel.
class Device {
 public:
  explicit Device(int flags = O_RDWR | O_CLOEXEC | O_NONBLOCK) {
    (void)world();
    int error = 0;
    host_ = UcmaHost::get(error);
    if (host_ != nullptr) fd_ = ipoib::FileDescriptor(host_->open_channel(flags));
    EXPECT_TRUE(fd_) << error;
  }
  [[nodiscard]] int fd() const { return fd_.get(); }
  void close() { fd_.reset(); }
  /// 0, or an errno value.
  int write(const std::vector<std::uint8_t>& bytes) {
    const auto done = host_->execute(fd_.get(), bytes);
    return done ? 0 : done.error().code;
  }
  template <class Body>
  int write(std::uint32_t number, const Body& body, std::size_t out = 0) {
    return write(command(number, body, out));
  }
  [[nodiscard]] bool is_readable() const {
    pollfd event{fd_.get(), POLLIN, 0};
    return ::poll(&event, 1, 0) == 1 && (event.revents & POLLIN) != 0;
  }

  std::uint32_t create(std::uint16_t space = RDMA_PS_TCP) {
    rdma_ucm_create_id_resp response{};
    rdma_ucm_create_id body{};
    body.uid = ++uid;
    body.ps = space;
    body.response = softib::ucma::address_of(response);
    EXPECT_EQ(write(RDMA_USER_CM_CMD_CREATE_ID, body, sizeof response), 0);
    return response.id;
  }
  std::uint32_t destroy(std::uint32_t id) {
    rdma_ucm_destroy_id_resp response{};
    rdma_ucm_destroy_id body{};
    body.id = id;
    body.response = softib::ucma::address_of(response);
    EXPECT_EQ(write(RDMA_USER_CM_CMD_DESTROY_ID, body, sizeof response), 0);
    return response.events_reported;
  }
  static sockaddr_in ipv4(std::uint32_t address, std::uint16_t port) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_addr.s_addr = htonl(address);
    in.sin_port = htons(port);
    return in;
  }
  int bind(std::uint32_t id, std::uint16_t port, std::uint32_t address = 0) {
    rdma_ucm_bind body{};
    body.id = id;
    const auto in = ipv4(address, port);
    body.addr_size = sizeof in;
    std::memcpy(&body.addr, &in, sizeof in);
    return write(RDMA_USER_CM_CMD_BIND, body);
  }
  int listen(std::uint32_t id) { return write(RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{id, 10}); }
  int resolve(std::uint32_t id, std::uint32_t to, std::uint32_t milliseconds = 2000) {
    rdma_ucm_resolve_addr body{};
    body.id = id;
    body.timeout_ms = milliseconds;
    const auto in = ipv4(to, kPort);
    body.dst_size = sizeof in;
    std::memcpy(&body.dst_addr, &in, sizeof in);
    return write(RDMA_USER_CM_CMD_RESOLVE_ADDR, body);
  }
  /// The next event, once it comes.
  rdma_ucm_event_resp event() {
    rdma_ucm_event_resp response{};
    rdma_ucm_get_event body{};
    body.response = softib::ucma::address_of(response);
    EXPECT_TRUE(eventually([&] { return is_readable(); }));
    EXPECT_EQ(write(RDMA_USER_CM_CMD_GET_EVENT, body, sizeof response), 0);
    return response;
  }
  template <class Response>
  Response query(std::uint32_t id, std::uint32_t option) {
    Response response{};
    rdma_ucm_query body{};
    body.id = id;
    body.option = option;
    body.response = softib::ucma::address_of(response);
    EXPECT_EQ(write(RDMA_USER_CM_CMD_QUERY, body, sizeof response), 0);
    return response;
  }

  std::uint64_t uid = 0x1000;

 private:
  UcmaHost* host_ = nullptr;
  ipoib::FileDescriptor fd_;
};

constexpr std::uint32_t kSelfAddress = 0x7f4d'0000 | kSelf;

rdma_ucm_conn_param parameters(std::uint32_t qpn) {
  rdma_ucm_conn_param one{};
  one.valid = 1;
  one.qp_num = qpn;
  one.responder_resources = one.initiator_depth = 1;
  one.private_data[0] = 'x';
  one.private_data_len = 1;
  return one;
}

TEST(UcmaHost, AChannelIsReadableWhileItHasEvents) {
  Device device;
  const auto id = device.create();
  EXPECT_FALSE(device.is_readable());
  EXPECT_EQ(device.resolve(id, kSelfAddress), 0);
  EXPECT_TRUE(device.is_readable());
  const auto event = device.event();
  EXPECT_EQ(event.event, 0U);
  EXPECT_EQ(event.id, id);
  EXPECT_EQ(event.uid, device.uid);
  EXPECT_FALSE(device.is_readable());
  EXPECT_EQ(device.write(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}, 1000), EAGAIN);
  EXPECT_EQ(device.destroy(id), 1U);
}

TEST(UcmaHost, TheFlagsOfOpenAreThoseOfTheDescriptor) {
  const Device blocking(O_RDWR);
  EXPECT_EQ(::fcntl(blocking.fd(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_EQ(::fcntl(blocking.fd(), F_GETFD), 0);
  const Device other;
  EXPECT_NE(::fcntl(other.fd(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_EQ(::fcntl(other.fd(), F_GETFD), FD_CLOEXEC);
}

TEST(UcmaHost, DestroyingAnIdTakesItsEventsAway) {
  Device device;
  const auto id = device.create();
  EXPECT_EQ(device.resolve(id, kSelfAddress), 0);
  EXPECT_EQ(device.destroy(id), 0U);
  EXPECT_FALSE(device.is_readable());
}

TEST(UcmaHost, TimeOutsPassWithoutACall) {
  Device device;
  EXPECT_EQ(device.resolve(device.create(), 0x0a01'0203, 10), 0);
  const auto event = device.event();
  EXPECT_EQ(event.event, 1U);
  EXPECT_EQ(static_cast<int>(event.status), -ETIMEDOUT);
}

TEST(UcmaHost, ClosingADescriptorDestroysItsIds) {
  Device device;
  ASSERT_EQ(device.bind(device.create(), kPort), 0);
  const auto listener = device.create();
  ASSERT_EQ(device.bind(listener, kPort + 1), 0);
  ASSERT_EQ(device.listen(listener), 0);
  const ipoib::wire::ServiceId service(kService.value() + 1);
  EXPECT_TRUE(fabric::has_listener(world().subnet.folder(), kSelf, service));
  Device other;
  const auto id = other.create();
  EXPECT_EQ(other.bind(id, kPort), EADDRNOTAVAIL);
  ipoib::FileDescriptor copy(::dup(device.fd()));
  device.close();
  EXPECT_EQ(other.bind(id, kPort), EADDRNOTAVAIL) << "a copy of the descriptor is open";
  copy.reset();
  EXPECT_TRUE(eventually([&] { return other.bind(id, kPort) == 0; }));
  EXPECT_TRUE(
      eventually([&] { return !fabric::has_listener(world().subnet.folder(), kSelf, service); }));
}

TEST(UcmaHost, ADescriptorWhoseNumberIsUsedAgainIsNoChannel) {
  Device device;
  const int number = device.fd();
  EXPECT_NE(UcmaHost::of_channel(number), nullptr);
  const ipoib::FileDescriptor other(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const ipoib::FileDescriptor saved(::dup(number));
  ASSERT_EQ(::dup2(other.get(), number), number);
  EXPECT_EQ(UcmaHost::of_channel(number), nullptr);
  ASSERT_EQ(::dup2(saved.get(), number), number);
  EXPECT_NE(UcmaHost::of_channel(number), nullptr);
}

TEST(UcmaHost, PortsOfOtherProcessesAreInUse) {
  PortLocks other_process(world().subnet.folder(), kSelf);
  ASSERT_TRUE(other_process.lock_port(
      {rdma_cm::IdHandle(), rdma_cm::PortSpace::tcp, rdma_cm::IpEndpoint{}}, 6000));
  Device device;
  const auto id = device.create();
  EXPECT_EQ(device.bind(id, 6000, kSelfAddress), EADDRNOTAVAIL) << "at all addresses";
  other_process.unlock_port(rdma_cm::PortSpace::tcp, 6000);
  EXPECT_EQ(device.bind(id, 6000, kSelfAddress), 0);
}

TEST(UcmaHost, AConnectionOfTheProcessToItself) {
  Device server;
  Device client;
  const auto listener = server.create();
  ASSERT_EQ(server.bind(listener, kPort), 0);
  ASSERT_EQ(server.listen(listener), 0);
  const auto active = client.create();
  ASSERT_EQ(client.resolve(active, kSelfAddress), 0);
  EXPECT_EQ(client.event().event, 0U);
  ASSERT_EQ(client.write(RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{active, 2000}), 0);
  EXPECT_EQ(client.event().event, 2U);
  const auto addresses = client.query<rdma_ucm_query_addr_resp>(active, RDMA_USER_CM_QUERY_ADDR);
  EXPECT_NE(addresses.node_guid, 0U);
  EXPECT_EQ(addresses.port_num, 1);
  EXPECT_EQ(addresses.pkey, 0xffff);

  rdma_ucm_connect connect{};
  connect.id = active;
  connect.conn_param = parameters(0x11);
  ASSERT_EQ(client.write(RDMA_USER_CM_CMD_CONNECT, connect), 0);
  auto event = server.event();
  EXPECT_EQ(event.event, 4U);
  EXPECT_EQ(event.param.conn.qp_num, 0x11U);
  EXPECT_EQ(event.param.conn.private_data_len, 56);
  EXPECT_EQ(event.param.conn.private_data[0], 'x');
  const auto passive = event.id;

  // | number of paths, - | flags, - | PathRecord |
  std::array<std::uint8_t, sizeof(rdma_ucm_query_path_resp) + sizeof(ib_path_rec_data)> paths{};
  rdma_ucm_query query{};
  query.id = passive;
  query.option = RDMA_USER_CM_QUERY_PATH;
  query.response = address_of(paths);
  ASSERT_EQ(server.write(RDMA_USER_CM_CMD_QUERY, query, sizeof paths), 0);
  EXPECT_EQ(paths[0], 1);
  const auto record = ipoib::ConstBytes(paths).last(PathRecord::kSize);
  EXPECT_EQ(PathRecord::parse(record)->dlid, TestSubnet::lid(kSelf));

  ib_uverbs_qp_attr attributes{};
  rdma_ucm_init_qp_attr init{};
  init.id = passive;
  init.qp_state = 2;
  init.response = address_of(attributes);
  ASSERT_EQ(server.write(RDMA_USER_CM_CMD_INIT_QP_ATTR, init, sizeof attributes), 0);
  EXPECT_EQ(attributes.dest_qp_num, 0x11U);
  EXPECT_EQ(attributes.ah_attr.dlid, TestSubnet::lid(kSelf).value());

  rdma_ucm_accept accept{};
  accept.id = passive;
  accept.uid = 77;
  accept.conn_param = parameters(0x22);
  ASSERT_EQ(server.write(RDMA_USER_CM_CMD_ACCEPT, accept), 0);
  event = client.event();
  EXPECT_EQ(event.event, 5U);
  EXPECT_EQ(event.param.conn.qp_num, 0x22U);
  rdma_ucm_accept confirm{};
  confirm.id = active;
  ASSERT_EQ(client.write(RDMA_USER_CM_CMD_ACCEPT, confirm), 0);
  event = server.event();
  EXPECT_EQ(event.event, 9U);
  EXPECT_EQ(event.uid, 77U);

  Device moved;
  rdma_ucm_migrate_resp reported{};
  rdma_ucm_migrate_id migrate{};
  migrate.id = passive;
  migrate.fd = static_cast<std::uint32_t>(server.fd());
  migrate.response = address_of(reported);
  ASSERT_EQ(moved.write(RDMA_USER_CM_CMD_MIGRATE_ID, migrate, sizeof reported), 0);
  EXPECT_EQ(reported.events_reported, 1U);
  client.close();
  event = moved.event();
  EXPECT_EQ(event.event, 10U) << "the other end is closed";
  EXPECT_EQ(moved.write(RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{passive}), 0);
}

}  // namespace
}  // namespace softib::ucma
