// The run folder with names of any kind: folders, files, symbolic links, sockets that are served or
// not, locks. Only what a process serves counts as an interface, only what nobody has locked is
// removed, and nothing outside of the folder changes.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "control/connection.hpp"
#include "control/socket_folder.hpp"
#include "ipoib/unix_path.hpp"
#include "require.hpp"
#include "tests/support/softib/temporary_folder.hpp"

using namespace ipoib;
using namespace ipoib::control;

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxSteps = 24;

class Script {
 public:
  explicit Script(ByteReader in) : in_(in) {
    fs::create_directories(own_);
    fs::create_directories(outside_);
    std::ofstream(outside_ / "lock") << "4711";
    ::setenv(kRunFolderVariable, run_.c_str(), 1);
  }

  void run() {
    for (std::size_t step = 0; step < kMaxSteps && in_.left() > 0; ++step) {
      const std::uint8_t kind = in_.u8();
      const fs::path above = in_.u8() % 8 == 0 ? run_ / "net-1" : own_;
      fs::create_directories(above);
      const std::string name = any_name();
      if (exists(above / name)) continue;
      if (kind % 16 == 15) {
        take(name);
      } else {
        make(kind, above, name);
      }
    }
    check_served();
    remove_unused_socket_folders();
    check_served();
    for (const auto& path : locked_) require(exists(path));
    for (const auto& path : unused_) require(!exists(path));
    std::ifstream file(outside_ / "lock");
    std::string text;
    require(file >> text && text == "4711");
    require(std::distance(fs::directory_iterator(outside_), fs::directory_iterator()) == 1);
  }

 private:
  [[nodiscard]] static bool exists(const fs::path& path) {
    return fs::symlink_status(path).type() != fs::file_type::not_found;
  }
  /// One of a few names, or any that a file can have.
  [[nodiscard]] std::string any_name() {
    constexpr std::array<const char*, 6> kNames{"ib0", "ib0.8001", "lock", "control", "net-1", "-"};
    const std::uint8_t pick = in_.u8();
    if (pick % 2 == 0) return kNames[pick / 2 % kNames.size()];
    std::string name;
    for (const auto byte : in_.take(std::min<std::size_t>(pick / 8U, in_.left()))) {
      name.push_back(byte == 0 || byte == '/' ? '_' : static_cast<char>(byte));
    }
    return name.empty() || name == "." || name == ".." ? "x" : name;
  }

  void make(std::uint8_t kind, const fs::path& above, const std::string& name) {
    const fs::path path = above / name;
    switch (kind % 8) {
      case 0:
        std::ofstream(path) << "text";
        return;
      case 1:
        return fs::create_directory_symlink(outside_, path);
      default:
        break;
    }
    if (!fs::create_directory(path)) return;
    switch (kind % 8) {
      case 2:
        sockets_.push_back(listen_at(path / kControlSocket));
        if (above == own_ && is_interface_name(name)) served_.insert(name);
        return;
      case 3:
        (void)listen_at(path / kControlSocket);
        return;
      case 4: {
        const FileDescriptor file(
            ::open((path / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
        require(bool(file));
        (void)listen_at(path / kReadSocket);
        // The names that begin with a dot are left alone.
        if (name.front() != '.') unused_.push_back(path);
        return;
      }
      case 5: {
        FileDescriptor file(::open((path / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
        struct flock how {};
        how.l_type = F_WRLCK;
        how.l_len = 1;
        require(::fcntl(file.get(), F_OFD_SETLK, &how) == 0);
        sockets_.push_back(std::move(file));
        locked_.push_back(path);
        return;
      }
      case 6:
        return fs::create_symlink(outside_ / "lock", path / "lock");
      case 7:
        fs::create_symlink(outside_ / "lock", path / kControlSocket);
        return fs::permissions(path, fs::perms::all);
    }
  }

  [[nodiscard]] static FileDescriptor listen_at(const fs::path& path) {
    FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto place = UnixPath::of(path.string());
    require(place && ::bind(socket.get(), place->address(), UnixPath::size()) == 0);
    require(::listen(socket.get(), 1) == 0);
    return socket;
  }

  /// As a daemon for this interface, which leaves nothing behind.
  void take(const std::string& name) {
    if (!is_interface_name(name) || exists(own_ / name)) return;
    {
      const auto taken = SocketFolder::take(namespace_, name, {});
      require(taken.has_value());
      served_.insert(name);
      check_served();
      served_.erase(name);
    }
    require(!exists(own_ / name));
    fs::create_directories(own_);  // which goes with its last interface
  }

  void check_served() {
    const auto found = served_interfaces();
    require(found.has_value() && *found == served_);
  }

  ByteReader in_;
  softib::test::TemporaryFolder folder_;
  const fs::path run_ = folder_ / "run";
  const fs::path outside_ = folder_ / "outside";
  const std::uint64_t namespace_ = own_network_namespace().value();
  const fs::path own_ = run_ / namespace_folder(namespace_);
  std::vector<FileDescriptor> sockets_;
  std::vector<fs::path> locked_;
  std::vector<fs::path> unused_;
  std::set<std::string> served_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int before = FileDescriptor(::dup(0)).get();
  Script(ByteReader({data, size})).run();
  require(FileDescriptor(::dup(0)).get() == before);
  return 0;
}
