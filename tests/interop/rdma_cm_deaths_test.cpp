// A server is killed in each state of a connection: its client gets an event at once, not after the
// time-outs of the protocol, and can destroy its ID.
//
// The server is this program, too: "server STAGE" goes on with each connection up to the stage,
// writes a byte, and waits to be killed.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>

namespace {

using ChannelOwner = std::unique_ptr<rdma_event_channel, decltype(&::rdma_destroy_event_channel)>;
using IdOwner = std::unique_ptr<rdma_cm_id, decltype(&::rdma_destroy_id)>;

/// Far less than the protocol's time-outs, which are more than a minute together.
constexpr int kPatience = 20'000;  // ms
constexpr std::uint32_t kThisHca = 0x7f00'0001;

sockaddr_in address(std::uint32_t host, std::uint16_t port) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl(host);
  in.sin_port = htons(port);
  return in;
}

sockaddr* generic(sockaddr_in& in) { return reinterpret_cast<sockaddr*>(&in); }

/// Without a queue pair, so that librdmacm leaves each step to the user.
rdma_conn_param parameters() {
  rdma_conn_param with{};
  with.qp_num = 7;
  with.retry_count = with.rnr_retry_count = 7;
  return with;
}

// --- The server ----------------------------------------------------------------------------------

/// Takes the next event; for a request, the new ID.
rdma_cm_id* await(rdma_event_channel* channel, rdma_cm_event_type type) {
  rdma_cm_event* event = nullptr;
  if (::rdma_get_cm_event(channel, &event) != 0 || event->event != type) ::_exit(3);
  rdma_cm_id* const id = event->id;
  ::rdma_ack_cm_event(event);
  return id;
}

[[noreturn]] void reached() {
  (void)!::write(STDOUT_FILENO, "x", 1);
  for (;;) ::pause();
}

[[noreturn]] void serve(std::string_view stage) {
  rdma_event_channel* const channel = ::rdma_create_event_channel();
  rdma_cm_id* listener = nullptr;
  auto any = address(INADDR_ANY, 0);
  if (channel == nullptr || ::rdma_create_id(channel, &listener, nullptr, RDMA_PS_TCP) != 0 ||
      ::rdma_bind_addr(listener, generic(any)) != 0 || ::rdma_listen(listener, 1) != 0) {
    ::_exit(3);
  }
  const std::uint16_t port = ntohs(::rdma_get_src_port(listener));
  (void)!::write(STDOUT_FILENO, &port, sizeof port);
  if (stage == "listens") reached();
  rdma_cm_id* const id = await(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
  if (stage == "has a request") reached();
  auto with = parameters();
  if (::rdma_accept(id, &with) != 0) ::_exit(3);
  if (stage == "has accepted") reached();
  (void)await(channel, RDMA_CM_EVENT_ESTABLISHED);
  if (stage == "is connected") reached();
  if (::rdma_disconnect(id) != 0) ::_exit(3);
  reached();
}

// --- The client ----------------------------------------------------------------------------------

class Server {
 public:
  explicit Server(const char* stage) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::close(ends[0]);
      ::close(ends[1]);
      ::execl("/proc/self/exe", "server", stage, nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    from_ = ends[0];
    EXPECT_EQ(::read(from_, &port_, sizeof port_), static_cast<ssize_t>(sizeof port_));
  }
  ~Server() {
    kill();
    ::close(from_);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  void wait_for_stage() const {
    char byte = 0;
    EXPECT_EQ(::read(from_, &byte, 1), 1);
  }
  void stop() const {
    ::kill(pid_, SIGSTOP);
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, WUNTRACED), pid_);
  }
  void kill() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
  int from_ = -1;
  std::uint16_t port_ = 0;
};

class RdmaCmDeaths : public ::testing::Test {
 protected:
  /// With a path to the server.
  void prepare(const Server& server) {
    rdma_cm_id* id = nullptr;
    ASSERT_EQ(::rdma_create_id(channel_.get(), &id, nullptr, RDMA_PS_TCP), 0);
    id_.reset(id);
    auto to = address(kThisHca, server.port());
    ASSERT_EQ(::rdma_resolve_addr(id, nullptr, generic(to), kPatience), 0);
    ASSERT_EQ(next_event(), RDMA_CM_EVENT_ADDR_RESOLVED);
    ASSERT_EQ(::rdma_resolve_route(id, kPatience), 0);
    ASSERT_EQ(next_event(), RDMA_CM_EVENT_ROUTE_RESOLVED);
  }
  void connect() {
    auto with = parameters();
    ASSERT_EQ(::rdma_connect(id_.get(), &with), 0);
  }
  void establish() {
    connect();
    ASSERT_EQ(next_event(), RDMA_CM_EVENT_CONNECT_RESPONSE);
    ASSERT_EQ(::rdma_establish(id_.get()), 0);
  }
  /// The type of the next event, which is acknowledged; -1 if there is none in time.
  int next_event() {
    pollfd readable{channel_->fd, POLLIN, 0};
    rdma_cm_event* event = nullptr;
    if (::poll(&readable, 1, kPatience) != 1) return -1;
    if (::rdma_get_cm_event(channel_.get(), &event) != 0) return -1;
    const int type = event->event;
    ::rdma_ack_cm_event(event);
    return type;
  }

  ChannelOwner channel_{::rdma_create_event_channel(), &::rdma_destroy_event_channel};
  IdOwner id_{nullptr, &::rdma_destroy_id};
};

TEST_F(RdmaCmDeaths, OfAListener) {
  Server server("listens");
  prepare(server);
  server.wait_for_stage();
  server.kill();
  connect();
  EXPECT_EQ(next_event(), RDMA_CM_EVENT_REJECTED);
}

TEST_F(RdmaCmDeaths, WithARequest) {
  Server server("has a request");
  prepare(server);
  connect();
  server.wait_for_stage();
  server.kill();
  EXPECT_EQ(next_event(), RDMA_CM_EVENT_REJECTED);
}

TEST_F(RdmaCmDeaths, AfterItHasAccepted) {
  Server server("has accepted");
  prepare(server);
  connect();
  ASSERT_EQ(next_event(), RDMA_CM_EVENT_CONNECT_RESPONSE);
  server.wait_for_stage();
  server.kill();
  EXPECT_EQ(next_event(), RDMA_CM_EVENT_REJECTED);
  EXPECT_NE(::rdma_establish(id_.get()), 0);
}

TEST_F(RdmaCmDeaths, OfAConnectedServer) {
  Server server("is connected");
  prepare(server);
  establish();
  server.wait_for_stage();
  server.kill();
  EXPECT_EQ(next_event(), RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(next_event(), RDMA_CM_EVENT_TIMEWAIT_EXIT);
}

TEST_F(RdmaCmDeaths, AfterItHasDisconnected) {
  Server server("has disconnected");
  prepare(server);
  establish();
  server.wait_for_stage();
  EXPECT_EQ(next_event(), RDMA_CM_EVENT_DISCONNECTED);
  server.kill();
  EXPECT_EQ(::rdma_disconnect(id_.get()), 0) << "nobody has to hear it";
  EXPECT_EQ(next_event(), RDMA_CM_EVENT_TIMEWAIT_EXIT);
}

/// The server has not read the request to disconnect.
TEST_F(RdmaCmDeaths, WhileItsClientDisconnects) {
  Server server("is connected");
  prepare(server);
  establish();
  server.wait_for_stage();
  server.stop();
  ASSERT_EQ(::rdma_disconnect(id_.get()), 0);
  server.kill();
  EXPECT_EQ(next_event(), RDMA_CM_EVENT_DISCONNECTED);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[0]) == "server") serve(argv[1]);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
