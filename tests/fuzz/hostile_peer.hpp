// What a faulty process on an emulated subnet may send to another one.
#pragma once

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

#include "ipoib/ancillary_descriptors.hpp"
#include "ipoib/bytes.hpp"
#include "require.hpp"
#include "softib/transport/ring.hpp"
#include "softib/transport/shared_memory.hpp"
#include "softib/transport/wakeup_table.hpp"
#include "softib/transport/wire_message.hpp"

namespace softib::fuzz {

using ipoib::ByteReader;
using ipoib::ConstBytes;
using ipoib::FileDescriptor;
using ipoib::require;

/// The lowest free descriptor: grows if one leaks.
inline int lowest_free_descriptor() { return FileDescriptor(::dup(0)).get(); }

struct SocketPair {
  explicit SocketPair(int type = SOCK_SEQPACKET) {
    int ends[2];
    require(::socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    near.reset(ends[0]);
    far.reset(ends[1]);
  }
  FileDescriptor near;
  FileDescriptor far;
};

/// Memory that the other side shares, and what is written to it.
class HostileMemory {
 public:
  explicit HostileMemory(std::size_t bytes)
      : descriptor(transport::make_shared_memory("fuzz", bytes).value()),
        size_(bytes),
        bytes_(static_cast<std::uint8_t*>(
            ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0))) {
    require(bytes_ != MAP_FAILED);
  }
  HostileMemory(const HostileMemory&) = delete;
  HostileMemory& operator=(const HostileMemory&) = delete;
  ~HostileMemory() { ::munmap(bytes_, size_); }

  void write(std::size_t at, ConstBytes what) {
    at %= size_;
    std::copy_n(what.begin(), std::min(what.size(), size_ - at), bytes_ + at);
  }
  [[nodiscard]] std::uint8_t* data() { return bytes_; }

  const FileDescriptor descriptor;

 private:
  const std::size_t size_;
  std::uint8_t* const bytes_;
};

inline constexpr std::size_t kRingMemory = 4096 + transport::kRingBytes;
inline constexpr std::size_t kTableMemory = (sizeof(transport::WakeupLayout) + 4095) / 4096 * 4096;

/// Descriptors of all kinds that matter, one of them right for each message.
class Descriptors {
 public:
  Descriptors() : ring(kRingMemory), table(kTableMemory), event_(::eventfd(0, EFD_CLOEXEC)) {}
  [[nodiscard]] int of(std::uint8_t which) const {
    const std::array all{ring.descriptor.get(), table.descriptor.get(), wakeups_.near.get(),
                         event_.get(),          stream_.near.get(),     small_.descriptor.get(),
                         ring.descriptor.get(), table.descriptor.get()};
    return all[which % all.size()];
  }
  /// Takes what was sent through the socket for wakeups. Returns how many.
  [[nodiscard]] std::size_t take_wakeups() const {
    std::size_t count = 0;
    while (::recv(wakeups_.far.get(), nullptr, 0, MSG_DONTWAIT) == 0) ++count;
    return count;
  }

  HostileMemory ring;
  HostileMemory table;

 private:
  SocketPair wakeups_{SOCK_DGRAM};
  FileDescriptor event_;
  SocketPair stream_{SOCK_STREAM};
  HostileMemory small_{4096};
};

/// Sends | kinds of descriptors 8, how many 8 (0 to 7) | size 8 | message | of the input. Returns
/// false if there is no room or no reader.
inline bool send_message(int socket, ByteReader& in, const Descriptors& descriptors) {
  constexpr std::size_t kMost = 7;
  const std::uint8_t which = in.u8();
  const std::size_t count = in.u8() % (kMost + 1);
  const auto bytes = in.take(std::min<std::size_t>(in.u8(), in.left()));
  iovec piece{const_cast<std::uint8_t*>(bytes.data()), bytes.size()};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  std::vector<int> passed(count);
  for (std::size_t i = 0; i < count; ++i) {
    passed[i] = descriptors.of(static_cast<std::uint8_t>(which + i));
  }
  ipoib::AncillaryDescriptors control;
  control.attach(header, passed);
  return ::sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

}  // namespace softib::fuzz
