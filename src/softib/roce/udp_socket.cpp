#include "softib/roce/udp_socket.hpp"

#include <linux/filter.h>
#include <netinet/udp.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "softib/roce/socket_address.hpp"
#include "wire/connected_packet.hpp"

namespace softib::roce {
namespace {

using ipoib::Error;
using ipoib::FileDescriptor;
using ipoib::Result;

constexpr std::uint32_t kSocketsOfSlot = 2;
/// The kernel limits it to net.core.rmem_max and wmem_max.
constexpr int kBuffer = 4 << 20;

void set(const FileDescriptor& socket, int level, int option, int value) {
  (void)::setsockopt(socket.get(), level, option, &value, sizeof value);
}

Result<FileDescriptor> open_socket(const Gid& address) {
  const int family = is_ipv4(address) ? AF_INET : AF_INET6;
  FileDescriptor socket(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket)
    return Error{errno, std::string("cannot open a UDP socket: ") + std::strerror(errno)};
  // DF, so that no packet is fragmented; the kernel then writes the identification 0 into packets
  // of a socket that is not connected, which the ICRC relies on.
  if (family == AF_INET) {
    set(socket, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
  } else {
    set(socket, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    set(socket, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
  }
  return socket;
}

/// Opens a socket that receives at port 4791 of an address. `sharing` is the option for several
/// sockets at one address.
Result<FileDescriptor> open_receive_socket(const Gid& address, unsigned interface, int sharing) {
  auto socket = open_socket(address);
  if (!socket) return socket;
  set(*socket, SOL_SOCKET, sharing, 1);
  set(*socket, SOL_SOCKET, SO_RCVBUF, kBuffer);
  set(*socket, SOL_UDP, UDP_GRO, 1);
  if (is_ipv4(address)) {
    set(*socket, IPPROTO_IP, IP_RECVTOS, 1);
    set(*socket, IPPROTO_IP, IP_RECVTTL, 1);
  } else {
    set(*socket, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
    set(*socket, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
  }
  const SocketAddress at(address, kUdpPort, interface);
  if (::bind(socket->get(), at.get(), at.size) == 0) return socket;
  const int code = errno;
  std::string message = "cannot receive at UDP port " + std::to_string(kUdpPort) + " of " +
                        address.to_string() + ": " + std::strerror(code);
  if (code == EADDRINUSE) {
    message +=
        "; the kernel's rdma_rxe has it in the initial network namespace once its module is "
        "loaded (`modprobe -r rdma_rxe`), or another user's softib";
  }
  return Error{code, message};
}

/// The number of the socket in its group by the packet: 0 for QP0 and QP1, else those of the slot
/// that the destination QPN names (QpnLayout), in the low 24 bits of the second word of the BTH,
/// and the second of the two for the operations of responses, in the low 5 bits of its opcode
/// (IBA 9.2.1). No unreliable service has these.
std::array<sock_filter, 18> filter_by_qpn_and_operation() {
  using Operation = ipoib::wire::ConnectedOpcode;
  constexpr std::uint32_t kDestinationWord = 4;
  constexpr std::uint32_t kQpnMask = 0xffffff;
  constexpr std::uint32_t kLastSpecial = 1;
  constexpr std::uint32_t kOperationMask = 0x1f;
  constexpr auto kFirst = static_cast<std::uint32_t>(Operation::read_response_first);
  constexpr auto kLast = static_cast<std::uint32_t>(Operation::atomic_acknowledge);
  return {sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kDestinationWord),
          sock_filter BPF_STMT(BPF_ALU | BPF_AND | BPF_K, kQpnMask),
          sock_filter BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, kLastSpecial, 1, 0),
          sock_filter BPF_STMT(BPF_RET | BPF_K, 0),
          sock_filter BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, QpnLayout::kIndexBits),
          sock_filter BPF_STMT(BPF_ALU | BPF_AND | BPF_K, QpnLayout::kSlots - 1),
          sock_filter BPF_STMT(BPF_ALU | BPF_MUL | BPF_K, kSocketsOfSlot),
          sock_filter BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, 1),
          sock_filter BPF_STMT(BPF_MISC | BPF_TAX, 0),
          sock_filter BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0),
          sock_filter BPF_STMT(BPF_ALU | BPF_AND | BPF_K, kOperationMask),
          sock_filter BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kFirst, 0, 3),
          sock_filter BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, kLast, 2, 0),
          sock_filter BPF_STMT(BPF_LD | BPF_IMM, 1),
          sock_filter BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0),
          sock_filter BPF_STMT(BPF_LD | BPF_IMM, 0),
          sock_filter BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0),
          sock_filter BPF_STMT(BPF_RET | BPF_A, 0)};
}

/// Whether other sockets receive at the address already.
bool is_in_use(const Gid& address, unsigned interface) {
  const auto socket = open_socket(address);
  const SocketAddress at(address, kUdpPort, interface);
  return socket && ::bind(socket->get(), at.get(), at.size) != 0 && errno == EADDRINUSE;
}

}  // namespace

Result<FileDescriptor> open_group_socket(const Gid& group, unsigned interface) {
  auto socket = open_receive_socket(group, interface, SO_REUSEADDR);
  if (!socket) return socket;
  group_req request{};
  request.gr_interface = interface;
  const SocketAddress at(group, kUdpPort, interface);
  std::memcpy(&request.gr_group, at.get(), at.size);
  const int level = is_ipv4(group) ? IPPROTO_IP : IPPROTO_IPV6;
  if (::setsockopt(socket->get(), level, MCAST_JOIN_GROUP, &request, sizeof request) != 0) {
    return Error{errno, "cannot join the multicast group " + group.to_string() + ": " +
                            std::strerror(errno)};
  }
  return socket;
}

Result<ReceiveSockets> ReceiveSockets::open(const Gid& address, unsigned interface) {
  ReceiveSockets sockets(address, interface);
  sockets.is_mixed_ = is_in_use(address, interface);
  if (auto added = sockets.add(); !added) return added.error();
  return sockets;
}

Result<void> ReceiveSockets::add() {
  auto socket = open_receive_socket(address_, interface_, SO_REUSEPORT);
  if (!socket) return socket.error();
  auto filter = filter_by_qpn_and_operation();
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  if (sockets_.empty() && ::setsockopt(socket->get(), SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF,
                                       &program, sizeof program) != 0) {
    return Error{errno,
                 std::string("cannot filter packets by queue pair: ") + std::strerror(errno)};
  }
  sockets_.push_back({std::move(*socket)});
  return {};
}

Result<SlotSockets> ReceiveSockets::lend(std::uint32_t slot) {
  const std::size_t first = std::size_t{slot} * kSocketsOfSlot + 1;
  while (sockets_.size() < first + kSocketsOfSlot) {
    if (auto added = add(); !added) return added.error();
  }
  sockets_[first].is_lent = sockets_[first + 1].is_lent = true;
  return SlotSockets{sockets_[first].fd.get(), sockets_[first + 1].fd.get()};
}

std::vector<int> ReceiveSockets::own() const {
  std::vector<int> own;
  for (const auto& each : sockets_) {
    if (!each.is_lent) own.push_back(each.fd.get());
  }
  return own;
}

Result<FileDescriptor> open_send_socket(const Gid& address, unsigned interface,
                                        std::uint16_t port) {
  auto socket = open_socket(address);
  if (!socket) return socket.error();
  set(*socket, SOL_SOCKET, SO_SNDBUF, kBuffer);
  // Where multicast packets leave; those of link-local addresses name it themselves.
  if (is_ipv4(address)) {
    ip_mreqn by{};
    by.imr_ifindex = static_cast<int>(interface);
    (void)::setsockopt(socket->get(), IPPROTO_IP, IP_MULTICAST_IF, &by, sizeof by);
  } else {
    set(*socket, IPPROTO_IPV6, IPV6_MULTICAST_IF, static_cast<int>(interface));
  }
  const SocketAddress at(address, port, interface);
  if (::bind(socket->get(), at.get(), at.size) != 0) {
    const int code = errno;
    const std::string remedy = code == EADDRNOTAVAIL ? "; give the address to the interface" : "";
    return Error{code,
                 "cannot send from " + address.to_string() + ": " + std::strerror(code) + remedy};
  }
  return socket;
}

}  // namespace softib::roce
