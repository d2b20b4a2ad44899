#include "daemon/options/reload_request.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

#include "daemon/process/service.hpp"
#include "daemon/waiting_interfaces.hpp"
#include "tests/unit/control/temporary_run_folder.hpp"

namespace ipoib::daemon {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(ReloadRequestTest, ReachesTheDaemonsOfThePortAndNamesTheirInterfaces) {
  const HandledSignals signals;
  const auto home = linux::NetworkNamespace::open("").value();
  Logging logs(LogTarget::standard_error, {});
  const WaitingInterfaces waiting({.interfaces = {{.name = "one"}, {.name = "other"}},
                                   .device = "mlx5_0",
                                   .port = 2,
                                   .reason = "it has failed"},
                                  home, logs);
  const std::string expected =
      "process " + std::to_string(::getpid()) +
      " on mlx5_0 port 2 (one, other): reads its configuration again; its log says what has "
      "changed\n";
  Options options;
  EXPECT_EQ(request_reload(options), expected) << "of any port";
  EXPECT_EQ(signals.take(), SIGHUP);
  options.device = "mlx5_0";
  options.port = 2;
  EXPECT_EQ(request_reload(options), expected);
  EXPECT_EQ(signals.take(), SIGHUP);
  options.port = 1;
  EXPECT_THAT([&] { (void)request_reload(options); },
              ThrowsMessage<std::runtime_error>(HasSubstr("no ipoibd on mlx5_0 port 1")));
  options = {};
  options.device = "mlx5_1";
  options.port = 2;
  EXPECT_THROW((void)request_reload(options), std::runtime_error);
  EXPECT_EQ(signals.take(), std::nullopt);
}

}  // namespace
}  // namespace ipoib::daemon
