// What the files of the umad ABI share. Each function of the ABI has C linkage, is exported, and
// lets no exception out. Its contract is that of libibumad's manual pages, and of the Linux
// kernel's user_mad where these are silent.
#pragma once

#pragma GCC visibility push(default)
#include <infiniband/umad.h>
#include <infiniband/umad_str.h>
#include <infiniband/umad_types.h>
#pragma GCC visibility pop

#include <cerrno>
#include <new>

#include "softib/hca/network_order.hpp"
#include "softib/umad/umad_host.hpp"

namespace softib::umad {

/// The host of this process; null after a line on stderr (the first time) that says why not.
[[nodiscard]] UmadHost* host();
/// Whether a name (null: any device) means our device.
[[nodiscard]] bool is_our_device(const char* name);
/// umad_debug(): how much the ABI says on stderr about what it is asked.
[[nodiscard]] int debug_level();
void say(const char* function, const std::string& what);

/// No exception leaves the ABI: no memory is what is left to be thrown. A thread that is cancelled
/// while it waits does: its stack is unwound from here to its start.
template <class Function>
auto guarded(Function function, int on_failure = -ENOMEM) -> decltype(function()) {
  try {
    return function();
  } catch (const std::exception&) {
    return on_failure;
  }
}

}  // namespace softib::umad
