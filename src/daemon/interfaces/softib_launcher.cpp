#include "daemon/interfaces/softib_launcher.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/number.hpp"

namespace ipoib::daemon {

namespace {

// A variable that is set for the second run, which has the same options.
constexpr const char* kMarker = "IPOIBD_UNDER_SOFTIB";

// Descriptor of a pipe; a subnet started by this program ends when it is closed.
constexpr const char* kTie = "IPOIBD_SUBNET_TIE";

constexpr std::chrono::seconds kSubnetTimeout{10};
constexpr std::chrono::milliseconds kSubnetPoll{50};

using Words = std::vector<std::string>;

std::filesystem::path own_path() { return std::filesystem::read_symlink("/proc/self/exe"); }

/// The program next to this one (build tree), in the bin folder beside ours (installation), or
/// found in PATH.
std::string softib_program() {
  const auto folder = own_path().parent_path();
  for (const auto& candidate : {folder / "softib", folder.parent_path() / "bin" / "softib"}) {
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "softib";
}

Words softib_command(const char* verb, const SoftibTarget& target) {
  Words words{softib_program(), verb};
  if (!target.subnet.empty()) words.insert(words.end(), {"--subnet", target.subnet});
  return words;
}

std::vector<char*> c_words(Words& words) {
  std::vector<char*> out;
  for (auto& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

/// Standard input and error of a process; kNone stands for /dev/null, which its standard output
/// always is.
struct Streams {
  static constexpr int kNone = -1;
  int input = kNone;
  int error = kNone;
};

pid_t spawn_silently(Words words, const Streams& streams, short flags) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, flags);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
  }
  for (const auto& [from, to] :
       {std::pair(streams.input, STDIN_FILENO), std::pair(streams.error, STDERR_FILENO)}) {
    if (from != Streams::kNone) posix_spawn_file_actions_adddup2(&actions, from, to);
  }
  pid_t child = -1;
  const int error = posix_spawnp(&child, words.front().c_str(), &actions, &attributes,
                                 c_words(words).data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error(words.front() + ": " + std::strerror(error));
  return child;
}

bool subnet_runs(const SoftibTarget& target) {
  const auto child = spawn_silently(softib_command("show", target), {}, 0);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Why the subnet did not start: the last line of what it wrote to `errors`, without the name of
/// the program.
std::string reason_in(const FileDescriptor& errors) {
  std::array<char, 4096> text{};
  const auto end = ::lseek(errors.get(), 0, SEEK_END);
  const auto start = std::max<off_t>(0, end - static_cast<off_t>(text.size()));
  const auto size = ::pread(errors.get(), text.data(), text.size(), start);
  std::string_view written(text.data(), static_cast<std::size_t>(std::max<ssize_t>(0, size)));
  while (written.ends_with('\n')) written.remove_suffix(1);
  written.remove_prefix(written.rfind('\n') + 1);
  constexpr std::string_view kProgram = "softib: ";
  if (written.starts_with(kProgram)) written.remove_prefix(kProgram.size());
  return written.empty() ? "it gave no reason: run softib subnet to see one" : std::string(written);
}

std::runtime_error cannot_start(int code) {
  return std::runtime_error(std::string("cannot start the emulated subnet: ") +
                            std::strerror(code));
}

/// Returns the write end of a pipe: the subnet ends when it is closed, unless let_subnet_stay().
FileDescriptor start_subnet(const SoftibTarget& target) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw cannot_start(errno);
  const FileDescriptor subnet_end(ends[0]);
  FileDescriptor tie(ends[1]);
  auto words = softib_command("subnet", target);
  words.emplace_back("--tied");
  // Nothing but a reason to end is written, so a file in memory cannot grow.
  words.insert(words.end(), {"--log", "off"});
  const FileDescriptor errors(::memfd_create("softib-errors", MFD_CLOEXEC));
  if (!errors) throw cannot_start(errno);
  // A new session, so that it gets no signals of our terminal or service manager.
  const auto child =
      spawn_silently(std::move(words), {subnet_end.get(), errors.get()}, POSIX_SPAWN_SETSID);
  const auto give_up = std::chrono::steady_clock::now() + kSubnetTimeout;
  while (!subnet_runs(target)) {
    if (::waitpid(child, nullptr, WNOHANG) == child) {
      // It may have found that another process has just started the subnet.
      if (subnet_runs(target)) return {};
      throw std::runtime_error("the emulated subnet did not start: " + reason_in(errors));
    }
    if (std::chrono::steady_clock::now() > give_up) {
      throw std::runtime_error("the emulated subnet does not respond: see `softib show`");
    }
    std::this_thread::sleep_for(kSubnetPoll);
  }
  return tie;
}

/// Keeps the descriptor open across exec.
void pass_on(const FileDescriptor& tie) {
  ::setenv(kTie, std::to_string(::fcntl(tie.get(), F_DUPFD, 0)).c_str(), 1);
}

}  // namespace

bool let_subnet_stay() {
  const char* const number = std::getenv(kTie);
  if (number == nullptr) return false;
  const FileDescriptor tie(ipoib::parse_number<int>(number).value_or(-1));
  ::unsetenv(kTie);
  return ::write(tie.get(), "x", 1) == 1;
}

bool is_under_softib() { return std::getenv(kMarker) != nullptr; }

bool is_on_softib() { return std::getenv("SOFTIB_HCA") != nullptr; }

bool uses_softib_of_another_user() {
  const auto value = [](const char* name) {
    const char* const found = std::getenv(name);
    return std::filesystem::path(found == nullptr ? "" : found);
  };
  const auto is_anothers = [](const std::filesystem::path& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 && status.st_uid != ::geteuid();
  };
  const auto capture = value("SOFTIB_CAPTURE");
  return is_on_softib() && (is_anothers(value("SOFTIB_DIR") / value("SOFTIB_SUBNET")) ||
                            is_anothers(capture.parent_path()) || is_anothers(capture));
}

void run_under_softib(const SoftibTarget& target, std::uint8_t port,
                      std::span<const std::string> arguments) {
  if (!target.roce && !subnet_runs(target)) {
    if (const auto tie = start_subnet(target)) pass_on(tie);
  }
  auto words = softib_command("run", target);
  // Port 1 is the default.
  const std::string hca = target.hca + (port == 1 ? "" : ":" + std::to_string(port));
  if (target.roce) {
    words.push_back("--roce");
    if (!target.roce->empty()) words.push_back(*target.roce);
  } else if (!hca.empty()) {
    words.insert(words.end(), {"--hca", hca});
  }
  words.insert(words.end(), {"--", own_path()});
  words.insert(words.end(), arguments.begin(), arguments.end());
  ::setenv(kMarker, "1", 1);
  ::execvp(words.front().c_str(), c_words(words).data());
  throw std::runtime_error(words.front() + ": " + std::strerror(errno));
}

}  // namespace ipoib::daemon
