#include "ipoib/refuse_descriptors.hpp"

#include <sys/socket.h>

namespace ipoib {

namespace {
/// SO_PASSRIGHTS of asm-generic/socket.h, which the headers of older systems lack.
constexpr int kPassRights = 83;
}  // namespace

void refuse_descriptors(int socket) {
  const int no = 0;
  (void)::setsockopt(socket, SOL_SOCKET, kPassRights, &no, sizeof no);
}

}  // namespace ipoib
