// Shared by the files of the umad ABI. Each function of the ABI has C linkage, is exported, and
// throws nothing. It behaves as libibumad's manual pages say, and where they say nothing, as the
// Linux kernel's user_mad does.
#pragma once

#pragma GCC visibility push(default)
#include <infiniband/umad.h>
#include <infiniband/umad_str.h>
#include <infiniband/umad_types.h>
#pragma GCC visibility pop

#include <cerrno>
#include <cstdint>
#include <new>

#include "softib/core/network_order.hpp"
#include "softib/umad/umad_host.hpp"

#ifndef SOFTIB_UMAD_HAS_PAIRS
/// Debian 13's rdma-core declares these, and its programs need them; Debian 12's does not.
struct umad_ca_pair {
  char smi_name[UMAD_CA_NAME_LEN];
  std::uint32_t smi_preferred_port;
  char gsi_name[UMAD_CA_NAME_LEN];
  std::uint32_t gsi_preferred_port;
};
#pragma GCC visibility push(default)
extern "C" {
int umad_open_smi_port(const char* ca_name, int portnum);
int umad_get_smi_gsi_pairs(struct umad_ca_pair cas[], size_t max);
int umad_get_smi_gsi_pair_by_ca_name(const char* devname, uint8_t portnum,
                                     struct umad_ca_pair* ca_pair, unsigned enforce_smi);
}
#pragma GCC visibility pop
#endif

namespace softib::umad {

/// The host of this process on one of its HCAs, counted from 0. If there is none, returns null and
/// the first time prints the reason on stderr.
[[nodiscard]] UmadHost* host(std::size_t hca);
/// The host with this device, or the first one for null. Null if the device is not emulated.
[[nodiscard]] UmadHost* host_of(const char* device);
/// The level set by umad_debug().
[[nodiscard]] int debug_level();
void print_stderr(const char* function, const std::string& text);

/// Calls `function`. Returns `on_failure` if it throws, which happens only if memory is exhausted.
/// The forced unwinding of a cancelled thread is not caught: it is no std::exception.
template <class Function>
auto guarded(Function function, int on_failure = -ENOMEM) -> decltype(function()) {
  try {
    return function();
  } catch (const std::exception&) {
    return on_failure;
  }
}

}  // namespace softib::umad
