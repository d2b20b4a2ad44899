// The subnet process as its clients see it: control socket, fabric file, MADs, and the files that
// remain when it ends.
#include "softib/subnetd/subnet_process.hpp"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <semaphore>
#include <stdexcept>
#include <vector>

#include "ipoib/bytes.hpp"
#include "ipoib/file_descriptor.hpp"
#include "ipoib/unix_path.hpp"
#include "packets.hpp"
#include "running_subnet.hpp"
#include "softib/fabric/unused_folder.hpp"
#include "softib/transport/process_slot.hpp"
#include "softib/transport/ring_wire.hpp"
#include "temporary_folder.hpp"
#include "two_level_tree.hpp"
#include "wire/mad.hpp"
#include "wire/mc_member_record.hpp"
#include "wire/node_record.hpp"

namespace softib::subnetd {
namespace {

using namespace test;

class SubnetProcessTest : public ::testing::Test {
 protected:
  TemporaryFolder root_;
  fabric::SubnetFolder folder_{root_ / "lab"};
};

std::unique_ptr<endpoint::Endpoint> attach(const fabric::SubnetFolder& folder,
                                           const std::string& hca) {
  auto endpoint = endpoint::Endpoint::attach(folder, hca);
  EXPECT_TRUE(endpoint) << (endpoint ? "" : endpoint.error().message);
  return endpoint ? std::move(*endpoint) : nullptr;
}

TEST_F(SubnetProcessTest, AddsTheHcaThatAProcessAttachesTo) {
  const RunningSubnet subnet(folder_);
  const auto a = attach(folder_, "a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->first_port().lid, Lid(2));
  EXPECT_EQ(a->first_port().state, PortState::active);
  EXPECT_EQ(control::request_attach(folder_, {"a"}).value(), a->node());
  const auto node = shown_node(folder_, "a");
  ASSERT_FALSE(node.empty());
  EXPECT_EQ(node.at("processes").as_array().size(), 1U);
  EXPECT_EQ(node.at("processes").as_array()[0].at("pid").as_int64(), ::getpid());
}

TEST_F(SubnetProcessTest, RefusesASecondProcessInItsFolder) {
  const RunningSubnet subnet(folder_);
  try {
    const RunningSubnet second(folder_);
    FAIL() << "a second subnet process runs";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("is already running"), std::string::npos);
  }
  EXPECT_TRUE(request(folder_, control::Show{})) << "the first one still serves";
}

TEST_F(SubnetProcessTest, PublishesChangesBeforeItResponds) {
  const RunningSubnet subnet(folder_);
  const auto node = control::request_attach(folder_, {"a"}).value();
  const auto fabric = fabric::Fabric::open(folder_.fabric()).value();
  ASSERT_TRUE(request(folder_, control::SetPort{"a", PortState::down}));
  EXPECT_EQ(fabric.port_state(node), PortState::down);
  ASSERT_TRUE(request(folder_, control::SetLid{"a", Lid(0x55)}));
  EXPECT_EQ(fabric.node_at(0, Lid(0x55)), node);
  ASSERT_TRUE(
      request(folder_, control::SetPartition{"a", PKey(0x12), subnet::Membership::limited}));
  EXPECT_EQ(fabric.node(node)->port.pkeys[1], PKey(0x0012));
  ASSERT_TRUE(request(folder_, control::RestartSm{}));
  EXPECT_EQ(fabric.node(node)->port.reregister_count, 1U);
  ASSERT_TRUE(request(folder_, control::SetHca{"a", control::HcaState::absent}));
  EXPECT_FALSE(fabric.node(node));
  EXPECT_FALSE(std::filesystem::exists(folder_.node(node)));
}

TEST_F(SubnetProcessTest, ShowsSwitchesWithTheirCables) {
  subnet::SubnetConfig config;
  config.topology = test::two_level_tree();
  const RunningSubnet subnet(folder_, config);
  ASSERT_TRUE(request(folder_, control::ChangeCable{{"leaf-1", 4}, {}, {.loss = 7, .delay = 8}}));
  ASSERT_TRUE(request(folder_, control::SetCable{{"leaf-1", 3}, {}, subnet::CableState::down}));
  const auto shown = request(folder_, control::Show{}).value();
  const auto& leaf = shown.at("switches").at(0);
  EXPECT_EQ(leaf.at("name"), "leaf-1");
  EXPECT_EQ(leaf.at("state"), "present");
  EXPECT_EQ(leaf.at("port_count"), 4);
  const auto& ports = leaf.at("ports").as_array();
  ASSERT_EQ(ports.size(), 4U);
  EXPECT_EQ(ports[0].at("port"), 1);
  EXPECT_EQ(ports[0].at("hca"), "host-1");
  EXPECT_EQ(ports[0].at("hca_port"), 1);
  EXPECT_EQ(ports[0].at("state"), "active");
  EXPECT_EQ(ports[2].at("to"), "spine-1");
  EXPECT_EQ(ports[2].at("to_port"), 1);
  EXPECT_EQ(ports[2].at("state"), "down");
  EXPECT_EQ(ports[3].at("to"), "spine-2");
  EXPECT_EQ(ports[3].at("state"), "active");
  EXPECT_EQ(ports[3].at("loss"), 7);
  EXPECT_EQ(ports[3].at("delay"), 8);
  const auto host = shown_node(folder_, "host-3");
  EXPECT_EQ(host.at("switch"), "leaf-2");
  EXPECT_EQ(host.at("switch_port"), 1);
}

TEST_F(SubnetProcessTest, RejectsImpossibleChanges) {
  const RunningSubnet subnet(folder_);
  const auto a = attach(folder_, "a");
  const auto code = [&](const control::Request& what) {
    const auto response = request(folder_, what);
    return response ? 0 : response.error().code;
  };
  EXPECT_EQ(code(control::SetPort{"nobody", PortState::down}), ENODEV);
  EXPECT_EQ(code(control::SetLid{"a", Lid(0xc000)}), EINVAL);
  EXPECT_EQ(code(control::SetHca{subnet::kSmName, control::HcaState::absent}), EBUSY)
      << "the subnet process is attached to it";
  EXPECT_EQ(code(control::SetHca{"a", control::HcaState::absent}), EBUSY)
      << "this process is attached to it";
  EXPECT_EQ(control::request_attach(folder_, {subnet::kSwitchName}).error().code, EINVAL);
}

subnet::SubnetConfig external_sm_config() {
  subnet::SubnetConfig config;
  config.management = subnet::Management::external_sm;
  return config;
}

TEST_F(SubnetProcessTest, LeavesLidsAndStatesToAnExternalSm) {
  const RunningSubnet subnet(folder_, external_sm_config());
  const auto a = attach(folder_, "a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->first_port().state, PortState::init);
  EXPECT_EQ(a->first_port().lid, Lid());
  const auto code = [&](const control::Request& what) {
    const auto response = request(folder_, what);
    return response ? 0 : response.error().code;
  };
  EXPECT_EQ(code(control::SetLid{"a", Lid(9)}), EOPNOTSUPP);
  EXPECT_EQ(code(control::RestartSm{}), EOPNOTSUPP);
  EXPECT_EQ(code(control::SetPort{"a", PortState::down}), 0);
  EXPECT_EQ(code(control::SetPort{"a", PortState::active}), 0);
  EXPECT_EQ(shown_node(folder_, "a").at("state"), "init");
  const auto subnet_json = request(folder_, control::Show{}).value();
  EXPECT_EQ(subnet_json.at("sm"), "none");
  EXPECT_TRUE(subnet_json.at("partitions").as_array().empty());
  EXPECT_TRUE(subnet_json.at("groups").as_array().empty());
}

TEST_F(SubnetProcessTest, RefusesToAttachToTheSwitch) {
  const RunningSubnet subnet(folder_, external_sm_config());
  EXPECT_FALSE(shown_node(folder_, subnet::kSwitchName).empty());
  const auto refused = endpoint::Endpoint::attach(folder_, subnet::kSwitchName);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EINVAL);
  EXPECT_EQ(refused.error().message,
            "'softib-switch' is the switch, not an HCA: choose another name");
}

TEST_F(SubnetProcessTest, AdoptsASubnetOnlyUnderTheSameManagement) {
  std::unique_ptr<endpoint::Endpoint> a;
  {
    const RunningSubnet first(folder_);
    a = attach(folder_, "a");
  }
  try {
    const RunningSubnet second(folder_, external_sm_config());
    FAIL() << "it adopted a subnet that has an SM";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("with a subnet manager of its own"));
  }
  EXPECT_NO_THROW(const RunningSubnet third(folder_));
}

TEST_F(SubnetProcessTest, FailsAnHcaThatHasProcesses) {
  const RunningSubnet subnet(folder_);
  const auto a = attach(folder_, "a");
  const auto set = [&](control::HcaState state) {
    const auto response = request(folder_, control::SetHca{"a", state});
    return response ? 0 : response.error().code;
  };
  EXPECT_EQ(set(control::HcaState::failed), 0);
  EXPECT_TRUE(eventually([&] { return a->is_lost(); }));
  EXPECT_EQ(shown_node(folder_, "a").at("state"), "failed");
  const auto refused = endpoint::Endpoint::attach(folder_, "a");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ENODEV);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("softib set hca a present"));
  EXPECT_EQ(request(folder_, control::SetPort{"a", PortState::active}).error().code, ENODEV);
  EXPECT_EQ(set(control::HcaState::absent), EBUSY) << "this process still has its slot";
  EXPECT_EQ(set(control::HcaState::present), 0);
  EXPECT_EQ(shown_node(folder_, "a").at("state"), "active");
  EXPECT_TRUE(a->is_lost()) << "an endpoint does not recover";
  EXPECT_EQ(attach(folder_, "a")->node(), a->node());
  EXPECT_EQ(
      request(folder_, control::SetHca{subnet::kSmName, control::HcaState::failed}).error().code,
      EINVAL);
  const auto nobody = request(folder_, control::SetHca{"nobody", control::HcaState::failed});
  EXPECT_EQ(nobody.error().code, ENODEV);
}

TEST_F(SubnetProcessTest, LetsQueuePairsOfItsProgramsFail) {
  const RunningSubnet subnet(folder_);
  const auto node = control::request_attach(folder_, {"a"}).value();
  const auto fabric = fabric::Fabric::open(folder_.fabric()).value();
  const auto code = [&](const std::string& hca, Qpn qpn) {
    const auto response = request(folder_, control::FailQps{hca, qpn});
    return response ? 0 : response.error().code;
  };
  EXPECT_EQ(code("nobody", Qpn()), ENODEV);
  EXPECT_EQ(code("a", Qpn()), ENOENT) << "no program uses it";
  EXPECT_EQ(code(subnet::kSmName, Qpn()), EINVAL);
  const auto a = attach(folder_, "a");
  const auto qpn = QpnLayout::make(a->epoch(), a->slot(), 7);
  EXPECT_EQ(code("a", QpnLayout::make(a->epoch() + 1, a->slot(), 7)), ENOENT) << "a later process";
  EXPECT_EQ(code("a", QpnLayout::make(a->epoch(), a->slot() + 1, 7)), ENOENT) << "no process";
  EXPECT_EQ(fabric.node(node)->port.qp_errors, QpErrors());
  EXPECT_EQ(code("a", qpn), 0);
  EXPECT_EQ(code("a", Qpn()), 0);
  EXPECT_THAT(fabric.node(node)->port.qp_errors.since({}), testing::ElementsAre(qpn, Qpn()));
}

TEST_F(SubnetProcessTest, RejectsMalformedRequests) {
  const RunningSubnet subnet(folder_);
  for (const auto* line : {"", "{}", "[]", "attach ", "{\"command\":7}", "attach ../..",
                           "{\"command\":\"set-lid\",\"hca\":\"a\",\"lid\":65536}"}) {
    const auto response = control::send_request(folder_, line);
    ASSERT_TRUE(response) << line;
    EXPECT_EQ(control::parse_response(*response).error().code, EINVAL) << line;
  }
  const auto response =
      control::send_request(folder_, std::string(control::kMaxRequestSize + 1, 'x'));
  ASSERT_TRUE(response);
  EXPECT_EQ(control::parse_response(*response).error().code, EMSGSIZE);
  const auto counted = request(folder_, control::Show{}).value().at("control").as_object();
  EXPECT_EQ(counted.at("bad_requests").to_number<int>(), 8);
  EXPECT_EQ(counted.at("clients").to_number<int>(), 9);
  EXPECT_EQ(counted.at("requests").to_number<int>(), 1);
}

TEST_F(SubnetProcessTest, RejectsClientsBeyondTheBound) {
  const RunningSubnet subnet(folder_);
  std::vector<ipoib::FileDescriptor> clients;
  const ipoib::UnixPath path = ipoib::UnixPath::of(folder_.control()).value();
  for (std::size_t i = 0; i < control::kMaxClientsPerUser; ++i) {
    clients.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(clients.back().get(), path.address(), ipoib::UnixPath::size()), 0);
  }
  const auto response = request(folder_, control::Show{});
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, EBUSY);
  clients.pop_back();
  EXPECT_TRUE(test::eventually([&] {
    const auto again = request(folder_, control::Show{});
    return again && again->at("control").at("clients_refused").to_number<int>() >= 1;
  }));
}

/// Sends MADs to the SA and waits for responses.
class SaClient final : public endpoint::MadReceiver {
 public:
  explicit SaClient(endpoint::Endpoint& endpoint) : endpoint_(endpoint) {
    endpoint.add_mad_receiver(*this);
  }
  ~SaClient() override { endpoint_.remove_mad_receiver(*this); }

  MadPacket request(const MadPacket& packet) {
    std::array<std::uint8_t, MadPacket::kMaxPacketSize> bytes;
    endpoint_.send_mad(1, packet.emit(bytes));
    std::unique_lock guard(mutex_);
    if (!arrived_.wait_for(guard, Mailbox::kTimeout, [&] { return response_.has_value(); })) {
      throw std::runtime_error("no response");
    }
    return *std::exchange(response_, std::nullopt);
  }

 private:
  bool receive_mad(const MadPacket& packet) override {
    const std::lock_guard guard(mutex_);
    response_ = packet;
    arrived_.notify_one();
    return true;
  }

  endpoint::Endpoint& endpoint_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::optional<MadPacket> response_;
};

TEST_F(SubnetProcessTest, RespondsToMads) {
  const RunningSubnet subnet(folder_);
  const auto a = attach(folder_, "a");
  SaClient client(*a);
  for (int i = 0; i < 2; ++i) {
    const auto response = client.request(node_request(*a));
    EXPECT_EQ(ipoib::wire::MadHeader::parse(response.mad)->status, 0);
    EXPECT_EQ(response.slid, Lid(1));
  }
}

std::uint64_t counted(const fabric::Fabric& fabric, NodeIndex node, fabric::PortCounter counter) {
  return fabric.counters(node)[static_cast<std::size_t>(counter)];
}

TEST_F(SubnetProcessTest, CountsMalformedMads) {
  const RunningSubnet subnet(folder_);
  const auto fabric = fabric::Fabric::open(folder_.fabric()).value();
  transport::RingWire wire(folder_, fabric);
  const std::array<std::uint8_t, 20> garbage{};
  std::uint64_t lost = 0;
  ASSERT_EQ(wire.send_mad({0, 0}, {garbage}, lost), transport::Delivery::delivered);
  EXPECT_TRUE(
      eventually([&] { return counted(fabric, 0, fabric::PortCounter::drop_malformed) == 1; }));
}

/// The SA does nothing about it.
MadPacket ignored_request(const endpoint::Endpoint& from) {
  constexpr std::size_t kMethod = 3;
  auto packet = node_request(from);
  packet.mad[kMethod] = ipoib::wire::method::kGetResp;
  return packet;
}

TEST_F(SubnetProcessTest, QueuesALimitedNumberOfMadsOfAPort) {
  RunningSubnet subnet(folder_);
  const auto a = attach(folder_, "a");
  const auto b = attach(folder_, "b");
  const auto fabric = fabric::Fabric::open(folder_.fabric()).value();
  std::array<std::uint8_t, MadPacket::kMaxPacketSize> bytes;
  const auto packet = ignored_request(*a);
  const auto mad = packet.emit(bytes);
  constexpr std::size_t kShare = kMaxQueuedMads / 2;
  std::size_t sent = 0;
  const auto send = [&](endpoint::Endpoint& from, ConstBytes what) {
    from.send_mad(1, what);
    ++sent;
    // What its socket has no room for would be dropped.
    ASSERT_TRUE(eventually(
        [&] { return counted(fabric, 0, fabric::PortCounter::received_packets) == sent; }));
  };
  const auto dropped = [&] { return counted(fabric, 0, fabric::PortCounter::drop_mad_full); };
  subnet.run([&] {  // so that nothing is taken from the queue
    for (std::size_t i = 0; i < kShare + 3; ++i) send(*a, mad);
    EXPECT_TRUE(eventually([&] { return dropped() == 3; }));
    send(*b, ignored_request(*b).emit(bytes));
    send(*a, node_request(*a).emit(bytes));
    EXPECT_TRUE(eventually([&] { return dropped() == 4; }));
  });
  SaClient client(*b);
  (void)client.request(node_request(*b));
  EXPECT_EQ(dropped(), 4U);
}

/// A request to create a group of a partition of `from`.
MadPacket group_request(const endpoint::Endpoint& from, std::uint64_t group) {
  using Record = ipoib::wire::McMemberRecord;
  auto packet = node_request(from);
  auto header = ipoib::wire::SaHeader::parse(packet.mad).value();
  header.mad.method = ipoib::wire::method::kSet;
  header.mad.attribute_id = ipoib::wire::attribute::kMcMemberRecord;
  header.component_mask = Record::kMgid | Record::kPortGid | Record::kQKey | Record::kPKey |
                          Record::kTrafficClass | Record::kSl | Record::kFlowLabel |
                          Record::kJoinState;
  Record record;
  record.mgid = Gid(0xff12'0000'0000'0000, ipoib::Guid(group));
  record.port_gid = from.first_port().gid();
  record.pkey = ipoib::kDefaultPKey;
  record.join_state = Record::kFullMember;
  header.emit(packet.mad);
  record.emit(std::span(packet.mad).subspan(ipoib::wire::kSaHeaderSize));
  return packet;
}

/// Multicast LIDs are given in the order in which the requests are served.
TEST_F(SubnetProcessTest, ServesAPortBeforeTheOtherRequestsOfABusyOne) {
  constexpr std::uint64_t kBusy = 50;
  RunningSubnet subnet(folder_);
  const auto busy = attach(folder_, "busy");
  const auto other = attach(folder_, "other");
  const auto fabric = fabric::Fabric::open(folder_.fabric()).value();
  std::array<std::uint8_t, MadPacket::kMaxPacketSize> bytes;
  subnet.run([&] {
    for (std::uint64_t i = 1; i <= kBusy; ++i)
      busy->send_mad(1, group_request(*busy, i).emit(bytes));
    EXPECT_TRUE(eventually(
        [&] { return counted(fabric, 0, fabric::PortCounter::received_packets) == kBusy; }));
    other->send_mad(1, group_request(*other, kBusy + 1).emit(bytes));
    other->send_mad(1,
                    ignored_request(*other).emit(bytes));  // counted when the one before is queued
    EXPECT_TRUE(eventually(
        [&] { return counted(fabric, 0, fabric::PortCounter::received_packets) == kBusy + 2; }));
  });
  std::map<std::string, std::string> mlids;
  const auto all_are_served = [&] {
    const auto shown = request(folder_, control::Show{}).value();
    for (const auto& group : shown.at("groups").as_array()) {
      const auto mgid = std::string(group.at("mgid").as_string());
      if (mgid.starts_with("ff12::")) mlids[std::string(group.at("mlid").as_string())] = mgid;
    }
    return mlids.size() == kBusy + 1;
  };
  ASSERT_TRUE(eventually(all_are_served)) << mlids.size();
  EXPECT_EQ(std::next(mlids.begin())->second, "ff12::33");
}

/// Takes the next response only when it has a permit.
struct SlowReader final : endpoint::MadReceiver {
  bool receive_mad(const MadPacket& /*packet*/) override {
    ++received;
    permits.acquire();
    return true;
  }
  std::atomic<std::size_t> received = 0;
  std::counting_semaphore<> permits{0};
};

TEST_F(SubnetProcessTest, AnswersOthersWhileAClientReadsItsAnswersSlowly) {
  constexpr int kEnough = 1 << 20;
  constexpr int kRounds = 15;
  const RunningSubnet subnet(folder_);
  const auto fabric = fabric::Fabric::open(folder_.fabric()).value();
  const auto slow = attach(folder_, "slow");
  const auto other = attach(folder_, "other");
  SlowReader reader;
  slow->add_mad_receiver(reader);
  SaClient client(*other);
  std::array<std::uint8_t, MadPacket::kMaxPacketSize> bytes;
  const auto from_slow = node_request(*slow).emit(bytes);
  /// The median of the times until a request that follows two of `slow` is answered.
  const auto median_wait = [&](const std::function<void()>& before_each) {
    std::vector<std::chrono::nanoseconds> waits;
    for (int round = 0; round < kRounds; ++round) {
      before_each();
      slow->send_mad(1, from_slow);
      slow->send_mad(1, from_slow);
      const auto begin = std::chrono::steady_clock::now();
      (void)client.request(node_request(*other));
      waits.push_back(std::chrono::steady_clock::now() - begin);
    }
    std::ranges::nth_element(waits, waits.begin() + kRounds / 2);
    return waits[kRounds / 2];
  };
  const auto usual = median_wait([] {});
  ASSERT_TRUE(eventually([&] {
    slow->send_mad(1, from_slow);
    return counted(fabric, 0, fabric::PortCounter::drop_congested) != 0;
  }));
  (void)client.request(node_request(*other));  // what was sent before has been answered
  // Takes one response, so there is room for one of the next two.
  const auto hostile = median_wait([&] {
    const std::size_t before = reader.received;
    reader.permits.release();
    ASSERT_TRUE(eventually([&] { return reader.received > before; }));
  });
  EXPECT_LE(hostile, 50 * usual);
  reader.permits.release(kEnough);
  slow->remove_mad_receiver(reader);
}

/// As perfquery reads them.
TEST_F(SubnetProcessTest, ReportsTheCountersOfAPort) {
  const RunningSubnet subnet(folder_);
  const auto a = attach(folder_, "a");
  using fabric::PortCounter;
  for (const auto counter : {PortCounter::drop_port_not_active, PortCounter::drop_congested,
                             PortCounter::drop_lost_peer, PortCounter::drop_link_fault}) {
    a->count(counter, 1);
  }
  a->count(PortCounter::drop_malformed, 90);
  a->count(PortCounter::drop_icrc, 10);
  a->count(PortCounter::drop_mad_full, 200);
  a->count(PortCounter::sent_bytes, 4 * 300'000'000ULL);
  a->count(PortCounter::received_bytes, 4 * 400'000'000ULL);
  a->count(PortCounter::sent_packets, 500'000'000);
  a->count(PortCounter::received_packets, 600'000'000);
  auto packet = node_request(*a);
  ipoib::wire::MadHeader header = *ipoib::wire::MadHeader::parse(packet.mad);
  header.management_class = ipoib::wire::mgmt_class::kPerf;
  header.class_version = 1;
  header.attribute_id = ipoib::wire::attribute::kPortCounters;
  packet.dlid = a->first_port().lid;
  packet.mad = {};
  header.emit(packet.mad);
  constexpr std::size_t kData = 64;
  packet.mad[kData + 1] = 1;  // PortSelect
  const auto response = SaClient(*a).request(packet);
  EXPECT_EQ(ipoib::wire::MadHeader::parse(response.mad)->status, 0);
  const auto narrow = [&](std::size_t at) {
    return ipoib::load_be<std::uint16_t>(&response.mad[kData + at]);
  };
  const auto wide = [&](std::size_t at) {
    return ipoib::load_be<std::uint32_t>(&response.mad[kData + at]);
  };
  EXPECT_EQ(narrow(4), 10U) << "SymbolErrorCounter";
  EXPECT_EQ(narrow(8), 100U) << "PortRcvErrors";
  EXPECT_EQ(narrow(14), 4U) << "PortXmitDiscards";
  EXPECT_EQ(narrow(22), 200U) << "VL15Dropped";
  // The MADs themselves count as well.
  EXPECT_EQ(wide(24) / 1'000'000, 300U) << "PortXmitData";
  EXPECT_EQ(wide(28) / 1'000'000, 400U) << "PortRcvData";
  EXPECT_EQ(wide(32) / 1'000'000, 500U) << "PortXmitPkts";
  EXPECT_EQ(wide(36) / 1'000'000, 600U) << "PortRcvPkts";
}

TEST_F(SubnetProcessTest, IsUnusedWhileOnlyItsOwnPortHasAProcess) {
  RunningSubnet subnet(folder_);
  EXPECT_TRUE(subnet.is_unused());
  auto a = attach(folder_, "a");
  EXPECT_FALSE(subnet.is_unused());
  a.reset();
  EXPECT_TRUE(subnet.is_unused());
}

TEST_F(SubnetProcessTest, WakesTheProcessesOfTheSubnetThatItAdopts) {
  std::unique_ptr<endpoint::Endpoint> a;
  {
    const RunningSubnet first(folder_);
    a = attach(folder_, "a");
  }
  Mailbox mailbox;
  a->set_receiver(&mailbox);
  EXPECT_EQ(mailbox.next_port().reregister_count, 0U);
  const RunningSubnet second(folder_);
  EXPECT_EQ(mailbox.next_port().reregister_count, 1U);
  EXPECT_FALSE(folder_.is_ended());
  a->set_receiver(nullptr);
}

TEST_F(SubnetProcessTest, ReclaimsTheSlotsOfKilledPrograms) {
  std::unique_ptr<endpoint::Endpoint> a;
  {
    const RunningSubnet first(folder_);
    a = attach(folder_, "a");
  }
  auto fabric = fabric::Fabric::open(folder_.fabric()).value();
  {
    // A killed program releases its lock and leaves the slot occupied.
    const auto killed = transport::ProcessSlot::take(folder_, fabric, a->node()).value();
    fabric.set_occupied(a->node(), killed.index(), true);
  }
  const auto own = SlotSet().set(a->slot());
  ASSERT_NE(fabric.occupied(a->node()), own);
  const RunningSubnet second(folder_);
  EXPECT_EQ(fabric.occupied(a->node()), own);
}

TEST_F(SubnetProcessTest, CapturesItsOwnPort) {
  const std::string capture = root_ / "sm.pcap";
  const RunningSubnet subnet(folder_, {}, capture);
  const auto a = attach(folder_, "a");
  (void)SaClient(*a).request(node_request(*a));
  EXPECT_GT(std::filesystem::file_size(capture), 2 * MadPacket::kMaxPacketSize);
}

TEST_F(SubnetProcessTest, KeepsAnHcaWhoseSlotIsLockedButNotMarked) {
  std::unique_ptr<RunningSubnet> subnet = std::make_unique<RunningSubnet>(folder_);
  const auto node = control::request_attach(folder_, {"a"}).value();
  auto fabric = fabric::Fabric::open(folder_.fabric()).value();
  auto slot = transport::ProcessSlot::take(folder_, fabric, node).value();
  ASSERT_EQ(fabric.occupied(node), SlotSet());
  EXPECT_EQ(request(folder_, control::SetHca{"a", control::HcaState::absent}).error().code, EBUSY);
  subnet.reset();
  EXPECT_TRUE(std::filesystem::exists(folder_.slot_socket(node, 0)));
  slot.leave(folder_, fabric);
}

TEST_F(SubnetProcessTest, LetsProcessesAttachWhileSubnetsEnd) {
  std::atomic<bool> ended = false;
  std::atomic<int> attached = 0;
  std::thread attacher([&] {
    while (!ended) {
      const auto endpoint = endpoint::Endpoint::attach(folder_, "a");
      if (!endpoint) continue;
      ++attached;
      // Its HCA is in the fabric file that others see.
      const auto fabric = fabric::Fabric::open(folder_.fabric());
      EXPECT_TRUE(fabric && fabric->find("a") == (*endpoint)->node());
    }
  });
  for (int before = 0, rounds = 0; rounds < 20; ++rounds, before = attached) {
    const RunningSubnet subnet(folder_);
    EXPECT_TRUE(eventually([&] { return attached > before; }));
  }
  ended = true;
  attacher.join();
}

TEST_F(SubnetProcessTest, WakesProcessesAgainWhenDescriptorsWereExhausted) {
  const RunningSubnet subnet(folder_);
  const auto first = attach(folder_, "a");
  Mailbox mailbox;
  first->set_receiver(&mailbox);
  ASSERT_EQ(mailbox.next_port().state, PortState::active);
  first->set_receiver(nullptr);
  // The subnet process has no connection yet to another process on the same port.
  const auto second = attach(folder_, "a");
  second->set_receiver(&mailbox);
  ASSERT_EQ(mailbox.next_port().state, PortState::active);
  const ipoib::UnixPath path = ipoib::UnixPath::of(folder_.control()).value();
  const ipoib::FileDescriptor client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(client.get(), path.address(), ipoib::UnixPath::size()), 0);
  const auto send = [&](const control::Request& what) {
    const std::string line = control::emit(what) + "\n";
    std::array<char, 65536> response{};
    return ::send(client.get(), line.data(), line.size(), 0) > 0 &&
           ::recv(client.get(), response.data(), response.size(), 0) > 0;
  };
  ASSERT_TRUE(send(control::SetPort{"nobody", PortState::down}));
  {
    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    const rlimit none{0, before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
    EXPECT_TRUE(send(control::SetPort{"a", PortState::down}));
    // The processes are woken after this response, and before the next one.
    EXPECT_TRUE(send(control::SetPort{"nobody", PortState::down}));
    ::setrlimit(RLIMIT_NOFILE, &before);
  }
  EXPECT_EQ(mailbox.next_port().state, PortState::down);
  second->set_receiver(nullptr);
}

std::vector<std::string> shown_partitions(const fabric::SubnetFolder& folder) {
  std::vector<std::string> keys;
  const auto subnet = request(folder, control::Show{}).value();
  for (const auto& partition : subnet.at("partitions").as_array()) {
    keys.emplace_back(partition.at("pkey").as_string());
  }
  return keys;
}

subnet::SubnetConfig with_partition(const std::string& option) {
  subnet::SubnetConfig config;
  config.partitions = subnet::make_partitions({option}).value();
  return config;
}

TEST_F(SubnetProcessTest, WithoutOptionsKeepsThoseOfTheEarlierProcess) {
  std::unique_ptr<endpoint::Endpoint> a;
  {
    const RunningSubnet first(folder_, with_partition("0x12=full:a"));
    a = attach(folder_, "a");
    ASSERT_TRUE(request(folder_, control::SetPartition{"a", PKey(0x56), subnet::Membership::full}));
  }
  const auto keys = a->first_port().pkeys;
  {
    const RunningSubnet second(folder_);
    EXPECT_THAT(shown_partitions(folder_), testing::ElementsAre("0xffff", "0x8012", "0x8056"));
    EXPECT_EQ(a->first_port().pkeys, keys);
    ASSERT_TRUE(request(folder_, control::DeletePartition{PKey(0x56)}));
  }
  {
    const RunningSubnet third(folder_);
    EXPECT_THAT(shown_partitions(folder_), testing::ElementsAre("0xffff", "0x8012"));
  }
  const RunningSubnet fourth(folder_, with_partition("0x13=full"));
  EXPECT_THAT(shown_partitions(folder_), testing::ElementsAre("0xffff", "0x8013"));
}

TEST_F(SubnetProcessTest, KeepsTheMtuOfAPortForTheNextProcess) {
  std::unique_ptr<endpoint::Endpoint> a;
  const auto mtu = [&] {
    return control::request_attach(folder_, {"b"}) ? a->first_port().mtu : 0;
  };
  {
    const RunningSubnet first(folder_);
    a = attach(folder_, "a");
    EXPECT_EQ(mtu(), 4);
    ASSERT_TRUE(request(folder_, control::SetMtu{"a", 1024}));
    ASSERT_TRUE(request(folder_, control::SetMtu{"b", 512}));
  }
  {
    const RunningSubnet second(folder_);
    EXPECT_EQ(mtu(), 3);
    EXPECT_EQ(shown_node(folder_, "b").at("mtu"), 512);
    ASSERT_TRUE(request(folder_, control::SetHca{"b", control::HcaState::absent}));
  }
  {
    const RunningSubnet third(folder_);
    EXPECT_EQ(mtu(), 3);
    EXPECT_EQ(shown_node(folder_, "b").at("mtu"), 2048) << "another HCA of this name";
  }
  {
    subnet::SubnetConfig given;
    given.mtu = 5;
    const RunningSubnet fourth(folder_, given);
    EXPECT_EQ(mtu(), 3) << "the options that it was given do not say otherwise";
    EXPECT_EQ(shown_node(folder_, "b").at("mtu"), 4096) << "the MTU that it was given";
  }
  const RunningSubnet fifth(folder_);
  EXPECT_EQ(mtu(), 3);
}

TEST_F(SubnetProcessTest, RefusedProcessLeavesTheOptionsAsTheyWere) {
  std::unique_ptr<endpoint::Endpoint> a;
  {
    const RunningSubnet first(folder_, with_partition("0x12=full:a"));
    a = attach(folder_, "a");
  }
  EXPECT_THROW(const RunningSubnet second(folder_, external_sm_config()), std::runtime_error);
  const RunningSubnet third(folder_);
  EXPECT_THAT(shown_partitions(folder_), testing::ElementsAre("0xffff", "0x8012"));
}

TEST_F(SubnetProcessTest, DoesNotStartWithOptionsThatItCannotRead) {
  ASSERT_TRUE(folder_.create());
  std::ofstream(folder_.options()) << "{}";
  EXPECT_THROW(const RunningSubnet subnet(folder_), std::runtime_error);
  EXPECT_NO_THROW(const RunningSubnet subnet(folder_, subnet::SubnetConfig{}));
}

TEST_F(SubnetProcessTest, LastProgramRemovesTheFolderOfASubnetThatEnded) {
  std::unique_ptr<endpoint::Endpoint> a;
  std::unique_ptr<endpoint::Endpoint> b;
  {
    const RunningSubnet subnet(folder_, with_partition("0x12=full"));
    a = attach(folder_, "a");
    b = attach(folder_, "b");
    EXPECT_FALSE(fabric::remove_if_ended(folder_)) << "it runs";
  }
  EXPECT_TRUE(folder_.is_ended());
  const std::array own{fabric::SlotAddress{a->node(), a->slot()}};
  const std::array both{own.front(), fabric::SlotAddress{b->node(), b->slot()}};
  EXPECT_FALSE(fabric::remove_if_ended(folder_, own)) << "b uses it";
  EXPECT_FALSE(fabric::remove_if_ended(folder_));
  b.reset();
  EXPECT_FALSE(fabric::remove_if_ended(folder_)) << "a uses it";
  EXPECT_TRUE(fabric::remove_if_ended(folder_, both)) << "a process on both HCAs";
  EXPECT_FALSE(std::filesystem::exists(folder_.path()));
}

TEST_F(SubnetProcessTest, StartRemovesTheFoldersOfEndedSubnets) {
  const fabric::SubnetFolder other(root_ / "other");
  for (const auto& folder : {folder_, other}) {
    std::unique_ptr<endpoint::Endpoint> a;
    {
      const RunningSubnet subnet(folder, with_partition("0x12=full"));
      a = attach(folder, "a");
    }
    ASSERT_TRUE(std::filesystem::exists(folder.path()));
  }
  const RunningSubnet subnet(folder_);
  EXPECT_FALSE(std::filesystem::exists(other.path()));
  EXPECT_THAT(shown_partitions(folder_), testing::ElementsAre("0xffff"))
      << "nobody used the earlier subnet any more";
  EXPECT_TRUE(shown_node(folder_, "a").empty());
}

TEST_F(SubnetProcessTest, FolderOfAKilledSubnetIsKept) {
  const fabric::SubnetFolder killed(root_ / "killed");
  {
    const RunningSubnet subnet(folder_, with_partition("0x12=full"));
    const auto a = attach(folder_, "a");
    // What a process that is killed now would leave.
    std::filesystem::create_directories(killed.path() + "/node");
    std::filesystem::copy_file(folder_.fabric(), killed.fabric());
    std::filesystem::copy_file(folder_.options(), killed.options());
    std::filesystem::copy_file(folder_.lock(), killed.lock());
  }
  fabric::remove_ended_folders(root_ / "");
  ASSERT_TRUE(std::filesystem::exists(killed.fabric()));
  {
    const RunningSubnet subnet(killed);
    EXPECT_THAT(shown_partitions(killed), testing::ElementsAre("0xffff", "0x8012"));
    EXPECT_FALSE(shown_node(killed, "a").empty());
  }
  EXPECT_FALSE(std::filesystem::exists(killed.path()));
}

TEST_F(SubnetProcessTest, DeletesAPartition) {
  const RunningSubnet subnet(folder_, with_partition("0x12=full"));
  const auto a = attach(folder_, "a");
  const auto code = [&](const control::Request& what) {
    const auto response = request(folder_, what);
    return response ? 0 : response.error().code;
  };
  EXPECT_EQ(code(control::DeletePartition{PKey(0x12)}), 0);
  EXPECT_THAT(shown_partitions(folder_), testing::ElementsAre("0xffff"));
  EXPECT_EQ(a->first_port().pkeys[1], PKey());
  EXPECT_EQ(code(control::DeletePartition{PKey(0x12)}), ENOENT);
  EXPECT_EQ(code(control::DeletePartition{PKey(0x7fff)}), EINVAL);
  EXPECT_EQ(code(control::SetPartition{"a", PKey(0x56), subnet::Membership::none}), ENOENT);
  EXPECT_THAT(shown_partitions(folder_), testing::ElementsAre("0xffff"));
}

TEST_F(SubnetProcessTest, TellsTheProcessThatServes) {
  const RunningSubnet subnet(folder_);
  EXPECT_EQ(control::Connection::open(folder_).value().pid(), ::getpid());
  const auto none = control::Connection::open(fabric::SubnetFolder(root_ / "nobody"));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ENOENT);
}

TEST_F(SubnetProcessTest, EndsByRequest) {
  const RunningSubnet subnet(folder_);
  ASSERT_FALSE(subnet.has_ended());
  EXPECT_TRUE(request(folder_, control::Stop{})) << "it responds before it ends";
  EXPECT_TRUE(eventually([&] { return subnet.has_ended(); }));
}

TEST_F(SubnetProcessTest, RemovesItsFolder) {
  { const RunningSubnet subnet(folder_); }
  EXPECT_FALSE(std::filesystem::exists(folder_.path()));
}

TEST_F(SubnetProcessTest, KeepsFilesThatAreNotItsOwn) {
  std::filesystem::create_directories(folder_.path());
  const std::string precious = folder_.path() + "/precious";
  { std::filesystem::copy_file("/proc/self/comm", precious); }
  { const RunningSubnet subnet(folder_); }
  EXPECT_TRUE(std::filesystem::exists(precious));
  EXPECT_FALSE(std::filesystem::exists(folder_.fabric()));
}

TEST_F(SubnetProcessTest, AdoptsTheSubnetOfAnEarlierProcess) {
  std::unique_ptr<endpoint::Endpoint> a;
  {
    const RunningSubnet first(folder_);
    a = attach(folder_, "a");
    ASSERT_TRUE(request(folder_, control::SetLid{"a", Lid(0x55)}));
  }
  EXPECT_TRUE(std::filesystem::exists(folder_.fabric())) << "a program is attached";
  EXPECT_FALSE(std::filesystem::exists(folder_.control()));
  EXPECT_EQ(a->first_port().lid, Lid(0x55));
  const auto failed = request(folder_, control::Show{});
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message.find("softib subnet"), std::string::npos);

  const RunningSubnet second(folder_);
  EXPECT_EQ(a->first_port().lid, Lid(0x55));
  EXPECT_EQ(a->first_port().reregister_count, 1U);
  EXPECT_EQ(control::request_attach(folder_, {"a"}).value(), a->node());
  const auto response = SaClient(*a).request(node_request(*a));
  EXPECT_EQ(ipoib::wire::MadHeader::parse(response.mad)->status, 0);
}

/// Every process on the subnet may write to the file.
TEST_F(SubnetProcessTest, SurvivesATruncatedFabricFile) {
  std::unique_ptr<endpoint::Endpoint> a;
  {
    const RunningSubnet subnet(folder_);
    a = attach(folder_, "a");
    std::filesystem::resize_file(folder_.fabric(), 0);
    EXPECT_TRUE(request(folder_, control::SetPort{"a", PortState::down}));
    EXPECT_TRUE(request(folder_, control::Show{}));
    EXPECT_FALSE(endpoint::Endpoint::attach(folder_, "a")) << "the file is not usable";
    a->set_receiver(nullptr);
    Mailbox mailbox;
    a->set_receiver(&mailbox);  // wakes the engine
    EXPECT_TRUE(eventually([&] { return a->is_lost(); }));
    a->set_receiver(nullptr);
    a->detach();
  }
  EXPECT_FALSE(std::filesystem::exists(folder_.path()));
  const RunningSubnet again(folder_);
  EXPECT_NE(attach(folder_, "a"), nullptr);
}

TEST_F(SubnetProcessTest, PublishesBroadcastGroupsAtStart) {
  subnet::SubnetConfig config;
  config.partitions = subnet::make_partitions({"0x12=full,nogroup", "0x13=full"}).value();
  const RunningSubnet subnet(folder_, config);
  const auto fabric = fabric::Fabric::open(folder_.fabric()).value();
  EXPECT_EQ(fabric.group(Lid(0xc000))->mgid.to_string(), "ff12:401b:ffff::ffff:ffff");
  EXPECT_EQ(fabric.group(Lid(0xc001))->mgid.to_string(), "ff12:401b:8013::ffff:ffff");
  EXPECT_TRUE(fabric.group(Lid(0xc002))->mgid.is_zero());
}

}  // namespace
}  // namespace softib::subnetd
