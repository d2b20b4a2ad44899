// One of many programs, each on a port of an HCA of its own, of which every pair exchanges a
// datagram and a message of a reliable connection. Then they may send to multicast groups.
//
// Usage: fabric_mesh OWN-INDEX PROGRAMS [PORT]    (below `softib run --hca`)
//
// It writes a line with its LID, the number of its UD queue pair and those of its connections, one
// for each program. It reads one line of each program, in their order:
//
//   LID UD-QPN RC-QPN       of the other program, the connection that is for this one
//
// Then it connects, writes "ready", reads a line, sends, and writes "ok" when it has received from
// all. It writes what is missing if its input ends before that. After that it reads commands:
//
//   group MGID MLID    attaches its UD queue pair to the group, whether or not its port is a
//   member,
//                      and writes "attached"
//   cast NUMBER        sends a datagram to the group and, behind it, a message on each connection;
//                      when it has those of all others, it writes how many datagrams it has got
//                      from each program
//   end
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "verbs_program.hpp"

namespace {

constexpr std::size_t kMessage = 256;  // bytes
constexpr std::size_t kGrh = 40;
constexpr std::uint32_t kQKey = 0x11111111;

struct Program {
  std::uint16_t lid = 0;
  std::uint32_t ud = 0;
  std::uint32_t rc = 0;
  ibv_qp* connection = nullptr;
  ibv_ah* address = nullptr;
};

/// What `from` sends to `to`.
std::string text(const char* service, unsigned from, unsigned to) {
  return std::string(service) + " from " + std::to_string(from) + " to " + std::to_string(to);
}

class Mesh {
 public:
  Mesh(unsigned self, unsigned programs, std::uint8_t port)
      : self_(self), port_(port), all_(programs) {
    context_ = open_first_device();
    pd_ = need(ibv_alloc_pd(context_), "protection domain");
    // Two receive buffers of datagrams and one of the connection for each program, and one to send.
    memory_.resize((3 * all_.size() + 1) * (kMessage + kGrh));
    region_ =
        need(ibv_reg_mr(pd_, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE), "memory");
    const auto entries = static_cast<int>(3 * all_.size());
    sent_ = need(ibv_create_cq(context_, entries, nullptr, nullptr, 0), "completion queue");
    received_ = need(ibv_create_cq(context_, entries, nullptr, nullptr, 0), "completion queue");
    datagrams_ = make(IBV_QPT_UD);
    for (auto& program : all_) program.connection = make(IBV_QPT_RC);
  }

  void introduce() {
    ibv_port_attr port;
    need(ibv_query_port(context_, port_, &port), "port");
    lids_ = 1U << port.lmc;
    std::cout << port.lid << ' ' << datagrams_->qp_num;
    for (const auto& program : all_) std::cout << ' ' << program.connection->qp_num;
    std::cout << std::endl;
    for (auto& program : all_) std::cin >> program.lid >> program.ud >> program.rc;
    if (!std::cin) fail("input");
  }

  void connect() {
    start(datagrams_);
    for (unsigned i = 0; i < 2 * all_.size(); ++i) post_receive(i);
    for (unsigned i = 0; i < all_.size(); ++i) {
      if (i == self_) continue;
      start(all_[i].connection, all_[i]);
      post_receive(static_cast<unsigned>(2 * all_.size()) + i);
      ibv_ah_attr to = way_to(all_[i]);
      all_[i].address = need(ibv_create_ah(pd_, &to), "address handle");
    }
    std::cout << "ready" << std::endl;
    std::string go;
    std::cin >> go;
  }

  void exchange() {
    for (unsigned i = 0; i < all_.size(); ++i) {
      if (i == self_) continue;
      send(all_[i].connection, text("RC", self_, i));
      send(datagrams_, text("UD", self_, i), all_[i].address, all_[i].ud);
    }
    std::vector<std::string> missing(2 * all_.size());
    std::size_t left = 0;
    for (unsigned i = 0; i < all_.size(); ++i) {
      if (i == self_) continue;
      missing[i] = text("UD", i, self_);
      missing[all_.size() + i] = text("RC", i, self_);
      left += 2;
    }
    while (left > 0) {
      if (const std::string found = receive(); !found.empty()) {
        take(found, missing);
        --left;
      } else if (has_input_ended()) {
        for (const auto& each : missing) {
          if (!each.empty()) std::cout << "missing: " << each << std::endl;
        }
        std::exit(1);
      }
    }
    std::cout << "ok" << std::endl;
  }

  void obey() {
    // The end comes when the others need no more answers.
    for (std::string command; std::cin >> command && command != "end";) {
      if (command == "group") {
        attach();
      } else if (command == "cast") {
        std::string number;
        std::cin >> number;
        cast(number);
      } else {
        fail("command " + command);
      }
    }
  }

 private:
  void attach() {
    std::string text;
    unsigned mlid = 0;
    std::cin >> text >> mlid;
    ibv_ah_attr to{};
    if (!std::cin || inet_pton(AF_INET6, text.c_str(), to.grh.dgid.raw) != 1) fail("input");
    need(ibv_attach_mcast(datagrams_, &to.grh.dgid, static_cast<std::uint16_t>(mlid)), "attach");
    to.dlid = static_cast<std::uint16_t>(mlid);
    to.is_global = 1;
    to.port_num = port_;
    group_ = need(ibv_create_ah(pd_, &to), "address handle");
    std::cout << "attached" << std::endl;
  }

  void cast(const std::string& number) {
    constexpr std::uint32_t kMulticastQpn = 0xffffff;
    send(datagrams_, "MC " + number + ' ' + std::to_string(self_), group_, kMulticastQpn);
    for (unsigned i = 0; i < all_.size(); ++i) {
      if (i != self_) send(all_[i].connection, "behind " + number);
    }
    std::vector<unsigned> datagrams(all_.size());
    for (std::size_t left = all_.size() - 1; left > 0;) {
      const std::string found = receive();
      if (found.empty()) {
        if (has_input_ended()) fail(std::to_string(left) + " programs are not heard of");
      } else if (found == "behind " + number) {
        --left;
      } else if (found.starts_with("MC " + number + ' ')) {
        ++datagrams.at(std::stoul(found.substr(4 + number.size())));
      } else {
        fail("unexpected: " + found);
      }
    }
    for (const unsigned each : datagrams) std::cout << each << ' ';
    std::cout << std::endl;
  }

  [[nodiscard]] ibv_qp* make(ibv_qp_type type) {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = sent_;
    wanted.recv_cq = received_;
    wanted.qp_type = type;
    const auto messages = type == IBV_QPT_UD ? static_cast<std::uint32_t>(2 * all_.size()) : 1U;
    wanted.cap = {messages, messages, 1, 1, 0};
    return need(ibv_create_qp(pd_, &wanted), "queue pair");
  }
  void start(ibv_qp* qp) const {
    ibv_qp_attr to{};
    to.port_num = port_;
    to.qkey = kQKey;
    start_datagrams(qp, to);
  }
  /// Each pair uses one of the LIDs that a port has, both ways.
  [[nodiscard]] ibv_ah_attr way_to(const Program& peer) const {
    const auto index = static_cast<unsigned>(&peer - all_.data());
    const unsigned way = (self_ + index) % lids_;
    ibv_ah_attr to{};
    to.dlid = static_cast<std::uint16_t>(peer.lid + way);
    to.src_path_bits = static_cast<std::uint8_t>(way);
    to.port_num = port_;
    return to;
  }
  void start(ibv_qp* qp, const Program& peer) const {
    ibv_qp_attr to{};
    to.port_num = port_;
    to.ah_attr = way_to(peer);
    to.path_mtu = IBV_MTU_1024;
    to.dest_qp_num = peer.rc;
    to.min_rnr_timer = 12;
    to.max_dest_rd_atomic = to.max_rd_atomic = 1;
    to.timeout = 19;  // 2 s: with the retries longer than a subnet manager takes to route again
    to.retry_cnt = to.rnr_retry = 7;
    start_connection(qp, to);
  }
  [[nodiscard]] char* buffer(unsigned index) { return &memory_[index * (kMessage + kGrh)]; }
  void post_receive(unsigned index) {
    const std::size_t program = index - std::min<std::size_t>(index, 2 * all_.size());
    ibv_qp* const qp = index < 2 * all_.size() ? datagrams_ : all_[program].connection;
    ibv_sge to{reinterpret_cast<std::uintptr_t>(buffer(index)), kMessage + kGrh, region_->lkey};
    ibv_recv_wr request{index, nullptr, &to, 1};
    ibv_recv_wr* bad = nullptr;
    need(ibv_post_recv(qp, &request, &bad), "receive");
  }
  /// Sends and waits for the completion, so one buffer is enough.
  void send(ibv_qp* qp, const std::string& what, ibv_ah* to = nullptr, std::uint32_t qpn = 0) {
    char* const from = buffer(static_cast<unsigned>(3 * all_.size()));
    std::memset(from, 0, kMessage);
    std::memcpy(from, what.data(), what.size());
    ibv_sge part{reinterpret_cast<std::uintptr_t>(from), kMessage, region_->lkey};
    ibv_send_wr request{};
    request.sg_list = &part;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    if (qp == datagrams_) {
      request.wr.ud.ah = to;
      request.wr.ud.remote_qpn = qpn;
      request.wr.ud.remote_qkey = kQKey;
    }
    ibv_send_wr* bad = nullptr;
    need(ibv_post_send(qp, &request, &bad), "send");
    ibv_wc completion;
    while (ibv_poll_cq(sent_, 1, &completion) == 0) {
      if (has_input_ended()) fail("no completion of: " + what);
    }
    if (completion.status != IBV_WC_SUCCESS) {
      fail(what + ": " + ibv_wc_status_str(completion.status));
    }
  }
  /// The next message of another program, of either service; empty if there is none.
  [[nodiscard]] std::string receive() {
    ibv_wc completion;
    if (ibv_poll_cq(received_, 1, &completion) == 0) return {};
    if (completion.status != IBV_WC_SUCCESS) fail(ibv_wc_status_str(completion.status));
    const auto index = static_cast<unsigned>(completion.wr_id);
    const bool is_datagram = index < 2 * all_.size();
    std::string found = buffer(index) + (is_datagram ? kGrh : 0);
    post_receive(index);
    // What it has sent to a group itself may come at any time.
    const bool is_own = found.starts_with("MC ") && found.ends_with(' ' + std::to_string(self_));
    return is_own ? receive() : found;
  }
  /// Removes a message from those that are missing.
  static void take(const std::string& found, std::vector<std::string>& missing) {
    const auto at = std::ranges::find(missing, found);
    if (at == missing.end()) fail("unexpected: " + found);
    at->clear();
  }
  /// Waits a little. The driver closes the input when its patience is over.
  static bool has_input_ended() {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    return ::poll(&input, 1, 1) > 0;
  }

  unsigned self_;
  std::uint8_t port_;
  unsigned lids_ = 1;  ///< of each port
  std::vector<Program> all_;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  std::vector<char> memory_;
  ibv_mr* region_ = nullptr;
  ibv_cq* sent_ = nullptr;
  ibv_cq* received_ = nullptr;
  ibv_qp* datagrams_ = nullptr;
  ibv_ah* group_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) return 2;
  Mesh mesh(static_cast<unsigned>(std::atoi(argv[1])), static_cast<unsigned>(std::atoi(argv[2])),
            static_cast<std::uint8_t>(argc > 3 ? std::atoi(argv[3]) : 1));
  mesh.introduce();
  mesh.connect();
  mesh.exchange();
  mesh.obey();
}
