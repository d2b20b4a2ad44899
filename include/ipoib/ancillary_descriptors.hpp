// File descriptors in messages of Unix sockets: SCM_RIGHTS of unix(7), cmsg(3).
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "ipoib/file_descriptor.hpp"

namespace ipoib {

/// The control data of a message; has to live as long as its header is used.
class AncillaryDescriptors {
 public:
  static constexpr std::size_t kMost = 8;

  /// Before sendmsg(): the message carries these descriptors, at most kMost, which stay open. If
  /// there are none, it has no control data.
  void attach(msghdr& header, std::span<const int> descriptors);
  /// Before recvmsg(): makes room for `count` descriptors, at most kMost. The kernel closes what
  /// comes in addition, and sets MSG_CTRUNC; it does the same if the process can open no more.
  void make_room(msghdr& header, std::size_t count);
  /// After recvmsg(): returns all descriptors that came, whether the message is valid or not.
  [[nodiscard]] static std::vector<FileDescriptor> take(msghdr& header);

 private:
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kMost * sizeof(int))> control_{};
};

}  // namespace ipoib
