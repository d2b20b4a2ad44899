#include "softib/ucma/ibarp_library.hpp"

#include <dlfcn.h>

#include <optional>
#include <string>

namespace softib::ucma {

namespace {

constexpr const char* kName = "libibarp.so.0";

/// The folder of the library that this code is in, with a slash.
std::string own_folder() {
  Dl_info info{};
  static const char here = 0;
  if (::dladdr(&here, &info) == 0 || info.dli_fname == nullptr) return {};
  const std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/') + 1);
}

void* load() {
  const std::string folder = own_folder();
  for (const auto& path : {folder + kName, folder + "../" + kName, std::string(kName)}) {
    if (void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

std::optional<IbarpLibrary> find_functions() {
  void* const library = load();
  if (library == nullptr) return std::nullopt;
  IbarpLibrary found{};
  const auto find = [&](auto& function, const char* name) {
    using Function = std::remove_reference_t<decltype(function)>;
    function = reinterpret_cast<Function>(::dlsym(library, name));
    return function != nullptr;
  };
  const bool is_complete =
      find(found.interfaces, "ibarp_interfaces") && find(found.open, "ibarp_open") &&
      find(found.close, "ibarp_close") && find(found.set_timeout, "ibarp_set_timeout") &&
      find(found.get_info, "ibarp_get_info") && find(found.resolve, "ibarp_resolve");
  return is_complete ? std::optional(found) : std::nullopt;
}

}  // namespace

const IbarpLibrary* IbarpLibrary::get() {
  static const std::optional<IbarpLibrary> kLibrary = find_functions();
  return kLibrary ? &*kLibrary : nullptr;
}

}  // namespace softib::ucma
