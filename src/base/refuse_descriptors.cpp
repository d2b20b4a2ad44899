#include "ipoib/refuse_descriptors.hpp"

#include <sys/socket.h>

namespace ipoib {

namespace {
/// Not in the headers of older systems; asm-generic/socket.h.
constexpr int kPassRights = 83;
}  // namespace

void refuse_descriptors(int socket) {
  const int no = 0;
  (void)::setsockopt(socket, SOL_SOCKET, kPassRights, &no, sizeof no);
}

}  // namespace ipoib
