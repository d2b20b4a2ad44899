// Messages as UDP datagrams.
#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include "ipoib/file_descriptor.hpp"
#include "transport.hpp"

namespace ipoib::bench {

namespace {

constexpr const char* kService = "5799";

class UdpTransport final : public Transport {
 public:
  explicit UdpTransport(const Options& options)
      : poll_(options.poll), is_server_(options.is_server), message_(options.size) {
    addrinfo hints{};
    hints.ai_family = options.is_server ? AF_INET6 : AF_UNSPEC;
    hints.ai_socktype = SOCK_DGRAM;
    hints.ai_flags = AI_PASSIVE | AI_NUMERICHOST;
    addrinfo* found = nullptr;
    const char* const host = options.is_server ? nullptr : options.peer.c_str();
    if (const int error = ::getaddrinfo(host, kService, &hints, &found); error != 0) {
      throw std::runtime_error(options.peer + ": " + ::gai_strerror(error));
    }
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> address(found, &::freeaddrinfo);
    socket_.reset(::socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    check(bool(socket_), "socket");
    if (options.is_server) {
      check(::bind(socket_.get(), address->ai_addr, address->ai_addrlen) == 0, "bind");
      std::printf("%s\n", kService);
      std::fflush(stdout);
    } else {
      check(::connect(socket_.get(), address->ai_addr, address->ai_addrlen) == 0, "connect");
    }
  }

  void send(std::uint64_t number) override {
    std::memcpy(message_.data(), &number, sizeof number);
    // A message that cannot be sent counts as lost.
    (void)::sendto(socket_.get(), message_.data(), message_.size(), 0,
                   is_server_ ? reinterpret_cast<const sockaddr*>(&peer_) : nullptr,
                   is_server_ ? peer_size_ : 0);
  }

  void receive(std::vector<std::uint64_t>& out, std::chrono::milliseconds timeout) override {
    if (poll_ == Poll::event) {
      set_timeout(timeout);
      receive_one(out, 0);
      return;
    }
    const auto end = std::chrono::steady_clock::now() + timeout;
    while (!receive_one(out, MSG_DONTWAIT) && std::chrono::steady_clock::now() < end) {
    }
  }

 private:
  void set_timeout(std::chrono::milliseconds timeout) {
    if (timeout == timeout_) return;
    timeout_ = timeout;
    const timeval limit{timeout.count() / 1000, timeout.count() % 1000 * 1000};
    check(::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0,
          "SO_RCVTIMEO");
  }

  bool receive_one(std::vector<std::uint64_t>& out, int flags) {
    std::uint64_t number = 0;
    peer_size_ = sizeof peer_;
    const auto size = ::recvfrom(socket_.get(), &number, sizeof number, flags,
                                 reinterpret_cast<sockaddr*>(&peer_), &peer_size_);
    if (size == sizeof number) out.push_back(number);
    return size >= 0;
  }

  Poll poll_;
  bool is_server_;
  FileDescriptor socket_;
  std::chrono::milliseconds timeout_{0};
  std::vector<std::uint8_t> message_;
  sockaddr_storage peer_{};
  socklen_t peer_size_ = 0;
};

}  // namespace

std::unique_ptr<Transport> make_udp_transport(const Options& options) {
  return std::make_unique<UdpTransport>(options);
}

}  // namespace ipoib::bench
