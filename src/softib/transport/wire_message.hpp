// What is said on the sockets between processes: all that is not worth a ring, and what makes one.
//
//   | kind 8 | body |     with a descriptor beside it, for those kinds that hand one over
#pragma once

#include <array>
#include <cstdint>

#include "ipoib/bytes.hpp"
#include "ipoib/file_descriptor.hpp"

namespace softib::transport {

enum class MessageKind : std::uint8_t {
  nudge,  ///< to a receiver: look at the port's record, and at the rings
  mad,    ///< to a receiver: one packet, LRH to padding
  ring,   ///< to a receiver: memory of the sender's ring
  door,   ///< to a sender: memory of the receiver's door
  bell,   ///< to a sender: | number 32, in host order |, and the eventfd to write to
  count_
};

inline constexpr std::size_t kMaxMessageBody = 1024;

/// Sends without waiting; 0 or an errno value.
[[nodiscard]] int send_message(int socket, MessageKind kind, ipoib::ConstBytes body = {},
                               int handed_over = -1);

/// Takes messages off a socket, without waiting.
class MessageReader {
 public:
  enum class Got : std::uint8_t { message, malformed, nothing, end };

  [[nodiscard]] Got next(int socket);
  // Of the last message; valid until the next.
  [[nodiscard]] MessageKind kind() const { return static_cast<MessageKind>(buffer_[0]); }
  [[nodiscard]] ipoib::ConstBytes body() const { return {buffer_.data() + 1, size_ - 1}; }
  [[nodiscard]] const ipoib::FileDescriptor& handed_over() const { return handed_over_; }
  [[nodiscard]] ipoib::FileDescriptor take() { return std::move(handed_over_); }

 private:
  std::array<std::uint8_t, 1 + kMaxMessageBody> buffer_;
  std::size_t size_ = 1;
  ipoib::FileDescriptor handed_over_;
};

}  // namespace softib::transport
