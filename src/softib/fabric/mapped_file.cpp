#include "softib/fabric/mapped_file.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

namespace softib::fabric {

using ipoib::Error;
using ipoib::Result;

namespace {

/// A mapping, which the signal handler reads while other threads change it.
struct Mapped {
  static constexpr std::uintptr_t kFree = 0;
  static constexpr std::uintptr_t kReserved = 1;
  std::atomic<std::uintptr_t> begin = kFree;
  std::atomic<std::size_t> size = 0;
  std::atomic<bool> is_lost = false;
};

constinit std::array<Mapped, kMaxMappedFiles> all{};
struct sigaction previous {};

std::uintptr_t address_of(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

Mapped* find(std::uintptr_t address) {
  for (auto& each : all) {
    const auto begin = each.begin.load();
    if (begin > Mapped::kReserved && address >= begin && address - begin < each.size) return &each;
  }
  return nullptr;
}

bool replace_by_zeroes(Mapped& mapped) {
  // This store comes before the zeroes, so a thread that reads them knows why.
  mapped.is_lost = true;
  // This is the system call itself: mmap() is not on the list of functions that signal handlers may
  // call.
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  const long result = ::syscall(SYS_mmap, mapped.begin.load(), mapped.size.load(),
                                PROT_READ | PROT_WRITE, kFlags, -1, 0);
  return result != -1;
}

void on_bus_error(int number, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  auto* const mapped = info->si_code == BUS_ADRERR ? find(address_of(info->si_addr)) : nullptr;
  if (mapped != nullptr && replace_by_zeroes(*mapped)) {
    errno = saved_errno;
    return;
  }
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    if ((previous.sa_flags & SA_SIGINFO) != 0) return previous.sa_sigaction(number, info, context);
    return previous.sa_handler(number);
  }
  // The faulting instruction is executed again. A signal that was sent must be sent again.
  ::sigaction(SIGBUS, &previous, nullptr);
  if (info->si_code <= 0) ::raise(number);
}

bool install() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  return ::sigaction(SIGBUS, &action, &previous) == 0;
}

Mapped* reserve() {
  for (auto& each : all) {
    auto free = Mapped::kFree;
    if (each.begin.compare_exchange_strong(free, Mapped::kReserved)) return &each;
  }
  return nullptr;
}

}  // namespace

Result<std::shared_ptr<void>> map_file(int file, std::size_t size) {
  static const bool is_installed = install();
  auto* const mapped = is_installed ? reserve() : nullptr;
  if (mapped == nullptr) {
    return Error{ENOMEM, "this process has mapped " + std::to_string(kMaxMappedFiles) +
                             " files of subnets, the maximum: run another process"};
  }
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) {
    const int code = errno;
    mapped->begin = Mapped::kFree;
    return Error{code, std::string("it cannot be mapped: ") + std::strerror(code)};
  }
  mapped->size = size;
  mapped->is_lost = false;
  mapped->begin = address_of(memory);
  return std::shared_ptr<void>(memory, [mapped, size](void* all_of_it) {
    mapped->begin = Mapped::kReserved;
    ::munmap(all_of_it, size);
    mapped->begin = Mapped::kFree;
  });
}

bool is_lost(const void* mapping) {
  const auto* const mapped = find(address_of(mapping));
  return mapped != nullptr && mapped->is_lost;
}

}  // namespace softib::fabric
