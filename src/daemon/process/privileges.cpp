#include "daemon/process/privileges.hpp"

#include <cap-ng.h>
#include <grp.h>
#include <pwd.h>
#include <spdlog/fmt/fmt.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>

#include "ipoib/number.hpp"

namespace ipoib::daemon {

namespace {

Account account_of(const passwd& user) { return {user.pw_uid, user.pw_gid, user.pw_name}; }

gid_t existing_group(const std::string& text) {
  if (const auto found = find_group(text)) return *found;
  throw std::runtime_error("--group " + text + ": there is no such group (getent group)");
}

/// All groups of a user.
std::set<gid_t> groups_of(const std::string& user, gid_t first) {
  int count = 64;
  std::vector<gid_t> found(static_cast<std::size_t>(count));
  while (::getgrouplist(user.c_str(), first, found.data(), &count) < 0) {
    found.resize(static_cast<std::size_t>(count));
  }
  found.resize(static_cast<std::size_t>(count));
  return {found.begin(), found.end()};
}

bool may_use(const Account& account, const std::string& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return false;
  const auto allows = [&](unsigned shift) { return (status.st_mode >> shift & 06) == 06; };
  if (status.st_uid == *account.user) return allows(6);
  const bool is_member = groups_of(account.user_name, *account.group).contains(status.st_gid);
  return allows(is_member ? 3 : 0);
}

/// Whether a user (uid_map) or group (gid_map) exists in the user namespace of this process
/// (user_namespaces(7)).
bool is_mapped(const char* map_name, id_t id) {
  std::ifstream map(std::string("/proc/self/") + map_name);
  std::uint64_t first = 0;
  std::uint64_t outside = 0;
  std::uint64_t count = 0;
  while (map >> first >> outside >> count) {
    if (id >= first && id - first < count) return true;
  }
  return false;
}

constexpr const char* kNeedsSetgid =
    "CAP_SETGID is needed: run as root, or without --group and --user";
constexpr const char* kNeedsSetuid = "CAP_SETUID is needed: run as root, or without --user";
constexpr const char* kNeedsPrctl = "permit prctl in the filter of system calls of the container";
constexpr const char* kNeedsCapset = "permit capset in the filter of system calls of the container";

[[noreturn]] void fail(const std::string& what, const char* remedy) {
  throw std::runtime_error(what + ": " + std::strerror(errno) + "; " + remedy);
}

void set_groups(const Account& account, const std::vector<gid_t>& more) {
  std::set<gid_t> groups(more.begin(), more.end());
  if (account.user) {
    groups.merge(groups_of(account.user_name, account.group.value_or(0)));
  } else {
    std::vector<gid_t> present(static_cast<std::size_t>(std::max(0, ::getgroups(0, nullptr))));
    (void)!::getgroups(static_cast<int>(present.size()), present.data());
    const std::set<gid_t> before(present.begin(), present.end());
    groups.insert(before.begin(), before.end());
    if (groups == before) return;
  }
  const std::vector<gid_t> all(groups.begin(), groups.end());
  if (::setgroups(all.size(), all.data()) != 0)
    fail("cannot set the supplementary groups", kNeedsSetgid);
}

/// The effective and permitted capabilities survive until restrict_capabilities().
void change_account(const Account& account, const std::vector<gid_t>& more_groups) {
  set_groups(account, more_groups);
  if (account.group && ::setresgid(*account.group, *account.group, *account.group) != 0) {
    fail("--group " + std::to_string(*account.group), kNeedsSetgid);
  }
  if (!account.user) return;
  if (::prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0) {
    fail("--user " + account.user_name + ": cannot keep capabilities", kNeedsPrctl);
  }
  if (::setresuid(*account.user, *account.user, *account.user) != 0) {
    fail("--user " + account.user_name, kNeedsSetuid);
  }
  (void)::prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0);
}

/// Keeps those of `keep` that the process has; it may have been started with less.
void restrict_capabilities(const std::vector<unsigned>& keep) {
  (void)capng_get_caps_process();
  std::vector<unsigned> present;
  std::ranges::copy_if(keep, std::back_inserter(present), [](unsigned number) {
    return capng_have_capability(CAPNG_PERMITTED, number) == 1;
  });
  const bool may_bound = capng_have_capability(CAPNG_PERMITTED, CAP_SETPCAP) == 1;
  if (may_bound) {
    // A change of the user clears the effective set.
    capng_update(CAPNG_ADD, CAPNG_EFFECTIVE, CAP_SETPCAP);
    capng_apply(CAPNG_SELECT_CAPS);
    capng_clear(CAPNG_SELECT_BOUNDS);
    const int applied = capng_apply(CAPNG_SELECT_BOUNDS);
    const int code = errno;
    // libcap-ng 0.8.3 returns 0, too, if the kernel has refused one.
    (void)capng_get_caps_process();
    if (applied != 0 || capng_have_capabilities(CAPNG_SELECT_BOUNDS) != CAPNG_NONE) {
      errno = code;
      fail("cannot empty the bounding set of capabilities", kNeedsPrctl);
    }
  }
  capng_clear(CAPNG_SELECT_CAPS);
  constexpr auto both = static_cast<capng_type_t>(CAPNG_PERMITTED | CAPNG_EFFECTIVE);
  for (const unsigned number : present) {
    capng_update(CAPNG_ADD, both, number);
  }
  if (capng_apply(CAPNG_SELECT_CAPS) != 0) fail("cannot give up capabilities", kNeedsCapset);
}

/// The capabilities as the tools of libcap-ng print them: "net_admin, sys_admin".
std::string permitted_text() {
  std::string out;
  for (unsigned number = 0; number <= CAP_LAST_CAP; ++number) {
    if (capng_have_capability(CAPNG_PERMITTED, number) != 1) continue;
    out += (out.empty() ? "" : ", ") + std::string(capng_capability_to_name(number));
  }
  return out.empty() ? "none" : out;
}

}  // namespace

std::vector<unsigned> capabilities_to_keep(const Needs& needs) {
  // TUN devices, addresses, and settings below /proc/sys/net need this one.
  std::vector<unsigned> keep{CAP_NET_ADMIN};
  // The daemon enters --netns, and the namespace to which an interface was moved.
  keep.push_back(CAP_SYS_ADMIN);
  // A broadcast group may have a controlled Q_Key (IBA 10.2.4), which is known when it is joined.
  if (needs.has_kernel_devices) keep.push_back(CAP_NET_RAW);
  if (needs.has_kernel_devices && needs.limits_locked_memory) keep.push_back(CAP_IPC_LOCK);
  if (needs.uses_files_of_others) keep.push_back(CAP_DAC_OVERRIDE);
  return keep;
}

std::optional<Account> find_user(const std::string& text) {
  if (const auto* const named = ::getpwnam(text.c_str())) return account_of(*named);
  const auto number = ipoib::parse_number<uid_t>(text);
  const auto* const numbered = number ? ::getpwuid(*number) : nullptr;
  return numbered != nullptr ? std::optional(account_of(*numbered)) : std::nullopt;
}

std::optional<gid_t> find_group(const std::string& text) {
  if (const auto* const named = ::getgrnam(text.c_str())) return named->gr_gid;
  return ipoib::parse_number<gid_t>(text);
}

Account choose_account(const std::string& user, const std::string& group, const Needs& needs,
                       const std::vector<std::string>& device_files) {
  Account account;
  if (!user.empty()) {
    const auto found = find_user(user);
    if (!found) throw std::runtime_error("--user " + user + ": there is no such user");
    account = *found;
    if (!is_mapped("uid_map", *account.user)) {
      throw std::runtime_error("--user " + user +
                               ": does not exist in this user namespace (/proc/self/uid_map): "
                               "leave the option out");
    }
  } else if (::geteuid() == 0 && needs.has_kernel_devices) {
    const auto* const found = ::getpwnam(kServiceUser);
    auto service = found != nullptr ? account_of(*found) : Account();
    if (!group.empty()) service.group = existing_group(group);
    const auto accepts = [&](const auto& file) { return may_use(service, file); };
    // Without device files, nobody knows whether the user may open those to come.
    if (service.user && is_mapped("uid_map", *service.user) && !device_files.empty() &&
        std::ranges::all_of(device_files, accepts)) {
      account = service;
    }
  }
  if (!group.empty()) account.group = existing_group(group);
  if (account.group && !is_mapped("gid_map", *account.group)) {
    throw std::runtime_error((group.empty() ? "--user " + user : "--group " + group) +
                             ": the group does not exist in this user namespace "
                             "(/proc/self/gid_map): leave the option out");
  }
  const bool is_own =
      account.user == ::geteuid() && (!account.group || account.group == ::getegid());
  return is_own ? Account() : account;
}

std::vector<std::string> management_device_files() {
  std::vector<std::string> found;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/infiniband", none)) {
    const auto name = entry.path().filename().string();
    if (name.starts_with("umad") || name.starts_with("uverbs")) found.push_back(entry.path());
  }
  return found;
}

bool raise_memory_lock_limit() {
  const rlimit none{RLIM_INFINITY, RLIM_INFINITY};
  if (::setrlimit(RLIMIT_MEMLOCK, &none) == 0) return true;  // with CAP_SYS_RESOURCE
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return false;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_MEMLOCK, &limit);
  return limit.rlim_max == RLIM_INFINITY;
}

std::string give_up_privileges(const Account& account, const std::vector<unsigned>& keep,
                               const std::vector<gid_t>& more_groups) {
  change_account(account, more_groups);
  restrict_capabilities(keep);
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    fail("cannot give up privileges for good: PR_SET_NO_NEW_PRIVS", kNeedsPrctl);
  }
  return fmt::format("runs as user {} and group {} with the capabilities {}",
                     account.user ? account.user_name : std::to_string(::geteuid()), ::getegid(),
                     permitted_text());
}

}  // namespace ipoib::daemon
