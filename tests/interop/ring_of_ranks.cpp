// One of many processes in a ring, each of which has a reliable connection to some neighbours on
// both sides: ring_of_ranks.py runs them, and reads from /proc what each costs.
//
// Usage: ring_of_ranks RANK RANKS NEIGHBOURS ROUNDS
//
// It writes its LID and the number of its queue pair for each neighbour, those behind it first, and
// reads the same of each neighbour: LID, and number of the queue pair that is for this process. It
// writes "ready" and reads a line. Then it sends a message to each neighbour in each round, and
// compares each byte that it receives. It writes "ok", reads a line, and ends.
#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "verbs_program.hpp"

namespace {

constexpr std::size_t kMessage = 4096;  // bytes
/// A neighbour that has this process's message may send that of the next round.
constexpr unsigned kReceives = 2;

void wait_for_line() {
  std::string line;
  if (!(std::cin >> line)) fail("nobody is there any more");
}

struct Neighbour {
  unsigned rank = 0;
  ibv_qp* qp = nullptr;
  unsigned sent = 0;  ///< messages that have completed
  unsigned received = 0;
};

class Rank {
 public:
  Rank(unsigned self, unsigned ranks, unsigned neighbours) : self_(self) {
    context_ = open_first_device();
    pd_ = need(ibv_alloc_pd(context_), "protection domain");
    channel_ = need(ibv_create_comp_channel(context_), "channel");
    cq_ = need(ibv_create_cq(context_, static_cast<int>(neighbours * (kReceives + 1)), nullptr,
                             channel_, 0),
               "completion queue");
    memory_.resize(neighbours * (kReceives + 1) * kMessage);
    region_ =
        need(ibv_reg_mr(pd_, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE), "memory");
    for (unsigned i = 0; i < neighbours; ++i) {
      const unsigned half = neighbours / 2;
      const unsigned rank = (i < half ? self + ranks - half + i : self + 1 + i - half) % ranks;
      neighbours_.push_back({rank, make_qp()});
    }
  }

  void introduce() {
    ibv_port_attr port;
    need(ibv_query_port(context_, 1, &port), "port");
    std::cout << port.lid;
    for (const Neighbour& each : neighbours_) std::cout << ' ' << each.qp->qp_num;
    std::cout << std::endl;
  }

  void connect() {
    for (unsigned i = 0; i < neighbours_.size(); ++i) {
      std::uint16_t lid = 0;
      std::uint32_t qpn = 0;
      if (!(std::cin >> lid >> qpn)) fail("input");
      connect(neighbours_[i].qp, lid, qpn);
      for (unsigned slot = 0; slot < kReceives; ++slot) post_receive(i, slot);
    }
    std::cout << "ready" << std::endl;
  }

  void exchange(unsigned rounds) {
    for (unsigned round = 0; round < rounds; ++round) {
      for (unsigned i = 0; i < neighbours_.size(); ++i) send(i, round);
      const auto is_done = [&](const Neighbour& each) {
        return each.sent > round && each.received > round;
      };
      while (!std::ranges::all_of(neighbours_, is_done)) take(next());
    }
    std::cout << "ok" << std::endl;
  }

 private:
  [[nodiscard]] ibv_qp* make_qp() {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = cq_;
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap = {1, kReceives, 1, 1, 0};
    wanted.sq_sig_all = 1;
    return need(ibv_create_qp(pd_, &wanted), "queue pair");
  }

  static void connect(ibv_qp* qp, std::uint16_t lid, std::uint32_t qpn) {
    ibv_qp_attr to{};
    to.port_num = to.ah_attr.port_num = 1;
    to.ah_attr.dlid = lid;
    to.path_mtu = IBV_MTU_2048;
    to.dest_qp_num = qpn;
    to.min_rnr_timer = 12;
    to.timeout = 22;  // 17 s: a thousand processes share the processors
    to.retry_cnt = to.rnr_retry = 7;
    start_connection(qp, to);
  }

  /// What the message of a round has at each place; differs by sender, receiver and round.
  static std::uint8_t byte_of(unsigned from, unsigned to, unsigned round, std::size_t place) {
    std::uint64_t mixed =
        ((std::uint64_t{from} << 40) ^ (std::uint64_t{to} << 20) ^ round) + place / 8;
    mixed *= 0x9e3779b97f4a7c15U;
    mixed ^= mixed >> 29U;
    return static_cast<std::uint8_t>(mixed >> (8 * (place % 8)));
  }

  /// Slots below kReceives are for what comes, that behind them is for what is sent.
  [[nodiscard]] std::uint8_t* buffer(unsigned neighbour, unsigned slot) {
    return &memory_[(neighbour * (kReceives + 1) + slot) * kMessage];
  }
  [[nodiscard]] ibv_sge part(unsigned neighbour, unsigned slot) {
    return {reinterpret_cast<std::uintptr_t>(buffer(neighbour, slot)), kMessage, region_->lkey};
  }
  static std::uint64_t id_of(unsigned neighbour, unsigned slot) {
    return std::uint64_t{neighbour} * (kReceives + 1) + slot;
  }

  void post_receive(unsigned neighbour, unsigned slot) {
    ibv_sge to = part(neighbour, slot);
    ibv_recv_wr request{id_of(neighbour, slot), nullptr, &to, 1};
    ibv_recv_wr* bad = nullptr;
    need(ibv_post_recv(neighbours_[neighbour].qp, &request, &bad), "receive");
  }

  void send(unsigned neighbour, unsigned round) {
    std::uint8_t* const from = buffer(neighbour, kReceives);
    for (std::size_t i = 0; i < kMessage; ++i) {
      from[i] = byte_of(self_, neighbours_[neighbour].rank, round, i);
    }
    ibv_sge what = part(neighbour, kReceives);
    ibv_send_wr request{};
    request.wr_id = id_of(neighbour, kReceives);
    request.sg_list = &what;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    ibv_send_wr* bad = nullptr;
    need(ibv_post_send(neighbours_[neighbour].qp, &request, &bad), "send");
  }

  /// Waits for the next completion without using the processor.
  ibv_wc next() {
    for (ibv_wc completion;;) {
      if (ibv_poll_cq(cq_, 1, &completion) == 1) return completion;
      need(ibv_req_notify_cq(cq_, 0), "notification");
      if (ibv_poll_cq(cq_, 1, &completion) == 1) return completion;
      ibv_cq* of = nullptr;
      void* context = nullptr;
      need(ibv_get_cq_event(channel_, &of, &context), "event");
      ibv_ack_cq_events(of, 1);
    }
  }

  void take(const ibv_wc& completion) {
    if (completion.status != IBV_WC_SUCCESS) fail(ibv_wc_status_str(completion.status));
    const auto index = static_cast<unsigned>(completion.wr_id / (kReceives + 1));
    const auto slot = static_cast<unsigned>(completion.wr_id % (kReceives + 1));
    Neighbour& from = neighbours_[index];
    if (slot == kReceives) {
      ++from.sent;
      return;
    }
    const unsigned round = from.received++;
    for (std::size_t i = 0; i < kMessage; ++i) {
      if (buffer(index, slot)[i] != byte_of(from.rank, self_, round, i)) {
        errno = 0;
        fail("byte " + std::to_string(i) + " of round " + std::to_string(round) + " from rank " +
             std::to_string(from.rank) + " is wrong");
      }
    }
    post_receive(index, slot);
  }

  unsigned self_;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  std::vector<std::uint8_t> memory_;
  ibv_mr* region_ = nullptr;
  std::vector<Neighbour> neighbours_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const auto number = [&](int index) { return static_cast<unsigned>(std::atoi(argv[index])); };
  Rank rank(number(1), number(2), number(3));
  rank.introduce();
  rank.connect();
  wait_for_line();
  rank.exchange(number(4));
  wait_for_line();
}
