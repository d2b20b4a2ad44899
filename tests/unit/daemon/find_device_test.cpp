#include "daemon/find_device.hpp"

#include <gmock/gmock.h>

#include <stdexcept>

namespace ipoib::daemon {
namespace {

using testing::StrEq;
using testing::ThrowsMessage;
using verbs::LinkLayer;

TEST(FindDeviceTest, ABackupPortIsOfTheSameKind) {
  const PortName backup{.device = "mlx5_1", .port = 2};
  for (const auto kind : {LinkLayer::infiniband, LinkLayer::roce}) {
    EXPECT_NO_THROW(check_link_layers(kind, kind, backup));
    const auto other = kind == LinkLayer::roce ? LinkLayer::infiniband : LinkLayer::roce;
    EXPECT_THAT([&] { check_link_layers(kind, other, backup); },
                ThrowsMessage<std::runtime_error>(
                    StrEq("--backup mlx5_1:2: one port is of InfiniBand, the other one of RoCE: "
                          "choose two of one kind")));
  }
}

}  // namespace
}  // namespace ipoib::daemon
