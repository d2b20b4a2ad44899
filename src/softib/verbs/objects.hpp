// What the pointers mean that programs get from verbs: rdma-core's public structure, and behind it
// what is ours. Each belongs to its context, and goes with it at the latest.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_set>

#include "softib/hca/hca.hpp"
#include "softib/verbs/device.hpp"
#include "softib/verbs/event_queue.hpp"
#include "softib/verbs/request_builder.hpp"

namespace softib::verbs {

struct Domain : ibv_pd {
  hca::ProtectionDomain* model = nullptr;
};

struct Region : ibv_mr {};

struct Completions;

struct Channel : ibv_comp_channel {
  EventQueue<Completions*> events;
  std::uint32_t bell =
      transport::Attendant::kEngine;  ///< its number; that of the engine: it has none
};

struct Completions : ibv_cq_ex {
  hca::CompletionQueue* model = nullptr;
  ibv_wc current{};  ///< of the extended way of polling
  std::atomic<std::uint32_t> attendant =
      transport::Attendant::kEngine;  ///< of its receives; see Attendance
  /// Taken from the queues of events; guarded by these.
  std::uint32_t completion_events_taken = 0;
  std::uint32_t async_events_taken = 0;
};

struct Pair : ibv_qp_ex {
  hca::QueuePair* model = nullptr;
  std::mutex sending;  ///< from posting to the end of the batch, so that packets keep their order
  std::uint32_t async_events_taken = 0;
  bool extended = false;  ///< made with IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
  RequestBuilder builder;
};

struct Context : verbs_context {
  explicit Context(Device& on);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Device& device;
  EventQueue<ibv_async_event> async_events;

  std::mutex mutex;  ///< of the sets
  std::unordered_set<Channel*> channels;
  std::unordered_set<Domain*> domains;
  std::unordered_set<Region*> regions;
  std::unordered_set<hca::AddressHandle*> handles;
  std::unordered_set<Completions*> completions;
  std::unordered_set<Pair*> pairs;
};

/// Registers and forgets an object of a context; the caller makes and deletes it.
template <class T>
void keep(Context& context, std::unordered_set<T*>& in, T* object) {
  const std::lock_guard lock(context.mutex);
  in.insert(object);
}
template <class T>
void forget(Context& context, std::unordered_set<T*>& in, T* object) {
  const std::lock_guard lock(context.mutex);
  in.erase(object);
}

inline Device& of(ibv_device* device) { return *static_cast<ListedDevice*>(device)->device; }
inline Context& of(ibv_context* context) { return static_cast<Context&>(*verbs_get_ctx(context)); }
inline Domain& of(ibv_pd* pd) { return static_cast<Domain&>(*pd); }
inline Channel& of(ibv_comp_channel* channel) { return static_cast<Channel&>(*channel); }
inline Completions& of(ibv_cq_ex* cq) { return static_cast<Completions&>(*cq); }
/// An ibv_cq is the front of an ibv_cq_ex, and an ibv_qp that of an ibv_qp_ex.
inline Completions& of(ibv_cq* cq) { return of(reinterpret_cast<ibv_cq_ex*>(cq)); }
inline Pair& of(ibv_qp_ex* qp) { return static_cast<Pair&>(*qp); }
inline Pair& of(ibv_qp* qp) { return of(reinterpret_cast<ibv_qp_ex*>(qp)); }
inline ibv_cq* as_cq(Completions& cq) { return ibv_cq_ex_to_cq(&cq); }

/// Which object an asynchronous event is of; none of these: the port's.
[[nodiscard]] bool is_of(const ibv_async_event& event, const Completions& cq);
[[nodiscard]] bool is_of(const ibv_async_event& event, const Pair& qp);

/// Destroy, as the verbs of that name do; also for what a context leaves behind.
[[nodiscard]] ipoib::Result<void> destroy(Pair& qp);
[[nodiscard]] ipoib::Result<void> destroy(Completions& cq);

/// The parts of the tables in ibv_context and verbs_context, by file.
void fill_in_completion_verbs(Context& context);
void fill_in_queue_pair_verbs(Context& context);
void fill_in_device_verbs(Context& context);
/// The functions of an ibv_cq_ex, and of an ibv_qp_ex.
void fill_in_polling(Completions& cq);
void fill_in_building(Pair& qp);

}  // namespace softib::verbs
