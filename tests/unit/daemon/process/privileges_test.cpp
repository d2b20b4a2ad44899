#include "daemon/process/privileges.hpp"

#include <gmock/gmock.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "linux/network_namespace.hpp"

namespace ipoib::daemon {
namespace {

using ::testing::HasSubstr;

constexpr const char* kNobody = "nobody";

bool has(const std::vector<unsigned>& kept, unsigned number) {
  return std::ranges::find(kept, number) != kept.end();
}

bool is_root() {
  std::ifstream map("/proc/self/uid_map");
  std::uint64_t first = 0;
  std::uint64_t outside = 0;
  std::uint64_t count = 0;
  map >> first >> outside >> count;
  return ::geteuid() == 0 && count > 1;
}

/// Runs `body` in a child process; returns its text, then /proc/self/status.
std::string status_after(const std::function<std::string()>& body) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::string text;
    try {
      text = body();
    } catch (const std::exception& error) {
      text = error.what();
    }
    std::ifstream status("/proc/self/status");
    text += "\n" + std::string(std::istreambuf_iterator<char>(status), {});
    (void)!::write(ends[1], text.data(), text.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text;
  std::array<char, 4096> chunk{};
  for (ssize_t n = 0; (n = ::read(ends[0], chunk.data(), chunk.size())) > 0;) {
    text.append(chunk.data(), static_cast<std::size_t>(n));
  }
  ::close(ends[0]);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  return text;
}

TEST(Privileges, KeepsOnlyWhatIsNeeded) {
  const auto emulated = capabilities_to_keep({.has_kernel_devices = false});
  EXPECT_THAT(emulated, ::testing::ElementsAre(CAP_NET_ADMIN, CAP_SYS_ADMIN));
  const auto kernel = capabilities_to_keep({.limits_locked_memory = true});
  EXPECT_TRUE(has(kernel, CAP_NET_RAW) && has(kernel, CAP_IPC_LOCK));
  EXPECT_FALSE(has(kernel, CAP_DAC_OVERRIDE));
  EXPECT_FALSE(has(capabilities_to_keep({.limits_locked_memory = false}), CAP_IPC_LOCK));
  EXPECT_TRUE(has(capabilities_to_keep({.uses_files_of_others = true}), CAP_DAC_OVERRIDE));
}

TEST(Privileges, AreGivenUpForGood) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  const auto text = status_after([] {
    return give_up_privileges({}, capabilities_to_keep({.has_kernel_devices = false}), {});
  });
  EXPECT_THAT(text, HasSubstr("user 0 and group 0 with the capabilities net_admin, sys_admin"));
  EXPECT_THAT(text, HasSubstr("CapInh:\t0000000000000000\nCapPrm:\t0000000000201000\n"
                              "CapEff:\t0000000000201000\nCapBnd:\t0000000000000000\n"));
  EXPECT_THAT(text, HasSubstr("NoNewPrivs:\t1\n"));
}

TEST(Privileges, ANamespaceCanBeEntered) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  const auto text = status_after([] {
    (void)give_up_privileges({}, capabilities_to_keep({.has_kernel_devices = false}), {});
    const auto own = linux::NetworkNamespace::open("/proc/self/ns/net").value();
    return own.run([] { return std::string("entered"); });
  });
  EXPECT_THAT(text, HasSubstr("entered\n"));
  EXPECT_THAT(text, HasSubstr("CapPrm:\t0000000000201000\nCapEff:\t0000000000201000\n"));
}

TEST(Privileges, AnotherUserKeepsTheCapabilities) {
  if (!is_root() || ::getpwnam(kNobody) == nullptr) GTEST_SKIP() << "needs root";
  const auto text = status_after([] {
    const auto account = choose_account(kNobody, "", {}, {});
    return give_up_privileges(account, capabilities_to_keep({.has_kernel_devices = false}), {});
  });
  EXPECT_THAT(text, HasSubstr("runs as user nobody"));
  EXPECT_THAT(text,
              HasSubstr("Uid:\t65534\t65534\t65534\t65534\nGid:\t65534\t65534\t65534\t65534\n"));
  EXPECT_THAT(text, HasSubstr("Groups:\t65534 \n"));
  EXPECT_THAT(text, HasSubstr("CapPrm:\t0000000000201000\nCapEff:\t0000000000201000\n"
                              "CapBnd:\t0000000000000000\n"));
}

TEST(Privileges, UsersAndGroupsThatTheNamespaceLacksAreRefused) {
  const auto user = std::to_string(::geteuid());
  const auto group = std::to_string(::getegid());
  const auto text = status_after([&]() -> std::string {
    if (::unshare(CLONE_NEWUSER) != 0) return "no user namespaces";
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << "0 " + user + " 1";
    std::ofstream("/proc/self/gid_map") << "0 " + group + " 1";
    std::string out;
    for (const auto& [name, group_name] : {std::pair{kNobody, ""}, {"", "65534"}, {"root", ""}}) {
      try {
        (void)choose_account(name, group_name, {}, {});
        out += "taken; ";
      } catch (const std::runtime_error& error) {
        out += std::string(error.what()) + "; ";
      }
    }
    return out;
  });
  if (text.starts_with("no user namespaces")) GTEST_SKIP() << "needs user namespaces";
  EXPECT_THAT(text, HasSubstr("--user nobody: does not exist in this user namespace "
                              "(/proc/self/uid_map): leave the option out; "
                              "--group 65534: the group does not exist in this user namespace "
                              "(/proc/self/gid_map): leave the option out; taken; "));
}

TEST(Privileges, ChoosesTheAccount) {
  if (!is_root() || ::getpwnam(kNobody) == nullptr) GTEST_SKIP() << "needs root";
  EXPECT_THROW((void)choose_account("no-such-user", "", {}, {}), std::runtime_error);
  EXPECT_THROW((void)choose_account("", "no-such-group", {}, {}), std::runtime_error);
  EXPECT_EQ(choose_account("65534", "0", {}, {}), (Account{65534, 0, kNobody}));
  EXPECT_EQ(choose_account("root", "", {}, {}), Account());
  if (::getpwnam(kServiceUser) == nullptr) {
    EXPECT_EQ(choose_account("", "", {}, {}), Account());
  }
}

}  // namespace
}  // namespace ipoib::daemon
