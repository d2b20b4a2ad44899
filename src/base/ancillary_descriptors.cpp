#include "ipoib/ancillary_descriptors.hpp"

#include <cassert>
#include <cstring>

namespace ipoib {

void AncillaryDescriptors::attach(msghdr& header, std::span<const int> descriptors) {
  assert(descriptors.size() <= kMost);
  if (descriptors.empty()) return;
  header.msg_control = control_.data();
  header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
  cmsghdr* const part = CMSG_FIRSTHDR(&header);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(part), descriptors.data(), descriptors.size_bytes());
}

/// Not CMSG_SPACE: the kernel would put a further descriptor into the padding.
void AncillaryDescriptors::make_room(msghdr& header, std::size_t count) {
  assert(count <= kMost);
  header.msg_control = control_.data();
  header.msg_controllen = CMSG_LEN(count * sizeof(int));
}

std::vector<FileDescriptor> AncillaryDescriptors::take(msghdr& header) {
  std::vector<FileDescriptor> out;
  for (auto* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(part) + i * sizeof descriptor, sizeof descriptor);
      out.emplace_back(descriptor);
    }
  }
  return out;
}

}  // namespace ipoib
