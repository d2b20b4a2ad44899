#include "ipoib/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ipoib {

namespace {

Error failure(const std::string& path, int code) {
  const bool is_link = code == ELOOP;
  return Error{code, path + ": " +
                         (is_link ? "is a symbolic link: name the file that it leads to"
                                  : std::strerror(code))};
}

bool is_trusted(uid_t owner) { return owner == ::geteuid() || owner == 0; }

}  // namespace

Result<FileDescriptor> open_output_file(const std::string& path, int flags, mode_t mode) {
  const auto slash = path.rfind('/');
  const std::string above = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  const FileDescriptor folder(::open(above.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct stat status {};
  if (!folder || ::fstat(folder.get(), &status) != 0) return failure(path, errno);
  const bool is_public = (status.st_mode & S_IWOTH) != 0;
  if (is_public && !is_trusted(status.st_uid)) {
    return Error{EPERM, path +
                            ": everybody may write to the folder, which belongs to another user; "
                            "choose another one"};
  }
  FileDescriptor file(::openat(folder.get(), name.c_str(),
                               O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | flags, mode));
  if (!file || ::fstat(file.get(), &status) != 0) return failure(path, errno);
  if (is_public && status.st_uid != ::geteuid()) {
    return Error{EPERM, path +
                            ": belongs to another user, in a folder that everybody may write to; "
                            "choose another name"};
  }
  if (is_public && S_ISREG(status.st_mode) && status.st_nlink != 1) {
    return Error{EPERM,
                 path +
                     ": has several links, in a folder that everybody may write to; choose another "
                     "name"};
  }
  return file;
}

}  // namespace ipoib
