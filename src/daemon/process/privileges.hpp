// What the daemon gives up after its start: its user, capabilities, and the way to new ones.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace ipoib::daemon {

/// The user and group that the daemon runs as; none: those that it was started as.
struct Account {
  std::optional<uid_t> user;
  std::optional<gid_t> group;
  std::string user_name;
  friend bool operator==(const Account&, const Account&) = default;
};

/// The user to run as without --user, if it exists and can be used, see choose_account().
inline constexpr const char* kServiceUser = "ipoibd";

/// The user with this name or number; nullopt if there is none.
[[nodiscard]] std::optional<Account> find_user(const std::string& text);
/// The group with this name, or any number; nullopt if there is none.
[[nodiscard]] std::optional<gid_t> find_group(const std::string& text);

/// What decides which capabilities are kept.
struct Needs {
  bool has_kernel_devices = true;    ///< false: an emulated subnet, where the kernel checks nothing
  bool limits_locked_memory = true;  ///< RLIMIT_MEMLOCK is finite
  bool uses_files_of_others = false;  ///< root with a subnet or capture file of others
};

/// Numbers of capabilities(7). They are all effective for good: the kernel refuses commands to an
/// RDMA device from a thread whose credentials have changed since the device was opened.
[[nodiscard]] std::vector<unsigned> capabilities_to_keep(const Needs& needs);

/// Throws std::runtime_error if the user or group does not exist. Empty names are not given.
/// Without a user, one called kServiceUser is taken if the process is root with kernel devices, and
/// that user may use all of `device_files`, of which there is one at least.
[[nodiscard]] Account choose_account(const std::string& user, const std::string& group,
                                     const Needs& needs,
                                     const std::vector<std::string>& device_files);

/// Device files of the kernel that the daemon opens, also when a lost device comes back.
[[nodiscard]] std::vector<std::string> management_device_files();

/// Permits to lock as much memory as the process may. Returns whether that is without a limit.
bool raise_memory_lock_limit();

/// Gives up for good what `account` and capabilities_to_keep() do not name, for the calling thread
/// and those that it starts; empties the bounding set, and sets no_new_privs. So the process should
/// have one thread. `more_groups` are supplementary groups besides those of the user. Returns what
/// is kept, as one line for the log. Throws std::runtime_error.
std::string give_up_privileges(const Account& account, const std::vector<unsigned>& keep,
                               const std::vector<gid_t>& more_groups);

}  // namespace ipoib::daemon
