// Messages of another process, with any descriptors: what is not handed to the caller is closed,
// and each message is read once.
#include "hostile_peer.hpp"

using namespace softib::fuzz;
using softib::transport::MessageKind;
using softib::transport::MessageReader;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Descriptors descriptors;
  ByteReader in({data, size});
  const int before = lowest_free_descriptor();
  {
    const SocketPair sockets;
    MessageReader reader;
    FileDescriptor taken;
    std::size_t sent = 0;
    std::size_t got = 0;
    while (in.left() > 0) {
      for (int i = 0; i < 16 && in.left() > 0; ++i) {
        if (send_message(sockets.far.get(), in, descriptors)) ++sent;
      }
      for (;;) {
        const auto result = reader.next(sockets.near.get());
        if (result == MessageReader::Got::nothing) break;
        ++got;
        if (result == MessageReader::Got::end) continue;  // so an empty message looks
        if (result == MessageReader::Got::malformed) {
          require(!reader.fd());
          continue;
        }
        const auto kind = reader.kind();
        const bool carries = kind == MessageKind::ring || kind == MessageKind::wakeup_table ||
                             kind == MessageKind::wakeup_fd;
        require(kind < MessageKind::count_ && bool(reader.fd()) == carries);
        require(reader.body().size() <= softib::transport::kMaxMessageBody);
        if (carries) {
          require(::fcntl(reader.fd().get(), F_GETFD) == FD_CLOEXEC);
          taken = reader.take_fd();
        }
      }
      require(got == sent);  // the cost
      // Of all that came, at most `taken` is open.
      require(lowest_free_descriptor() <= before + 3);
    }
  }
  require(lowest_free_descriptor() == before);
  return 0;
}
