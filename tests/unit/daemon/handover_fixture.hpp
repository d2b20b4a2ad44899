// Interfaces of a daemon, and the other end of a handover.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "daemon/interfaces/handover_socket.hpp"
#include "tests/unit/daemon/interfaces/interfaces_fixture.hpp"

namespace ipoib::daemon::handover {

class HandoverFixture : public InterfacesFixture {
 protected:
  HandoverFixture() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    own_end = FileDescriptor(ends[0]);
    peer = Connection(FileDescriptor(ends[1]));
    tun = STDOUT_FILENO;
    interfaces.start(port_in({kDefaultPKey, kRed}));
    calls.clear();
  }

  [[nodiscard]] InterfaceNumber number(const std::string& name) const {
    return by_name.at(name)->id().number;
  }
  /// Lets time pass until `holds`.
  template <class Condition>
  void run_until(Condition&& holds) {
    context.restart();
    for (int i = 0; i < 2000 && !holds(); ++i) context.run_one_for(std::chrono::milliseconds(10));
    ASSERT_TRUE(holds());
  }
  void peer_sends(const Message& message) {
    ASSERT_TRUE(peer.send(emit(message)));
    poll();
  }
  /// The messages to the peer so far; the descriptors are closed.
  std::vector<Message> sent() {
    std::vector<Message> out;
    for (;;) {
      auto received = peer.receive();
      is_closed = received && !*received;
      if (!received || !*received) return out;
      descriptors += (*received)->descriptor ? 1 : 0;
      out.push_back(std::move((*received)->message));
    }
  }

  FileDescriptor own_end;
  Connection peer{FileDescriptor()};
  bool is_closed = false;  ///< as of the last sent()
  int descriptors = 0;     ///< received by the peer
};

}  // namespace ipoib::daemon::handover
