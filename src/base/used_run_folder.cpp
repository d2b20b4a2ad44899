#include "ipoib/used_run_folder.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <thread>
#include <utility>

namespace ipoib {

namespace {

/// How often to try to take a folder that another process is removing, which takes few system
/// calls.
constexpr int kTries = 100;
constexpr std::chrono::milliseconds kPause{10};
/// How long the child process may take to remove the folder.
constexpr int kPatience = 1000;  // milliseconds

constexpr const char* kMembers = "members";  ///< see run_folder.hpp

bool is_linked(int folder) {
  struct stat status {};
  return ::fstat(folder, &status) == 0 && status.st_nlink > 0;
}

/// Safe in a child of _Fork().
void remove_if_unused(const char* path) {
  const int folder = ::open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return;
  if (::flock(folder, LOCK_EX | LOCK_NB) == 0) (void)::unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
  (void)::close(folder);
}

void give_up_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> none{};
  (void)::syscall(SYS_capset, &header, none.data());
  (void)::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/// The child process, which keeps nothing but its user and this socket. What ends the daemon does
/// not end it; the end of the socket does.
[[noreturn]] void wait_and_remove(int socket, const char* path) {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  (void)::prctl(PR_SET_NAME, "ipoibd-folder", 0, 0, 0);
  (void)::dup2(socket, STDIN_FILENO);
  (void)::syscall(SYS_close_range, STDIN_FILENO + 1, ~0U, 0);
  give_up_capabilities();
  char none = 0;
  (void)!::read(STDIN_FILENO, &none, sizeof none);
  remove_if_unused(path);
  ::_exit(0);
}

}  // namespace

std::optional<UsedRunFolder> UsedRunFolder::take(const std::function<Result<Folder>()>& open,
                                                 RemovalRights rights) {
  for (int tries = 0; tries < kTries; ++tries) {
    auto folder = open();
    if (!folder) return std::nullopt;
    // It does not wait, since any user may lock what he may read.
    if (::flock(folder->fd.get(), LOCK_SH | LOCK_NB) == 0 && is_linked(folder->fd.get())) {
      UsedRunFolder used(std::move(*folder));
      if (rights == RemovalRights::are_given_up) used.start_remover();
      return used;
    }
    std::this_thread::sleep_for(kPause);
  }
  return std::nullopt;
}

/// Without handlers of fork(), since the child calls nothing that they are for.
void UsedRunFolder::start_remover() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return;
  FileDescriptor of_child(ends[1]);
  remover_.reset(ends[0]);
  child_ = ::_Fork();
  if (child_ == 0) wait_and_remove(of_child.get(), folder_.path.c_str());
  if (child_ < 0) remover_.reset();
}

UsedRunFolder::~UsedRunFolder() {
  if (!folder_.fd) return;
  // Only the owner of the folder can remove what is in it.
  if (::flock(folder_.fd.get(), LOCK_EX | LOCK_NB) == 0) {
    (void)::unlinkat(folder_.fd.get(), kMembers, AT_REMOVEDIR);
  }
  folder_.fd.reset();
  if (remover_) {
    (void)::shutdown(remover_.get(), SHUT_WR);
    pollfd end{remover_.get(), POLLIN, 0};
    if (::poll(&end, 1, kPatience) == 1) (void)::waitpid(child_, nullptr, 0);
  } else {
    remove_if_unused(folder_.path.c_str());
  }
}

}  // namespace ipoib
