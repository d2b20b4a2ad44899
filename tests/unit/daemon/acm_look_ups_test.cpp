#include "daemon/acm_look_ups.hpp"

#include "tests/unit/daemon/interfaces/interfaces_fixture.hpp"

namespace ipoib::daemon::acm_look_ups_tests {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;
using wire::acm::Found;
using wire::acm::Status;

const IpAddress kOwn = *parse_ip_address("10.44.0.1");
const IpAddress kPeer = *parse_ip_address("10.44.0.2");

class AcmLookUpsTest : public InterfacesFixture {
 protected:
  AcmLookUpsTest() {
    interfaces.start(port_in({kDefaultPKey, kRed}));
    by_name.at("ib0.8001")->host_address = kOwn;
    (void)taken();
  }
  void find(const wire::acm::Wanted& wanted) {
    answer.reset();
    look_ups.find(wanted, [this](const acm::Server::Answer& found) { answer = found; });
  }
  [[nodiscard]] Status status() const {
    const auto* const why = answer ? std::get_if<Status>(&*answer) : nullptr;
    return why != nullptr ? *why : Status::success;
  }
  void respond(const control::Response& response) { by_name.at("ib0.8001")->resolving(response); }
  [[nodiscard]] static control::Resolution resolution() {
    control::Resolution found;
    found.address = kPeer;
    found.hardware.gid = Gid(Gid::kLinkLocalPrefix, Guid(2));
    found.path = {Lid(7), ServiceLevel(1), 2048, 10'000};
    found.source_gid = Gid(Gid::kLinkLocalPrefix, Guid(1));
    found.source_lid = Lid(3);
    found.pkey = kRed;
    found.rate = 3;
    found.lifetime = 14;
    return found;
  }

  const linux::NetworkNamespace home = linux::NetworkNamespace::open("").value();
  const AcmLookUps look_ups{interfaces, home};
  std::optional<acm::Server::Answer> answer;
};

TEST_F(AcmLookUpsTest, AsksTheInterfaceThatHasTheSourceAddress) {
  find({kPeer, kOwn, false});
  EXPECT_THAT(taken(), ElementsAre("ib0.8001 resolve 10.44.0.2 2000"));
  EXPECT_FALSE(answer);
  respond(control::Reply(resolution()));
  const auto& found = std::get<Found>(*answer);
  EXPECT_EQ(found.source, std::nullopt) << "the client knows it";
  EXPECT_EQ(found.path.dgid, resolution().hardware.gid);
  EXPECT_EQ(found.path.sgid, resolution().source_gid);
  EXPECT_EQ(found.path.dlid, Lid(7));
  EXPECT_EQ(found.path.slid, Lid(3));
  EXPECT_EQ(found.path.pkey, kRed);
  EXPECT_EQ(found.path.sl, ServiceLevel(1));
  EXPECT_EQ(found.path.mtu, 4);
  EXPECT_EQ(found.path.rate, 3);
  EXPECT_EQ(found.path.lifetime, 14);
  EXPECT_TRUE(found.path.reversible);
  EXPECT_EQ(found.path.numb_path, 1);
}

TEST_F(AcmLookUpsTest, TheKernelChoosesTheSourceIfTheClientHasNone) {
  const IpAddress loopback = *parse_ip_address("127.0.0.1");
  find({loopback, std::nullopt, false});
  EXPECT_EQ(status(), Status::source_address);
  by_name.at("ib0")->host_address = loopback;
  find({loopback, std::nullopt, false});
  EXPECT_THAT(taken(), ElementsAre("ib0 resolve 127.0.0.1 2000"));
  by_name.at("ib0")->resolving(control::Reply(resolution()));
  EXPECT_EQ(std::get<Found>(*answer).source, loopback);
}

TEST_F(AcmLookUpsTest, ClientsMayTakeOnlyWhatIsKnown) {
  find({kPeer, kOwn, true});
  EXPECT_THAT(taken(), ElementsAre("ib0.8001 resolve 10.44.0.2 0"));
  respond(Error(ETIMEDOUT, "not resolved in time"));
  EXPECT_EQ(status(), Status::no_data);
}

TEST_F(AcmLookUpsTest, NobodyHasTheSourceAddressHere) {
  find({kPeer, *parse_ip_address("10.44.0.9"), false});
  EXPECT_EQ(status(), Status::source_address);
  by_name.at("ib0.8001")->now_in =
      std::make_shared<const linux::NetworkNamespace>(linux::NetworkNamespace::open("").value());
  find({kPeer, kOwn, false});
  EXPECT_EQ(status(), Status::source_address) << "the interface was moved";
  EXPECT_THAT(taken(), IsEmpty());
}

TEST_F(AcmLookUpsTest, ErrorsAndWhatOnlyTheSaKnows) {
  const auto answered = [](const control::Response& response) {
    return std::get<Status>(acm_answer(response, {}));
  };
  EXPECT_EQ(answered(Error(EINVAL, "")), Status::destination_address);
  EXPECT_EQ(answered(Error(ENETUNREACH, "")), Status::destination_address);
  EXPECT_EQ(answered(Error(EHOSTUNREACH, "")), Status::no_data);
  EXPECT_EQ(answered(Error(ETIMEDOUT, "")), Status::timed_out);
  EXPECT_EQ(answered(Error(EBUSY, "")), Status::no_memory);
  EXPECT_EQ(answered(Error(ENOBUFS, "")), Status::no_memory);
  auto global = resolution();
  global.hop_limit = 64;
  EXPECT_EQ(answered(control::Reply(global)), Status::no_data);
  auto roce = resolution();
  roce.path.dlid = Lid();
  EXPECT_EQ(answered(control::Reply(roce)), Status::no_data);
  auto restored = resolution();
  restored.lifetime.reset();
  EXPECT_EQ(std::get<Found>(acm_answer(control::Reply(restored), {})).path.lifetime, 18);
}

}  // namespace
}  // namespace ipoib::daemon::acm_look_ups_tests
