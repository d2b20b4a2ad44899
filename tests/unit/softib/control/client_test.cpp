// The client of the control socket, against a server that responds as the test wants.
#include "softib/control/client.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <thread>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/unix_path.hpp"
#include "temporary_folder.hpp"

namespace softib::control {
namespace {

class ControlClient : public ::testing::Test {
 protected:
  ControlClient() {
    EXPECT_TRUE(folder_.create());
    const auto path = ipoib::UnixPath::of(folder_.control()).value();
    EXPECT_EQ(::bind(listener_.get(), path.address(), ipoib::UnixPath::size()), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
  }
  ~ControlClient() override {
    (void)::shutdown(listener_.get(), SHUT_RDWR);  // if no client has come
    if (server_.joinable()) server_.join();
  }

  /// Reads a request of the next client, responds, and closes the connection.
  void serve(std::string response) {
    if (server_.joinable()) server_.join();
    server_ = std::thread([this, response = std::move(response)] {
      const ipoib::FileDescriptor client(::accept(listener_.get(), nullptr, nullptr));
      std::array<char, 4096> line{};
      const auto size = ::recv(client.get(), line.data(), line.size(), 0);
      request_.assign(line.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
      std::string_view left = response;
      while (!left.empty()) {
        const auto sent = ::send(client.get(), left.data(), left.size(), MSG_NOSIGNAL);
        if (sent <= 0) return;
        left.remove_prefix(static_cast<std::size_t>(sent));
      }
    });
  }
  /// What the server has read.
  std::string request() {
    server_.join();
    return request_;
  }
  ipoib::Result<NodeIndex> attach_with(const std::string& response) {
    serve(response);
    return request_attach(folder_, {"a"});
  }

  const test::TemporaryFolder root_;
  const fabric::SubnetFolder folder_{root_ / "red"};
  const ipoib::FileDescriptor listener_{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::thread server_;
  std::string request_;
};

TEST_F(ControlClient, AsksForAnHcaAndItsPort) {
  serve("node 7\n");
  EXPECT_EQ(request_attach(folder_, {"a"}).value(), 7);
  EXPECT_EQ(request(), "attach a\n");
  serve("node 8\n");
  EXPECT_EQ(request_attach(folder_, {"a", 2}).value(), 8);
  EXPECT_EQ(request(), "attach a:2\n");
}

/// Whoever owns the folder can put any socket there, such as one that only root may use.
TEST_F(ControlClient, AsksNoProcessOfAnotherUserThanTheOwnerOfTheFolder) {
  constexpr uid_t kOther = 65534;
  if (::chown(folder_.path().c_str(), kOther, static_cast<gid_t>(-1)) != 0) {
    GTEST_SKIP() << "must be root to give a folder away";
  }
  const auto response = send_request(folder_, "show");
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, EPERM);
  EXPECT_THAT(response.error().message,
              testing::EndsWith(", and the folder of user 65534: that user has to remove it"));
  EXPECT_FALSE(Connection::open(folder_));
  ASSERT_EQ(::chown(folder_.path().c_str(), ::geteuid(), static_cast<gid_t>(-1)), 0);
  EXPECT_EQ(Connection::open(folder_).value().pid(), ::getpid());
}

TEST_F(ControlClient, TakesOnlyANodeThatCanExist) {
  EXPECT_EQ(attach_with("node " + std::to_string(kMaxNodes - 1) + "\n").value(), kMaxNodes - 1);
  for (const std::string& response :
       {"node " + std::to_string(kMaxNodes) + "\n", std::string("node -1\n"),
        std::string("node \n"), std::string("nodes\n"), std::string("node 99999999999\n")}) {
    const auto node = attach_with(response);
    ASSERT_FALSE(node) << response;
    EXPECT_EQ(node.error().code, EPROTO) << response;
    EXPECT_THAT(node.error().message,
                testing::StartsWith("the response of the subnet process is unknown; it may be of "
                                    "another version of softib: node"))
        << response;
  }
}

TEST_F(ControlClient, PassesTheErrorOfTheSubnetOn) {
  const auto node = attach_with("error 16 the HCA is busy\n");
  ASSERT_FALSE(node);
  EXPECT_EQ(node.error().code, EBUSY);
  EXPECT_EQ(node.error().message, "the HCA is busy");
}

TEST_F(ControlClient, FailsIfTheSubnetClosesTheConnection) {
  for (const char* response : {"", "node 7"}) {
    const auto node = attach_with(response);
    ASSERT_FALSE(node) << response;
    EXPECT_EQ(node.error().code, EPIPE) << response;
    EXPECT_THAT(
        node.error().message,
        testing::HasSubstr("the subnet 'red' has closed the connection; if it has ended, "));
  }
}

/// The kernel then resets the connection.
TEST_F(ControlClient, FailsIfTheSubnetEndsBeforeItReadsTheRequest) {
  server_ = std::thread([this] {
    const ipoib::FileDescriptor client(::accept(listener_.get(), nullptr, nullptr));
    char first = 0;
    (void)!::recv(client.get(), &first, 1, MSG_PEEK);
  });
  const auto response = send_request(folder_, "show");
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, EPIPE);
  EXPECT_THAT(response.error().message, testing::HasSubstr("softib subnet --subnet red"));
}

TEST_F(ControlClient, ReadsALimitedResponse) {
  serve(std::string(kMaxResponseSize - 1, 'x') + "\n");
  EXPECT_EQ(send_request(folder_, "show").value().size(), kMaxResponseSize - 1);
  serve(std::string(kMaxResponseSize, 'x'));
  const auto endless = send_request(folder_, "show");
  ASSERT_FALSE(endless);
  EXPECT_EQ(endless.error().code, EMSGSIZE);
  EXPECT_THAT(endless.error().message,
              testing::StartsWith("the response of the subnet is longer than "));
}

TEST_F(ControlClient, EndsItsLineOnce) {
  serve("{}\n");
  ASSERT_TRUE(send_request(folder_, "show\n"));
  EXPECT_EQ(request(), "show\n");
}

TEST_F(ControlClient, SaysHowToStartASubnet) {
  const auto none = send_request(fabric::SubnetFolder(root_ / "blue"), "show");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ENOENT);
  EXPECT_THAT(none.error().message, testing::HasSubstr("softib subnet --subnet blue"));
}

}  // namespace
}  // namespace softib::control
