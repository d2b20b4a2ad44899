#include "ipoib/random_bits.hpp"

#include <sys/random.h>

#include <cerrno>
#include <system_error>

namespace ipoib {

std::uint64_t random_bits() {
  std::uint64_t bits = 0;
  // Of up to 256 bytes it returns all, or fails for good (getrandom(2)).
  if (::getrandom(&bits, sizeof bits, 0) != sizeof bits) {
    throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  return bits;
}

}  // namespace ipoib
