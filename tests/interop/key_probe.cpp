// A datagram with the keys that its sender chooses, by a port of an HCA.
//
// Usage: key_probe PORT    (below `softib run --hca`)
//
// It writes "LID QPN", and reads commands:
//
//   send LID QPN INDEX QKEY   sends a datagram with the P_Key of that index and that Q_Key, and
//                             writes "sent"
//   counters                  writes what each port has counted: of port 1, then of port 2,
//                             bad_pkey_cntr and qkey_viol_cntr
#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include "verbs_program.hpp"

namespace {

constexpr std::uint32_t kQKey = 0x11111111;
constexpr std::uint32_t kMessage = 256;  // bytes
constexpr std::uint32_t kGrh = 40;

class Probe {
 public:
  explicit Probe(std::uint8_t port) : port_(port) {
    context_ = open_first_device();
    pd_ = need(ibv_alloc_pd(context_), "protection domain");
    region_ =
        need(ibv_reg_mr(pd_, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE), "memory");
    cq_ = need(ibv_create_cq(context_, 8, nullptr, nullptr, 0), "completion queue");
    qp_ = make(0);
    ibv_sge sge = element(kGrh + kMessage);
    ibv_recv_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    need(ibv_post_recv(qp_, &wr, &bad), "receive");
    ibv_port_attr attr;
    need(ibv_query_port(context_, port_, &attr), "port");
    std::cout << attr.lid << ' ' << qp_->qp_num << std::endl;
  }

  void send(std::uint16_t lid, std::uint32_t qpn, std::uint16_t index, std::uint32_t qkey) {
    ibv_ah_attr to{};
    to.dlid = lid;
    to.port_num = port_;
    ibv_qp* const qp = make(index);
    ibv_sge sge = element(kMessage);
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.ud.ah = need(ibv_create_ah(pd_, &to), "address handle");
    wr.wr.ud.remote_qpn = qpn;
    wr.wr.ud.remote_qkey = qkey;
    ibv_send_wr* bad = nullptr;
    need(ibv_post_send(qp, &wr, &bad), "send");
    ibv_wc wc{};
    while (ibv_poll_cq(cq_, 1, &wc) == 0) {
    }
    need(wc.status, "completion");
    need(ibv_destroy_qp(qp), "end of the queue pair");
    need(ibv_destroy_ah(wr.wr.ud.ah), "end of the address handle");
    std::cout << "sent" << std::endl;
  }

  void counters() {
    // Receives what is pending, so that it is counted.
    ibv_wc wc{};
    if (ibv_poll_cq(cq_, 1, &wc) == 1) need(wc.status, "receive");
    ibv_device_attr device;
    need(ibv_query_device(context_, &device), "device");
    for (std::uint8_t port = 1; port <= device.phys_port_cnt; ++port) {
      ibv_port_attr attr;
      need(ibv_query_port(context_, port, &attr), "port");
      std::cout << attr.bad_pkey_cntr << ' ' << attr.qkey_viol_cntr << ' ';
    }
    std::cout << std::endl;
  }

 private:
  /// A UD queue pair that sends and receives with the P_Key of that index.
  ibv_qp* make(std::uint16_t index) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq_;
    init.cap = {1, 1, 1, 1, 0};
    init.qp_type = IBV_QPT_UD;
    ibv_qp* const qp = need(ibv_create_qp(pd_, &init), "queue pair");
    ibv_qp_attr attr{};
    attr.port_num = port_;
    attr.pkey_index = index;
    attr.qkey = kQKey;
    start_datagrams(qp, attr);
    return qp;
  }
  ibv_sge element(std::uint32_t size) {
    return {reinterpret_cast<std::uintptr_t>(memory_.data()), size, region_->lkey};
  }

  std::uint8_t port_;
  std::array<std::uint8_t, kGrh + kMessage> memory_{};
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_mr* region_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  Probe probe(static_cast<std::uint8_t>(std::atoi(argv[1])));
  std::string command;
  while (std::cin >> command) {
    if (command == "send") {
      unsigned lid = 0;
      unsigned qpn = 0;
      unsigned index = 0;
      std::string qkey;
      std::cin >> lid >> qpn >> index >> qkey;
      probe.send(static_cast<std::uint16_t>(lid), qpn, static_cast<std::uint16_t>(index),
                 static_cast<std::uint32_t>(std::stoul(qkey, nullptr, 0)));
    } else {
      probe.counters();
    }
  }
}
