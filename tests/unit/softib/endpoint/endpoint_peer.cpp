// A process on a node, for tests that stop, kill and restart it.
//
//   endpoint_peer FOLDER NODE     prints "ready SLOT EPOCH", then each text that arrives
//   send LID QPN TEXT             on its standard input: sends a text
#include <cstdio>
#include <iostream>
#include <string>

#include "packets.hpp"

namespace {

struct Printer : softib::endpoint::PacketReceiver {
  void receive(std::span<const softib::ArrivedPacket> batch) override {
    for (const auto& arrived : batch) {
      const auto packet = ipoib::wire::UdPacket::parse(arrived.bytes);
      if (!packet) continue;
      std::printf("%.*s\n", static_cast<int>(packet->payload.size()),
                  reinterpret_cast<const char*>(packet->payload.data()));
    }
    std::fflush(stdout);
  }
  void port_changed(const softib::PortAttributes&) override {}
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  auto endpoint = softib::endpoint::Endpoint::attach_node(
      softib::fabric::SubnetFolder(argv[1]), static_cast<softib::NodeIndex>(std::stoul(argv[2])));
  if (!endpoint) {
    std::cerr << endpoint.error().message << '\n';
    return 1;
  }
  Printer printer;
  (*endpoint)->set_receiver(&printer);
  std::printf("ready %u %u\n", (*endpoint)->slot(), (*endpoint)->epoch());
  std::fflush(stdout);
  std::string word;
  std::uint16_t lid = 0;
  std::uint32_t qpn = 0;
  while (std::cin >> word >> lid >> qpn >> word) {
    softib::test::send_text(**endpoint, softib::Lid(lid), softib::Qpn(qpn), word);
  }
  (*endpoint)->set_receiver(nullptr);
  return 0;
}
