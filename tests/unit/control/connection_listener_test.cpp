#include "control/connection_listener.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <optional>
#include <vector>

#include "as_nobody.hpp"
#include "control/socket_folder.hpp"
#include "ipoib/unix_path.hpp"
#include "temporary_run_folder.hpp"

namespace ipoib::control {
namespace {

using namespace std::chrono_literals;

class HandoverSocketTest : public ::testing::Test {
 protected:
  [[nodiscard]] static SocketFolder take(const std::string& name) {
    return SocketFolder::take(own_network_namespace().value(), name, {}).value();
  }
  template <class Condition>
  void run_until(Condition&& holds) {
    for (int i = 0; i < 1000 && !holds(); ++i) context.run_one_for(10ms);
    ASSERT_TRUE(holds());
  }
  boost::asio::io_context context{1};
};

TEST_F(HandoverSocketTest, PassesOnEachConnection) {
  auto folder = take("t-handover");
  auto other = take("t-without");
  std::vector<FileDescriptor> accepted;
  std::optional<ConnectionListener> listener;
  listener.emplace(context, folder.listen_for_handover().value(),
                   [&](FileDescriptor connection) { accepted.push_back(std::move(connection)); });
  auto connected = connect_for_handover();
  ASSERT_EQ(connected.size(), 1U) << "the other interface has no such socket";
  run_until([&] { return accepted.size() == 1; });
  ASSERT_EQ(::send(connected[0].get(), "abc", 3, 0), 3);
  char text[8];
  EXPECT_EQ(::recv(accepted[0].get(), text, sizeof text, MSG_DONTWAIT), 3);
  EXPECT_EQ(::recv(accepted[0].get(), text, sizeof text, 0), -1) << "it does not block";
  auto second = connect_for_handover();
  run_until([&] { return accepted.size() == 2; });
  listener.reset();
  EXPECT_TRUE(connect_for_handover().empty());
}

TEST_F(HandoverSocketTest, TheListenerMayBeDestroyedInItsCall) {
  auto folder = take("t-handover");
  std::optional<ConnectionListener> listener;
  bool called = false;
  listener.emplace(context, folder.listen_for_handover().value(), [&](FileDescriptor) {
    called = true;
    listener.reset();
  });
  const auto connected = connect_for_handover();
  run_until([&] { return called; });
  context.run_for(1ms);
}

TEST_F(HandoverSocketTest, TheFolderDisappearsWithTheSocket) {
  const auto path = kRunFolder.path() + "/" + namespace_folder(own_network_namespace().value());
  {
    auto folder = take("t-handover");
    const auto socket = folder.listen_for_handover();
    ASSERT_TRUE(socket);
    EXPECT_TRUE(std::filesystem::exists(path + "/t-handover/handover"));
  }
  EXPECT_FALSE(std::filesystem::exists(path + "/t-handover"));
}

TEST(SocketFolderTest, OnlyTheDaemonsUserMayTakeOver) {
  REQUIRE_ROOT();
  constexpr gid_t kGroup = 65534;
  auto folder = SocketFolder::take(own_network_namespace().value(), "t-handover",
                                   {.group = kGroup, .group_name = "nogroup", .is_private = false})
                    .value();
  const auto socket = folder.listen_for_handover();
  ASSERT_TRUE(socket) << socket.error().message;
  const auto path =
      UnixPath::of(kRunFolder.path() + "/" + namespace_folder(own_network_namespace().value()) +
                   "/t-handover/" + kHandoverSocket);
  ASSERT_TRUE(path);
  const FileDescriptor client(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  {
    ASSERT_EQ(::setegid(kGroup), 0);
    const AsNobody member;
    ASSERT_TRUE(member.ok());
    EXPECT_EQ(::connect(client.get(), path->address(), UnixPath::size()), -1);
    EXPECT_EQ(errno, EACCES);
  }
  ASSERT_EQ(::setegid(0), 0);
  EXPECT_EQ(::connect(client.get(), path->address(), UnixPath::size()), 0);
}

}  // namespace
}  // namespace ipoib::control
