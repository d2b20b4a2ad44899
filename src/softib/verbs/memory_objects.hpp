// The domains and memory objects that programs get pointers to.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <new>

#include "softib/hca/memory_objects.hpp"
#include "softib/verbs/device.hpp"

namespace softib::verbs {

struct Td : ibv_td {};

/// A protection domain, or a parent domain, which has the model of its protection domain.
struct Pd : ibv_pd {
  hca::ProtectionDomain* model = nullptr;
  bool is_parent_domain = false;
  const ibv_td* thread_domain = nullptr;
};

/// Device memory.
class Dm : public ibv_dm {
 public:
  Dm(Device& of, std::size_t size, std::uint32_t log_alignment);
  ~Dm();
  Dm(const Dm&) = delete;
  Dm& operator=(const Dm&) = delete;
  [[nodiscard]] std::uint8_t* begin() const { return begin_; }

  const std::size_t length;
  std::atomic<std::uint32_t> regions = 0;  ///< on the memory; nonzero prevents that it is freed

 private:
  Device& device_;
  std::align_val_t alignment_;
  std::uint8_t* begin_;
};

struct Mr : ibv_mr {
  Dm* device_memory = nullptr;  ///< of ibv_reg_dm_mr()
};

struct Mw : ibv_mw {};

}  // namespace softib::verbs
