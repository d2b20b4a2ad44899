// Messages on the sockets between processes: everything but packets for queue pairs.
//
//   | kind 8 | body |     plus one file descriptor (SCM_RIGHTS) for the kinds that carry one
//
// A peer could exhaust this process's descriptors. So a message with a descriptor too many or too
// few is malformed, and each descriptor that arrives is taken by the caller or closed by the next
// call. The receiver of a malformed message closes the connection, but not if this process only had
// no room for the descriptor: then its sender has done nothing wrong.
#pragma once

#include <array>
#include <cstdint>

#include "ipoib/bytes.hpp"
#include "ipoib/file_descriptor.hpp"

namespace softib::transport {

enum class MessageKind : std::uint8_t {
  wakeup,          ///< to a receiver: check the port's record and the rings
  mad,             ///< to a receiver: | port of the HCA 8 | one packet, LRH to padding |
  mad_with_icrc,   ///< to a receiver: the same, followed by its ICRC
  ring,            ///< to a receiver: + the memory of the sender's ring
  wakeup_table,    ///< to a sender: + the memory of the receiver's WakeupTable
  wakeup_fd,       ///< to a sender: | number 32, in host order | + a socket of a WakeupSocket
  want_wakeup_fd,  ///< to a receiver: | number 32, in host order |
  want_objects,    ///< to a receiver: an ObjectRequest
  objects,         ///< to who wants them: an ObjectPage
  count_
};

inline constexpr std::size_t kMaxMessageBody = 1024;

/// Sends without blocking, with the descriptor `fd` unless that is -1. Returns 0 or an errno value.
[[nodiscard]] int send_message(int socket, MessageKind kind, ipoib::ConstBytes body = {},
                               int fd = -1);

/// Receives messages from a socket without blocking.
class MessageReader {
 public:
  enum class Got : std::uint8_t {
    message,
    no_room,  ///< a message without its descriptor: this process, or the system, has none left
    malformed,
    nothing,
    end,
  };

  [[nodiscard]] Got next(int socket);
  // The last message, also after `no_room`; valid until the next call of next().
  [[nodiscard]] MessageKind kind() const { return static_cast<MessageKind>(buffer_[0]); }
  [[nodiscard]] ipoib::ConstBytes body() const { return {buffer_.data() + 1, size_ - 1}; }
  [[nodiscard]] const ipoib::FileDescriptor& fd() const { return fd_; }
  [[nodiscard]] ipoib::FileDescriptor take_fd() { return std::move(fd_); }

 private:
  std::array<std::uint8_t, 1 + kMaxMessageBody> buffer_;
  std::size_t size_ = 1;
  ipoib::FileDescriptor fd_;
};

}  // namespace softib::transport
