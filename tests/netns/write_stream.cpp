// A stream of RDMA WRITEs over a reliable connection, each byte of which the other side compares.
//
// Usage: write_stream receive ADDRESS PORT
//        write_stream send ADDRESS PORT
//
// ADDRESS is one of the RDMA CM, such as that of an interface of ipoibd. The receiver writes
// "listening", and at the end how many blocks have arrived; it ends with 1 at the first wrong byte,
// block out of order, or block of which a part is missing. The sender writes how many blocks have
// been answered, several times a second, and ends when its standard input does; then it writes how
// many it has sent, and the longest time that it waited for an answer, in milliseconds.
//
// The region of the receiver is a ring of blocks. The sender writes the first part of a block by
// RDMA WRITE, the rest by one with immediate data, the number of the block, which the receiver
// answers. Before the sender writes to a place again it waits for the answer of what was there.
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kBlock = 64 * 1024;
constexpr std::size_t kFirstPart = 60'000;
constexpr std::uint32_t kPlaces = 8;
constexpr std::uint32_t kEnd = 0xffffffff;  // the number behind the last block
constexpr std::uint8_t kMostRetries = 7;
constexpr std::uint8_t kAckTimeout = 18;  // 1 s: all retries take longer than a sweep
constexpr std::chrono::milliseconds kReport{50};

/// Where the sender may write.
struct Target {
  std::uint64_t address;
  std::uint32_t key;
};

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

void need(int result, const char* what) {
  if (result != 0) fail(what);
}

template <class T>
T* need(T* value, const char* what) {
  if (value == nullptr) fail(what);
  return value;
}

/// The content of a block: a sequence of its own for each number (splitmix64).
void fill(std::span<std::uint64_t> block, std::uint32_t number) {
  std::uint64_t state = number;
  for (auto& word : block) {
    state += 0x9e3779b97f4a7c15;
    std::uint64_t mixed = state;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    word = mixed ^ mixed >> 31 ^ std::uint64_t{number} << 32;
  }
}

class Stream {
 public:
  Stream() : memory_(kPlaces * kBlock / sizeof(std::uint64_t)) {}

  void receive(const char* address, const char* port) {
    rdma_cm_id* const listener = create(address, port, RAI_PASSIVE);
    need(rdma_listen(listener, 1), "listen");
    std::puts("listening");
    std::fflush(stdout);
    need(rdma_get_request(listener, &id_), "request");
    prepare();
    const Target target{reinterpret_cast<std::uintptr_t>(memory_.data()), region_->rkey};
    rdma_conn_param parameters = connection();
    parameters.private_data = &target;
    parameters.private_data_len = sizeof target;
    need(rdma_accept(id_, &parameters), "accept");
    std::vector<std::uint64_t> expected(kBlock / sizeof(std::uint64_t));
    std::uint32_t blocks = 0;
    for (std::uint32_t number = 0; (number = next()) != kEnd; ++blocks) {
      if (number != blocks) {
        std::printf("block %u came in place of block %u\n", number, blocks);
        std::exit(1);
      }
      fill(expected, number);
      const auto found = place(number);
      const auto wrong = std::ranges::mismatch(found, expected).in1;
      if (wrong != found.end()) {
        std::printf("byte %zd of block %u is wrong\n", 8 * (wrong - found.begin()), number);
        std::exit(1);
      }
      answer(number);
    }
    answer(kEnd);
    std::printf("%u blocks have arrived\n", blocks);
  }

  void send(const char* address, const char* port) {
    id_ = create(address, port, 0);
    std::uint8_t timeout = kAckTimeout;
    need(rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof timeout),
         "time-out");
    prepare();
    rdma_conn_param parameters = connection();
    need(rdma_connect(id_, &parameters), "connect");
    Target target{};
    if (id_->event == nullptr || id_->event->param.conn.private_data_len < sizeof target) {
      fail("no target");
    }
    std::memcpy(&target, id_->event->param.conn.private_data, sizeof target);
    std::uint32_t sent = 0;
    std::uint32_t answered = 0;
    Clock::duration longest{};
    const auto wait = [&] {
      const auto begin = Clock::now();
      if (next() != answered) fail("an answer is missing");
      ++answered;
      longest = std::max(longest, Clock::now() - begin);
    };
    for (auto report = Clock::now(); !has_input_ended(); ++sent) {
      if (sent - answered == kPlaces) wait();
      if (Clock::now() >= report) {
        std::printf("%u\n", answered);
        std::fflush(stdout);
        report = Clock::now() + kReport;
      }
      fill(place(sent), sent);
      write(target, sent);
    }
    while (answered < sent) wait();
    answer(kEnd);
    if (next() != kEnd) fail("the last answer");
    rdma_disconnect(id_);
    std::printf("%u blocks sent, longest wait %lld ms\n", sent,
                static_cast<long long>(
                    std::chrono::duration_cast<std::chrono::milliseconds>(longest).count()));
  }

 private:
  static bool has_input_ended() {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    return ::poll(&input, 1, 0) > 0;
  }
  static rdma_conn_param connection() {
    rdma_conn_param parameters{};
    parameters.responder_resources = parameters.initiator_depth = 1;
    parameters.retry_count = parameters.rnr_retry_count = kMostRetries;
    return parameters;
  }
  static rdma_cm_id* create(const char* address, const char* port, int flags) {
    rdma_addrinfo hints{};
    hints.ai_flags = flags;
    hints.ai_port_space = RDMA_PS_TCP;
    rdma_addrinfo* found = nullptr;
    need(rdma_getaddrinfo(address, port, &hints, &found), "address");
    ibv_qp_init_attr attributes{};
    attributes.cap.max_send_wr = 3 * kPlaces;
    attributes.cap.max_recv_wr = 2 * kPlaces;
    attributes.cap.max_send_sge = attributes.cap.max_recv_sge = 1;
    attributes.sq_sig_all = 1;
    rdma_cm_id* id = nullptr;
    need(rdma_create_ep(&id, found, nullptr, &attributes), "endpoint");
    rdma_freeaddrinfo(found);
    return id;
  }
  /// To be called before the connection is there.
  void prepare() {
    region_ = need(ibv_reg_mr(id_->pd, memory_.data(), kPlaces * kBlock,
                              IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
                   "memory");
    for (std::uint32_t i = 0; i < 2 * kPlaces; ++i) post_receive();
  }
  [[nodiscard]] std::span<std::uint64_t> place(std::uint32_t number) {
    constexpr std::size_t kWords = kBlock / sizeof(std::uint64_t);
    return std::span(memory_).subspan(number % kPlaces * kWords, kWords);
  }
  void post_receive() {
    ibv_recv_wr request{};
    ibv_recv_wr* bad = nullptr;
    need(ibv_post_recv(id_->qp, &request, &bad), "receive");
  }
  void post(ibv_send_wr& request) {
    ibv_send_wr* bad = nullptr;
    // At most the requests of kPlaces blocks are on their way; their completions are taken here.
    ibv_wc done;
    while (ibv_poll_cq(id_->send_cq, 1, &done) > 0) check(done);
    need(ibv_post_send(id_->qp, &request, &bad), "send");
  }
  void write(const Target& target, std::uint32_t number) {
    const std::size_t at = number % kPlaces * kBlock;
    const auto local = reinterpret_cast<std::uintptr_t>(memory_.data()) + at;
    for (const bool is_last : {false, true}) {
      const std::size_t from = is_last ? kFirstPart : 0;
      ibv_sge part{local + from,
                   static_cast<std::uint32_t>(is_last ? kBlock - kFirstPart : kFirstPart),
                   region_->lkey};
      ibv_send_wr request{};
      request.sg_list = &part;
      request.num_sge = 1;
      request.opcode = is_last ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
      request.imm_data = htobe32(number);
      request.wr.rdma = {target.address + at + from, target.key};
      post(request);
    }
  }
  void answer(std::uint32_t number) {
    ibv_send_wr request{};
    request.opcode = IBV_WR_SEND_WITH_IMM;
    request.imm_data = htobe32(number);
    post(request);
  }
  /// Waits for a message of the other side, and returns its number.
  [[nodiscard]] std::uint32_t next() {
    ibv_wc done;
    if (rdma_get_recv_comp(id_, &done) != 1) fail("completion");
    check(done);
    post_receive();
    return be32toh(done.imm_data);
  }
  static void check(const ibv_wc& done) {
    if (done.status == IBV_WC_SUCCESS) return;
    std::printf("failed: %s\n", ibv_wc_status_str(done.status));
    std::exit(1);
  }

  rdma_cm_id* id_ = nullptr;
  std::vector<std::uint64_t> memory_;
  ibv_mr* region_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  const std::span arguments(argv, static_cast<std::size_t>(argc));
  Stream stream;
  if (argc == 4 && std::strcmp(arguments[1], "receive") == 0) {
    stream.receive(arguments[2], arguments[3]);
  } else if (argc == 4 && std::strcmp(arguments[1], "send") == 0) {
    stream.send(arguments[2], arguments[3]);
  } else {
    return 2;
  }
}
