// C++ wrapper of libibarp: owned handles, exceptions for errors, vectors for lists.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command.hpp"
#include "ipoib/ibarp.h"

namespace ipoib::ibarp {

struct CloseHandle {
  void operator()(::ibarp* handle) const { ibarp_close(handle); }
};
using Handle = std::unique_ptr<::ibarp, CloseHandle>;

/// A copy of an ibarp_histogram.
struct Histogram {
  std::string name;
  std::vector<std::uint64_t> bounds_ns;
  std::vector<std::uint64_t> counts;
  std::uint64_t sum_ns = 0;
};

/// A copy of an ibarp_port.
struct Port {
  ibarp_port values;  ///< without the text
  std::string waiting_for;
};

/// Connection to the ipoibd of one interface. Calls throw Failure: kUsage for a value that the
/// daemon does not accept, otherwise kFailed.
class Client {
 public:
  /// Throws Failure with kFailed if no ipoibd serves the interface.
  explicit Client(std::string interface);

  [[nodiscard]] const std::string& interface() const { return interface_; }
  [[nodiscard]] ::ibarp* get() const { return handle_.get(); }
  /// Throws the error of the last call on the handle, unless `result` is 0.
  void check(int result) const;

  /// Sorted by address, IPv4 first.
  [[nodiscard]] std::vector<ibarp_entry> entries(const ibarp_filter& filter) const;
  [[nodiscard]] std::vector<ibarp_counter> counters() const;
  /// Empty if the daemon is too old to have any.
  [[nodiscard]] std::vector<Histogram> histograms() const;
  /// Sorted by address, IPv4 first. Returns nullopt if the interface has no stations because it is
  /// no Ethernet interface, but throws Failure if it `must` be one.
  [[nodiscard]] std::optional<std::vector<ibarp_station>> stations(bool must) const;
  [[nodiscard]] std::vector<ibarp_group> groups() const;
  /// Appends the members of a group to `out`. Returns the result of libibarp.
  [[nodiscard]] int members(const ibarp_group& group, std::vector<ibarp_member>& out) const;
  [[nodiscard]] std::vector<ibarp_log_level> log_levels() const;
  [[nodiscard]] std::vector<ibarp_trace_record> trace() const;
  [[nodiscard]] ibarp_info info() const;
  /// Empty if it has no backup port.
  [[nodiscard]] std::vector<Port> ports() const;

 private:
  template <class T, class List>
  [[nodiscard]] std::vector<T> all(List list) const;

  std::string interface_;
  Handle handle_;
};

/// What program::BlockingProgress shows while the daemon of an interface does not answer.
[[nodiscard]] std::string waiting_for(const std::string& interface);
/// Why a call about an interface has failed that returned `result`. Without a handle, the call was
/// ibarp_open().
[[nodiscard]] std::string reason_of(const std::string& interface, const ::ibarp* handle,
                                    int result);

/// The interface with that name; if it is empty, all interfaces of ipoibd in this network
/// namespace, of which there may be none. Throws Failure if they cannot be listed.
[[nodiscard]] std::vector<std::string> interfaces_named(const std::string& name);
/// The interfaces that a command applies to. Throws Failure with kFailed if there are none.
[[nodiscard]] std::vector<std::string> interfaces_of(const Command& command);

/// Parses an address; if `names`, also resolves a host name. Throws Failure.
[[nodiscard]] ibarp_address resolve(const std::string& host, bool names);
/// The host name of an address; "?" if it has none.
[[nodiscard]] std::string name_of(const ibarp_address& address);

[[nodiscard]] std::string text_of(const ibarp_address& address);
[[nodiscard]] std::string text_of(const ibarp_hardware& hardware);
[[nodiscard]] std::string gid_text(const std::uint8_t (&gid)[16]);

}  // namespace ipoib::ibarp
