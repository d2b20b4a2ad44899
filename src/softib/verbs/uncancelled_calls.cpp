// The cancellation points of the C library that softib calls. The linker replaces its calls of
// `name` by calls of `__wrap_name`, and knows the C library's function as `__real_name` (--wrap of
// ld(1); CMakeLists.txt takes the names from here). So the functions of the data path need not
// disable cancellation, which takes a tenth of the time of a small datagram.
//
// A test checks that none is missing (../abi.cmake). fcntl() is none for the commands that softib
// uses, and streams are used by functions that disable cancellation as a whole.
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <ctime>

#include "softib/core/no_cancellation.hpp"

namespace {

template <auto real, class... Arguments>
auto uncancelled(Arguments... arguments) {
  if (softib::CancellationPoint::is_inside()) return real(arguments...);
  const softib::NoCancellation whole;
  return real(arguments...);
}

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier,misc-use-internal-linkage)
extern "C" {

int __real_accept4(int, sockaddr*, socklen_t*, int);
int __wrap_accept4(int fd, sockaddr* address, socklen_t* size, int flags) {
  return uncancelled<__real_accept4>(fd, address, size, flags);
}

int __real_close(int);
int __wrap_close(int fd) { return uncancelled<__real_close>(fd); }

int __real_connect(int, const sockaddr*, socklen_t);
int __wrap_connect(int fd, const sockaddr* address, socklen_t size) {
  return uncancelled<__real_connect>(fd, address, size);
}

int __real_epoll_wait(int, epoll_event*, int, int);
int __wrap_epoll_wait(int fd, epoll_event* events, int room, int timeout) {
  return uncancelled<__real_epoll_wait>(fd, events, room, timeout);
}

int __real_eventfd_read(int, eventfd_t*);
int __wrap_eventfd_read(int fd, eventfd_t* value) {
  return uncancelled<__real_eventfd_read>(fd, value);
}

int __real_eventfd_write(int, eventfd_t);
int __wrap_eventfd_write(int fd, eventfd_t value) {
  return uncancelled<__real_eventfd_write>(fd, value);
}

ssize_t __real_getrandom(void*, std::size_t, unsigned);
ssize_t __wrap_getrandom(void* to, std::size_t size, unsigned flags) {
  return uncancelled<__real_getrandom>(to, size, flags);
}

int __real_msync(void*, std::size_t, int);
int __wrap_msync(void* begin, std::size_t size, int flags) {
  return uncancelled<__real_msync>(begin, size, flags);
}

int __real_nanosleep(const timespec*, timespec*);
int __wrap_nanosleep(const timespec* time, timespec* left) {
  return uncancelled<__real_nanosleep>(time, left);
}

int __real_open(const char*, int, ...);
int __wrap_open(const char* path, int flags, mode_t mode) {
  return uncancelled<__real_open>(path, flags, mode);
}

int __real_openat(int, const char*, int, ...);
int __wrap_openat(int folder, const char* path, int flags, mode_t mode) {
  return uncancelled<__real_openat>(folder, path, flags, mode);
}

int __real_pause();
int __wrap_pause() { return uncancelled<__real_pause>(); }

int __real_poll(pollfd*, nfds_t, int);
int __wrap_poll(pollfd* fds, nfds_t count, int timeout) {
  return uncancelled<__real_poll>(fds, count, timeout);
}

ssize_t __real_pread(int, void*, std::size_t, off_t);
ssize_t __wrap_pread(int fd, void* to, std::size_t size, off_t at) {
  return uncancelled<__real_pread>(fd, to, size, at);
}

int __real_pthread_cond_clockwait(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);
int __wrap_pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                  clockid_t clock, const timespec* until) {
  return uncancelled<__real_pthread_cond_clockwait>(condition, mutex, clock, until);
}

int __real_pthread_cond_wait(pthread_cond_t*, pthread_mutex_t*);
int __wrap_pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  return uncancelled<__real_pthread_cond_wait>(condition, mutex);
}

ssize_t __real_pwrite(int, const void*, std::size_t, off_t);
ssize_t __wrap_pwrite(int fd, const void* from, std::size_t size, off_t at) {
  return uncancelled<__real_pwrite>(fd, from, size, at);
}

ssize_t __real_read(int, void*, std::size_t);
ssize_t __wrap_read(int fd, void* to, std::size_t size) {
  return uncancelled<__real_read>(fd, to, size);
}

ssize_t __real_recv(int, void*, std::size_t, int);
ssize_t __wrap_recv(int fd, void* to, std::size_t size, int flags) {
  return uncancelled<__real_recv>(fd, to, size, flags);
}

ssize_t __real_recvmsg(int, msghdr*, int);
ssize_t __wrap_recvmsg(int fd, msghdr* message, int flags) {
  return uncancelled<__real_recvmsg>(fd, message, flags);
}

ssize_t __real_send(int, const void*, std::size_t, int);
ssize_t __wrap_send(int fd, const void* from, std::size_t size, int flags) {
  return uncancelled<__real_send>(fd, from, size, flags);
}

ssize_t __real_sendmsg(int, const msghdr*, int);
ssize_t __wrap_sendmsg(int fd, const msghdr* message, int flags) {
  return uncancelled<__real_sendmsg>(fd, message, flags);
}

ssize_t __real_sendto(int, const void*, std::size_t, int, const sockaddr*, socklen_t);
ssize_t __wrap_sendto(int fd, const void* from, std::size_t size, int flags,
                      const sockaddr* address, socklen_t length) {
  return uncancelled<__real_sendto>(fd, from, size, flags, address, length);
}

int __real_sigtimedwait(const sigset_t*, siginfo_t*, const timespec*);
int __wrap_sigtimedwait(const sigset_t* signals, siginfo_t* taken, const timespec* patience) {
  return uncancelled<__real_sigtimedwait>(signals, taken, patience);
}

pid_t __real_waitpid(pid_t, int*, int);
pid_t __wrap_waitpid(pid_t process, int* status, int options) {
  return uncancelled<__real_waitpid>(process, status, options);
}

ssize_t __real_write(int, const void*, std::size_t);
ssize_t __wrap_write(int fd, const void* from, std::size_t size) {
  return uncancelled<__real_write>(fd, from, size);
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,misc-use-internal-linkage)
