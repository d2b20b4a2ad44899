#include "verbs/sysfs.hpp"

#include <dlfcn.h>

#include <array>

namespace ipoib::verbs {

/// Reads through libibverbs, so that another library below its ABI is asked.
std::string read_sysfs(const ibv_context* context, const std::string& file) {
  // The header of this function, infiniband/driver.h, is not installed by distributions.
  using ReadSysfsFile = int (*)(const char* folder, const char* file, char* to, std::size_t room);
  static const auto read =
      reinterpret_cast<ReadSysfsFile>(::dlsym(RTLD_DEFAULT, "ibv_read_sysfs_file"));
  if (read == nullptr) return {};
  std::array<char, 256> text{};
  (void)read(context->device->ibdev_path, file.c_str(), text.data(), text.size() - 1);
  const std::string all = text.data();
  return all.substr(0, all.find('\n'));
}

}  // namespace ipoib::verbs
