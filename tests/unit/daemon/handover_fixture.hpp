// Interfaces of a daemon, and the other end of a handover.
#pragma once

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/handover.hpp"
#include "daemon/interfaces.hpp"
#include "ipoib/log.hpp"
#include "tests/unit/daemon/fake_interface.hpp"
#include "tests/unit/link/object_fixture.hpp"

namespace ipoib::daemon::handover {

class HandoverFixture : public ::testing::Test,
                        public PartitionInterfaces,
                        public PortOwner,
                        public SaRequestPort {
 protected:
  static constexpr PKey kRed{0x8001};

  HandoverFixture() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    own_end = FileDescriptor(ends[0]);
    peer = Connection(FileDescriptor(ends[1]));
    verbs::PortSnapshot port;
    port.active = true;
    port.pkeys = {kDefaultPKey, kRed};
    interfaces.start(port);
    calls.clear();
  }

  [[nodiscard]] std::unique_ptr<PartitionInterface> create(const InterfaceId& id,
                                                           InterfaceOwner& owner,
                                                           SaRequestPort& /*sa*/) override {
    auto made = std::make_unique<FakeInterface>(id, owner, calls, false);
    made->tun = STDOUT_FILENO;
    by_name[id.name] = made.get();
    return made;
  }
  [[nodiscard]] Result<void> discard(const KeptInterface& /*kept*/) override { return {}; }
  void on_finished(const std::string& reason) override { finished.push_back(reason); }
  void on_status() override {}
  void send(const wire::SaRequest& /*request*/) override {}
  [[nodiscard]] sa::Counters counters() const override { return {}; }

  [[nodiscard]] InterfaceNumber number(const std::string& name) const {
    return by_name.at(name)->id().number;
  }
  void poll() {
    context.restart();
    context.poll();
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
  Calls taken() { return std::exchange(calls, {}); }

  boost::asio::io_context context{1};
  Options options;
  KeptInterfaces kept;
  OperatorChanges changes;
  HandedInterfaces handed;
  Calls calls;
  std::map<std::string, FakeInterface*> by_name;
  std::vector<std::string> finished;
  FileDescriptor own_end;
  Connection peer{FileDescriptor()};
  bool is_closed = false;  ///< as of the last sent()
  int descriptors = 0;     ///< received by the peer
  Interfaces interfaces{{.context = context,
                         .factory = *this,
                         .options = options,
                         .kept = kept,
                         .changes = changes,
                         .owner = *this,
                         .sa = *this,
                         .handed = handed,
                         .log = *link::silent_logger()}};
};

}  // namespace ipoib::daemon::handover
