#include "softib/cli/launch.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>

#include "ipoib/file_descriptor.hpp"
#include "softib/cli/run_environment.hpp"
#include "softib/endpoint/endpoint.hpp"

namespace softib::cli {

namespace {

/// The exit codes of shells and env(1).
constexpr int kNotExecutable = 126;
constexpr int kNotFound = 127;

std::string_view variable(const char* name) {
  const char* const value = ::getenv(name);
  return value == nullptr ? "" : value;
}

void set_variable(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

/// The file of that name where execvp(3) searches; empty if there is none.
std::string find_file(const std::string& program) {
  if (program.find('/') != std::string::npos) {
    return ::access(program.c_str(), F_OK) == 0 ? program : "";
  }
  const char* const path = ::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/bin:/usr/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string file = folder.append("/").append(program);
    if (::access(file.c_str(), F_OK) == 0) return file;
  }
  return {};
}

/// Whether it is an ELF program of this machine without an interpreter.
bool is_static(const std::string& path) {
  const ipoib::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  Elf64_Ehdr header{};
  const bool is_elf = file && ::pread(file.get(), &header, sizeof header, 0) == sizeof header &&
                      std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
                      header.e_ident[EI_CLASS] == ELFCLASS64 &&
                      header.e_phentsize == sizeof(Elf64_Phdr);
  if (!is_elf) return false;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    const auto at = static_cast<off_t>(header.e_phoff + i * sizeof segment);
    if (::pread(file.get(), &segment, sizeof segment, at) != sizeof segment) return false;
    if (segment.p_type == PT_INTERP) return false;
  }
  return true;
}

/// Why the kernel ignores LD_PRELOAD when it executes the file (AT_SECURE), and what to do; empty
/// if it does not.
std::string change_of_rights(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {};
  const bool is_other_user = (status.st_mode & S_ISUID) != 0 && status.st_uid != ::geteuid();
  const bool is_other_group = (status.st_mode & S_ISGID) != 0 && (status.st_mode & S_IXGRP) != 0 &&
                              status.st_gid != ::getegid();
  if (::geteuid() != 0) {
    const bool gains = is_other_user || is_other_group ||
                       ::getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
    return gains ? "it gains privileges when it is executed; start softib run as root" : "";
  }
  if (!is_other_user && !is_other_group) return {};
  return "it changes its user or group when it is executed (setuid, setgid); start softib run as "
         "that user";
}

/// Whether sudo(8), or env(1) with -i, executes the program that its arguments name.
bool clears_environment(const std::string& path, char** argv) {
  const auto name = path.substr(path.rfind('/') + 1);
  if (name == "sudo") return true;
  if (name != "env") return false;
  bool clears = false;
  for (char** word = argv + 1; *word != nullptr; ++word) {
    const std::string_view text = *word;
    clears |= text == "-" || text == "-i" || text == "--ignore-environment";
    if (text.starts_with("LD_PRELOAD=")) return false;
    if (text == "-u" || text == "-C") {
      if (*++word == nullptr) break;
    } else if (!text.starts_with('-') && text.find('=') == std::string_view::npos) {
      return clears;  // the program
    }
  }
  return false;
}

/// Why a program cannot use an emulated HCA, and what to do; empty if it can, or if that is
/// unknown, as for a script.
std::string obstacle_of(const std::string& path, char** argv) {
  if (is_static(path)) return "it is statically linked; link it dynamically";
  if (clears_environment(path, argv)) {
    return "it clears the environment; let it start softib run, in place of the program";
  }
  return change_of_rights(path);
}

/// Whether seccomp forbids what regions with on-demand paging need.
bool may_copy_memory() {
  char from = 1;
  char to = 0;
  const iovec local{&to, 1};
  const iovec remote{&from, 1};
  return ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) == 1;
}

}  // namespace

int find_program(int argc, char** argv, std::span<const std::string_view> with_value) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--") return i + 1;
    if (!word.starts_with('-')) return i;
    if (std::ranges::find(with_value, word) != with_value.end()) ++i;
  }
  return argc;
}

ipoib::Result<void> set_environment(const fabric::SubnetFolder& folder, const std::string& hcas) {
  const auto library = find_libsoftib();
  if (!library) return library.error();
  set_variable(fabric::kDirectoryVariable, folder.path().substr(0, folder.path().rfind('/')));
  set_variable(fabric::kSubnetVariable, folder.name());
  set_variable(fabric::kHcaVariable, hcas);
  ::unsetenv(endpoint::kHostsVariable);
  const Preload preload = preload_of(*library, variable("LD_PRELOAD"), variable("LD_LIBRARY_PATH"));
  set_variable("LD_PRELOAD", preload.libraries);
  set_variable("LD_LIBRARY_PATH", preload.folders);
  // Memory leaks of arbitrary programs are of no interest.
  ::setenv("ASAN_OPTIONS", "detect_leaks=0", 0);
  return {};
}

int execute(char** argv) {
  const std::string file = find_file(argv[0]);
  if (const auto obstacle = file.empty() ? "" : obstacle_of(file, argv); !obstacle.empty()) {
    std::cerr << "softib: " << argv[0] << " cannot use the emulated HCA: " << obstacle << '\n';
  }
  if (!may_copy_memory()) {
    std::cerr << "softib: the system call process_vm_readv is forbidden here: memory regions with "
                 "on-demand paging will fail; allow it in the seccomp profile\n";
  }
  ::execvp(argv[0], argv);
  int code = errno;
  // execvp() also fails with EACCES if a directory of PATH is not accessible and no other has the
  // program.
  if (code == EACCES && file.empty()) code = ENOENT;
  std::cerr << "softib: cannot run " << argv[0] << ": " << std::strerror(code) << '\n';
  return code == ENOENT ? kNotFound : kNotExecutable;
}

}  // namespace softib::cli
