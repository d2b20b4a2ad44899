// Unix sockets over which nobody has to send descriptors (SCM_RIGHTS).
//
// Whoever receives a message closes the descriptors in it, even those that he does not take. That
// may block for as long as their sender likes: closing a socket with SO_LINGER waits for its peer.
#pragma once

namespace ipoib {

/// Before it is bound: makes the kernel refuse messages with descriptors to this socket, and to the
/// connections that it accepts. Their sender gets EPERM. Without effect before Linux 6.16.
void refuse_descriptors(int socket);

}  // namespace ipoib
