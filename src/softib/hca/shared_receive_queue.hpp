// A shared receive queue (IBA 10.2.9): receives for all queue pairs that use it. When a message
// begins, its queue pair takes the oldest receive; from then on this belongs to the queue pair,
// like one that was posted to it.
//
// One in an XRC domain (IBA annex A14) is not bound to queue pairs: each request to a queue pair of
// the domain names the queue. The request is then executed in the protection domain of the queue,
// and completes to the completion queue of the queue.
#pragma once

#include <infiniband/verbs.h>

#include <optional>

#include "softib/hca/completion_queue.hpp"
#include "softib/hca/memory_table.hpp"
#include "softib/hca/work_requests.hpp"

namespace softib::hca {

/// The name of an XRC domain: a file. All who open a domain with the same name share it.
struct XrcDomainName {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  bool operator==(const XrcDomainName&) const = default;
};
/// Flags like O_CREAT and O_EXCL. A domain without a name is always created.
struct XrcDomainFlags {
  bool create = false;
  bool exclusive = false;
};
/// An XRC domain, whose queue pairs reach the shared receive queues of the domain.
struct XrcDomain {
  std::uint32_t handle = 0;
  std::uint32_t opened = 0;  ///< how often
  std::uint32_t users = 0;   ///< objects that belong to it
  std::optional<XrcDomainName> name{};
};

struct SharedReceiveQueueConfig {
  ProtectionDomain* pd = nullptr;  ///< of the memory of its receives
  ibv_srq_attr attributes{};
  XrcDomain* domain = nullptr;    ///< null: not for XRC
  CompletionQueue* cq = nullptr;  ///< with a domain
};

class SharedReceiveQueue {
 public:
  explicit SharedReceiveQueue(const SharedReceiveQueueConfig& config);

  [[nodiscard]] const SharedReceiveQueueConfig& config() const { return config_; }
  /// The attributes that ibv_query_srq() reports.
  [[nodiscard]] const ibv_srq_attr& attributes() const { return config_.attributes; }
  [[nodiscard]] ProtectionDomain* pd() const { return config_.pd; }
  [[nodiscard]] std::uint32_t waiting() const { return receives_.waiting(); }

  /// Queues a work request. Returns 0; EINVAL if it has too many elements; ENOMEM if the queue is
  /// full.
  int enqueue(const ibv_recv_wr& request);
  /// Moves the oldest receive to `queue`. Requires that one is waiting. Returns whether fewer than
  /// the limit are left, which then ends the limit.
  [[nodiscard]] bool move_oldest_to(ReceiveQueue& queue);
  /// ibv_modify_srq. Returns false, and changes nothing, if an attribute is invalid.
  [[nodiscard]] bool modify(const ibv_srq_attr& attr, int mask);

  std::uint32_t handle = 0;
  std::uint32_t number = 0;  ///< by which requests name it
  std::uint32_t users = 0;   ///< queue pairs; nonzero prevents destruction
  void* owner = nullptr;     ///< for the creator's use

 private:
  void resize(std::uint32_t limit);

  SharedReceiveQueueConfig config_;
  ReceiveQueue receives_;
};

}  // namespace softib::hca
