#include "daemon/waiting_interfaces.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "control/capture_connection.hpp"
#include "control/connection.hpp"
#include "tests/unit/control/line_client.hpp"
#include "tests/unit/control/temporary_run_folder.hpp"

namespace ipoib::daemon {
namespace {

using control::Connection;
using testing::HasSubstr;

class WaitingInterfacesTest : public testing::Test {
 protected:
  WaitingInterfaces::Settings settings() {
    return {.interfaces = {{.name = one_}, {.name = other_}},
            .device = "mlx5_0",
            .port = 2,
            .reason = "it has failed"};
  }
  static std::string unique(const char* suffix) { return "w" + std::to_string(getpid()) + suffix; }

  const std::string one_ = unique("a");
  const std::string other_ = unique("b");
  const linux::NetworkNamespace home_ = linux::NetworkNamespace::open("").value();
  Logging logs_{LogTarget::standard_error, {}};
};

TEST_F(WaitingInterfacesTest, SaysWhatTheDaemonWaitsFor) {
  const WaitingInterfaces waiting(settings(), home_, logs_);
  for (const auto& name : {one_, other_}) {
    Connection connection(name);
    const auto response = connection.ask(control::InterfaceRequest(control::InfoRequest{}));
    ASSERT_TRUE(response.has_value()) << response.error().message;
    const auto& info = std::get<control::InterfaceInfo>(*response);
    EXPECT_EQ(info.interface, name);
    EXPECT_EQ(info.state, "no_device");
    EXPECT_EQ(info.waiting_for, "the RDMA device: it has failed (ibv_devices lists the devices)");
    EXPECT_EQ(info.device, "mlx5_0");
    EXPECT_EQ(info.port, 2);
    EXPECT_EQ(info.pid, static_cast<std::uint32_t>(getpid()));
    EXPECT_FALSE(info.admin_up) << "there is no such network interface";
    EXPECT_THAT(info.version, testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
    EXPECT_TRUE(control::LineClient(name, control::kReadSocket).connected());
  }
}

TEST_F(WaitingInterfacesTest, IsAsPrivateAsTheDaemon) {
  auto of_root = settings();
  of_root.access.is_private = true;
  const WaitingInterfaces waiting(of_root, home_, logs_);
  EXPECT_FALSE(control::LineClient(one_, control::kReadSocket).connected());
}

TEST_F(WaitingInterfacesTest, RefusesOtherRequests) {
  const WaitingInterfaces waiting(settings(), home_, logs_);
  Connection connection(one_);
  for (const control::Request& request : std::vector<control::Request>{
           control::InterfaceRequest(control::ListRequest{}),
           control::InterfaceRequest(control::StatsRequest{}),
           control::AddInterfaceRequest{PKey(0x8001), ""}, control::DeleteInterfaceRequest{}}) {
    const auto response = connection.ask(request);
    ASSERT_TRUE(response.has_error());
    EXPECT_EQ(response.error().code, ENXIO);
    EXPECT_THAT(response.error().message, HasSubstr("waits for the RDMA device: it has failed"));
  }
  EXPECT_TRUE(connection.ask(control::LogRequest{}).has_value());
  const auto capture = control::CaptureConnection::begin(connection, {});
  ASSERT_FALSE(capture);
  EXPECT_EQ(capture.error().code, ENXIO);
}

TEST_F(WaitingInterfacesTest, LeavesOutAnInterfaceOfAnotherDaemon) {
  auto only_one = settings();
  only_one.interfaces = {{.name = one_}};
  const WaitingInterfaces others(only_one, home_, logs_);
  const WaitingInterfaces waiting(settings(), home_, logs_);
  EXPECT_TRUE(Connection(other_).ask(control::LogRequest{}).has_value());
}

TEST_F(WaitingInterfacesTest, FreesTheSocketsAtTheEnd) {
  for (int i = 0; i < 3; ++i) {
    const WaitingInterfaces waiting(settings(), home_, logs_);
    EXPECT_TRUE(Connection(one_).ask(control::LogRequest{}).has_value());
  }
  EXPECT_TRUE(Connection(one_).open().has_error());
}

}  // namespace
}  // namespace ipoib::daemon
