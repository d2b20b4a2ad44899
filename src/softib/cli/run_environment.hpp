// What a program needs to be told to find itself on an HCA.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ipoib/result.hpp"

namespace softib::cli {

/// The HCA of this host, by its network namespace: the name that `ip netns` knows it by; in the
/// host's own namespace the host name; elsewhere "ns-" and the namespace's inode number.
[[nodiscard]] std::string default_hca_name();
/// A text with all that is_valid_name() does not take replaced by '-'; "host" for an empty one.
[[nodiscard]] std::string as_name(std::string_view text);

/// libsoftib.so next to this program: in the build tree, or where both are installed.
[[nodiscard]] ipoib::Result<std::string> find_libsoftib();
/// LD_PRELOAD with the library in front of what is there, and the sanitizer's runtime, if the
/// library was built with one, in front of that.
[[nodiscard]] std::string preload_value(std::string_view library, std::string_view before);

}  // namespace softib::cli
