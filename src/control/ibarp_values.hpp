// libibarp: converts between values and the structures of ibarp.h, and guards the C boundary.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <string>

#include "control/filter.hpp"
#include "control/values.hpp"
#include "ipoib/ibarp.h"

namespace ipoib::control {

/// Runs `call` and returns its result; turns exceptions into -ENOMEM or -EIO.
template <class Call>
int guarded(Call call) noexcept {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  } catch (const std::exception&) {
    return -EIO;
  }
}

/// Converts from C; returns nullopt for an unknown family, or a QPN of more than 24 bits.
[[nodiscard]] std::optional<IpAddress> from_c(const ibarp_address& address);
[[nodiscard]] std::optional<HwAddress> from_c(const ibarp_hardware& hardware);
[[nodiscard]] ibarp_address to_c(const IpAddress& address);
[[nodiscard]] ibarp_hardware to_c(const HwAddress& hardware);

/// Parses a filter of the library's or an earlier version; NULL selects all entries. Returns EINVAL
/// for an invalid condition, or for one of a later version.
[[nodiscard]] Result<Filter> from_c(const ibarp_filter* filter);

/// Copies `from`, truncated to `size`, with a terminating 0.
void copy_text(const std::string& from, char* to, std::size_t size);

/// Sets `size` to that of this library's structure; texts that are too long are truncated. The
/// result for an InterfaceInfo refers to a text of its argument.
[[nodiscard]] ibarp_entry to_c(const Entry& entry);
[[nodiscard]] ibarp_path to_c(const Resolution& found);
[[nodiscard]] ibarp_info to_c(const InterfaceInfo& info);
/// The result refers to a text of its argument.
[[nodiscard]] ibarp_port to_c(const PortInfo& port);
[[nodiscard]] ibarp_station to_c(const Station& station);
[[nodiscard]] ibarp_group to_c(const Group& group);
[[nodiscard]] ibarp_member to_c(const Member& member);
[[nodiscard]] ibarp_counter to_c(const Counter& counter);
/// The result refers to the vectors of its argument.
[[nodiscard]] ibarp_histogram to_c(const Histogram& histogram);
[[nodiscard]] ibarp_log_level to_c(const ModuleLevel& level);
[[nodiscard]] ibarp_trace_record to_c(const std::string& thread, const TraceLine& line);

/// Copies a structure to the caller's, which may be of another version: the part that both have,
/// with `size` set to it. Returns false if the caller's is shorter than the first version.
template <class Struct>
[[nodiscard]] bool give(Struct value, Struct* to, std::size_t first_version_size = sizeof(Struct)) {
  if (to == nullptr || to->size < first_version_size) return false;
  value.size = to->size < sizeof(Struct) ? to->size : sizeof(Struct);
  std::memcpy(static_cast<void*>(to), &value, value.size);
  return true;
}

}  // namespace ipoib::control
