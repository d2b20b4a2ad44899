// A sender's connection to a receiver that writes anything to the memory that they share and sends
// any messages. The sender neither blocks nor keeps descriptors, and does a bounded number of
// things for each packet.
#include "hostile_peer.hpp"
#include "softib/transport/peer_connection.hpp"

using namespace softib::fuzz;
using namespace softib::transport;

namespace {

GuardedFd guarded(FileDescriptor fd) {
  const ForkLock lock;
  return {std::move(fd), lock};
}

class Receiver {
 public:
  explicit Receiver(const Descriptors& descriptors) : descriptors_(descriptors) {}

  void connect(PeerConnection& sender, int socket) {
    socket_ = socket;
    require(sender.make_ring() == 0);
    MessageReader reader;
    require(reader.next(socket) == MessageReader::Got::message);
    ring_ = static_cast<std::uint8_t*>(
        ::mmap(nullptr, kRingMemory, PROT_READ | PROT_WRITE, MAP_SHARED, reader.fd().get(), 0));
    require(ring_ != MAP_FAILED);
  }
  ~Receiver() {
    if (ring_ != nullptr) ::munmap(ring_, kRingMemory);
  }
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  RingHeader& header() { return *reinterpret_cast<RingHeader*>(ring_); }
  void send(ByteReader& in) { (void)send_message(socket_, in, descriptors_); }
  void scribble(std::size_t at, ConstBytes what) {
    at %= kRingMemory;
    std::copy_n(what.begin(), std::min(what.size(), kRingMemory - at), ring_ + at);
  }
  /// Takes what the sender has sent since the last call.
  std::size_t take_messages() {
    std::size_t count = descriptors_.take_wakeups();
    std::array<char, 64> message;
    while (::recv(socket_, message.data(), message.size(), MSG_DONTWAIT) > 0) ++count;
    return count;
  }

 private:
  const Descriptors& descriptors_;
  int socket_ = -1;
  std::uint8_t* ring_ = nullptr;
};

void put(PeerConnection& connection, ByteReader& in, Receiver& receiver) {
  static const std::array<std::uint8_t, 4096> payload{};
  std::array<softib::OutgoingPacket, 8> packets;
  std::array<const softib::OutgoingPacket*, 8> batch;
  const std::size_t count = 1 + in.u8() % batch.size();
  for (std::size_t i = 0; i < count; ++i) {
    packets[i].header_size = 28;
    packets[i].add(ConstBytes(payload).first(in.u16() % payload.size()));
    packets[i].destination = ipoib::Qpn(in.u8());
    packets[i].dlid = ipoib::Lid(in.u8() % 16 == 0 ? 0xc000 : 2);
    batch[i] = &packets[i];
  }
  require(connection.put({batch.data(), count}, 1) <= count);
  // The cost: a wakeup for each packet, and the engine's if that failed.
  require(receiver.take_messages() <= 2 * count);
}

void run(ByteReader in, Descriptors& descriptors) {
  SocketPair sockets;
  PeerConnection connection(guarded(std::move(sockets.near)));
  Receiver receiver(descriptors);
  receiver.connect(connection, sockets.far.get());
  while (in.left() > 0) {
    switch (in.u8() % 7) {
      case 0:
      case 1:
        put(connection, in, receiver);
        break;
      case 2:
        receiver.send(in);
        break;
      case 3:
        descriptors.table.write(in.u16() % (4 * 64), in.take(std::min<std::size_t>(8, in.left())));
        break;
      case 4: {
        auto& header = receiver.header();
        header.taken = in.u8() % 2 == 0 ? header.written.load() - in.u16() : in.u64();
        header.reader_state = in.u8() % 8;
        break;
      }
      case 5:
        receiver.scribble(in.u24(), in.take(std::min<std::size_t>(in.u8(), in.left())));
        break;
      case 6:
        connection.notify_engine();
        require(receiver.take_messages() <= 1);
        if (connection.has_ended({})) return;
        break;
    }
    const auto left = connection.count_left();
    require(left.entries <= kRingBytes / 64);
    require(left.packets <= left.entries * softib::kMaxTsoSegments);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Descriptors descriptors;
  std::fill_n(descriptors.table.data(), kTableMemory, std::uint8_t{0});
  const int before = lowest_free_descriptor();
  run(ByteReader({data, size}), descriptors);
  (void)descriptors.take_wakeups();
  require(lowest_free_descriptor() == before);
  return 0;
}
