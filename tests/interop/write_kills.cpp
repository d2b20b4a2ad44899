// Kills one side or the other while it is the source or the target of RDMA WRITEs, many times, and
// checks the memory around the region each time. The survivor has to end by itself. Instead of
// being killed, a target may unmap the region, which harms nobody else.
//
// The memory is shared by this program and its children, so that it can be checked after the
// target's death. This program itself uses no verb:
//
//   | control | guard | region | guard |
//
// Usage: write_kills KILLS SEED SOURCE-HCA TARGET-HCA    (below `softib run`)
#include <infiniband/verbs.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <random>
#include <span>

namespace {

constexpr std::size_t kGuard = 1 << 18;
constexpr std::size_t kRegion = 100'003;  // ends within a cache line
constexpr std::uint8_t kUntouched = 0x5a;
constexpr std::uint32_t kQueue = 16;
constexpr int kToInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kToRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kToRts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

enum Side : std::size_t { source, target };

/// What one side tells the other one.
struct Address {
  std::uint32_t qpn = 0;
  std::uint16_t lid = 0;
  std::uint32_t key = 0;
  std::uint64_t memory = 0;
};

struct Shared {
  std::array<Address, 2> sides{};
  std::array<std::atomic<bool>, 2> is_known{};
  std::atomic<bool> is_ready = false;  ///< the target can receive
  std::atomic<std::uint64_t> written = 0;
  std::atomic<bool> ends = false;    ///< the target shall end
  std::atomic<bool> unmaps = false;  ///< the target shall unmap the region, and the guards with it
  alignas(4096) std::array<std::uint8_t, kGuard> before{};
  std::array<std::uint8_t, kRegion> region{};
  std::array<std::uint8_t, kGuard> after{};
};

Shared* shared = nullptr;

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::_Exit(1);
}

template <class Condition>
void wait_until(Condition condition) {
  while (!condition()) ::sched_yield();
}

class Connection {
 public:
  Connection(Side side, const char* hca) : side_(side) {
    data_.fill(static_cast<std::uint8_t>(~kUntouched));
    ::setenv("SOFTIB_HCA", hca, 1);
    auto** const list = ibv_get_device_list(nullptr);
    if (list == nullptr) fail("ibv_get_device_list");
    context_ = ibv_open_device(list[0]);
    pd_ = ibv_alloc_pd(context_);
    cq_ = ibv_create_cq(context_, 2 * kQueue, nullptr, nullptr, 0);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq_;
    init.cap = {kQueue, 1, 1, 1, 0};
    init.qp_type = IBV_QPT_RC;
    qp_ = ibv_create_qp(pd_, &init);
    const bool is_target = side == target;
    auto* const begin = is_target ? shared->region.data() : data_.data();
    mr_ = ibv_reg_mr(pd_, begin, kRegion,
                     is_target ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : 0);
    ibv_port_attr port{};
    if (qp_ == nullptr || mr_ == nullptr || ibv_query_port(context_, 1, &port) != 0) fail("set up");
    shared->sides[side] = {qp_->qp_num, port.lid, mr_->rkey, std::bit_cast<std::uint64_t>(begin)};
    shared->is_known[side] = true;
  }
  ~Connection() { ibv_close_device(context_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void connect() {
    const Side other = side_ == source ? target : source;
    wait_until([&] { return shared->is_known[other].load(); });
    const auto& peer = shared->sides[other];
    ibv_qp_attr attr{};
    attr.port_num = attr.ah_attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer.qpn;
    attr.timeout = 10;
    attr.retry_cnt = 2;
    attr.ah_attr.dlid = peer.lid;
    const std::array<std::pair<ibv_qp_state, int>, 3> steps = {
        {{IBV_QPS_INIT, kToInit}, {IBV_QPS_RTR, kToRtr}, {IBV_QPS_RTS, kToRts}}};
    for (const auto& [state, mask] : steps) {
      attr.qp_state = state;
      if (ibv_modify_qp(qp_, &attr, mask) != 0) fail("ibv_modify_qp");
    }
  }

  /// A part of the region that is random, and often at one of its ends.
  void write(std::mt19937& random) {
    const auto size = 1 + random() % (random() % 4 == 0 ? kRegion : 5000);
    const auto offset = random() % 2 == 0 ? kRegion - size : random() % (kRegion - size + 1);
    ibv_sge sge{std::bit_cast<std::uint64_t>(data_.data()), static_cast<std::uint32_t>(size),
                mr_->lkey};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {shared->sides[target].memory + offset, shared->sides[target].key};
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(qp_, &wr, &bad) != 0) fail("ibv_post_send");
  }
  [[nodiscard]] ibv_wc_status next_completion() {
    ibv_wc wc{};
    wait_until([&] { return ibv_poll_cq(cq_, 1, &wc) != 0; });
    return wc.status;
  }

 private:
  Side side_;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
  ibv_mr* mr_ = nullptr;
  std::array<std::uint8_t, kRegion> data_{};
};

/// Writes until the target is gone. Returns whether the error is the one that tells so.
bool be_source(const char* hca, std::uint32_t seed) {
  static Connection connection(source, hca);
  connection.connect();
  wait_until([] { return shared->is_ready.load(); });
  std::mt19937 random(seed);
  for (std::uint32_t i = 0; i < kQueue; ++i) connection.write(random);
  for (;;) {
    const auto status = connection.next_completion();
    if (status != IBV_WC_SUCCESS) {
      if (status == IBV_WC_RETRY_EXC_ERR) return true;
      std::printf("the source ends with: %s\n", ibv_wc_status_str(status));
      return false;
    }
    ++shared->written;
    connection.write(random);
  }
}

/// Calls no verb while the source writes.
bool be_target(const char* hca) {
  static Connection connection(target, hca);
  connection.connect();
  shared->is_ready = true;
  wait_until([] { return shared->ends || shared->unmaps; });
  if (shared->ends) return true;
  auto* const begin = shared->before.data();
  if (::munmap(begin, sizeof shared->before + sizeof shared->region) != 0) fail("munmap");
  for (;;) ::pause();  // until a write arrives
}

template <class Role>
pid_t start(Role role) {
  const auto child = ::fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const bool ok = role();
    std::exit(ok ? 0 : 1);
  }
  return child;
}

int wait_for(pid_t child) {
  int status = 0;
  if (::waitpid(child, &status, 0) != child) fail("waitpid");
  return status;
}

bool is_untouched(std::span<const std::uint8_t> guard) {
  return std::ranges::all_of(guard, [](auto byte) { return byte == kUntouched; });
}

/// Returns whether nothing was wrong.
bool kill_once(std::mt19937& random, const char* source_hca, const char* target_hca) {
  shared->is_known[source] = shared->is_known[target] = false;
  shared->is_ready = shared->ends = shared->unmaps = false;
  shared->written = 0;
  const auto seed = static_cast<std::uint32_t>(random());
  const std::array children = {start([&] { return be_source(source_hca, seed); }),
                               start([&] { return be_target(target_hca); })};
  const auto writes = random() % 40;
  wait_until([&] {
    for (const auto child : children) {
      if (::waitpid(child, nullptr, WNOHANG) == child) fail("a side has ended too early");
    }
    return shared->is_ready && shared->written >= writes;
  });
  for (auto spins = random() % 20'000; spins != 0; --spins) (void)shared->written.load();
  const auto victim = random() % 2;
  if (victim == target && random() % 4 == 0) {
    shared->unmaps = true;
  } else {
    ::kill(children[victim], SIGKILL);
  }
  (void)wait_for(children[victim]);
  shared->ends = true;
  const int status = wait_for(children[1 - victim]);
  if (status != 0) std::printf("the survivor has ended with status 0x%x\n", status);
  const bool is_whole = is_untouched(shared->before) && is_untouched(shared->after);
  if (!is_whole) std::printf("memory outside the region has changed\n");
  return status == 0 && is_whole;
}

}  // namespace

int main(int count, char** words) {
  if (count != 5) {
    std::fprintf(stderr, "usage: write_kills KILLS SEED SOURCE-HCA TARGET-HCA\n");
    return 2;
  }
  const auto kills = std::strtoull(words[1], nullptr, 10);
  const auto seed = static_cast<std::uint32_t>(std::strtoul(words[2], nullptr, 10));
  auto* const memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("mmap");
  shared = new (memory) Shared;
  shared->before.fill(kUntouched);
  shared->after.fill(kUntouched);
  std::mt19937 random(seed);
  std::uint64_t written = 0;
  for (std::uint64_t i = 0; i < kills; ++i) {
    if (!kill_once(random, words[3], words[4])) {
      std::printf("after kill %llu of seed %u\n", static_cast<unsigned long long>(i + 1), seed);
      return 1;
    }
    written += shared->written;
  }
  std::printf("%llu kills, %llu writes acknowledged\n", static_cast<unsigned long long>(kills),
              static_cast<unsigned long long>(written));
  return 0;
}
