// A hostile process of the emulated subnet, which breaks the rules of softib below verbs.
// tests/netns/attacks.py starts it on an HCA.
//
//   hostile_process idle                        attaches to the HCA, to be killed
//   hostile_process slow-client RATE COUNT      asks the SA, and takes eight responses a second
//   hostile_process many-waiters                a receiver that wants to be woken by a new
//   descriptor
//                                               after each packet, in many slots
//
// RATE is in messages per second. Prints "begun" when it has attached, or when its first descriptor
// was wanted.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "ipoib/number.hpp"
#include "packets.hpp"
#include "softib/core/mad_packet.hpp"
#include "softib/endpoint/endpoint.hpp"
#include "softib/transport/process_slot.hpp"
#include "softib/transport/ring.hpp"
#include "softib/transport/unix_socket.hpp"
#include "softib/transport/wakeup_socket.hpp"
#include "softib/transport/wakeup_table.hpp"
#include "softib/transport/wire_message.hpp"

namespace softib {
namespace {

using std::chrono::steady_clock;
using transport::GuardedFd;
using transport::MessageKind;
using transport::MessageReader;

constexpr std::chrono::milliseconds kTurn{5};
constexpr std::uint32_t kSlots = 20;

void say_begun() {
  std::puts("begun");
  std::fflush(stdout);
}

std::uint64_t number(const std::string& text) {
  const auto value = ipoib::parse_number<std::uint64_t>(text);
  if (!value) throw std::runtime_error(text + " is no number");
  return *value;
}

[[noreturn]] void be_idle() {
  (void)endpoint::process_endpoint().value();
  say_begun();
  for (;;) ::pause();
}

/// Keeps the engine, which reads the responses, from reading on.
struct SlowReader final : endpoint::MadReceiver {
  bool receive_mad(const MadPacket& /*packet*/) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(125));
    return true;
  }
};

void be_slow_client(double rate, std::uint64_t count) {
  auto& endpoint = *endpoint::process_endpoint().value();
  SlowReader reader;
  endpoint.add_mad_receiver(reader);
  while (endpoint.first_port().state != PortState::active) std::this_thread::sleep_for(kTurn);
  std::array<std::uint8_t, MadPacket::kMaxPacketSize> bytes;
  const auto request = test::node_request(endpoint).emit(bytes);
  const auto begin = steady_clock::now();
  for (std::uint64_t sent = 0; sent < count; std::this_thread::sleep_for(kTurn)) {
    const std::chrono::duration<double> passed = steady_clock::now() - begin;
    const auto due = std::min(count, static_cast<std::uint64_t>(passed.count() * rate));
    for (; sent < due; ++sent) endpoint.send_mad(1, request);
  }
  endpoint.remove_mad_receiver(reader);
}

/// One slot: takes all packets at once, and names another waiter each time.
class ManyWaiters {
 public:
  ManyWaiters(const fabric::SubnetFolder& folder, fabric::Fabric& fabric, NodeIndex node)
      : slot_(transport::ProcessSlot::take(folder, fabric, node).value()),
        socket_(transport::WakeupSocket::make_shared(folder, node, slot_.index()).value()),
        table_(transport::WakeupTable::make().value()) {
    name_another();
    slot_.occupy(fabric);
  }

  /// Returns how many descriptors were wanted.
  std::size_t turn() {
    while (GuardedFd socket = transport::accept_from(slot_.listener())) {
      senders_.emplace_back().socket = std::move(socket);
    }
    std::size_t wanted = 0;
    std::erase_if(senders_, [&](Sender& sender) { return !serve(sender, wanted); });
    while (socket_.take(false) != transport::WakeupSocket::Wakeup::none) {
    }
    return wanted;
  }

 private:
  struct Sender {
    GuardedFd socket;
    std::optional<transport::RingReader> ring;
    bool has_table = false;
  };

  void name_another() { table_.set_waiter(transport::WakeupEntry::kMulticast, ++waiter_); }

  /// Returns false when the sender has gone.
  bool serve(Sender& sender, std::size_t& wanted) {
    const int socket = sender.socket.get();
    for (;;) {
      const auto got = reader_.next(socket);
      if (got == MessageReader::Got::nothing) break;
      if (got != MessageReader::Got::message) return false;
      if (reader_.kind() == MessageKind::ring) {
        sender.ring.emplace(transport::RingMemory::map(reader_.fd().get()).value());
      } else if (reader_.kind() == MessageKind::want_wakeup_fd) {
        ++wanted;
        (void)send_message(socket, MessageKind::wakeup_fd, reader_.body(),
                           socket_.make_sender()->get());
      }
    }
    if (!sender.ring) return true;
    if (!sender.has_table) {
      sender.has_table =
          send_message(socket, MessageKind::wakeup_table, {}, table_.descriptor()) == 0;
    }
    packets_.clear();
    if (!sender.ring->read(packets_, transport::kRingBytes)) return false;
    sender.ring->release();
    if (!packets_.empty()) name_another();
    return true;
  }

  transport::ProcessSlot slot_;
  transport::WakeupSocket socket_;
  transport::WakeupTable table_;
  std::uint32_t waiter_ = transport::Waiter::kNone;  ///< the numbers of descriptors follow it
  std::vector<Sender> senders_;
  std::vector<ArrivedPacket> packets_;
  MessageReader reader_;
};

[[noreturn]] void be_many_waiters() {
  const auto folder = fabric::SubnetFolder::from_environment().value();
  const char* const hca = ::getenv(fabric::kHcaVariable);
  if (hca == nullptr) throw std::runtime_error("no HCA");
  const auto node = endpoint::find_or_add_node(folder, hca).value();
  auto fabric = fabric::Fabric::open(folder.fabric()).value();
  std::vector<ManyWaiters> slots;
  slots.reserve(kSlots);
  while (slots.size() < kSlots) slots.emplace_back(folder, fabric, node);
  bool has_begun = false;
  for (;; std::this_thread::sleep_for(kTurn)) {
    std::size_t wanted = 0;
    for (auto& slot : slots) wanted += slot.turn();
    if (wanted > 0 && !std::exchange(has_begun, true)) say_begun();
  }
}

int main_of(const std::vector<std::string>& words) {
  const std::string kind = words.empty() ? "" : words[0];
  if (kind == "idle" && words.size() == 1) be_idle();
  if (kind == "many-waiters" && words.size() == 1) be_many_waiters();
  if (kind == "slow-client" && words.size() == 3) {
    be_slow_client(static_cast<double>(number(words[1])), number(words[2]));
    return 0;
  }
  std::fputs("usage: see the source\n", stderr);
  return 2;
}

}  // namespace
}  // namespace softib

int main(int argc, char** argv) {
  try {
    return softib::main_of({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hostile_process: %s\n", error.what());
    return 1;
  }
}
