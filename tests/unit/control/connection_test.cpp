#include "control/connection.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <string>
#include <thread>

#include "running_server.hpp"

namespace ipoib::control {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const Request kInfoRequest = InterfaceRequest(InfoRequest{});

/// A daemon that sends a fixed text to each client and closes.
class FixedTextServer {
 public:
  explicit FixedTextServer(std::string says)
      : name_(RunningServer::unique_name()), listener_(socket(AF_UNIX, SOCK_STREAM, 0)) {
    const std::string path = std::string(kSocketPrefix) + name_;
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::copy(path.begin(), path.end(), at.sun_path + 1);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + path.size());
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<const sockaddr*>(&at), size), 0);
    EXPECT_EQ(listen(listener_.get(), 1), 0);
    thread_ = std::thread([this, text = std::move(says)] {
      const FileDescriptor client(accept(listener_.get(), nullptr, nullptr));
      std::string_view left = text;
      while (!left.empty()) {
        const ssize_t n = send(client.get(), left.data(), left.size(), MSG_NOSIGNAL);
        if (n < 0) break;
        left.remove_prefix(static_cast<std::size_t>(n));
      }
    });
  }
  ~FixedTextServer() { thread_.join(); }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  std::string name_;
  FileDescriptor listener_;
  std::thread thread_;
};

int code_of_response(const std::string& says) {
  const FixedTextServer server(says);
  Connection connection(server.name());
  const Response response = connection.ask(kInfoRequest);
  return response.has_error() ? response.error().code : 0;
}

TEST(Connection, RejectsInvalidResponses) {
  EXPECT_EQ(code_of_response("HTTP/1.1 400 Bad Request\r\n"), EPROTO);
  EXPECT_EQ(code_of_response("{\"ok\":true}\n"), EPROTO);
  EXPECT_EQ(code_of_response("{\"ok\":tr"), EPIPE);
  EXPECT_EQ(code_of_response(""), EPIPE);
}

TEST(Connection, RejectsEndlessResponse) {
  EXPECT_EQ(code_of_response(std::string(2 * kMaxResponseLine, ' ')), EPROTO);
}

TEST(Connection, AcceptsLongResponse) {
  RunningServer server;
  InterfaceInfo info;
  info.groups.resize(5000);
  server.handler.put(info);
  Connection connection(server.name());
  const Response response = connection.ask(kInfoRequest);
  ASSERT_TRUE(response.has_value()) << response.error().message;
  EXPECT_EQ(std::get<InterfaceInfo>(*response).groups.size(), 5000U);
}

TEST(Connection, ReportsResponseThatIsTooLong) {
  RunningServer server;
  InterfaceInfo info;
  info.waiting_for.assign(kMaxResponseLine, 'x');
  server.handler.put(info);
  Connection connection(server.name());
  const Response response = connection.ask(kInfoRequest);
  ASSERT_TRUE(response.has_error());
  EXPECT_EQ(response.error().code, EMSGSIZE);
}

TEST(Discovery, FindsOnlyListenersWithValidNames) {
  EXPECT_THAT(
      interfaces_in(
          "Num       RefCount Protocol Flags    Type St Inode Path\n"
          "0000000000000000: 00000002 00000000 00010000 0001 01 10001 @ipoibd/ib1\n"
          "0000000000000000: 00000002 00000000 00010000 0001 01 10002 @ipoibd/ib0\n"
          "0000000000000000: 00000003 00000000 00000000 0001 03 10003 @ipoibd/ib2\n"
          "0000000000000000: 00000003 00000000 00000000 0001 03 10004 @ipoibd/ib0\n"
          "0000000000000000: 00000002 00000000 00010000 0001 01 10005 /run/@ipoibd/ib3\n"
          "0000000000000000: 00000002 00000000 00010000 0001 01 10006 @ipoibd/\n"
          "0000000000000000: 00000002 00000000 00010000 0001 01 10007 @ipoibd/a-very-long-name-\n"
          "0000000000000000: 00000002 00000000 00010000 0001 01 10008 @ipoibd/\x1b[2Jib4\n"
          "0000000000000000: 00000002 00000000 00010000 0001 01 10009 @ipoibd/ib/5\n"
          "0000000000000000: 00000002 00000000 00010000 0001 01 10010\n"
          "torn line"),
      ElementsAre("ib0", "ib1"));
  EXPECT_THAT(interfaces_in(""), IsEmpty());
  EXPECT_FALSE(tun_interfaces().contains("lo"));
}

}  // namespace
}  // namespace ipoib::control
