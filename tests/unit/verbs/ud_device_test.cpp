// What UdQueuePair asks of a device, and what it makes of a device that grants less, or fails.
#include <dlfcn.h>
#include <infiniband/verbs.h>

#include <deque>

#include "ud_queue_pair_fixture.hpp"
#include "verbs/gid_table.hpp"

namespace {
ibv_ah_attr last_handle{};       ///< what the last address handle was asked for with
ibv_qp_cap wanted_capacities{};  ///< of the last queue pair
bool refuses_inline = false;
int creation_error = 0;                     ///< of each queue pair
std::optional<ibv_qp_state> refused_state;  ///< that no queue pair may enter
bool opens_as_roce = false;
int cannot_open = 0;                        ///< an error
std::vector<ibv_gid_entry> gid_table;       ///< in place of the device's own
std::string network_device_name;            ///< in sysfs, of each GID
std::deque<ibv_async_event> device_events;  ///< in place of the device's own
}  // namespace

extern "C" ibv_context* ibv_open_device(ibv_device* device) {
  static const auto verb =
      reinterpret_cast<decltype(&ibv_open_device)>(dlsym(RTLD_NEXT, "ibv_open_device"));
  if (cannot_open != 0) {
    errno = cannot_open;
    return nullptr;
  }
  ibv_context* const made = verb(device);
  if (made == nullptr || !opens_as_roce) return made;
  static decltype(verbs_context::query_port) query = nullptr;
  query = verbs_get_ctx(made)->query_port;
  verbs_get_ctx(made)->query_port = [](ibv_context* context, std::uint8_t port,
                                       ibv_port_attr* attributes, std::size_t size) {
    const int error = query(context, port, attributes, size);
    attributes->link_layer = IBV_LINK_LAYER_ETHERNET;
    return error;
  };
  return made;
}

extern "C" ssize_t _ibv_query_gid_table(ibv_context* /*context*/, ibv_gid_entry* entries,
                                        std::size_t max, std::uint32_t /*flags*/,
                                        std::size_t /*size*/) {
  const auto count = std::min(max, gid_table.size());
  std::copy_n(gid_table.begin(), count, entries);
  return static_cast<ssize_t>(count);
}

/// Exported, since it is found by its name.
extern "C" [[gnu::visibility("default")]] int ibv_read_sysfs_file(const char* folder,
                                                                  const char* file, char* to,
                                                                  std::size_t room) {
  static const auto verb =
      reinterpret_cast<decltype(&ibv_read_sysfs_file)>(dlsym(RTLD_NEXT, "ibv_read_sysfs_file"));
  if (std::string_view(file).find("/ndevs/") == std::string_view::npos) {
    return verb(folder, file, to, room);
  }
  return std::snprintf(to, room, "%s", network_device_name.c_str());
}

extern "C" int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  static const auto verb =
      reinterpret_cast<decltype(&ibv_get_async_event)>(dlsym(RTLD_NEXT, "ibv_get_async_event"));
  if (device_events.empty()) return verb(context, event);
  *event = device_events.front();
  return 0;
}

extern "C" void ibv_ack_async_event(ibv_async_event* event) {
  static const auto verb =
      reinterpret_cast<decltype(&ibv_ack_async_event)>(dlsym(RTLD_NEXT, "ibv_ack_async_event"));
  if (device_events.empty()) return verb(event);
  device_events.pop_front();
}

extern "C" ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attributes) {
  static const auto verb =
      reinterpret_cast<decltype(&ibv_create_ah)>(dlsym(RTLD_NEXT, "ibv_create_ah"));
  last_handle = *attributes;
  return verb(pd, attributes);
}

/// For a queue pair without large sends.
extern "C" ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  static const auto verb =
      reinterpret_cast<decltype(&ibv_create_qp)>(dlsym(RTLD_NEXT, "ibv_create_qp"));
  wanted_capacities = attributes->cap;
  const bool is_refused = refuses_inline && attributes->cap.max_inline_data != 0;
  if (!is_refused && creation_error == 0) return verb(pd, attributes);
  errno = is_refused ? EINVAL : creation_error;
  return nullptr;
}

extern "C" int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  static const auto verb =
      reinterpret_cast<decltype(&ibv_modify_qp)>(dlsym(RTLD_NEXT, "ibv_modify_qp"));
  return refused_state == attributes->qp_state ? EPERM : verb(qp, attributes, mask);
}

namespace ipoib::verbs {
namespace {

std::uint32_t granted_inline = 0;
ibv_send_flags last_flags{};  ///< of the last send
int refusals = 0;
/// The device's own verbs, which tests replace.
struct DeviceVerbs {
  ibv_context_ops ops{};
  decltype(verbs_context::create_qp_ex) create_qp = nullptr;
} of_device;
ibv_qp* last_queue_pair = nullptr;

int refuse_receives(ibv_qp* /*qp*/, ibv_recv_wr* chain, ibv_recv_wr** refused) {
  *refused = chain;
  ++refusals;
  return ENOMEM;
}

class UdDeviceTest : public UdQueuePairTest {
 protected:
  void SetUp() override {
    UdQueuePairTest::SetUp();
    of_device = {ops(), verbs_get_ctx(device_->context())->create_qp_ex};
    refusals = 0;
    refuses_inline = opens_as_roce = false;
    device_events.clear();
  }
  void TearDown() override {
    refuses_inline = opens_as_roce = false;
    creation_error = 0;
    refused_state.reset();
    UdQueuePairTest::TearDown();
  }
  ibv_context_ops& ops() { return device_->context()->ops; }
  void replace_create_qp(decltype(verbs_context::create_qp_ex) verb) {
    verbs_get_ctx(device_->context())->create_qp_ex = verb;
  }
};

TEST_F(UdDeviceTest, AddressHandlesHaveEachMemberOfTheirVector) {
  AddressVector to{.dlid = port_.lid,
                   .sl = ServiceLevel(5),
                   .rate = 6,
                   .source_path_bits = 3,
                   .global = GlobalRoute{.dgid = port_.gid,
                                         .sgid_index = 1,
                                         .flow_label = 0xabcde,
                                         .hop_limit = 9,
                                         .traffic_class = 0x5a}};
  (void)a_->qp->create_address_handle(to);  // the device may not have that GID
  EXPECT_EQ(last_handle.dlid, port_.lid.value());
  EXPECT_EQ(last_handle.sl, 5);
  EXPECT_EQ(last_handle.static_rate, 6);
  EXPECT_EQ(last_handle.src_path_bits, 3);
  EXPECT_EQ(last_handle.port_num, device_->port());
  EXPECT_EQ(last_handle.is_global, 1);
  EXPECT_EQ(last_handle.grh.sgid_index, 1);
  EXPECT_EQ(last_handle.grh.flow_label, 0xabcdeU);
  EXPECT_EQ(last_handle.grh.hop_limit, 9);
  EXPECT_EQ(last_handle.grh.traffic_class, 0x5a);
  to.global.reset();
  (void)a_->qp->create_address_handle(to);
  EXPECT_EQ(last_handle.is_global, 0);
}

TEST_F(UdDeviceTest, QueuesAreNotDeeperThanTheDevicePermits) {
  replace_create_qp([](ibv_context* context, ibv_qp_init_attr_ex* attributes) {
    wanted_capacities = attributes->cap;
    return of_device.create_qp(context, attributes);
  });
  ibv_device_attr limits{};
  ASSERT_EQ(ibv_query_device(device_->context(), &limits), 0);
  const auto most = static_cast<std::uint32_t>(limits.max_qp_wr);
  make_sides({.receive = 2 * most, .send = 2 * most});
  EXPECT_EQ(wanted_capacities.max_recv_wr, most);
  EXPECT_LE(wanted_capacities.max_send_wr, most);
  EXPECT_EQ(wanted_capacities.max_recv_sge, 1U);
  EXPECT_EQ(wanted_capacities.max_send_sge, 2U);
  make_sides({.receive = 48, .send = 48});
  EXPECT_EQ(wanted_capacities.max_recv_wr, 48U);
  EXPECT_EQ(wanted_capacities.max_send_wr, 32U) << "a power of two";
}

TEST_F(UdDeviceTest, SendsInlineOnlyAsMuchAsTheDeviceGrants) {
  replace_create_qp([](ibv_context* context, ibv_qp_init_attr_ex* attributes) {
    const auto made = of_device.create_qp(context, attributes);
    attributes->cap.max_inline_data = granted_inline;
    return made;
  });
  ops().post_send = [](ibv_qp* qp, ibv_send_wr* chain, ibv_send_wr** refused) {
    last_flags = static_cast<ibv_send_flags>(chain->send_flags);
    return of_device.ops.post_send(qp, chain, refused);
  };
  for (const bool fits : {true, false}) {
    granted_inline = fits ? 100 : 99;
    make_sides({.max_inline = 128});
    expect_connected();  // sends 100 bytes
    EXPECT_EQ((last_flags & IBV_SEND_INLINE) != 0, fits);
  }
}

TEST_F(UdDeviceTest, SendsInlineAlsoWithoutRoomForTheHeadersOfLargeSends) {
  replace_create_qp([](ibv_context* context, ibv_qp_init_attr_ex* attributes) -> ibv_qp* {
    if ((attributes->comp_mask & IBV_QP_INIT_ATTR_MAX_TSO_HEADER) == 0) {
      return of_device.create_qp(context, attributes);
    }
    errno = EINVAL;
    return nullptr;
  });
  make_sides({.max_inline = 128});
  ops().post_send = [](ibv_qp* qp, ibv_send_wr* chain, ibv_send_wr** refused) {
    last_flags = static_cast<ibv_send_flags>(chain->send_flags);
    return of_device.ops.post_send(qp, chain, refused);
  };
  expect_connected();
  EXPECT_NE(last_flags & IBV_SEND_INLINE, 0);
}

TEST_F(UdDeviceTest, IsCreatedWithoutFeaturesThatTheDeviceRefuses) {
  refuses_inline = true;
  replace_create_qp([](ibv_context* context, ibv_qp_init_attr_ex* attributes) -> ibv_qp* {
    if (attributes->cap.max_inline_data == 0) return of_device.create_qp(context, attributes);
    errno = EINVAL;
    return nullptr;
  });
  make_sides({.max_inline = 128});
  expect_connected();
}

TEST_F(UdDeviceTest, SaysWhyItCannotBeCreated) {
  replace_create_qp([](ibv_context*, ibv_qp_init_attr_ex*) -> ibv_qp* {
    errno = creation_error;
    return nullptr;
  });
  for (const int error : {ENOMEM, EAGAIN, EPERM, EINVAL}) {
    creation_error = error;
    const auto made = UdQueuePair::create(*device_, kMaxMtu, {}, log_);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, error);
    EXPECT_THAT(made.error().message, testing::StartsWith("cannot create a queue pair: "));
    EXPECT_EQ(made.error().message.find("ulimit -l") != std::string::npos, error != EINVAL)
        << made.error().message;
  }
}

TEST_F(UdDeviceTest, SaysWhichChangeTheDeviceRefuses) {
  for (const auto& [state, name] :
       {std::pair{IBV_QPS_INIT, "RESET to INIT"}, std::pair{IBV_QPS_RTR, "INIT to RTR"},
        std::pair{IBV_QPS_RTS, "RTR to RTS"}}) {
    refused_state = state;
    const auto done = b_->qp->restart();
    ASSERT_FALSE(done) << name;
    EXPECT_THAT(done.error().message, ::testing::HasSubstr(name));
    EXPECT_FALSE(b_->qp->is_up()) << name;
  }
  refused_state.reset();
  b_->qp->restart().value();
  refused_state = IBV_QPS_RTS;
  const auto keyed = b_->qp->configure({pkey_index_, QKey(0x80000001)});
  ASSERT_FALSE(keyed);
  EXPECT_THAT(keyed.error().message, ::testing::HasSubstr("CAP_NET_RAW"));
  refused_state = IBV_QPS_RESET;
  EXPECT_FALSE(b_->qp->restart());
  EXPECT_TRUE(b_->qp->is_up());
  refused_state.reset();
  b_->qp->configure(b_->attributes).value();
  expect_connected();
}

TEST_F(UdDeviceTest, CountsDatagramsThatFoundNoReceive) {
  make_sides({.receive = 64, .send = 128});
  const auto before = device_->counters().missing_receives;
  ASSERT_TRUE(before);
  std::vector<Outgoing> batch;
  for (std::uint8_t i = 0; i < 100; ++i) batch.push_back(to_b(100, i));
  ASSERT_EQ(a_->qp->send(batch), 100U);
  EXPECT_EQ(b_->receive(1).size(), 1U);
  EXPECT_GT(device_->counters().missing_receives, before);
}

TEST_F(UdDeviceTest, IsOpenedByItsName) {
  const std::string name = device_->name();
  EXPECT_TRUE(Device::open(name, 1));
  const auto other = Device::open(name + "x", 1);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ENODEV);
  EXPECT_THAT(other.error().message, ::testing::HasSubstr("among " + name));
}

TEST_F(UdDeviceTest, ARoceDeviceHasToBeNamed) {
  opens_as_roce = true;
  const auto any = Device::open("", 1);
  ASSERT_FALSE(any);
  EXPECT_THAT(any.error().message, ::testing::HasSubstr("has to be named"));
  const auto named = Device::open(device_->name(), 1);
  ASSERT_TRUE(named);
  EXPECT_EQ(named->link_layer(), LinkLayer::roce);
}

TEST_F(UdDeviceTest, ADeviceThatCannotBeUsedIsSkippedOrAnError) {
  const std::string name = device_->name();
  opens_as_roce = true;
  device_->context()->device->transport_type = IBV_TRANSPORT_IWARP;
  const auto iwarp = Device::open(name, 1);
  device_->context()->device->transport_type = IBV_TRANSPORT_IB;
  ASSERT_FALSE(iwarp);
  EXPECT_THAT(iwarp.error().message, ::testing::HasSubstr("no InfiniBand or RoCE port 1"));
  cannot_open = EACCES;
  const auto named = Device::open(name, 1);
  const auto any = Device::open("", 1);
  cannot_open = 0;
  EXPECT_EQ(named.error().code, EACCES);
  EXPECT_EQ(any.error().code, EACCES);
}

/// The port has an entry of the GID table for each address of its network device, of both versions
/// of RoCE. Here the network device is "lo", whose index is 1.
TEST_F(UdDeviceTest, ARoceDeviceHasAGidOfItsNetworkDevice) {
  const auto entry = [](const char* gid, std::uint32_t index, std::uint32_t port,
                        std::uint32_t type, std::uint32_t network_device) {
    ibv_gid_entry one{{}, index, port, type, network_device};
    std::ranges::copy(Gid::parse(gid)->bytes(), one.gid.raw);
    return one;
  };
  gid_table = {
      entry("2001:db8::5", 5, 1, IBV_GID_TYPE_ROCE_V2, 1),
      entry("::1", 3, 1, IBV_GID_TYPE_ROCE_V2, 1), entry("::1", 2, 1, IBV_GID_TYPE_ROCE_V1, 1),
      entry("::1", 1, 2, IBV_GID_TYPE_ROCE_V2, 1), entry("::1", 256, 1, IBV_GID_TYPE_ROCE_V2, 1)};
  network_device_name = "lo";
  const auto table = read_gid_table(device_->context(), 1);
  ASSERT_EQ(table.size(), 3U) << "without those of another port, and those that no handle can name";
  EXPECT_EQ(table[0].index, 2);
  EXPECT_FALSE(table[0].is_roce_v2);
  EXPECT_FALSE(table[0].is_an_address);
  EXPECT_EQ(table[1].gid, *Gid::parse("::1"));
  EXPECT_TRUE(table[1].is_an_address);
  EXPECT_EQ(table[1].network_device, 1U);
  EXPECT_EQ(table[2].index, 5);
  EXPECT_FALSE(table[2].is_an_address);
  opens_as_roce = true;
  const auto port = Device::open(device_->name(), 1)->query().value();
  EXPECT_EQ(port.gid, *Gid::parse("::1"));
  EXPECT_EQ(port.gid_index, 3);
  EXPECT_EQ(port.network_device, 1U);
  for (auto& each : gid_table) each.ndev_ifindex = 2;
  EXPECT_EQ(read_gid_table(device_->context(), 1)[1].network_device, GidEntry::kElsewhere)
      << "in another namespace, where 2 is its index";
  network_device_name.clear();
  EXPECT_EQ(read_gid_table(device_->context(), 1)[1].network_device, 2U);
}

TEST_F(UdDeviceTest, ReportsThePortAsTheDeviceDoes) {
  static decltype(verbs_context::query_port) query = nullptr;
  static ibv_port_state state = IBV_PORT_ACTIVE;
  verbs_context& verbs = *verbs_get_ctx(device_->context());
  query = verbs.query_port;
  ibv_port_attr plain{};
  ASSERT_EQ(ibv_query_port(device_->context(), 1, &plain), 0);
  ASSERT_GT(plain.pkey_tbl_len, 1);
  verbs.query_port = [](ibv_context* context, std::uint8_t port, ibv_port_attr* attributes,
                        std::size_t size) {
    const int error = query(context, port, attributes, size);
    attributes->state = state;
    attributes->sm_sl = 5;
    attributes->lmc = 2;
    attributes->active_width = 1;
    attributes->active_speed = 4;
    ++attributes->pkey_tbl_len;  // which the device does not have
    attributes->max_mtu = IBV_MTU_4096;
    attributes->active_mtu = IBV_MTU_1024;
    return error;
  };
  const auto port = device_->query().value();
  EXPECT_TRUE(port.active);
  EXPECT_EQ(port.sm_sl, ServiceLevel(5));
  EXPECT_EQ(port.lmc, 2);
  EXPECT_EQ(port.max_mtu, 4096U);
  EXPECT_EQ(port.active_mtu, 1024U);
  EXPECT_EQ(port.rate_mbps, 10'000U);
  EXPECT_EQ(port.pkeys.size(), static_cast<std::size_t>(plain.pkey_tbl_len));
  state = IBV_PORT_ARMED;
  EXPECT_FALSE(device_->query().value().active);
  state = IBV_PORT_ACTIVE;
  verbs.query_port = query;
}

/// Those of objects, such as a queue pair, concern every port.
TEST_F(UdDeviceTest, EventsOfOtherPortsAreSkipped) {
  auto events = AsyncEventReader::open(*device_).value();
  while (events.next()) {
  }
  const auto of_port = [](ibv_event_type type, int port) {
    ibv_async_event event{};
    event.event_type = type;
    event.element.port_num = port;
    return event;
  };
  ibv_async_event of_object{};
  of_object.event_type = IBV_EVENT_QP_FATAL;
  of_object.element.qp = reinterpret_cast<ibv_qp*>(&of_object);
  device_events = {of_port(IBV_EVENT_PORT_ERR, 2), of_port(IBV_EVENT_LID_CHANGE, 1), of_object,
                   of_port(IBV_EVENT_DEVICE_FATAL, 0)};
  const auto first = events.next();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->kind, AsyncEvent::lid_change);
  const auto second = events.next();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->kind, AsyncEvent::queue_pair_fatal);
  EXPECT_EQ(second->object, &of_object);
  const auto third = events.next();
  ASSERT_TRUE(third);
  EXPECT_EQ(third->kind, AsyncEvent::device_fatal);
  EXPECT_TRUE(device_events.empty());
}

TEST_F(UdDeviceTest, SendsThatNeverCompletedAreCountedAtAReset) {
  ops().post_send = [](ibv_qp*, ibv_send_wr*, ibv_send_wr**) { return 0; };
  for (int i = 0; i < 3; ++i) ASSERT_EQ(a_->send(to_b(300, 0)), 1U);
  ops().post_send = of_device.ops.post_send;
  EXPECT_EQ(a_->qp->send_progress().in_flight, 3U);
  a_->qp->restart().value();
  EXPECT_EQ(a_->qp->counters().sends_flushed, 3U);
  EXPECT_EQ(a_->pool.available(), a_->pool.capacity());
}

/// Else it would have no buffer for the first datagrams, and never get one.
TEST_F(UdDeviceTest, DoesNotComeUpWithoutReceives) {
  ops().post_recv = refuse_receives;
  EXPECT_FALSE(b_->qp->restart());
  EXPECT_EQ(refusals, 1);
  EXPECT_EQ(b_->qp->counters().post_refused, 1U);
  ops().post_recv = of_device.ops.post_recv;
  b_->qp->restart().value();
  expect_connected();
}

TEST_F(UdDeviceTest, IsRepairedAfterReceivesWereRefused) {
  make_sides({.receive = 64});
  ops().post_recv = refuse_receives;
  for (std::size_t i = 0; i < 64 && refusals == 0; ++i) expect_connected();
  EXPECT_EQ(refusals, 1);
  EXPECT_TRUE(b_->qp->is_broken());
  EXPECT_EQ(b_->qp->counters().post_refused, 1U);
  ops().post_recv = of_device.ops.post_recv;
  b_->qp->restart().value();
  expect_connected();
}

TEST_F(UdDeviceTest, ReplacesACompletionQueueThatCannotBePolled) {
  ops().poll_cq = [](ibv_cq*, int, ibv_wc*) { return -1; };
  std::vector<Incoming> none;
  EXPECT_EQ(b_->qp->receive(none, 64), 0U);
  EXPECT_TRUE(b_->qp->is_broken());
  ops().poll_cq = of_device.ops.poll_cq;
  EXPECT_FALSE(b_->qp->restart()) << "it would use the same completion queue";
  b_->qp->recreate().value();
  b_->qp->configure(b_->attributes).value();
  expect_connected();
}

TEST_F(UdDeviceTest, IsBrokenIfItsCompletionsCannotBeAwaited) {
  ops().req_notify_cq = [](ibv_cq*, int) { return EINVAL; };
  b_->qp->arm();
  ops().req_notify_cq = of_device.ops.req_notify_cq;
  EXPECT_TRUE(b_->qp->is_broken());
  b_->qp->restart().value();
  EXPECT_FALSE(b_->qp->is_broken());
  expect_connected();
}

TEST_F(UdDeviceTest, FlushedReceivesAreNoErrors) {
  replace_create_qp([](ibv_context* context, ibv_qp_init_attr_ex* attributes) {
    return last_queue_pair = of_device.create_qp(context, attributes);
  });
  make_sides({.receive = 64});
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(last_queue_pair, &error, IBV_QP_STATE), 0);
  b_->settle(true);
  EXPECT_TRUE(b_->qp->is_broken());
  EXPECT_EQ(b_->qp->counters().receive_errors, 0U);
  EXPECT_EQ(b_->qp->counters().malformed, 0U);
  b_->qp->restart().value();
  EXPECT_EQ(b_->qp->counters().receives_lost, 0U);
  expect_connected();
  b_->qp->on_object_failed(last_queue_pair);
  EXPECT_TRUE(b_->qp->is_broken());
  EXPECT_TRUE(b_->qp->restart()) << "its completion queue has not failed";
}

/// They are neither lost nor received twice.
TEST_F(UdDeviceTest, DatagramsThatArriveDuringTheProbeAreReceivedAfterIt) {
  ibv_device_attr limits{};
  ASSERT_EQ(ibv_query_device(device_->context(), &limits), 0);
  if ((limits.device_cap_flags & IBV_DEVICE_UD_IP_CSUM) == 0) {
    GTEST_SKIP() << "the device computes no checksums, so there is no probe";
  }
  static Side* sender = nullptr;
  static AddressHandlePtr to;
  sender = &*a_;
  to = a_->qp->create_address_handle(vector_to(port_.lid)).value();
  ops().post_send = [](ibv_qp* qp, ibv_send_wr* chain, ibv_send_wr** refused) {
    if (Side* const side = std::exchange(sender, nullptr)) {
      for (std::uint8_t i = 0; i < 3; ++i) {
        EXPECT_EQ(side->send(side->datagram(to, Qpn(qp->qp_num), 300, i)), 1U);
      }
    }
    return of_device.ops.post_send(qp, chain, refused);
  };
  Side other(*device_, log_, {}, pkey_index_);
  EXPECT_EQ(sender, nullptr) << "there was no probe";
  const auto got = other.receive(3);
  ASSERT_EQ(got.size(), 3U);
  for (std::uint8_t i = 0; i < 3; ++i) EXPECT_EQ(got[i].frame.bytes()[0], i);
  std::vector<Incoming> more;
  EXPECT_EQ(other.qp->receive(more, 64), 0U);
  EXPECT_EQ(other.qp->counters().segments, 0U) << "probes do not count";
  EXPECT_EQ(other.qp->counters().large_packets, 0U);
  sender = &*a_;
  Side third(*device_, log_, {}, pkey_index_);
  ops().post_send = of_device.ops.post_send;
  third.qp->restart().value();
  EXPECT_EQ(third.qp->counters().receives_lost, 3U) << "it was reset before they were taken";
  to.reset();
}

TEST(PortCounters, AreAddedUp) {
  PortCounters all{std::nullopt, 1, 2};
  all += {std::nullopt, 10, 20};
  EXPECT_FALSE(all.missing_receives);
  all += {5, 100, 200};
  all += {7, 0, 0};
  EXPECT_EQ(all.missing_receives, 12U);
  EXPECT_EQ(all.bad_pkey, 111U);
  EXPECT_EQ(all.bad_qkey, 222U);
}

/// Else the probes would not arrive on such a port.
TEST_F(UdDeviceTest, ProbesByAGlobalRouteIfThePortRequiresOne) {
  static decltype(verbs_context::query_port) query = nullptr;
  verbs_context& verbs = *verbs_get_ctx(device_->context());
  query = verbs.query_port;
  verbs.query_port = [](ibv_context* context, std::uint8_t port, ibv_port_attr* attributes,
                        std::size_t size) {
    const int error = query(context, port, attributes, size);
    attributes->flags |= IBV_QPF_GRH_REQUIRED;
    return error;
  };
  last_handle = {};
  const Side other(*device_, log_, {}, pkey_index_);
  verbs.query_port = query;
  if (last_handle.dlid == 0) GTEST_SKIP() << "the device computes no checksums: there is no probe";
  EXPECT_EQ(last_handle.is_global, 1);
}

}  // namespace
}  // namespace ipoib::verbs
