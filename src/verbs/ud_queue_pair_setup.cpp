// The cold path of UdQueuePair: creation, the states of IBA 10.3.1, address handles and groups.
#include <dlfcn.h>
#include <fcntl.h>
#include <infiniband/softibdv.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "ipoib/log.hpp"
#include "verbs/receive_layout.hpp"
#include "verbs/ud_queue_pair.hpp"
#include "verbs/verbs_address_handle.hpp"
#include "verbs/verbs_error.hpp"

namespace ipoib::verbs {

namespace {

std::string memory_hint(int error) {
  return error == ENOMEM || error == EAGAIN || error == EPERM
             ? "raise the limit of locked memory (ulimit -l), or run as root"
             : "";
}

ibv_gid raw(const Gid& gid) {
  ibv_gid out;
  std::copy(gid.bytes().begin(), gid.bytes().end(), out.raw);
  return out;
}

/// The largest TSO payload of the device, in bytes; 0 without TSO.
std::uint32_t device_max_tso(ibv_context* context) {
  ibv_device_attr_ex limits{};
  if (ibv_query_device_ex(context, nullptr, &limits) != 0) return 0;
  const auto& caps = limits.tso_caps;
  return ibv_is_qpt_supported(caps.supported_qpts, IBV_QPT_UD) != 0 ? caps.max_tso : 0;
}

/// The verb of softib's extension; null if its library is not loaded. If it is, all devices are
/// softib's.
ReceiveQueue::Post large_receive_verb() {
  return reinterpret_cast<ReceiveQueue::Post>(dlsym(RTLD_DEFAULT, "softibdv_post_large_recv"));
}

}  // namespace

UdQueuePair::~UdQueuePair() {
  if (!qp_) return;
  if (auto done = destroy_queue_pair(); !done) log_.error("{}", done.error().message);
}

Result<std::unique_ptr<UdQueuePair>> UdQueuePair::create(const Device& device,
                                                         std::uint32_t max_mtu,
                                                         const QueueDepths& depths, Logger& log) {
  std::unique_ptr<UdQueuePair> pair(new UdQueuePair(device, max_mtu, depths, log));
  if (auto done = pair->create_queues(); !done) return done.error();
  auto made = pair->create_queue_pair(pair->cq_.get());
  if (!made) return made.error();
  pair->qp_ = std::move(*made);
  return pair;
}

Result<void> UdQueuePair::create_queues() {
  ibv_device_attr limits{};
  if (const int error = ibv_query_device(device_.context(), &limits); error != 0) {
    return verbs_error("cannot query " + device_.name(), error);
  }
  const auto most = static_cast<std::uint32_t>(limits.max_qp_wr);
  advertises_checksum_offload_ = (limits.device_cap_flags & IBV_DEVICE_UD_IP_CSUM) != 0;
  depths_.send = std::bit_floor(std::min(depths_.send, most));
  depths_.receive = std::min(depths_.receive, most);

  pd_.reset(ibv_alloc_pd(device_.context()));
  if (!pd_) return verbs_error("cannot allocate a protection domain", errno);
  channel_.reset(ibv_create_comp_channel(device_.context()));
  if (!channel_) return verbs_error("cannot create a completion channel", errno);
  if (fcntl(channel_->fd, F_SETFL, O_NONBLOCK) != 0) {
    return verbs_error("cannot make the completion channel non-blocking", errno);
  }
  auto queue = create_completion_queue();
  if (!queue) return queue.error();
  cq_ = std::move(*queue);

  receives_.create({.depth = depths_.receive,
                    .spare = kSpareReceiveFrames,
                    .size = receive_size(max_mtu_),
                    .id_flags = kReceiveId,
                    .post = ibv_post_recv});
  if (auto done = register_pool(receives_.pool()); !done) return done;
  header_pool_ = std::make_unique<FramePool>(1, depths_.send * SendQueue::kHeaderSlot);
  if (auto done = register_pool(*header_pool_); !done) return done;
  sends_.create(depths_.send, header_pool_->take());
  const bool may_use_tso = advertises_checksum_offload_ && can_send_large_packets();
  depths_.max_tso = may_use_tso ? std::min(depths_.max_tso, device_max_tso(device_.context())) : 0;
  return {};
}

Result<CompletionQueue> UdQueuePair::create_completion_queue() {
  const auto large = large_receive_verb() != nullptr ? kLargeReceives : 0;
  CompletionQueue made(ibv_create_cq(device_.context(),
                                     static_cast<int>(depths_.send + depths_.receive + large),
                                     nullptr, channel_.get(), 0));
  if (!made) return verbs_error("cannot create a completion queue", errno);
  return made;
}

Result<QueuePair> UdQueuePair::create_queue_pair(ibv_cq* queue) {
  ibv_qp_init_attr_ex wanted{};
  wanted.send_cq = wanted.recv_cq = queue;
  wanted.qp_type = IBV_QPT_UD;
  wanted.pd = pd_.get();
  wanted.cap.max_send_wr = depths_.send;
  wanted.cap.max_recv_wr = depths_.receive;
  wanted.cap.max_send_sge = 2;
  wanted.cap.max_recv_sge = 1;
  wanted.max_tso_header = SendQueue::kMaxTsoHeaders;
  const auto make = [&](std::uint32_t max_inline, std::uint32_t max_tso) {
    auto attributes = wanted;
    attributes.comp_mask = IBV_QP_INIT_ATTR_PD;
    if (max_tso != 0) attributes.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
    attributes.cap.max_inline_data = max_inline;
    QueuePair made(ibv_create_qp_ex(device_.context(), &attributes));
    if (made) {
      depths_.max_inline = std::min(max_inline, attributes.cap.max_inline_data);
      if (std::exchange(depths_.max_tso, max_tso) != max_tso) probe_ = {};
    }
    return made;
  };
  // Some devices reduce a limit that they do not support, others refuse the queue pair.
  auto made = make(depths_.max_inline, depths_.max_tso);
  if (!made && depths_.max_tso != 0) made = make(depths_.max_inline, 0);
  if (!made) made = make(0, 0);
  if (!made) return verbs_error("cannot create a queue pair", errno, memory_hint(errno));
  return made;
}

void UdQueuePair::enable_large_receives() {
  const auto verb = large_receive_verb();
  if (verb == nullptr) return;
  large_receives_.create({.depth = kLargeReceives,
                          .size = SOFTIBDV_LARGE_RECV_SIZE,
                          .id_flags = kLargeReceiveId,
                          .post = verb});
  if (auto done = register_pool(large_receives_.pool()); !done) {
    stop_large_receives(done.error().message);
  }
}

void UdQueuePair::stop_large_receives(std::string_view why) {
  large_receives_.stop();
  log_.warn("cannot post large receives, packets arrive as segments: {}", why);
}

Result<void> UdQueuePair::register_pool(FramePool& pool) {
  const auto arena = pool.arena();
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE;
  MemoryRegion region(ibv_reg_mr(pd_.get(), arena.data(), arena.size(), kAccess));
  if (!region) return verbs_error("cannot register memory", errno, memory_hint(errno));
  memory_.add(arena, std::move(region));
  return {};
}

Result<void> UdQueuePair::modify(ibv_qp_attr& attributes, int mask, const char* what) {
  if (const int error = ibv_modify_qp(qp_.get(), &attributes, mask); error != 0) {
    return verbs_error(std::string("queue pair: ") + what, error,
                       error == EPERM ? "a controlled Q_Key needs CAP_NET_RAW: run as root" : "");
  }
  return {};
}

Result<void> UdQueuePair::configure(const UdAttributes& attributes) {
  const auto before = std::exchange(attributes_, attributes);
  if (up_ && before.pkey_index == attributes.pkey_index) {
    return before.qkey == attributes.qkey ? Result<void>() : set_qkey();
  }
  return restart();
}

void UdQueuePair::on_object_failed(const void* object) {
  completions_failed_ |= object == cq_.get();
  broken_ |= object == cq_.get() || object == qp_.get();
}

Result<void> UdQueuePair::restart() {
  if (completions_failed_)
    return Error{EIO, "the completion queue has failed: the interface gets a new one"};
  if (auto done = bring_down(); !done) return done;
  return bring_up();
}

Result<void> UdQueuePair::bring_up() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = attributes_.pkey_index;
  attributes.port_num = device_.port();
  attributes.qkey = attributes_.qkey.value();
  constexpr int kInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
  if (auto done = modify(attributes, kInit, "RESET to INIT"); !done) return done;
  // Receives are posted before RTR, so that the first datagram finds a buffer.
  post_receives(1);
  if (broken_)
    return Error{ENOBUFS, "the device refuses all receives: see the log of the kernel (dmesg)"};
  attributes.qp_state = IBV_QPS_RTR;
  if (auto done = modify(attributes, IBV_QP_STATE, "INIT to RTR"); !done) return done;
  attributes.qp_state = IBV_QPS_RTS;
  if (auto done = modify(attributes, IBV_QP_STATE | IBV_QP_SQ_PSN, "RTR to RTS"); !done)
    return done;
  up_ = true;
  ++counters_.bring_ups;
  if (advertises_checksum_offload_ && can_send_large_packets() && probe_.is_open())
    probe_checksum_offload();
  return broken_ ? restart() : Result<void>();
}

/// Probes the checksum offload. The port is active and has its address, since a queue pair comes up
/// only for a link.
void UdQueuePair::probe_checksum_offload() {
  const auto before = counters_;
  probe_.begin();
  bool going = send_probes();
  std::vector<Incoming> received;
  auto others = std::exchange(early_, {});
  const auto end = std::chrono::steady_clock::now() + kProbeTimeout;
  while (going && (probe_.is_waiting() || send_progress().in_flight != 0)) {
    received.clear();
    if (poll(received, kReceiveChain) == 0) std::this_thread::yield();
    for (auto& each : received) {
      const bool own = each.source_qpn == qpn() && probe_.take(std::as_const(each.frame).bytes());
      if (!own) others.push_back(std::move(each));
    }
    going = !broken_ && std::chrono::steady_clock::now() < end;
  }
  early_ = std::move(others);
  counters_.large_packets = before.large_packets;  // probes do not count
  counters_.segments = before.segments;
  if (broken_ && probe_.is_open()) probe_.fail();
  if (probe_.passed() || probe_.is_open()) return;
  if (probe_.failed() && std::exchange(depths_.max_tso, 0) != 0) {
    log_.info("{} advertises TSO, but the probe did not confirm it: using software",
              device_.name());
    probe_ = {};
    if (!broken_)
      probe_checksum_offload();  // without TSO; a broken queue pair probes when restarted
    return;
  }
  log_.info("{} advertises checksum offload, but the probe did not confirm it: using software",
            device_.name());
}

bool UdQueuePair::send_probes() {
  const auto port = device_.query();
  if (!port) return false;
  // A limited member cannot receive from itself, and its port would count violations.
  const std::size_t index = attributes_.pkey_index;
  if (index < port->pkeys.size() && !port->pkeys[index].is_full()) return false;
  AddressVector self;
  self.dlid = port->lid;
  if (port->link_layer == LinkLayer::roce || port->grh_required) {
    auto& route = self.global.emplace();
    route.dgid = port->gid;
    route.sgid_index = port->gid_index;
    route.hop_limit = 1;
  }
  const auto handle = create_address_handle(self);
  if (!handle) return false;
  std::array<Outgoing, kProbeVersions.size()> probes;
  for (std::size_t i = 0; i < probes.size(); ++i) {
    probes[i] = {*handle, qpn(), receives_.pool().take()};
    if (!probes[i].frame) return false;
    write_probe(probes[i].frame, kProbeVersions[i]);
  }
  const auto sent = sends_.send(
      probes, {*qp_, attributes_.qkey, depths_.max_inline, depths_.max_tso, true, true});
  broken_ = broken_ || sent.is_refused;
  return sent.packets == probes.size();
}

Result<void> UdQueuePair::bring_down() {
  drain_completions();  // RESET may discard them
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RESET;
  if (auto done = modify(attributes, IBV_QP_STATE, "to RESET"); !done) return done;
  release_all();
  return {};
}

Result<void> UdQueuePair::recreate() {
  auto queue = create_completion_queue();
  if (!queue) return queue.error();
  auto made = create_queue_pair(queue->get());
  if (!made) return made.error();
  const auto groups = groups_;
  if (auto done = destroy_queue_pair(); !done) return done;
  qp_ = std::move(*made);
  cq_ = std::move(*queue);
  completions_failed_ = false;
  for (const auto& group : groups) {
    if (auto done = attach(group.mgid, group.mlid); !done) return done;
  }
  return {};
}

/// Destroys the queue pair. ibv_destroy_qp(3) "fails if the QP is attached to a multicast group",
/// and a queue pair that is not destroyed may still write to its frames.
Result<void> UdQueuePair::destroy_queue_pair() {
  while (!groups_.empty()) {
    const auto last = groups_.back();
    if (auto done = detach(last.mgid, last.mlid); !done) return done;
  }
  if (const int error = ibv_destroy_qp(qp_.get()); error != 0) {
    return verbs_error("cannot destroy the queue pair", error);
  }
  (void)qp_.release();
  release_all();
  return {};
}

/// Counts the completions that receive() will not return: completed sends and lost receives.
void UdQueuePair::drain_completions() {
  ibv_wc completion;
  while (cq_ && ibv_poll_cq(cq_.get(), 1, &completion) > 0) {
    if ((completion.wr_id & kReceiveId) == 0) {
      complete_send(completion);
    } else if (completion.status == IBV_WC_SUCCESS) {
      ++counters_.receives_lost;
    }
  }
}

/// Releases all posted frames. The queue pair is in RESET or destroyed, so it no longer uses them.
void UdQueuePair::release_all() {
  drain_completions();
  counters_.sends_flushed += sends_.release_all();
  counters_.receives_lost += early_.size();
  early_.clear();
  receives_.release_all();
  large_receives_.release_all();
  up_ = broken_ = false;
}

Result<void> UdQueuePair::set_qkey() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.qkey = attributes_.qkey.value();
  return modify(attributes, IBV_QP_STATE | IBV_QP_QKEY, "another Q_Key");
}

Result<AddressHandlePtr> UdQueuePair::create_address_handle(const AddressVector& to) {
  ibv_ah_attr attributes{};
  attributes.dlid = to.dlid.value();
  attributes.sl = to.sl.value();
  attributes.src_path_bits = to.source_path_bits;
  attributes.static_rate = to.rate;  // enum ibv_rate has the codes of the PathRecord
  attributes.port_num = device_.port();
  if (to.global) {
    attributes.is_global = 1;
    attributes.grh.dgid = raw(to.global->dgid);
    attributes.grh.sgid_index = to.global->sgid_index;
    attributes.grh.flow_label = to.global->flow_label;
    attributes.grh.hop_limit = to.global->hop_limit;
    attributes.grh.traffic_class = to.global->traffic_class;
  }
  RawAddressHandle handle(ibv_create_ah(pd_.get(), &attributes));
  if (!handle) {
    const auto destination = to.dlid == Lid() && to.global
                                 ? to.global->dgid.to_string()
                                 : "LID " + std::to_string(to.dlid.value());
    return verbs_error("cannot create an address handle to " + destination, errno);
  }
  return AddressHandlePtr(new VerbsAddressHandle(to, std::move(handle)));
}

Result<void> UdQueuePair::attach(const Gid& mgid, Lid mlid) {
  const auto group = raw(mgid);
  if (const int error = ibv_attach_mcast(qp_.get(), &group, mlid.value()); error != 0) {
    return verbs_error("cannot attach to " + mgid.to_string(), error);
  }
  groups_.push_back({mgid, mlid});
  return {};
}

Result<void> UdQueuePair::detach(const Gid& mgid, Lid mlid) {
  const auto group = raw(mgid);
  if (const int error = ibv_detach_mcast(qp_.get(), &group, mlid.value()); error != 0) {
    return verbs_error("cannot detach from " + mgid.to_string(), error);
  }
  std::erase(groups_, GroupAttachment{mgid, mlid});
  return {};
}

}  // namespace ipoib::verbs
