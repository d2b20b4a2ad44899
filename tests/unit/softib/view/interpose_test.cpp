// Each C function that looks at a file by its path: files of an HCA are those of the view, and all
// others those of the kernel.
#undef _FORTIFY_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "ipoib/file_descriptor.hpp"
#include "temporary_folder.hpp"
#include "test_subnet.hpp"

// What the headers of new C libraries do not declare.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {
int __xstat(int version, const char* path, struct stat* status) noexcept;
int __xstat64(int version, const char* path, struct stat64* status) noexcept;
int __lxstat(int version, const char* path, struct stat* status) noexcept;
int __lxstat64(int version, const char* path, struct stat64* status) noexcept;
int __fxstatat(int version, int folder, const char* path, struct stat* status, int flags) noexcept;
int __fxstatat64(int version, int folder, const char* path, struct stat64* status,
                 int flags) noexcept;
char* __realpath_chk(const char* path, char* resolved, std::size_t room) noexcept;
int __open_2(const char* path, int flags);
int __open64_2(const char* path, int flags);
int __openat_2(int folder, const char* path, int flags);
int __openat64_2(int folder, const char* path, int flags);
int __fxstat(int version, int fd, struct stat* status) noexcept;
int __fxstat64(int version, int fd, struct stat64* status) noexcept;
}
// NOLINTEND(bugprone-reserved-identifier)

namespace softib::view {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

constexpr const char* kHcas = "/sys/class/infiniband";
constexpr const char* kHca = "/sys/class/infiniband/softib0";
constexpr const char* kFile = "/sys/class/infiniband/softib0/node_type";
constexpr const char* kDevice = "/dev/infiniband/uverbs0";
constexpr const char* kNothing = "/sys/class/infiniband/softib9";
constexpr int kVersion = 1;  // of struct stat

/// This process is one on the HCA host1.
class Interposed : public ::testing::Test {
 protected:
  Interposed() { subnet_.enter("host1"); }
  test::TestSubnet subnet_;
};

// Programs call them, although they are deprecated.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
constexpr auto* read_into = ::readdir_r;
constexpr auto* read_into64 = ::readdir64_r;
#pragma GCC diagnostic pop

/// 0, or the errno value of a call that returned -1.
int error_of(long result) { return result == -1 ? errno : 0; }
template <class T>
int error_of(const T* result) {
  return result == nullptr ? errno : 0;
}

struct StatFunction {
  const char* name;
  std::function<int(const char*, struct stat*)> call;
};

/// All forms of stat(2); struct stat64 is the same.
std::vector<StatFunction> stat_functions() {
  const auto as64 = [](struct stat* status) { return reinterpret_cast<struct stat64*>(status); };
  return {
      {"stat", [](auto* path, auto* to) { return ::stat(path, to); }},
      {"stat64", [=](auto* path, auto* to) { return ::stat64(path, as64(to)); }},
      {"fstatat", [](auto* path, auto* to) { return ::fstatat(AT_FDCWD, path, to, 0); }},
      {"fstatat64", [=](auto* path, auto* to) { return ::fstatat64(AT_FDCWD, path, as64(to), 0); }},
      {"__xstat", [](auto* path, auto* to) { return ::__xstat(kVersion, path, to); }},
      {"__xstat64", [=](auto* path, auto* to) { return ::__xstat64(kVersion, path, as64(to)); }},
      {"__fxstatat",
       [](auto* path, auto* to) { return ::__fxstatat(kVersion, AT_FDCWD, path, to, 0); }},
      {"__fxstatat64",
       [=](auto* path, auto* to) { return ::__fxstatat64(kVersion, AT_FDCWD, path, as64(to), 0); }},
      {"lstat", [](auto* path, auto* to) { return ::lstat(path, to); }},
      {"lstat64", [=](auto* path, auto* to) { return ::lstat64(path, as64(to)); }},
      {"__lxstat", [](auto* path, auto* to) { return ::__lxstat(kVersion, path, to); }},
      {"__lxstat64", [=](auto* path, auto* to) { return ::__lxstat64(kVersion, path, as64(to)); }},
  };
}

TEST_F(Interposed, StatDescribesFilesOfTheViewAsTheKernelDoes) {
  for (const auto& [name, call] : stat_functions()) {
    SCOPED_TRACE(name);
    const bool follows = std::strchr(name, 'l') != name && std::strstr(name, "__l") == nullptr;
    struct stat found {};
    ASSERT_EQ(call(kFile, &found), 0);
    EXPECT_EQ(found.st_mode, mode_t{S_IFREG | 0444});
    EXPECT_EQ(found.st_size, 4096);
    EXPECT_EQ(found.st_blksize, 4096);
    EXPECT_EQ(found.st_nlink, 1U);
    const auto inode = found.st_ino;
    ASSERT_EQ(call(kHca, &found), 0);
    EXPECT_EQ(found.st_mode, mode_t{S_IFDIR | 0755});
    EXPECT_EQ(found.st_size, 0);
    EXPECT_NE(found.st_ino, inode);
    ASSERT_EQ(call(kDevice, &found), 0);
    EXPECT_EQ(found.st_mode, mode_t{S_IFCHR | 0666});
    EXPECT_EQ(found.st_rdev, makedev(231, 192));
    EXPECT_EQ(error_of(call(kNothing, &found)), ENOENT);
    // Others.
    ASSERT_EQ(call("/dev/null", &found), 0);
    EXPECT_EQ(found.st_rdev, makedev(1, 3));
    EXPECT_EQ(error_of(call("/dev/null/x", &found)), ENOTDIR);
    ASSERT_EQ(call("/proc/self/exe", &found), 0);
    EXPECT_EQ(S_ISLNK(found.st_mode), !follows);
  }
  struct statx found {};
  ASSERT_EQ(::statx(AT_FDCWD, kDevice, 0, STATX_BASIC_STATS, &found), 0);
  EXPECT_EQ(found.stx_mask, STATX_BASIC_STATS);
  EXPECT_EQ(found.stx_mode, S_IFCHR | 0666);
  EXPECT_EQ(found.stx_rdev_major, 231U);
  EXPECT_EQ(found.stx_rdev_minor, 192U);
  ASSERT_EQ(::statx(AT_FDCWD, kFile, 0, STATX_BASIC_STATS, &found), 0);
  struct stat same {};
  ASSERT_EQ(::stat(kFile, &same), 0);
  EXPECT_EQ(found.stx_ino, same.st_ino);
  EXPECT_EQ(found.stx_size, 4096U);
  EXPECT_EQ(found.stx_blksize, 4096U);
  EXPECT_EQ(found.stx_nlink, 1U);
  EXPECT_EQ(error_of(::statx(AT_FDCWD, kNothing, 0, STATX_BASIC_STATS, &found)), ENOENT);
  ASSERT_EQ(::statx(AT_FDCWD, "/dev/null", 0, STATX_BASIC_STATS, &found), 0);
  EXPECT_EQ(found.stx_rdev_minor, 3U);
}

TEST_F(Interposed, AccessIsThatOfTheModes) {
  using Call = std::function<int(const char*, int)>;
  for (const Call& call :
       {Call(::access), Call(::euidaccess), Call(::eaccess),
        Call([](auto* path, int mode) { return ::faccessat(-1, path, mode, 0); })}) {
    const auto error = [&](const char* path, int mode) { return error_of(call(path, mode)); };
    EXPECT_EQ(error(kFile, R_OK), 0);
    EXPECT_EQ(error(kFile, W_OK), EACCES);
    EXPECT_EQ(error(kFile, X_OK), EACCES);
    EXPECT_EQ(error(kDevice, R_OK | W_OK), 0);
    EXPECT_EQ(error(kDevice, X_OK), EACCES);
    EXPECT_EQ(error(kHca, R_OK | X_OK), 0);
    EXPECT_EQ(error(kHca, W_OK), EACCES);
    EXPECT_EQ(error(kNothing, F_OK), ENOENT);
    EXPECT_EQ(error("/dev/null", R_OK | W_OK), 0);
    EXPECT_EQ(error("/dev/no such", R_OK), ENOENT);
  }
}

TEST_F(Interposed, NothingOfTheViewIsALink) {
  std::array<char, PATH_MAX> to{};
  for (const auto& call :
       {std::function([&](const char* path) { return ::readlink(path, to.data(), to.size()); }),
        std::function([&](const char* path) {
          return ::readlinkat(AT_FDCWD, path, to.data(), to.size());
        })}) {
    EXPECT_EQ(error_of(call(kHca)), EINVAL);
    EXPECT_EQ(error_of(call(kNothing)), ENOENT);
    EXPECT_GT(call("/proc/self/exe"), 0);
  }
  using Call = std::function<char*(const char*)>;
  const std::vector<Call> allocating{[](auto* path) { return ::realpath(path, nullptr); },
                                     [](auto* path) { return ::canonicalize_file_name(path); }};
  const std::vector<Call> in_place{
      [&](auto* path) { return ::realpath(path, to.data()); },
      [&](auto* path) { return ::__realpath_chk(path, to.data(), to.size()); }};
  const auto check = [&](const Call& call, const char* path, const char* expected) {
    to = {};
    char* const found = call(path);
    EXPECT_STREQ(found, expected) << path;
    return found;
  };
  for (const auto& [path, expected] : {std::pair{"/sys/class/infiniband/softib0/device/../ports",
                                                 "/sys/class/infiniband/softib0/ports"},
                                       {"/dev/../dev/null", "/dev/null"}}) {
    for (const auto& call : allocating) std::free(check(call, path, expected));
    for (const auto& call : in_place) EXPECT_EQ(check(call, path, expected), to.data());
  }
  for (const auto& calls : {allocating, in_place}) {
    for (const auto& call : calls) {
      EXPECT_EQ(error_of(call(kNothing)), ENOENT);
      EXPECT_EQ(error_of(call("/dev/no such")), ENOENT);
      const std::string long_path = std::string(kHcas) + "/" + std::string(PATH_MAX, 'x');
      EXPECT_EQ(error_of(call(long_path.c_str())), ENOENT);
    }
  }
}

std::string text_of(int fd) {
  std::array<char, 64> text{};
  const auto size = ::read(fd, text.data(), text.size());
  return size < 0 ? "unreadable" : std::string(text.data(), static_cast<std::size_t>(size));
}

TEST_F(Interposed, FilesOfTheViewAreOpenedForReading) {
  using Call = std::function<int(const char*, int)>;
  const std::vector<Call> calls{
      [](auto* path, int flags) { return ::open(path, flags); },
      [](auto* path, int flags) { return ::open64(path, flags); },
      [](auto* path, int flags) { return ::openat(AT_FDCWD, path, flags); },
      [](auto* path, int flags) { return ::openat64(AT_FDCWD, path, flags); },
      [](auto* path, int flags) { return ::__open_2(path, flags); },
      [](auto* path, int flags) { return ::__open64_2(path, flags); },
      [](auto* path, int flags) { return ::__openat_2(AT_FDCWD, path, flags); },
      [](auto* path, int flags) { return ::__openat64_2(AT_FDCWD, path, flags); }};
  for (const auto& call : calls) {
    for (const int close_on_exec : {0, O_CLOEXEC}) {
      const ipoib::FileDescriptor file(call(kFile, O_RDONLY | close_on_exec));
      ASSERT_TRUE(file);
      EXPECT_EQ(text_of(file.get()), "1: CA\n");
      EXPECT_EQ(::fcntl(file.get(), F_GETFD), close_on_exec == 0 ? 0 : FD_CLOEXEC);
      EXPECT_EQ(error_of(::pwrite(file.get(), "x", 1, 0)), EPERM);
      EXPECT_EQ(error_of(::ftruncate(file.get(), 100)), EPERM);
      EXPECT_EQ(error_of(::ftruncate(file.get(), 0)), EPERM);
      EXPECT_EQ(error_of(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE)), EPERM);
    }
    const auto error = [&](const char* path, int flags) { return error_of(call(path, flags)); };
    EXPECT_EQ(error(kFile, O_RDWR), EACCES);
    EXPECT_EQ(error(kFile, O_WRONLY), EACCES);
    EXPECT_EQ(error(kFile, O_RDONLY | O_DIRECTORY), ENOTDIR);
    EXPECT_EQ(error(kDevice, O_RDWR), ENXIO);
    EXPECT_EQ(error(kHca, O_WRONLY), EISDIR);
    EXPECT_EQ(error(kNothing, O_RDONLY), ENOENT);
    EXPECT_EQ(error("/dev/no such", O_RDONLY), ENOENT);
    const ipoib::FileDescriptor other(call("/dev/null", O_RDWR | O_CLOEXEC));
    EXPECT_EQ(::write(other.get(), "x", 1), 1);
  }
  EXPECT_EQ(error_of(::open(kNothing, O_RDWR | O_CREAT, 0600)), EACCES);

  // Other files are created with their modes.
  const test::TemporaryFolder folder;
  const ipoib::FileDescriptor opened(::open(folder.path().c_str(), O_RDONLY | O_DIRECTORY));
  int number = 0;
  for (const auto& create :
       {Call([&](auto* path, int flags) { return ::open(path, flags, 0640); }),
        Call([&](auto* path, int flags) { return ::open64(path, flags, 0640); }),
        Call([&](auto* path, int flags) {
          return ::openat(opened.get(), std::strrchr(path, '/') + 1, flags, 0640);
        }),
        Call([&](auto* path, int flags) {
          return ::openat64(opened.get(), std::strrchr(path, '/') + 1, flags, 0640);
        })}) {
    const std::string path = folder.path() + "/" + std::to_string(number++);
    const ipoib::FileDescriptor created(create(path.c_str(), O_WRONLY | O_CREAT | O_EXCL));
    struct stat found {};
    ASSERT_EQ(::stat(path.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, mode_t{0640});
  }
  const ipoib::FileDescriptor unnamed(::open(folder.path().c_str(), O_RDWR | O_TMPFILE, 0600));
  struct stat found {};
  if (unnamed) {
    ASSERT_EQ(::fstat(unnamed.get(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, mode_t{0600});
  }
}

TEST_F(Interposed, StreamsOfTheView) {
  for (auto* const call : {::fopen, ::fopen64}) {
    std::FILE* stream = call(kFile, "r");
    ASSERT_NE(stream, nullptr);
    std::array<char, 64> text{};
    EXPECT_STREQ(std::fgets(text.data(), text.size(), stream), "1: CA\n");
    EXPECT_EQ(::fcntl(::fileno(stream), F_GETFD), 0);
    std::fclose(stream);
    stream = call(kFile, "re");
    ASSERT_NE(stream, nullptr);
    EXPECT_EQ(::fcntl(::fileno(stream), F_GETFD), FD_CLOEXEC);
    std::fclose(stream);
    for (const auto* mode : {"w", "a", "r+"})
      EXPECT_EQ(error_of(call(kFile, mode)), EACCES) << mode;
    EXPECT_EQ(error_of(call(kNothing, "r")), ENOENT);
    EXPECT_EQ(error_of(call("/dev/no such", "r")), ENOENT);
    stream = call("/dev/null", "w");
    ASSERT_NE(stream, nullptr);
    std::fclose(stream);
  }
}

TEST_F(Interposed, FoldersOfTheViewAreRead) {
  DIR* stream = ::opendir(kHcas);
  DIR* const another = ::opendir("/dev/infiniband");
  ASSERT_TRUE(stream != nullptr && another != nullptr);
  const int descriptor = ::dirfd(stream);
  EXPECT_EQ(::faccessat(descriptor, "softib0/node_type", R_OK, 0), 0);
  EXPECT_EQ(::dirfd(stream), descriptor);
  EXPECT_EQ(::telldir(stream), 0);
  const dirent* entry = ::readdir(stream);
  ASSERT_NE(entry, nullptr);
  EXPECT_STREQ(entry->d_name, "softib0");
  EXPECT_EQ(entry->d_type, DT_DIR);
  EXPECT_EQ(entry->d_off, 1);
  EXPECT_EQ(entry->d_reclen, sizeof *entry);
  EXPECT_EQ(::readdir(stream), nullptr);
  ::rewinddir(stream);
  const dirent64* again = ::readdir64(stream);
  ASSERT_NE(again, nullptr);
  EXPECT_STREQ(again->d_name, "softib0");
  EXPECT_EQ(::readdir64(stream), nullptr);
  EXPECT_EQ(::telldir(stream), 1);
  ::seekdir(stream, 0);
  dirent room{};
  dirent* filled = nullptr;
  EXPECT_EQ(read_into(stream, &room, &filled), 0);
  EXPECT_EQ(filled, &room);
  EXPECT_STREQ(room.d_name, "softib0");
  EXPECT_EQ(read_into(stream, &room, &filled), 0);
  EXPECT_EQ(filled, nullptr);
  ::seekdir(stream, -1);
  dirent64 room64{};
  dirent64* filled64 = nullptr;
  EXPECT_EQ(read_into64(stream, &room64, &filled64), 0);
  EXPECT_STREQ(room64.d_name, "softib0");
  std::vector<std::pair<std::string, int>> devices;
  while ((entry = ::readdir(another)) != nullptr)
    devices.emplace_back(entry->d_name, entry->d_type);
  EXPECT_THAT(devices, ElementsAre(std::pair("rdma_cm", DT_CHR), std::pair("umad0", DT_CHR),
                                   std::pair("uverbs0", DT_CHR)));
  EXPECT_EQ(::closedir(stream), 0);
  EXPECT_EQ(error_of(::fcntl(descriptor, F_GETFD)), EBADF);
  EXPECT_EQ(::closedir(another), 0);
  EXPECT_EQ(error_of(::opendir(kNothing)), ENOENT);
  EXPECT_EQ(error_of(::opendir(kFile)), ENOTDIR);

  // Others.
  EXPECT_EQ(error_of(::opendir("/dev/no such")), ENOENT);
  const test::TemporaryFolder folder;
  stream = ::opendir(folder.path().c_str());
  ASSERT_NE(stream, nullptr);
  EXPECT_GE(::dirfd(stream), 0);
  const long first = ::telldir(stream);
  EXPECT_EQ(read_into(stream, &room, &filled), 0);
  ::seekdir(stream, first);
  EXPECT_EQ(read_into64(stream, &room64, &filled64), 0);
  EXPECT_STREQ(room64.d_name, room.d_name);
  ::rewinddir(stream);
  std::vector<std::string> names;
  while ((entry = ::readdir(stream)) != nullptr) names.emplace_back(entry->d_name);
  ::rewinddir(stream);
  while ((again = ::readdir64(stream)) != nullptr) names.emplace_back(again->d_name);
  EXPECT_THAT(names, UnorderedElementsAre(".", "..", ".", ".."));
  EXPECT_EQ(::closedir(stream), 0);
}

/// As grep(1), find(1) and cp(1) go through folders.
TEST_F(Interposed, FoldersOfTheViewHaveDescriptors) {
  const int kOpen = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  const ipoib::FileDescriptor hcas(::open(kHcas, kOpen));
  const ipoib::FileDescriptor hca(::openat(hcas.get(), "softib0", kOpen));
  ASSERT_TRUE(hcas && hca);
  using Open = int(int, const char*, int);
  for (Open *const open :
       {+[](int folder, const char* path, int flags) { return ::openat(folder, path, flags); },
        +[](int folder, const char* path, int flags) { return ::openat64(folder, path, flags); },
        ::__openat_2, ::__openat64_2}) {
    const ipoib::FileDescriptor file(open(hca.get(), "node_type", O_RDONLY));
    EXPECT_EQ(text_of(file.get()), "1: CA\n");
    const ipoib::FileDescriptor same(open(hca.get(), "../softib0/./node_type", O_RDONLY));
    EXPECT_EQ(text_of(same.get()), "1: CA\n");
    EXPECT_EQ(error_of(open(hca.get(), "nothing", O_RDONLY)), ENOENT);
    EXPECT_NE(error_of(open(hca.get(), "", O_RDONLY)), 0);
    EXPECT_NE(error_of(open(hca.get(), "../../net", O_RDONLY)), 0);
  }

  // What is opened is what was looked at, by each call.
  const auto as64 = [](struct stat* status) { return reinterpret_cast<struct stat64*>(status); };
  for (const auto& [path, fd] : {std::pair(kHcas, hcas.get()), {kHca, hca.get()}}) {
    struct stat expected {};
    ASSERT_EQ(::stat(path, &expected), 0);
    for (const auto& call : std::vector<std::function<int(int, struct stat*)>>{
             [](int of, auto* to) { return ::fstat(of, to); },
             [&](int of, auto* to) { return ::fstat64(of, as64(to)); },
             [](int of, auto* to) { return ::__fxstat(kVersion, of, to); },
             [&](int of, auto* to) { return ::__fxstat64(kVersion, of, as64(to)); },
             [](int of, auto* to) { return ::fstatat(of, "", to, AT_EMPTY_PATH); },
             [&](int of, auto* to) { return ::fstatat64(of, "", as64(to), AT_EMPTY_PATH); },
             [](int of, auto* to) { return ::__fxstatat(kVersion, of, ".", to, 0); },
             [&](int of, auto* to) { return ::__fxstatat64(kVersion, of, ".", as64(to), 0); }}) {
      struct stat found {};
      ASSERT_EQ(call(fd, &found), 0);
      EXPECT_EQ(found.st_ino, expected.st_ino);
      EXPECT_EQ(found.st_mode, mode_t{S_IFDIR | 0755});
    }
  }
  struct statx found {};
  ASSERT_EQ(::statx(hca.get(), "", AT_EMPTY_PATH, STATX_BASIC_STATS, &found), 0);
  EXPECT_EQ(found.stx_mode, S_IFDIR | 0755);
  ASSERT_EQ(::statx(hca.get(), "node_type", 0, STATX_BASIC_STATS, &found), 0);
  EXPECT_EQ(found.stx_mode, S_IFREG | 0444);
  struct stat status {};
  EXPECT_EQ(error_of(::fstatat(hca.get(), "", &status, 0)), ENOENT);
  EXPECT_EQ(error_of(::faccessat(hca.get(), "node_type", W_OK, 0)), EACCES);
  std::array<char, 8> link{};
  EXPECT_EQ(error_of(::readlinkat(hca.get(), "node_type", link.data(), link.size())), EINVAL);

  // A duplicate is the same folder, and fdopendir() takes it over.
  ipoib::FileDescriptor copy(::fcntl(hcas.get(), F_DUPFD_CLOEXEC, 0));
  DIR* const stream = ::fdopendir(copy.get());
  ASSERT_NE(stream, nullptr);
  EXPECT_EQ(::dirfd(stream), copy.get());
  EXPECT_STREQ(::readdir(stream)->d_name, "softib0");
  EXPECT_EQ(::closedir(stream), 0);
  EXPECT_EQ(error_of(::fcntl(copy.release(), F_GETFD)), EBADF);
  const ipoib::FileDescriptor file(::open(kFile, O_RDONLY));
  EXPECT_EQ(error_of(::fdopendir(file.get())), ENOTDIR);
  EXPECT_EQ(::fcntl(file.get(), F_GETFD), 0) << "stays open";

  // Others.
  const test::TemporaryFolder folder;
  const ipoib::FileDescriptor other(::open(folder.path().c_str(), kOpen));
  EXPECT_EQ(error_of(::openat(other.get(), "softib0", O_RDONLY)), ENOENT);
  ASSERT_EQ(::fstat(other.get(), &status), 0);
  struct stat expected {};
  ASSERT_EQ(::stat(folder.path().c_str(), &expected), 0);
  EXPECT_EQ(status.st_ino, expected.st_ino);
  DIR* const others = ::fdopendir(::fcntl(other.get(), F_DUPFD_CLOEXEC, 0));
  ASSERT_NE(others, nullptr);
  EXPECT_NE(::readdir(others), nullptr);
  EXPECT_EQ(::closedir(others), 0);
}

template <class Dirent>
int is_no_umad(const Dirent* entry) {
  return std::strncmp(entry->d_name, "umad", 4) != 0 ? 1 : 0;
}
template <class Dirent>
int backwards(const Dirent** one, const Dirent** other) {
  return std::strcmp((*other)->d_name, (*one)->d_name);
}
template <class Dirent, class Call>
std::vector<std::string> scanned(const char* path, Call call, int (*filter)(const Dirent*),
                                 int (*compare)(const Dirent**, const Dirent**)) {
  Dirent** list = nullptr;
  const int count = call(path, &list, filter, compare);
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) {
    names.emplace_back(list[i]->d_name);
    std::free(list[i]);
  }
  std::free(list);
  return count < 0 ? std::vector<std::string>{"error " + std::to_string(errno)} : names;
}

template <class Dirent, class Call>
void check_scans(Call call) {
  const auto scan = [&](const char* path, auto filter, auto compare) {
    return scanned<Dirent>(path, call, filter, compare);
  };
  EXPECT_THAT(scan("/dev/infiniband", nullptr, nullptr),
              ElementsAre("rdma_cm", "umad0", "uverbs0"));
  EXPECT_THAT(scan("/dev/infiniband", is_no_umad<Dirent>, backwards<Dirent>),
              ElementsAre("uverbs0", "rdma_cm"));
  EXPECT_THAT(scan(kFile, nullptr, nullptr), ElementsAre("error " + std::to_string(ENOTDIR)));
  EXPECT_THAT(scan(kNothing, nullptr, nullptr), ElementsAre("error " + std::to_string(ENOENT)));
  const test::TemporaryFolder folder;
  EXPECT_THAT(scan(folder.path().c_str(), nullptr, backwards<Dirent>), ElementsAre("..", "."));
  EXPECT_THAT(scan("/dev/no such", nullptr, nullptr),
              ElementsAre("error " + std::to_string(ENOENT)));
}

TEST_F(Interposed, FoldersAreScanned) {
  check_scans<dirent>(::scandir);
  check_scans<dirent64>(::scandir64);
  check_scans<dirent>([](auto... rest) { return ::scandirat(AT_FDCWD, rest...); });
  check_scans<dirent64>([](auto... rest) { return ::scandirat64(AT_FDCWD, rest...); });
  const ipoib::FileDescriptor hca(::open(kHca, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_THAT(
      scanned<dirent>(
          "ports", [&](auto... rest) { return ::scandirat(hca.get(), rest...); }, nullptr, nullptr),
      ElementsAre("1"));
}

TEST_F(Interposed, AFailedHcaIsNotThere) {
  EXPECT_EQ(::access(kHca, F_OK), 0);
  subnet_.set_failed(1, true);
  EXPECT_EQ(error_of(::access(kHca, F_OK)), ENOENT);
}

}  // namespace
}  // namespace softib::view
