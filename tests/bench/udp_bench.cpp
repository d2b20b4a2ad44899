// UDP between two hosts with the segmentation offloads of the kernel: the bound of RoCE ports in
// user space. Usage: bench_udp receive PORT | bench_udp send ADDRESS PORT SECONDS (IPv4). The
// receiver prints "ready", and, when the sender has ended, the gigabits per second that it has got.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>

#include "ipoib/file_descriptor.hpp"

namespace {

using std::chrono::steady_clock;

/// As the packets of a RoCE port with an MTU of 4096 and a header: BTH, RETH, payload, ICRC.
constexpr int kDatagram = 12 + 16 + 4096 + 4;
constexpr int kDatagramsPerCall = 15;
constexpr int kBuffer = 4 << 20;
constexpr std::size_t kEnd = 1;  ///< bytes of the datagram that says that the sender has ended
constexpr int kEnds = 20;        ///< it may be lost
constexpr timeval kPatience{10, 0};

void check(bool is_right, const char* what) {
  if (!is_right) throw std::runtime_error(what);
}

ipoib::FileDescriptor open_socket(int option) {
  ipoib::FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  check(static_cast<bool>(socket), "socket");
  const int on = 1;
  (void)::setsockopt(socket.get(), SOL_SOCKET, option, &kBuffer, sizeof kBuffer);
  check(::setsockopt(socket.get(), SOL_UDP, UDP_GRO, &on, sizeof on) == 0, "UDP_GRO");
  return socket;
}

sockaddr_in address_of(const char* address, const char* port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<std::uint16_t>(std::atoi(port)));
  check(::inet_pton(AF_INET, address, &at.sin_addr) == 1, "not an IPv4 address");
  return at;
}

void receive(const char* port) {
  const auto socket = open_socket(SO_RCVBUF);
  const auto at = address_of("0.0.0.0", port);
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  check(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0, "bind");
  std::cout << "ready" << std::endl;
  static std::array<char, 1 << 16> buffer;
  std::uint64_t bytes = 0;
  steady_clock::time_point begin;
  steady_clock::time_point last;
  for (;;) {
    const auto size = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
    check(size >= 0, "nothing has come");
    if (size == static_cast<ssize_t>(kEnd)) break;
    last = steady_clock::now();
    if (bytes == 0) begin = last;
    bytes += static_cast<std::uint64_t>(size);
  }
  const std::chrono::duration<double> took = last - begin;
  std::cout << static_cast<double>(bytes) * 8 / took.count() / 1e9 << '\n';
}

void send(const char* address, const char* port, const char* seconds) {
  const auto socket = open_socket(SO_SNDBUF);
  const auto to = address_of(address, port);
  check(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0, "connect");
  const int size = kDatagram;
  check(::setsockopt(socket.get(), SOL_UDP, UDP_SEGMENT, &size, sizeof size) == 0, "UDP_SEGMENT");
  static const std::array<char, std::size_t{kDatagram} * kDatagramsPerCall> content{};
  const auto end = steady_clock::now() + std::chrono::seconds(std::atoi(seconds));
  while (steady_clock::now() < end) {
    check(::send(socket.get(), content.data(), content.size(), 0) > 0, "send");
  }
  for (int i = 0; i < kEnds; ++i) {
    (void)::send(socket.get(), content.data(), kEnd, 0);
    (void)::usleep(10'000);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 2 ? argv[1] : "";
  try {
    if (mode == "receive" && argc == 3) {
      receive(argv[2]);
    } else if (mode == "send" && argc == 5) {
      send(argv[2], argv[3], argv[4]);
    } else {
      std::cerr << "usage: bench_udp receive PORT | bench_udp send ADDRESS PORT SECONDS\n";
      return 2;
    }
  } catch (const std::exception& error) {
    std::cerr << "bench_udp: " << error.what() << '\n';
    return 1;
  }
}
