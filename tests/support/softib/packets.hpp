// Packets to send, and a receiver that tests can wait for.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "softib/core/mad_packet.hpp"
#include "softib/endpoint/endpoint.hpp"

namespace softib::test {

/// A packet with a text as payload; owns the memory that outgoing() points to.
class TextPacket {
 public:
  TextPacket(Lid slid, Lid dlid, Qpn destination, std::string text);
  [[nodiscard]] OutgoingPacket outgoing() const;

 private:
  Lid slid_;
  Lid dlid_;
  Qpn destination_;
  std::string text_;
};

/// A large packet of several UDP segments of 1000 bytes each.
class LargeUdpPacket {
 public:
  LargeUdpPacket(Lid slid, Lid dlid, Qpn destination, std::uint16_t packets);
  LargeUdpPacket(const LargeUdpPacket&) = delete;
  LargeUdpPacket& operator=(const LargeUdpPacket&) = delete;
  [[nodiscard]] const OutgoingPacket& outgoing() const { return packet_; }

 private:
  std::vector<std::uint8_t> front_;
  std::vector<std::uint8_t> payload_;
  OutgoingPacket packet_;
};

/// Sends one text to a queue pair.
void send_text(endpoint::Endpoint& from, Lid dlid, Qpn destination, const std::string& text);

/// Asks the SA for the record of the SM's own node (IBA 15.2.5.2).
[[nodiscard]] MadPacket node_request(const endpoint::Endpoint& from);

/// Stores what it receives. The next_*() functions throw after kTimeout without anything.
class Mailbox : public endpoint::PacketReceiver, public endpoint::MadReceiver {
 public:
  static constexpr std::chrono::seconds kTimeout{30};

  void receive(std::span<const ArrivedPacket> batch) override;
  void port_changed(const PortAttributes& now) override;
  [[nodiscard]] bool receive_mad(const MadPacket& packet) override;
  void mad_deadline(ipoib::TimePoint now) override;
  void device_lost() override;

  /// The text of the next packet.
  [[nodiscard]] std::string next_text();
  [[nodiscard]] std::vector<std::uint8_t> next_mad();
  /// The first one is the port when the mailbox became the receiver.
  [[nodiscard]] PortAttributes next_port();
  [[nodiscard]] ipoib::TimePoint next_deadline();
  [[nodiscard]] bool is_device_lost() const { return device_lost_; }
  [[nodiscard]] std::size_t count_until(const std::string& last);

 private:
  template <class T>
  T take(std::deque<T>& from);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> texts_;
  std::deque<std::vector<std::uint8_t>> mads_;
  std::deque<PortAttributes> ports_;
  std::deque<ipoib::TimePoint> deadlines_;
  std::atomic<bool> device_lost_ = false;
};

/// Polls a condition until it holds. Returns false after Mailbox::kTimeout.
template <class Condition>
[[nodiscard]] bool eventually(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + Mailbox::kTimeout;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace softib::test
