// Packets to send from a RoCE port of the test, and what arrives of them.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include "softib/roce/receiver.hpp"
#include "wire/connected_packet.hpp"

namespace softib::roce {

using ipoib::wire::ConnectedOpcode;
using ipoib::wire::ConnectedPacket;
using ipoib::wire::Psn;

/// 127/8 is local, also without an interface that has the address.
inline Gid own_address(std::uint8_t last) {
  const auto pid = static_cast<std::uint32_t>(::getpid());
  return gid_of_ipv4(127U << 24 | (pid & 0xffff) << 8 | last);
}

struct Arrivals final : Receiver::Handler {
  struct Arrival {
    std::vector<std::uint8_t> bytes;
    Qpn destination;
  };
  void packets_arrived(std::span<const ArrivedPacket> arrived, Qpn destination) override {
    for (const auto& each : arrived) {
      packets.push_back({{each.bytes.begin(), each.bytes.end()}, destination});
    }
  }
  void icrc_failed() override { ++wrong; }
  void malformed() override { ++bad; }
  [[nodiscard]] std::size_t count() const { return packets.size() + wrong + bad; }

  std::vector<Arrival> packets;
  std::size_t wrong = 0;
  std::size_t bad = 0;
};

/// Writes packets from one address to another.
class PacketMaker {
 public:
  PacketMaker(const Gid& from, const Gid& to) : from_(from), to_(to) {
    payload_.reserve(kMaxPayload);  // packets refer to it
  }
  ConnectedPacket headers(ConnectedOpcode opcode, Qpn to) const {
    ConnectedPacket packet;
    packet.opcode = opcode;
    packet.bth.destination = to;
    packet.bth.pkey = ipoib::kDefaultPKey;
    packet.bth.psn = Psn(100);
    packet.reth = {0x1000, 0x77, static_cast<std::uint32_t>(payload_.size())};
    auto& grh = packet.grh.emplace();
    grh.sgid = from_;
    grh.dgid = to_;
    grh.hop_limit = 64;
    return packet;
  }

  /// A WRITE of so many bytes, in one packet, or in a run of packets with this MTU.
  OutgoingPacket write(std::size_t bytes, std::uint16_t mtu, Qpn to) {
    payload_.resize(bytes);
    for (std::size_t i = 0; i < bytes; ++i) payload_[i] = static_cast<std::uint8_t>(i * 7);
    OutgoingPacket out;
    out.clear();
    auto packet = headers(ConnectedOpcode::write_only, to);
    out.add(payload_);
    const auto packets = (bytes + mtu - 1) / mtu;
    if (packets > 1) out.gso = {mtu, static_cast<std::uint16_t>(packets)};
    out.header_size = packet.emit_headers(packets > 1 ? mtu : bytes, out.header);
    if (packets == 1) out.add(ConstBytes(kPadding).first(packet.bth.pad));
    out.purpose = Purpose::request;
    out.destination = to;
    return out;
  }

  [[nodiscard]] const std::vector<std::uint8_t>& payload() const { return payload_; }

 private:
  static constexpr std::size_t kMaxPayload = 1U << 17;
  const Gid from_;
  const Gid to_;
  std::vector<std::uint8_t> payload_;
};

/// Polls until so many datagrams have come: delivery through the kernel may take a moment. Returns
/// how many have.
template <class Poll>
std::size_t poll_until(const Arrivals& arrivals, std::size_t least, Poll poll) {
  const auto before = arrivals.count();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (arrivals.count() - before < least && std::chrono::steady_clock::now() < end) {
    if (poll() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return arrivals.count() - before;
}

}  // namespace softib::roce
