// Prefetches memory that another processor wrote.
#pragma once

#include "ipoib/bytes.hpp"

namespace softib {

inline void prefetch(ipoib::ConstBytes bytes) {
  constexpr std::size_t kCacheLine = 64;
  for (std::size_t at = 0; at < bytes.size(); at += kCacheLine) {
    __builtin_prefetch(bytes.data() + at);
  }
}

}  // namespace softib
