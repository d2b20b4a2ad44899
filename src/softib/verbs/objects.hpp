// The objects that programs get pointers to: rdma-core's public structures, extended by fields of
// softib. A context owns its objects and destroys those that are left.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_set>

#include "softib/hca/hca.hpp"
#include "softib/verbs/device.hpp"
#include "softib/verbs/event_queue.hpp"
#include "softib/verbs/memory_objects.hpp"
#include "softib/verbs/queue_objects.hpp"
#include "softib/verbs/wr_builder.hpp"

namespace softib::verbs {

struct Context : verbs_context {
  Context(Device& on, transport::WakeupSocket events);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Device& device;
  EventQueue<ibv_async_event> async_events;

  std::mutex mutex;  ///< guards the sets
  std::unordered_set<CompChannel*> channels;
  std::unordered_set<Pd*> pds;
  std::unordered_set<Td*> tds;
  std::unordered_set<Dm*> dms;
  std::unordered_set<Mr*> mrs;
  std::unordered_set<Mw*> mws;
  std::unordered_set<hca::AddressHandle*> ahs;
  std::unordered_set<Cq*> cqs;
  std::unordered_set<Xrcd*> xrcds;
  std::unordered_set<Srq*> srqs;
  std::unordered_set<Qp*> qps;
};

/// Adds an object to its context, and removes it; the caller creates and deletes it.
template <class T>
void track(Context& context, std::unordered_set<T*>& in, T* object) {
  const std::lock_guard lock(context.mutex);
  in.insert(object);
}
template <class T>
void untrack(Context& context, std::unordered_set<T*>& in, T* object) {
  const std::lock_guard lock(context.mutex);
  in.erase(object);
}

inline Device& of(ibv_device* device) { return *static_cast<ListedDevice*>(device)->device; }
inline Context& of(ibv_context* context) { return static_cast<Context&>(*verbs_get_ctx(context)); }
inline Pd& of(ibv_pd* pd) { return static_cast<Pd&>(*pd); }
inline Dm& of(ibv_dm* dm) { return static_cast<Dm&>(*dm); }
inline Mw& of(ibv_mw* mw) { return static_cast<Mw&>(*mw); }
inline CompChannel& of(ibv_comp_channel* channel) { return static_cast<CompChannel&>(*channel); }
inline Cq& of(ibv_cq_ex* cq) { return static_cast<Cq&>(*cq); }
/// An ibv_cq is the beginning of an ibv_cq_ex, and an ibv_qp that of an ibv_qp_ex.
inline Cq& of(ibv_cq* cq) { return of(reinterpret_cast<ibv_cq_ex*>(cq)); }
inline Xrcd& of(ibv_xrcd* xrcd) { return static_cast<Xrcd&>(*xrcd); }
inline Srq& of(ibv_srq* srq) { return static_cast<Srq&>(*srq); }
inline Qp& of(ibv_qp_ex* qp) { return static_cast<Qp&>(*qp); }
inline Qp& of(ibv_qp* qp) { return of(reinterpret_cast<ibv_qp_ex*>(qp)); }
inline ibv_cq* as_cq(Cq& cq) { return ibv_cq_ex_to_cq(&cq); }

/// Whether an asynchronous event is about this object.
[[nodiscard]] bool is_of(const ibv_async_event& event, const Cq& cq);
[[nodiscard]] bool is_of(const ibv_async_event& event, const Qp& qp);
[[nodiscard]] bool is_of(const ibv_async_event& event, const Srq& srq);

/// Implements ibv_poll_cq(); `times` is empty, or as long as `out`.
[[nodiscard]] int poll(Cq& cq, std::span<ibv_wc> out, std::span<ipoib::TimePoint> times);

/// Implement ibv_destroy_qp() and ibv_destroy_cq().
[[nodiscard]] ipoib::Result<void> destroy(Qp& qp);
[[nodiscard]] ipoib::Result<void> destroy(Cq& cq);
/// Registers memory without a check whether it is mapped.
[[nodiscard]] ipoib::Result<Mr*> register_memory(ibv_pd* pd, void* memory, std::size_t length,
                                                 std::uint64_t address, int access);
/// Implements ibv_dealloc_pd() for a parent domain.
[[nodiscard]] ipoib::Result<void> dealloc_parent_domain(Pd& domain);

/// Set function pointers of ibv_context and verbs_context; one function for each source file.
void fill_in_completion_verbs(Context& context);
void fill_in_queue_pair_verbs(Context& context);
void fill_in_xrc_verbs(Context& context);
void fill_in_shared_receive_verbs(Context& context);
void fill_in_device_verbs(Context& context);
void fill_in_memory_verbs(Context& context);
void fill_in_memory_window_verbs(Context& context);
void fill_in_device_memory_verbs(Context& context);
void fill_in_parent_domain_verbs(Context& context);
/// Set the function pointers of an ibv_cq_ex and an ibv_qp_ex.
void fill_in_cq_ex(Cq& cq);
void fill_in_qp_ex(Qp& qp);

}  // namespace softib::verbs
