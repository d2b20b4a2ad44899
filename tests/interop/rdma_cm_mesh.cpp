// One of many processes that connect to all others by the RDMA CM: rdma_cm_mesh.py runs them.
//
// Usage: rdma_cm_mesh RANK PROCESSES HCAS
//
// It listens and writes "ready". At the first line that it reads, it connects to all processes of a
// lower rank; connections have no queue pairs, so librdmacm leaves each step to this program. It
// writes "connected" when it has one with each other process, and "lost" when the first one ends.
// At the next line it ends those that it has begun; when all have ended, it writes "done".
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <utility>

namespace {

constexpr std::uint32_t kFirstHca = 0x7f4d'0001;  ///< 127.77.0.1
constexpr unsigned kFirstPort = 20'000;
constexpr unsigned kConnectionBits = 12;
constexpr int kResolveTimeout = 60'000;  // ms

[[noreturn]] void fail(const std::string& why) {
  std::cout << why << std::endl;
  std::_Exit(3);
}

void check(int result, const char* call) {
  if (result != 0) fail(call + (" failed: " + std::to_string(errno)));
}

class Mesh {
 public:
  Mesh(unsigned rank, unsigned processes, unsigned hcas)
      : rank_(rank), others_(processes - 1), hcas_(hcas) {
    if (channel_ == nullptr) fail("no event channel");
    check(::rdma_create_id(channel_, &listener_, nullptr, RDMA_PS_TCP), "rdma_create_id");
    auto own = address(rank_);
    check(::rdma_bind_addr(listener_, reinterpret_cast<sockaddr*>(&own)), "rdma_bind_addr");
    check(::rdma_listen(listener_, static_cast<int>(processes)), "rdma_listen");
  }

  void run() {
    say("ready");
    while (ended_ < others_ || !is_ending_) {
      std::array<pollfd, 2> watched{{{channel_->fd, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}}};
      if (::poll(watched.data(), watched.size(), -1) < 0) fail("poll failed");
      if (watched[0].revents != 0) handle_event();
      if (watched[1].revents != 0) handle_line();
    }
    for (const auto& [id, is_own] : ids_) check(::rdma_destroy_id(id), "rdma_destroy_id");
    check(::rdma_destroy_id(listener_), "rdma_destroy_id");
    say("done");
  }

 private:
  static void say(const char* what) { std::cout << what << std::endl; }

  [[nodiscard]] sockaddr_in address(unsigned rank) const {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_addr.s_addr = htonl(kFirstHca + rank % hcas_);
    in.sin_port = htons(static_cast<std::uint16_t>(kFirstPort + rank));
    return in;
  }

  void handle_line() {
    std::string line;
    if (!std::getline(std::cin, line)) fail("nobody is there any more");
    if (!std::exchange(has_begun_, true)) return connect_to_all();
    is_ending_ = true;
    for (const auto& [id, is_own] : ids_) {
      if (is_own) (void)::rdma_disconnect(id);  // one whose peer was killed has ended already
    }
  }

  void connect_to_all() {
    for (unsigned rank = 0; rank < rank_; ++rank) {
      rdma_cm_id* id = nullptr;
      check(::rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP), "rdma_create_id");
      ids_[id] = true;
      auto to = address(rank);
      check(::rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&to), kResolveTimeout),
            "rdma_resolve_addr");
    }
  }

  void handle_event() {
    rdma_cm_event* event = nullptr;
    check(::rdma_get_cm_event(channel_, &event), "rdma_get_cm_event");
    rdma_cm_id* const id = event->id;
    const auto type = event->event;
    const int status = event->status;
    check(::rdma_ack_cm_event(event), "rdma_ack_cm_event");
    rdma_conn_param with{};
    // Of nobody; but a peer takes two connections with the same one for the same.
    with.qp_num = rank_ << kConnectionBits | ++last_connection_;
    with.retry_count = with.rnr_retry_count = 7;
    switch (type) {
      case RDMA_CM_EVENT_ADDR_RESOLVED:
        return check(::rdma_resolve_route(id, kResolveTimeout), "rdma_resolve_route");
      case RDMA_CM_EVENT_ROUTE_RESOLVED:
        return check(::rdma_connect(id, &with), "rdma_connect");
      case RDMA_CM_EVENT_CONNECT_REQUEST:
        ids_[id] = false;
        return check(::rdma_accept(id, &with), "rdma_accept");
      case RDMA_CM_EVENT_CONNECT_RESPONSE:
        check(::rdma_establish(id), "rdma_establish");
        [[fallthrough]];
      case RDMA_CM_EVENT_ESTABLISHED:
        if (++connected_ == others_) say("connected");
        return;
      case RDMA_CM_EVENT_DISCONNECTED:
        (void)::rdma_disconnect(id);
        ++ended_;
        if (ended_ == 1 && !is_ending_) say("lost");
        return;
      case RDMA_CM_EVENT_TIMEWAIT_EXIT:
        return;
      default:
        fail(std::string(::rdma_event_str(type)) + ", status " + std::to_string(status));
    }
  }

  const unsigned rank_;
  const unsigned others_;
  const unsigned hcas_;
  rdma_event_channel* const channel_ = ::rdma_create_event_channel();
  rdma_cm_id* listener_ = nullptr;
  std::map<rdma_cm_id*, bool> ids_;  ///< of connections; whether this process has begun them
  bool has_begun_ = false;
  bool is_ending_ = false;
  unsigned last_connection_ = 0;
  unsigned connected_ = 0;
  unsigned ended_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) fail("usage: rdma_cm_mesh RANK PROCESSES HCAS");
  const auto number = [&](int index) {
    return static_cast<unsigned>(std::strtoul(argv[index], nullptr, 10));
  };
  Mesh(number(1), number(2), number(3)).run();
}
