// The engine of a process whose senders send any messages and write anything to the rings that it
// reads, also while it reads them. It closes the connections of those that are faulty, keeps
// nothing of them, and its loop runs a bounded number of times for what they do.
#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>

#include "hostile_peer.hpp"
#include "softib/fabric/folder.hpp"
#include "softib/transport/socket_engine.hpp"
#include "softib/transport/unix_socket.hpp"
#include "temporary_folder.hpp"

using namespace softib::fuzz;
using namespace softib::transport;

namespace {

/// Turns of the loop: for a step of a sender, which may connect, or a wait, and for the rest of an
/// input.
constexpr std::size_t kTurnsPerStep = 4;
constexpr std::size_t kOtherTurns = 64;
constexpr std::size_t kMostSenders = 6;

struct Receiver : WireReceiver {
  void arrived(std::span<const softib::ArrivedPacket> packets) override {
    for (const auto& packet : packets) {
      require(packet.bytes.size() <= softib::kMaxLargePacketBytes);
      for (const auto byte : packet.bytes) sum += byte;
    }
  }
  void mad_arrived(const MadOnWire& mad) override {
    const auto packet = mad.bytes;
    require(packet.size() <= kMaxMessageBody);
    std::uint64_t number = 0;
    if (packet.size() != sizeof number) return;
    std::memcpy(&number, packet.data(), sizeof number);
    if (number == awaited) reached = number;
  }
  void malformed() override {}
  void accept_paused() override {}
  void connections_ended(std::span<const softib::transport::Process> /*processes*/) override {}
  void turn_done() override { ++turns; }
  void deadline(ipoib::TimePoint /*now*/) override {}

  std::uint64_t sum = 0;
  std::atomic<std::uint64_t> awaited = 0;
  std::atomic<std::uint64_t> reached = 0;
  std::atomic<std::size_t> turns = 0;
};

class Engine {
 public:
  [[nodiscard]] GuardedFd connect() const { return connect_to(subnet_, 0, 0); }
  [[nodiscard]] std::size_t turns() const { return receiver_.turns; }
  /// Waits until the engine has read a message that is sent now.
  void wait() {
    std::array<std::uint8_t, 1 + sizeof(std::uint64_t)> body{1};  // for port 1
    // No sender of an input guesses it.
    const std::uint64_t number = receiver_.awaited + 0x9e3779b97f4a7c15U;
    receiver_.awaited = number;
    std::memcpy(body.data() + 1, &number, sizeof number);
    require(softib::transport::send_message(own_.get(), MessageKind::mad, body) == 0);
    while (receiver_.reached != number) std::this_thread::yield();
  }

 private:
  softib::test::TemporaryFolder folder_;
  const bool made_ = std::filesystem::create_directories(folder_ / "node/0");
  const softib::fabric::SubnetFolder subnet_{folder_.path()};
  const FileDescriptor opened_ = subnet_.open_node(0).value();
  const GuardedFd listener_ = listen_at(opened_.get(), softib::fabric::slot_name(0)).value();
  Receiver receiver_;
  SocketEngine engine_{listener_.get(), receiver_};
  const GuardedFd own_ = connect();
};

std::size_t run(ByteReader in, Engine& engine, Descriptors& descriptors) {
  std::array<GuardedFd, kMostSenders> senders;
  std::size_t steps = 0;
  for (; in.left() > 0; ++steps) {
    auto& sender = senders[in.u8() % senders.size()];
    switch (in.u8() % 6) {
      case 0:
        sender = engine.connect();
        break;
      case 1:
      case 2:
        if (!sender) sender = engine.connect();
        if (!send_message(sender.get(), in, descriptors)) sender.reset();
        break;
      case 3: {
        auto& header = *reinterpret_cast<RingHeader*>(descriptors.ring.data());
        header.written = in.u8() % 2 == 0 ? header.taken + in.u16() / 64 * 64 : in.u64();
        header.engine_requested = in.u8() % 2;
        break;
      }
      case 4:
        descriptors.ring.write(4096 + in.u24() % kRingBytes,
                               in.take(std::min<std::size_t>(in.u8(), in.left())));
        break;
      case 5:
        sender.reset();
        break;
    }
  }
  engine.wait();
  return steps;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Engine engine;
  static Descriptors descriptors;
  engine.wait();
  const int before =
      lowest_free_descriptor();  // not that of the first input: the fuzzer opens files
  std::fill_n(descriptors.ring.data(), 4096 + 4096, std::uint8_t{0});
  const auto turns = engine.turns();
  const auto steps = run(ByteReader({data, size}), engine, descriptors);
  // The ends of the senders; each turn may see a part of them.
  std::size_t waits = 0;
  while (lowest_free_descriptor() > before) {
    engine.wait();
    require(++waits < 1000);
  }
  require(engine.turns() - turns <= kTurnsPerStep * (steps + waits) + kOtherTurns);  // the cost
  return 0;
}
