// The process of a subnet as its clients see it: control socket, fabric file, MADs, and what is
// left when it ends.
#include "softib/subnetd/subnet_process.hpp"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <mutex>

#include "ipoib/file_descriptor.hpp"
#include "packets.hpp"
#include "running_subnet.hpp"
#include "softib/core/mad_route.hpp"
#include "softib/fabric/unix_path.hpp"
#include "softib/transport/process_slot.hpp"
#include "temporary_folder.hpp"
#include "wire/mad.hpp"
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

TEST_F(SubnetProcessTest, AddsAnHcaForWhoeverAttaches) {
  const RunningSubnet subnet(folder_);
  const auto a = attach(folder_, "a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->port().lid, Lid(2));
  EXPECT_EQ(a->port().state, PortState::active);
  EXPECT_EQ(control::request_attach(folder_, {"a"}).value(), a->node());
  const auto node = shown_node(folder_, "a");
  ASSERT_FALSE(node.empty());
  EXPECT_EQ(node.at("processes").as_array().size(), 1U);
  EXPECT_EQ(node.at("processes").as_array()[0].at("pid").as_int64(), ::getpid());
}

TEST_F(SubnetProcessTest, IsAloneInItsFolder) {
  const RunningSubnet subnet(folder_);
  try {
    const RunningSubnet second(folder_);
    FAIL() << "a second one runs";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("is running already"), std::string::npos);
  }
  EXPECT_TRUE(ask(folder_, control::Show{})) << "the first one is none the worse";
}

TEST_F(SubnetProcessTest, ChangesAreInTheFabricFileWhenTheAnswerComes) {
  const RunningSubnet subnet(folder_);
  const auto node = control::request_attach(folder_, {"a"}).value();
  const auto fabric = fabric::Fabric::open(folder_.fabric()).value();
  ASSERT_TRUE(ask(folder_, control::SetPort{"a", PortState::down}));
  EXPECT_EQ(fabric.port_state(node), PortState::down);
  ASSERT_TRUE(ask(folder_, control::SetLid{"a", Lid(0x55)}));
  EXPECT_EQ(fabric.node_at(Lid(0x55)), node);
  ASSERT_TRUE(ask(folder_, control::SetPartition{"a", PKey(0x12), subnet::Membership::limited}));
  EXPECT_EQ(fabric.node(node)->port.pkeys[1], PKey(0x0012));
  ASSERT_TRUE(ask(folder_, control::RestartSm{}));
  EXPECT_EQ(fabric.node(node)->port.reregister_count, 1U);
  ASSERT_TRUE(ask(folder_, control::SetHca{"a", control::HcaState::absent}));
  EXPECT_FALSE(fabric.node(node));
  EXPECT_FALSE(std::filesystem::exists(folder_.node(node)));
}

TEST_F(SubnetProcessTest, RefusesWhatCannotBe) {
  const RunningSubnet subnet(folder_);
  const auto a = attach(folder_, "a");
  const auto code = [&](const control::Request& request) {
    const auto answer = ask(folder_, request);
    return answer ? 0 : answer.error().code;
  };
  EXPECT_EQ(code(control::SetPort{"nobody", PortState::down}), ENODEV);
  EXPECT_EQ(code(control::SetLid{"a", Lid(0xc000)}), EINVAL);
  EXPECT_EQ(code(control::SetHca{subnet::kSmName, control::HcaState::absent}), EBUSY)
      << "this very process runs on it";
  EXPECT_EQ(code(control::SetHca{"a", control::HcaState::absent}), EBUSY) << "we run on it";
  EXPECT_EQ(code(control::Attach{subnet::kSwitchName}), EINVAL);
}

subnet::SubnetConfig external_sm_config() {
  subnet::SubnetConfig config;
  config.management = subnet::Management::external_sm;
  return config;
}

TEST_F(SubnetProcessTest, LeavesWhatIsDecidedElsewhere) {
  const RunningSubnet subnet(folder_, external_sm_config());
  const auto a = attach(folder_, "a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->port().state, PortState::init);
  EXPECT_EQ(a->port().lid, Lid());
  const auto code = [&](const control::Request& request) {
    const auto answer = ask(folder_, request);
    return answer ? 0 : answer.error().code;
  };
  EXPECT_EQ(code(control::SetLid{"a", Lid(9)}), EOPNOTSUPP);
  EXPECT_EQ(code(control::RestartSm{}), EOPNOTSUPP);
  EXPECT_EQ(code(control::SetPort{"a", PortState::down}), 0);
  EXPECT_EQ(code(control::SetPort{"a", PortState::active}), 0);
  EXPECT_EQ(shown_node(folder_, "a").at("state"), "init");
  const auto picture = ask(folder_, control::Show{}).value();
  EXPECT_EQ(picture.at("sm"), "none");
  EXPECT_TRUE(picture.at("partitions").as_array().empty());
  EXPECT_TRUE(picture.at("groups").as_array().empty());
}

TEST_F(SubnetProcessTest, TheSwitchIsNoHca) {
  const RunningSubnet subnet(folder_, external_sm_config());
  EXPECT_FALSE(shown_node(folder_, subnet::kSwitchName).empty());
  const auto refused = endpoint::Endpoint::attach(folder_, subnet::kSwitchName);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EINVAL);
}

TEST_F(SubnetProcessTest, GoesOnOnlyAsItWasManaged) {
  std::unique_ptr<endpoint::Endpoint> a;
  {
    const RunningSubnet first(folder_);
    a = attach(folder_, "a");
  }
  try {
    const RunningSubnet second(folder_, external_sm_config());
    FAIL() << "it has adopted nodes that it knows nothing of";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("with a subnet manager of its own"));
  }
  EXPECT_NO_THROW(const RunningSubnet third(folder_));
}

TEST_F(SubnetProcessTest, AnHcaFailsUnderItsProcesses) {
  const RunningSubnet subnet(folder_);
  const auto a = attach(folder_, "a");
  const auto set = [&](control::HcaState state) {
    const auto answer = ask(folder_, control::SetHca{"a", state});
    return answer ? 0 : answer.error().code;
  };
  EXPECT_EQ(set(control::HcaState::failed), 0);
  EXPECT_TRUE(eventually([&] { return a->is_lost(); }));
  EXPECT_EQ(shown_node(folder_, "a").at("state"), "failed");
  const auto refused = endpoint::Endpoint::attach(folder_, "a");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ENODEV);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("softib set hca a present"));
  EXPECT_EQ(ask(folder_, control::SetPort{"a", PortState::active}).error().code, ENODEV);
  EXPECT_EQ(set(control::HcaState::absent), EBUSY) << "we still have its place";
  EXPECT_EQ(set(control::HcaState::present), 0);
  EXPECT_EQ(shown_node(folder_, "a").at("state"), "active");
  EXPECT_TRUE(a->is_lost()) << "for good";
  EXPECT_EQ(attach(folder_, "a")->node(), a->node());
  EXPECT_EQ(ask(folder_, control::SetHca{subnet::kSmName, control::HcaState::failed}).error().code,
            EINVAL);
  const auto nobody = ask(folder_, control::SetHca{"nobody", control::HcaState::failed});
  EXPECT_EQ(nobody.error().code, ENODEV);
}

TEST_F(SubnetProcessTest, AnswersNonsenseWithARefusal) {
  const RunningSubnet subnet(folder_);
  for (const auto* line : {"", "{}", "[]", "{\"command\":\"attach\"}", "{\"command\":7}",
                           "{\"command\":\"attach\",\"hca\":\"../..\"}",
                           "{\"command\":\"set-lid\",\"hca\":\"a\",\"lid\":65536}"}) {
    const auto answer = control::control_request(folder_, line);
    ASSERT_TRUE(answer) << line;
    EXPECT_EQ(control::parse_answer(*answer).error().code, EINVAL) << line;
  }
  const auto answer =
      control::control_request(folder_, std::string(control::kMaxControlRequest + 1, 'x'));
  ASSERT_TRUE(answer);
  EXPECT_EQ(control::parse_answer(*answer).error().code, EMSGSIZE);
  const auto counted = ask(folder_, control::Show{}).value().at("control").as_object();
  EXPECT_EQ(counted.at("bad_requests").to_number<int>(), 8);
  EXPECT_EQ(counted.at("clients").to_number<int>(), 9);
  EXPECT_EQ(counted.at("requests").to_number<int>(), 1);
}

TEST_F(SubnetProcessTest, TurnsClientsAwayBeyondTheBound) {
  const RunningSubnet subnet(folder_);
  std::vector<ipoib::FileDescriptor> clients;
  const fabric::UnixPath path = fabric::UnixPath::of(folder_.control()).value();
  for (std::size_t i = 0; i < control::kMaxControlClients; ++i) {
    clients.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(clients.back().get(), path.address(), fabric::UnixPath::size()), 0);
  }
  const auto answer = ask(folder_, control::Show{});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, EBUSY);
  clients.pop_back();
  EXPECT_TRUE(test::eventually([&] {
    const auto again = ask(folder_, control::Show{});
    return again && again->at("control").at("clients_refused").to_number<int>() >= 1;
  }));
}

/// Sends MADs to the SA and waits for what comes back.
class Mads final : public endpoint::MadReceiver {
 public:
  explicit Mads(endpoint::Endpoint& endpoint) : endpoint_(endpoint) {
    endpoint.set_mad_receiver(this);
  }
  ~Mads() override { endpoint_.set_mad_receiver(nullptr); }

  MadPacket ask(const MadPacket& packet) {
    std::array<std::uint8_t, MadPacket::kPacketSize> octets;
    packet.emit(octets);
    endpoint_.send_mad(octets);
    std::unique_lock guard(mutex_);
    arrived_.wait(guard, [&] { return answer_.has_value(); });
    return *std::exchange(answer_, std::nullopt);
  }

 private:
  void receive_mad(ConstBytes packet) override {
    const std::lock_guard guard(mutex_);
    answer_ = MadPacket::parse(packet);
    arrived_.notify_one();
  }
  void mad_deadline(ipoib::TimePoint /*now*/) override {}

  endpoint::Endpoint& endpoint_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::optional<MadPacket> answer_;
};

MadPacket node_query(const endpoint::Endpoint& from) {
  ipoib::wire::SaHeader header;
  header.mad.management_class = ipoib::wire::mgmt_class::kSubnAdm;
  header.mad.class_version = 2;
  header.mad.method = ipoib::wire::method::kGet;
  header.mad.attribute_id = ipoib::wire::attribute::kNodeRecord;
  const MadRoute route{from.node(), from.place(), from.epoch(), 1};
  header.mad.transaction_id = std::uint64_t{route.high_half()} << 32 | 1;
  header.component_mask = ipoib::wire::NodeRecord::kLid;
  ipoib::wire::NodeRecord asked;
  asked.lid = subnet::kSmLid;
  MadPacket packet;
  packet.slid = from.port().lid;
  packet.dlid = from.port().sm_lid;
  packet.source = packet.destination = ipoib::wire::kGsiQpn;
  packet.qkey = ipoib::wire::kGsiQKey;
  header.emit(packet.mad);
  asked.emit(std::span(packet.mad).subspan(ipoib::wire::kSaHeaderSize));
  return packet;
}

TEST_F(SubnetProcessTest, AnswersMads) {
  const RunningSubnet subnet(folder_);
  const auto a = attach(folder_, "a");
  const auto answer = Mads(*a).ask(node_query(*a));
  EXPECT_EQ(ipoib::wire::MadHeader::parse(answer.mad)->status, 0);
  EXPECT_EQ(answer.slid, subnet::kSmLid);
}

TEST_F(SubnetProcessTest, CapturesItsOwnPort) {
  const std::string capture = root_ / "sm.pcap";
  const RunningSubnet subnet(folder_, {}, capture);
  const auto a = attach(folder_, "a");
  (void)Mads(*a).ask(node_query(*a));
  EXPECT_GT(std::filesystem::file_size(capture), 2 * MadPacket::kPacketSize);
}

TEST_F(SubnetProcessTest, StaysWhereAPlaceIsLockedAndNotYetMarked) {
  std::unique_ptr<RunningSubnet> subnet = std::make_unique<RunningSubnet>(folder_);
  const auto node = control::request_attach(folder_, {"a"}).value();
  auto fabric = std::move(fabric::Fabric::open(folder_.fabric()).value());
  auto place = std::move(transport::Place::take(folder_, fabric, node).value());
  ASSERT_EQ(fabric.occupied(node), 0U);
  EXPECT_EQ(ask(folder_, control::SetHca{"a", control::HcaState::absent}).error().code, EBUSY);
  subnet.reset();
  EXPECT_TRUE(std::filesystem::exists(folder_.place(node, 0)));
  place.leave(folder_, fabric);
}

TEST_F(SubnetProcessTest, ProcessesComeWhileSubnetsEnd) {
  std::atomic<bool> ended = false;
  std::atomic<int> came = 0;
  std::thread visitor([&] {
    while (!ended) {
      const auto endpoint = endpoint::Endpoint::attach(folder_, "a");
      if (!endpoint) continue;
      ++came;
      // Whoever is let in is on the subnet that others see.
      const auto fabric = fabric::Fabric::open(folder_.fabric());
      EXPECT_TRUE(fabric && fabric->find("a") == (*endpoint)->node());
    }
  });
  for (int before = 0, rounds = 0; rounds < 20; ++rounds, before = came) {
    const RunningSubnet subnet(folder_);
    EXPECT_TRUE(eventually([&] { return came > before; }));
  }
  ended = true;
  visitor.join();
}

TEST_F(SubnetProcessTest, NudgesAgainWhenTheSystemHadNothingForIt) {
  const RunningSubnet subnet(folder_);
  const auto a = attach(folder_, "a");
  Mailbox mailbox;
  a->set_receiver(&mailbox);
  ASSERT_EQ(mailbox.next_port().state, PortState::active);
  const fabric::UnixPath path = fabric::UnixPath::of(folder_.control()).value();
  const ipoib::FileDescriptor client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(client.get(), path.address(), fabric::UnixPath::size()), 0);
  const auto tell = [&](const control::Request& request) {
    const std::string line = control::emit(request) + "\n";
    std::array<char, 65536> answer{};
    return ::send(client.get(), line.data(), line.size(), 0) > 0 &&
           ::recv(client.get(), answer.data(), answer.size(), 0) > 0;
  };
  ASSERT_TRUE(tell(control::SetPort{"nobody", PortState::down}));
  {
    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    const rlimit none{0, before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
    EXPECT_TRUE(tell(control::SetPort{"a", PortState::down}));
    ::setrlimit(RLIMIT_NOFILE, &before);
  }
  EXPECT_EQ(mailbox.next_port().state, PortState::down);
  a->set_receiver(nullptr);
}

TEST_F(SubnetProcessTest, LeavesNothingBehind) {
  { const RunningSubnet subnet(folder_); }
  EXPECT_FALSE(std::filesystem::exists(folder_.path()));
}

TEST_F(SubnetProcessTest, LeavesWhatIsNotItsOwn) {
  std::filesystem::create_directories(folder_.path());
  const std::string precious = folder_.path() + "/precious";
  { std::filesystem::copy_file("/proc/self/comm", precious); }
  { const RunningSubnet subnet(folder_); }
  EXPECT_TRUE(std::filesystem::exists(precious));
  EXPECT_FALSE(std::filesystem::exists(folder_.fabric()));
}

TEST_F(SubnetProcessTest, GoesOnWhereAnEarlierOneStopped) {
  std::unique_ptr<endpoint::Endpoint> a;
  {
    const RunningSubnet first(folder_);
    a = attach(folder_, "a");
    ASSERT_TRUE(ask(folder_, control::SetLid{"a", Lid(0x55)}));
  }
  EXPECT_TRUE(std::filesystem::exists(folder_.fabric())) << "a program lives on the subnet";
  EXPECT_EQ(a->port().lid, Lid(0x55));
  const auto refusal = ask(folder_, control::Show{});
  ASSERT_FALSE(refusal);
  EXPECT_NE(refusal.error().message.find("softib subnet"), std::string::npos);

  const RunningSubnet second(folder_);
  EXPECT_EQ(a->port().lid, Lid(0x55));
  EXPECT_EQ(a->port().reregister_count, 1U);
  EXPECT_EQ(control::request_attach(folder_, {"a"}).value(), a->node());
  const auto answer = Mads(*a).ask(node_query(*a));
  EXPECT_EQ(ipoib::wire::MadHeader::parse(answer.mad)->status, 0);
}

TEST_F(SubnetProcessTest, PublishesGroupsBeforeAnybodyJoins) {
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
