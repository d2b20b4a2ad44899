// Loads libibarp when a program first names an IP address that the subnet does not know, because
// libsoftib.so needs only the libraries of the compiler.
#pragma once

#include "ipoib/ibarp.h"

namespace softib::ucma {

/// The functions of the library that are used here.
struct IbarpLibrary {
  decltype(&ibarp_interfaces) interfaces;
  decltype(&ibarp_open) open;
  decltype(&ibarp_close) close;
  decltype(&ibarp_set_timeout) set_timeout;
  decltype(&ibarp_get_info) get_info;
  decltype(&ibarp_resolve) resolve;

  /// Loads the library on the first call: from the folder of libsoftib.so, from the one above, or
  /// as ld.so(8) finds it. Returns null if it is not installed.
  [[nodiscard]] static const IbarpLibrary* get();
};

}  // namespace softib::ucma
