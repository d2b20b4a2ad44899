// Runs the ibarp program and captures its output.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "ipoib/file_descriptor.hpp"

namespace ipoib::ibarp {

struct Outcome {
  int status = -1;  ///< exit status; 128 + n when signal n ended it
  std::string out;
  std::string err;
};

struct Circumstances {
  std::string columns{};        ///< of the terminal; empty: not a terminal
  bool as_nobody = false;       ///< as user 65534; needs root
  bool pipe_is_closed = false;  ///< its output pipe has no reader
  bool ignores_sigpipe = false;
  const char* output = nullptr;  ///< writes to this file instead
  std::string input{};           ///< of its standard input
};

inline std::string contents(int fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  lseek(fd, 0, SEEK_SET);
  for (ssize_t n = 0; (n = read(fd, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
  return text;
}

inline Outcome run_ibarp(const std::vector<std::string>& arguments, const Circumstances& how = {}) {
  FileDescriptor out(memfd_create("out", 0));
  const FileDescriptor err(memfd_create("err", 0));
  const FileDescriptor in(memfd_create("in", 0));
  if (write(in.get(), how.input.data(), how.input.size()) < 0) return {};
  lseek(in.get(), 0, SEEK_SET);
  if (how.pipe_is_closed) {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) return {};
    close(ends[0]);
    out.reset(ends[1]);
  }
  if (how.output != nullptr) out.reset(open(how.output, O_WRONLY | O_CLOEXEC));
  std::vector<char*> argv;
  std::string name = IBARP_PROGRAM;
  argv.push_back(name.data());
  std::vector<std::string> copies = arguments;
  for (std::string& each : copies) argv.push_back(each.data());
  argv.push_back(nullptr);

  const pid_t child = fork();
  if (child == 0) {
    dup2(in.get(), STDIN_FILENO);
    dup2(out.get(), STDOUT_FILENO);
    dup2(err.get(), STDERR_FILENO);
    signal(SIGPIPE, how.ignores_sigpipe ? SIG_IGN : SIG_DFL);
    if (how.columns.empty()) {
      unsetenv("COLUMNS");
    } else {
      setenv("COLUMNS", how.columns.c_str(), 1);
    }
    if (how.as_nobody && setresuid(65534, 65534, 65534) != 0) _exit(126);
    execv(name.c_str(), argv.data());
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          how.pipe_is_closed ? "" : contents(out.get()), contents(err.get())};
}

}  // namespace ipoib::ibarp
