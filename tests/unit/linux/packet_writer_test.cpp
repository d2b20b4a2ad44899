#include "linux/packet_writer.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "ipoib/file_descriptor.hpp"

namespace ipoib::linux {
namespace {

constexpr std::array<std::uint8_t, 1000> kPacket{1, 2, 3};

int reader = -1;
volatile std::sig_atomic_t interruptions = 0;

/// Makes room for a packet at the third signal, after the write has been interrupted.
void on_signal(int /*signal*/) {
  std::array<std::uint8_t, kPacket.size()> packet;
  interruptions = interruptions + 1;
  if (interruptions >= 3) (void)::recv(reader, packet.data(), packet.size(), MSG_DONTWAIT);
}

/// Interrupts system calls again and again.
class Interruptions {
 public:
  Interruptions() {
    interruptions = 0;
    struct sigaction action {};
    action.sa_handler = &on_signal;  // without SA_RESTART
    EXPECT_EQ(::sigaction(SIGALRM, &action, &before_), 0);
    constexpr timeval kInterval{.tv_sec = 0, .tv_usec = 10'000};
    const itimerval timer{.it_interval = kInterval, .it_value = kInterval};
    EXPECT_EQ(::setitimer(ITIMER_REAL, &timer, nullptr), 0);
  }
  Interruptions(const Interruptions&) = delete;
  Interruptions& operator=(const Interruptions&) = delete;
  ~Interruptions() {
    const itimerval none{};
    EXPECT_EQ(::setitimer(ITIMER_REAL, &none, nullptr), 0);
    EXPECT_EQ(::sigaction(SIGALRM, &before_, nullptr), 0);
  }

 private:
  struct sigaction before_ {};
};

TEST(PacketWriterTest, ContinuesAfterASignal) {
  std::array<int, 2> pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair.data()), 0);
  const FileDescriptor to(pair[0]);
  const FileDescriptor from(pair[1]);
  reader = from.get();
  while (::send(to.get(), kPacket.data(), kPacket.size(), MSG_DONTWAIT) > 0) continue;
  const Interruptions interrupt;
  EXPECT_TRUE(write_packet(to.get(), std::array{piece(kPacket)})) << "waits until there is room";
  EXPECT_GE(interruptions, 3);
}

TEST(PacketWriterTest, FailsIfThePacketIsRefused) {
  EXPECT_FALSE(write_packet(-1, std::array{piece(kPacket)}));
  EXPECT_EQ(errno, EBADF);
}

}  // namespace
}  // namespace ipoib::linux
