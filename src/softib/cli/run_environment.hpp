// The environment variables by which libsoftib.so gets into a program.
#pragma once

#include <string>
#include <string_view>

#include "ipoib/result.hpp"

namespace softib::cli {

/// The default HCA, named after the network namespace: its name for `ip netns`, else the host name
/// in the host's initial namespace, else "ns-" and the inode number of the namespace.
[[nodiscard]] std::string default_hca_name();
/// Makes a valid name by replacing invalid characters with '-'. Returns "host" for an empty text.
[[nodiscard]] std::string as_name(std::string_view text);

/// The path of libsoftib.so, from the location of this program: in the build tree, or installed.
[[nodiscard]] ipoib::Result<std::string> find_libsoftib();
/// The folder of the Python program of `softib lab`, in the same way.
[[nodiscard]] ipoib::Result<std::string> find_lab_program();
/// The values of the variables of ld.so(8).
struct Preload {
  std::string libraries;  ///< LD_PRELOAD
  std::string folders;    ///< LD_LIBRARY_PATH
};
/// Preloads the sanitizer's runtime if the library was built with one, the library, and what the
/// two variables had before. Programs that open libibverbs.so.1 themselves find the library by this
/// name in its folder abi/. LD_PRELOAD cannot contain a blank, so a library in a folder with one is
/// preloaded by its name and found through LD_LIBRARY_PATH.
[[nodiscard]] Preload preload_of(std::string_view library, std::string_view preloads,
                                 std::string_view folders);

}  // namespace softib::cli
