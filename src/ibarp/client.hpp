// libibarp for C++: handles that close themselves, failures as exceptions, lists as vectors.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "command.hpp"
#include "ipoib/ibarp.h"

namespace ipoib::cli {

/// The ipoibd of one interface. Each call throws Failure with kRefused.
class Client {
 public:
  /// Throws Failure with kBadValue when nobody serves the interface.
  explicit Client(std::string interface);

  [[nodiscard]] const std::string& interface() const { return interface_; }
  [[nodiscard]] ibarp* get() const { return handle_.get(); }
  /// Throws what the last call on the handle says, unless `result` is 0.
  void check(int result) const;

  /// In order of address, IPv4 first.
  [[nodiscard]] std::vector<ibarp_entry> entries() const;
  [[nodiscard]] std::vector<ibarp_counter> counters() const;
  [[nodiscard]] std::vector<ibarp_group> groups() const;
  /// Adds the members of a group to `out`; what libibarp returns.
  [[nodiscard]] int members(const ibarp_group& group, std::vector<ibarp_member>& out) const;
  [[nodiscard]] std::vector<ibarp_log_level> log_levels() const;
  [[nodiscard]] std::vector<ibarp_trace_record> trace() const;
  [[nodiscard]] ibarp_info info() const;

 private:
  struct Close {
    void operator()(ibarp* handle) const { ibarp_close(handle); }
  };
  std::string interface_;
  std::unique_ptr<ibarp, Close> handle_;
};

/// The interfaces that a command is about. Throws Failure with kBadValue when there are none.
[[nodiscard]] std::vector<std::string> interfaces_of(const Command& command);

/// An address, or with `names` the name of a host. Throws Failure with kBadValue.
[[nodiscard]] ibarp_address resolve(const std::string& host, bool names);
/// The name of a host; "?" when it has none.
[[nodiscard]] std::string name_of(const ibarp_address& address);

[[nodiscard]] std::string text_of(const ibarp_address& address);
[[nodiscard]] std::string text_of(const ibarp_hardware& hardware);
[[nodiscard]] std::string gid_text(const std::uint8_t (&gid)[16]);

}  // namespace ipoib::cli
