// The libibverbs ABI of libsoftib.so with the arguments that programs may pass: any values, but
// only objects that exist. The input is a script: a byte selects the next call, the bytes after it
// are its arguments. Meanwhile the port changes, also to values that only a faulty process on the
// subnet writes. Posted work requests complete at most once, memory outside the regions stays as it
// was, and everything can be destroyed at the end.
#include <fcntl.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "cost.hpp"
#include "require.hpp"
#include "softib/fabric/fabric_layout.hpp"
#include "softib/fabric/folder.hpp"
#include "softib/fabric/shared_file.hpp"
#include "test_subnet.hpp"

using namespace ipoib;
using namespace softib;

namespace {

constexpr std::size_t kMaxSteps = 128;
constexpr std::size_t kMaxObjects = 8;  ///< of each kind
constexpr std::size_t kMemory = 65536;
constexpr std::size_t kMaxChain = 80;  ///< more than the HCA sends at a time
constexpr std::size_t kBeyond = 64;
constexpr std::uint64_t kMaxCost = 2'000'000;
constexpr std::uint8_t kGuard = 0xa5;

class World {
 public:
  World() {
    const std::string& path = subnet_.folder().path();
    ::setenv(fabric::kDirectoryVariable, path.substr(0, path.rfind('/')).c_str(), 1);
    ::setenv(fabric::kSubnetVariable, subnet_.folder().name().c_str(), 1);
    ::setenv(fabric::kHcaVariable, "host1", 1);
  }

  [[nodiscard]] const fabric::SubnetFolder& folder() const { return subnet_.folder(); }
  void restore_port() { subnet_.fabric().set_node(kNode, node_); }
  void set_port_state(PortState state) { subnet_.set_port_state(kNode, state); }
  /// One word of the record of the port, unless the HCA would be another one, and lost for ever.
  void write_record(std::size_t word, std::uint64_t value) {
    auto words = fabric::encode(subnet_.fabric().node(kNode).value());
    words[word % words.size()] = value;
    const auto changed = fabric::decode(words);
    if (changed && changed->port.serves(node_.port.generation) && changed->name == node_.name) {
      subnet_.fabric().set_node(kNode, *changed);
    }
  }

 private:
  static constexpr NodeIndex kNode = 1;
  test::TestSubnet subnet_{2};
  const subnet::Node node_ = subnet_.fabric().node(kNode).value();
};

World& world() {
  static World& one = *new World;  // never destroyed, as the endpoint of the process
  static const test::FolderAtExit removed(one.folder());
  return one;
}

ibv_context* device() {
  static ibv_context* const context = [] {
    (void)world();
    ibv_device** const list = ibv_get_device_list(nullptr);
    ibv_context* const opened = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    return opened;
  }();
  require(context != nullptr);
  return context;
}

class Script {
 public:
  explicit Script(ConstBytes input) : in_(input) { world().restore_port(); }

  ~Script() {
    for (const auto& [qp, gid, lid] : attached_) require(ibv_detach_mcast(qp, &gid, lid) == 0);
    for (auto* const qp : qps_) require(ibv_destroy_qp(qp) == 0);
    for (auto* const srq : srqs_) require(ibv_destroy_srq(srq) == 0);
    for (auto* const xrcd : xrcds_) require(ibv_close_xrcd(xrcd) == 0);
    for (auto* const cq : cqs_) require(ibv_destroy_cq(cq) == 0);
    for (auto* const channel : channels_) require(ibv_destroy_comp_channel(channel) == 0);
    for (auto* const ah : ahs_) require(ibv_destroy_ah(ah) == 0);
    for (auto* const mw : mws_) require(ibv_dealloc_mw(mw) == 0);
    for (auto* const mr : mrs_) require(ibv_dereg_mr(mr) == 0);
    for (auto* const dm : dms_) require(ibv_free_dm(dm) == 0);
    for (auto* const pd : pds_) require(ibv_dealloc_pd(pd) == 0);
  }

  void run() {
    for (std::size_t step = 0; step < kMaxSteps && in_.left() > 0; ++step) {
      const CostLimit limit(kMaxCost);
      do_step(in_.u8());
      for (std::size_t i = 0; i < kBeyond; ++i) {
        require(memory_[i] == kGuard && memory_[memory_.size() - 1 - i] == kGuard);
      }
    }
  }

 private:
  void do_step(std::uint8_t what) {
    switch (what % 35) {
      case 0:
        return add(pds_, [] { return ibv_alloc_pd(device()); });
      case 1:
        return remove(pds_, [](ibv_pd* pd) { return ibv_dealloc_pd(pd); });
      case 2:
        return add(channels_, [] { return make_channel(); });
      case 3:
        return add(cqs_, [this] { return make_cq(); });
      case 4:
        return remove(cqs_, [](ibv_cq* cq) { return ibv_destroy_cq(cq); });
      case 5:
        return resize();
      case 6:
        return add(mrs_, [this] { return make_mr(); });
      case 7:
        return remove(mrs_, [](ibv_mr* mr) { return ibv_dereg_mr(mr); });
      case 8:
        return add(ahs_, [this] { return make_ah(); });
      case 9:
        return remove(ahs_, [](ibv_ah* ah) { return ibv_destroy_ah(ah); });
      case 10:
        return add(qps_, [this] { return make_qp(); });
      case 11:
        return in_.u8() % 4 == 0 ? remove(qps_, [](ibv_qp* qp) { return ibv_destroy_qp(qp); })
                                 : query();
      case 12:
        return modify();
      case 13:
        return bring_up();
      case 14:
      case 15:
        return post_send();
      case 16:
        return post_receive();
      case 17:
        return poll();
      case 18:
        return attach();
      case 19:
        return arm();
      case 20:
        return add(srqs_, [this] { return make_srq(); });
      case 21:
        return in_.u8() % 4 == 0 ? remove(srqs_, [](ibv_srq* srq) { return ibv_destroy_srq(srq); })
                                 : modify_srq();
      case 22:
        return post_shared_receive();
      case 23:
        return add(mws_, [this] { return make_mw(); });
      case 24:
        return remove(mws_, [](ibv_mw* mw) { return ibv_dealloc_mw(mw); });
      case 25:
        return add(dms_, [this] { return make_dm(); });
      case 26:
        return remove(dms_, [](ibv_dm* dm) { return ibv_free_dm(dm); });
      case 27:
        return add(mrs_, [this] { return make_dm_mr(); });
      case 28:
        return copy_dm();
      case 29:
        return add(xrcds_, [] { return make_xrcd(); });
      case 30:
        return remove(xrcds_, [](ibv_xrcd* xrcd) { return ibv_close_xrcd(xrcd); });
      case 31:
        return add(qps_, [this] { return make_connected(); });
      case 32:
        return in_.u8() % 4 == 0 ? prefetch() : bind();
      case 33:
        return post_connected();
      case 34:
        return change_port();
    }
  }

  void change_port() {
    constexpr std::uint8_t kWords = 64;
    const std::uint8_t what = in_.u8();
    if (what < kWords) return world().write_record(what, in_.u64());
    if (what < 2 * kWords) return world().write_record(what, std::uint64_t{1} << in_.u8() % 64);
    if (what < 3 * kWords) return world().restore_port();
    world().set_port_state(static_cast<PortState>(1 + what % 4));
  }

  // --- Objects ----------------------------------------------------------------------------------
  template <class Object, class Make>
  void add(std::vector<Object*>& to, Make make) {
    if (to.size() >= kMaxObjects) return;
    if (Object* const made = make()) to.push_back(made);
  }
  /// Objects in use are refused, and stay.
  template <class Object, class Destroy>
  void remove(std::vector<Object*>& from, Destroy destroy) {
    Object* const one = any(from);
    if (one != nullptr && destroy(one) == 0) std::erase(from, one);
  }
  template <class Object>
  [[nodiscard]] Object* any(const std::vector<Object*>& from) {
    const std::uint8_t pick = in_.u8();
    return from.empty() ? nullptr : from[pick % from.size()];
  }
  /// With a descriptor on which ibv_get_cq_event() does not block.
  [[nodiscard]] static ibv_comp_channel* make_channel() {
    ibv_comp_channel* const made = ibv_create_comp_channel(device());
    if (made != nullptr) (void)::fcntl(made->fd, F_SETFL, O_NONBLOCK);
    return made;
  }
  [[nodiscard]] ibv_cq* make_cq() {
    ibv_comp_channel* const channel = in_.u8() % 2 == 0 ? nullptr : any(channels_);
    const auto size = static_cast<int>(in_.u8() % 8 == 0 ? in_.u32() : in_.u8());
    return ibv_create_cq(device(), size, nullptr, channel, in_.u8() % 4 - 1);
  }
  void resize() {
    if (ibv_cq* const cq = any(cqs_)) (void)ibv_resize_cq(cq, static_cast<int>(in_.u16()) - 8);
  }
  [[nodiscard]] ibv_mr* make_mr() {
    ibv_pd* const pd = any(pds_);
    if (pd == nullptr) return nullptr;
    const std::size_t begin = in_.u16();
    const std::size_t size = std::min<std::size_t>(in_.u16(), kMemory - begin);
    const int access = in_.u8() | (in_.u8() % 4 == 0 ? int{IBV_ACCESS_ON_DEMAND} : 0);
    return ibv_reg_mr(pd, memory_.data() + kBeyond + begin, size, access);
  }
  [[nodiscard]] ibv_ah* make_ah() {
    ibv_pd* const pd = any(pds_);
    if (pd == nullptr) return nullptr;
    ibv_ah_attr attr{};
    attr.dlid = in_.u8() % 2 == 0 ? 2 : in_.u16();  // mostly this port itself
    attr.sl = in_.u8();
    attr.is_global = in_.u8() % 4 == 0 ? 1 : 0;
    attr.grh.sgid_index = in_.u8() % 2;
    attr.grh.hop_limit = in_.u8();
    attr.static_rate = in_.u8();
    attr.port_num = in_.u8() % 8 == 0 ? in_.u8() : 1;
    return ibv_create_ah(pd, &attr);
  }
  [[nodiscard]] ibv_qp* make_qp() {
    ibv_pd* const pd = any(pds_);
    ibv_cq* const sends = any(cqs_);
    ibv_cq* const receives = any(cqs_);
    if (pd == nullptr || sends == nullptr || receives == nullptr) return nullptr;
    ibv_qp_init_attr init{};
    init.send_cq = sends;
    init.recv_cq = receives;
    init.qp_type = in_.u8() % 8 == 0 ? static_cast<ibv_qp_type>(in_.u8()) : IBV_QPT_UD;
    init.sq_sig_all = in_.u8() % 2;
    init.cap = {limit(), limit(), in_.u8() % 40U, in_.u8() % 40U, limit()};
    if (in_.u8() % 4 == 3) init.srq = any(srqs_);
    return ibv_create_qp(pd, &init);
  }
  [[nodiscard]] ibv_mw* make_mw() {
    ibv_pd* const pd = any(pds_);
    if (pd == nullptr) return nullptr;
    return ibv_alloc_mw(pd, in_.u8() % 2 == 0 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
  }
  [[nodiscard]] ibv_dm* make_dm() {
    ibv_alloc_dm_attr attr{};
    attr.length = in_.u8() % 8 == 0 ? in_.u32() : in_.u16();
    attr.log_align_req = in_.u8() % 16;
    attr.comp_mask = in_.u8() % 16 == 0 ? in_.u8() : 0;
    return ibv_alloc_dm(device(), &attr);
  }
  [[nodiscard]] ibv_mr* make_dm_mr() {
    ibv_pd* const pd = any(pds_);
    ibv_dm* const dm = any(dms_);
    if (pd == nullptr || dm == nullptr) return nullptr;
    const auto access = in_.u8() | (in_.u8() % 8 != 0 ? unsigned{IBV_ACCESS_ZERO_BASED} : 0U);
    return ibv_reg_dm_mr(pd, dm, in_.u16(), in_.u16(), access);
  }
  void copy_dm() {
    ibv_dm* const dm = any(dms_);
    if (dm == nullptr) return;
    std::array<std::uint8_t, 4096> bytes{};
    const std::size_t size = in_.u16() % bytes.size();
    const std::uint64_t offset = in_.u8() % 8 == 0 ? in_.u32() : in_.u16();
    if (in_.u8() % 2 == 0) {
      (void)ibv_memcpy_to_dm(dm, offset, bytes.data(), size);
    } else {
      (void)ibv_memcpy_from_dm(bytes.data(), dm, offset, size);
    }
  }
  [[nodiscard]] static ibv_xrcd* make_xrcd() {
    ibv_xrcd_init_attr attr{};
    attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    attr.fd = -1;
    attr.oflags = O_CREAT;
    return ibv_open_xrcd(device(), &attr);
  }
  /// Of any connected type, connected to itself or left in RESET.
  [[nodiscard]] ibv_qp* make_connected() {
    constexpr std::array kTypes = {IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_XRC_SEND,
                                   IBV_QPT_XRC_RECV};
    ibv_qp_init_attr_ex init{};
    init.qp_type = kTypes[in_.u8() % kTypes.size()];
    init.comp_mask = IBV_QP_INIT_ATTR_PD;
    init.pd = any(pds_);
    init.send_cq = any(cqs_);
    init.recv_cq = any(cqs_);
    init.srq = in_.u8() % 4 == 3 ? any(srqs_) : nullptr;
    init.sq_sig_all = in_.u8() % 2;
    init.cap = {in_.u8() % 32U, in_.u8() % 32U, 1 + in_.u8() % 4U, 1 + in_.u8() % 4U, 64};
    if (init.qp_type == IBV_QPT_XRC_RECV) {
      init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
      init.xrcd = any(xrcds_);
    }
    const bool is_possible =
        init.qp_type == IBV_QPT_XRC_RECV
            ? init.xrcd != nullptr
            : init.pd != nullptr && init.send_cq != nullptr && init.recv_cq != nullptr;
    ibv_qp* const qp = is_possible ? ibv_create_qp_ex(device(), &init) : nullptr;
    if (qp != nullptr && in_.u8() % 8 != 0) connect(qp);
    return qp;
  }
  void connect(ibv_qp* qp) {
    ibv_qp* const peer = in_.u8() % 2 == 0 ? qp : any(qps_);
    const bool reliable = qp->qp_type != IBV_QPT_UC;
    ibv_qp_attr attr{};
    attr.port_num = attr.ah_attr.port_num = 1;
    attr.ah_attr.dlid = 2;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                           IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
    attr.path_mtu = in_.u8() % 2 == 0 ? IBV_MTU_256 : active_mtu();
    attr.dest_qp_num = (peer != nullptr ? peer : qp)->qp_num;
    attr.max_dest_rd_atomic = attr.max_rd_atomic = in_.u8() % 4;
    attr.timeout = 20;
    attr.qp_state = IBV_QPS_INIT;
    (void)ibv_modify_qp(qp, &attr,
                        IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS);
    attr.qp_state = IBV_QPS_RTR;
    const int path = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    const bool receives_reads = qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_RECV;
    const int reads = receives_reads ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0;
    (void)ibv_modify_qp(qp, &attr, path | reads);
    attr.qp_state = IBV_QPS_RTS;
    const int retries =
        IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    const int timers = qp->qp_type == IBV_QPT_XRC_RECV ? int{IBV_QP_TIMEOUT}
                       : reliable                      ? retries
                                                       : 0;
    (void)ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | timers);
  }
  [[nodiscard]] static ibv_mtu active_mtu() {
    ibv_port_attr port{};
    require(ibv_query_port(device(), 1, &port) == 0);
    return port.active_mtu;
  }
  [[nodiscard]] ibv_srq* make_srq() {
    ibv_pd* const pd = any(pds_);
    if (pd == nullptr) return nullptr;
    if (in_.u8() % 4 == 3) return make_xrc_srq(pd);
    ibv_srq_init_attr init{nullptr, {limit(), in_.u8() % 40U, in_.u8()}};
    return ibv_create_srq(pd, &init);
  }
  [[nodiscard]] ibv_srq* make_xrc_srq(ibv_pd* pd) {
    ibv_srq_init_attr_ex init{};
    init.attr = {limit(), in_.u8() % 8U, in_.u8()};
    init.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                     IBV_SRQ_INIT_ATTR_CQ;
    init.srq_type = IBV_SRQT_XRC;
    init.pd = pd;
    init.xrcd = any(xrcds_);
    init.cq = any(cqs_);
    const bool is_possible = init.xrcd != nullptr && init.cq != nullptr;
    return is_possible ? ibv_create_srq_ex(device(), &init) : nullptr;
  }
  void modify_srq() {
    ibv_srq* const srq = any(srqs_);
    if (srq == nullptr) return;
    ibv_srq_attr attr{limit(), in_.u8(), in_.u8()};
    (void)ibv_modify_srq(srq, &attr, in_.u8() % 8);
    require(ibv_query_srq(srq, &attr) == 0 && attr.srq_limit <= attr.max_wr);
  }
  [[nodiscard]] std::uint32_t limit() { return in_.u8() % 8 == 0 ? in_.u32() : in_.u8(); }

  void query() {
    ibv_port_attr port{};
    (void)ibv_query_port(device(), in_.u8() % 4, &port);
    ibv_gid gid{};
    (void)ibv_query_gid(device(), in_.u8() % 4, in_.u8() - 2, &gid);
    __be16 pkey = 0;
    (void)ibv_query_pkey(device(), in_.u8() % 4, in_.u8() - 2, &pkey);
    ibv_qp* const qp = any(qps_);
    if (qp == nullptr) return;
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    require(ibv_query_qp(qp, &attr, 0, &init) == 0);
  }
  void modify() {
    ibv_qp* const qp = any(qps_);
    if (qp == nullptr) return;
    ibv_qp_attr attr{};
    attr.qp_state = static_cast<ibv_qp_state>(in_.u8() % 9);
    attr.cur_qp_state = static_cast<ibv_qp_state>(in_.u8() % 9);
    attr.qkey = in_.u32();
    attr.pkey_index = in_.u8() % 4 == 0 ? in_.u16() : 0;
    attr.port_num = in_.u8() % 4;
    attr.sq_psn = in_.u32();
    (void)ibv_modify_qp(qp, &attr, static_cast<int>(in_.u24()));
  }
  void bring_up() {
    ibv_qp* const qp = any(qps_);
    if (qp == nullptr) return;
    ibv_qp_attr attr{};
    attr.port_num = 1;
    attr.qkey = 0x0b1b;
    attr.qp_state = IBV_QPS_INIT;
    (void)ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY);
    attr.qp_state = IBV_QPS_RTR;
    (void)ibv_modify_qp(qp, &attr, IBV_QP_STATE);
    attr.qp_state = IBV_QPS_RTS;
    (void)ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
  }

  // --- Work requests ----------------------------------------------------------------------------
  /// Of a region or of none, within it or not.
  [[nodiscard]] ibv_sge element(bool in_memory) {
    const std::size_t begin = in_.u16();
    const std::uint32_t size = in_.u16() % 4096;
    const ibv_mr* const mr = any(mrs_);
    const bool is_valid = in_.u8() % 8 != 0;
    const auto base = std::bit_cast<std::uint64_t>(memory_.data() + kBeyond);
    if (in_memory) {
      return {base + begin,
              static_cast<std::uint32_t>(std::min<std::size_t>(size, kMemory - begin)), 0};
    }
    if (mr == nullptr || !is_valid) return {in_.u32(), size, in_.u32()};
    return {std::bit_cast<std::uint64_t>(mr->addr) + begin % (mr->length + 1), size, mr->lkey};
  }
  void post_send() {
    ibv_qp* const qp = any(qps_);
    ibv_ah* const ah = any(ahs_);
    if (qp == nullptr || ah == nullptr || qp->qp_type != IBV_QPT_UD) return;
    std::array<std::array<ibv_sge, 4>, 2> lists{};
    std::array<ibv_send_wr, kMaxChain> chain{};
    for (std::size_t i = 0; i < lists.size(); ++i) {
      auto& wr = chain[i];
      auto& elements = lists[i];
      wr.wr_id = in_.u8();
      wr.opcode = in_.u8() % 4 == 0 ? static_cast<ibv_wr_opcode>(in_.u8() % 16) : IBV_WR_SEND;
      wr.send_flags = in_.u8() % 32;
      // Inline data is read without a region: as in a program, it has to be there.
      const bool is_inline = (wr.send_flags & IBV_SEND_INLINE) != 0;
      for (auto& one : elements) one = element(is_inline);
      wr.sg_list = elements.data();
      wr.num_sge = in_.u8() % (static_cast<int>(elements.size()) + 1);
      wr.wr.ud = {ah, in_.u8() % 4 != 0 ? qp->qp_num : in_.u24(), 0x0b1b};
      wr.tso = {memory_.data() + kBeyond, in_.u16(), in_.u16()};
    }
    constexpr std::array<std::size_t, 4> kLengths = {1, 1, 2, kMaxChain};
    const std::size_t length = kLengths[in_.u8() % kLengths.size()];
    for (std::size_t i = 2; i < length; ++i) chain[i] = chain[i % 2];
    for (std::size_t i = 1; i < length; ++i) chain[i - 1].next = &chain[i];
    ibv_send_wr* bad = nullptr;
    const int result = ibv_post_send(qp, chain.data(), &bad);
    require((result == 0) == (bad == nullptr));
    sends_ += bad == nullptr ? length : static_cast<std::size_t>(bad - chain.data());
  }
  /// The remote side is often a region of this process, or a window on it.
  void post_connected() {
    ibv_qp* const qp = any(qps_);
    if (qp == nullptr || qp->qp_type == IBV_QPT_UD) return;
    std::array<ibv_sge, 2> elements{};
    ibv_send_wr wr{};
    wr.wr_id = in_.u8();
    wr.opcode = static_cast<ibv_wr_opcode>(in_.u8() % 16);
    wr.send_flags = in_.u8() % 32;
    const bool is_inline = (wr.send_flags & IBV_SEND_INLINE) != 0;
    for (auto& one : elements) one = element(is_inline);
    if (in_.u8() % 2 == 0) elements[0].length = 8;  // of an atomic operation
    wr.sg_list = elements.data();
    wr.num_sge = in_.u8() % 3;
    const auto [address, key] = remote();
    if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      wr.wr.atomic = {address, in_.u8(), in_.u8(), key};
    } else if (wr.opcode == IBV_WR_BIND_MW) {
      ibv_mw* const mw = any(mws_);
      if (mw == nullptr) return;
      wr.bind_mw = {mw, ibv_inc_rkey(mw->rkey), bind_info()};
    } else {
      wr.wr.rdma = {address, key};
    }
    if (wr.opcode == IBV_WR_LOCAL_INV || wr.opcode == IBV_WR_SEND_WITH_INV) {
      wr.invalidate_rkey = key;
    }
    ibv_srq* const srq = any(srqs_);
    std::uint32_t number = in_.u8();
    if (srq != nullptr) (void)ibv_get_srq_num(srq, &number);
    wr.qp_type.xrc.remote_srqn = number;
    ibv_send_wr* bad = nullptr;
    const int result = ibv_post_send(qp, &wr, &bad);
    require((result == 0) == (bad == nullptr));
    sends_ += result == 0 ? 1 : 0;
  }
  [[nodiscard]] std::pair<std::uint64_t, std::uint32_t> remote() {
    const ibv_mr* const mr = any(mrs_);
    const ibv_mw* const mw = any(mws_);
    const std::uint64_t offset = in_.u16();
    const auto how = in_.u8() % 4;
    if (mr == nullptr || how == 0) return {in_.u32(), in_.u32()};
    const auto key = how == 1 && mw != nullptr ? mw->rkey : mr->rkey;
    return {std::bit_cast<std::uint64_t>(mr->addr) + offset % (mr->length + 1), key};
  }
  [[nodiscard]] ibv_mw_bind_info bind_info() {
    ibv_mr* const mr = any(mrs_);
    const auto begin = mr != nullptr ? std::bit_cast<std::uint64_t>(mr->addr) : 0;
    return {mr, begin + in_.u16(), in_.u16(), in_.u8()};
  }
  void bind() {
    ibv_qp* const qp = any(qps_);
    ibv_mw* const mw = any(mws_);
    if (qp == nullptr || mw == nullptr) return;
    ibv_mw_bind bind{in_.u8(), in_.u8() % 8U, bind_info()};
    sends_ += ibv_bind_mw(qp, mw, &bind) == 0 ? 1 : 0;
  }
  void prefetch() {
    ibv_pd* const pd = any(pds_);
    if (pd == nullptr) return;
    std::array elements{element(false), element(false)};
    constexpr std::array kAdvice = {IBV_ADVISE_MR_ADVICE_PREFETCH,
                                    IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
                                    IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT};
    const auto advice = kAdvice[in_.u8() % kAdvice.size()];
    (void)ibv_advise_mr(pd, advice, in_.u8() % 4, elements.data(), in_.u8() % 3U);
  }
  void post_shared_receive() {
    ibv_srq* const srq = any(srqs_);
    if (srq == nullptr) return;
    std::array<ibv_sge, 3> elements{};
    for (auto& one : elements) one = element(false);
    ibv_recv_wr wr{in_.u8(), nullptr, elements.data(), in_.u8() % 4};
    ibv_recv_wr* bad = nullptr;
    const int result = ibv_post_srq_recv(srq, &wr, &bad);
    require((result == 0) == (bad == nullptr));
    receives_ += result == 0 ? 1 : 0;
  }
  void post_receive() {
    ibv_qp* const qp = any(qps_);
    if (qp == nullptr) return;
    std::array<ibv_sge, 3> elements{};
    for (auto& one : elements) one = element(false);
    ibv_recv_wr wr{in_.u8(), nullptr, elements.data(), in_.u8() % 4};
    ibv_recv_wr* bad = nullptr;
    const int result = ibv_post_recv(qp, &wr, &bad);
    require((result == 0) == (bad == nullptr));
    receives_ += result == 0 ? 1 : 0;
  }
  void poll() {
    ibv_cq* const cq = any(cqs_);
    if (cq == nullptr) return;
    std::array<ibv_wc, 16> completions;
    const int wanted = in_.u8() % 17;
    const int count = ibv_poll_cq(cq, wanted, completions.data());
    require(count <= wanted);
    completed_ += static_cast<std::size_t>(std::max(count, 0));
    require(completed_ <= sends_ + receives_);
  }
  void attach() {
    ibv_qp* const qp = any(qps_);
    if (qp == nullptr) return;
    ibv_gid gid{};
    gid.raw[0] = in_.u8() % 4 == 0 ? in_.u8() : 0xff;
    gid.raw[15] = in_.u8() % 4;
    const auto lid = static_cast<std::uint16_t>(in_.u8() % 4 == 0 ? in_.u16() : 0xc000);
    const auto is_this = [&](const Attachment& one) {
      return one.qp == qp && one.lid == lid && std::memcmp(&one.gid, &gid, sizeof gid) == 0;
    };
    const auto known = std::ranges::find_if(attached_, is_this);
    if (in_.u8() % 2 == 0) {
      if (ibv_attach_mcast(qp, &gid, lid) == 0 && known == attached_.end()) {
        attached_.push_back({qp, gid, lid});
      }
    } else {
      const bool done = ibv_detach_mcast(qp, &gid, lid) == 0;
      require(done == (known != attached_.end()));
      if (done) attached_.erase(known);
    }
  }
  void arm() {
    if (ibv_cq* const cq = any(cqs_)) (void)ibv_req_notify_cq(cq, in_.u8());
    ibv_comp_channel* const channel = any(channels_);
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    if (channel != nullptr && ibv_get_cq_event(channel, &cq, &context) == 0) {
      ibv_ack_cq_events(cq, 1);
    }
  }

  struct Attachment {
    ibv_qp* qp;
    ibv_gid gid;
    std::uint16_t lid;
  };

  ByteReader in_;
  std::vector<Attachment> attached_;
  std::vector<std::uint8_t> memory_ = std::vector<std::uint8_t>(kMemory + 2 * kBeyond, kGuard);
  std::vector<ibv_pd*> pds_;
  std::vector<ibv_comp_channel*> channels_;
  std::vector<ibv_cq*> cqs_;
  std::vector<ibv_mr*> mrs_;
  std::vector<ibv_ah*> ahs_;
  std::vector<ibv_srq*> srqs_;
  std::vector<ibv_mw*> mws_;
  std::vector<ibv_dm*> dms_;
  std::vector<ibv_xrcd*> xrcds_;
  std::vector<ibv_qp*> qps_;
  std::size_t sends_ = 0;
  std::size_t receives_ = 0;
  std::size_t completed_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  (void)device();
  Script({data, size}).run();
  return 0;
}
