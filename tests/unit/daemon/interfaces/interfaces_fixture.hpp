// The interfaces of a daemon, all of them fake.
#pragma once

#include <gmock/gmock.h>

#include <boost/asio/io_context.hpp>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "daemon/interfaces/handover.hpp"
#include "daemon/interfaces/interfaces.hpp"
#include "ipoib/log.hpp"
#include "tests/unit/daemon/interfaces/fake_interface.hpp"
#include "tests/unit/link/object_fixture.hpp"

namespace ipoib::daemon {

class InterfacesFixture : public ::testing::Test,
                          public PartitionInterfaces,
                          public PortOwner,
                          public SaRequestPort {
 protected:
  static constexpr PKey kRed{0x8001};

  [[nodiscard]] std::unique_ptr<PartitionInterface> create(const InterfaceId& id,
                                                           InterfaceOwner& owner,
                                                           SaRequestPort& of_sa) override {
    sa = &of_sa;
    if (id.name == refused) throw std::runtime_error(id.name + " is refused");
    auto made = std::make_unique<FakeInterface>(id, owner, calls, id.name == existing);
    made->tun = tun;
    by_name[id.name] = made.get();
    return made;
  }
  [[nodiscard]] Result<void> discard(const KeptInterface& one) override {
    discarded.push_back(one.name);
    return {};
  }
  void on_finished(const std::string& reason) override { finished.push_back(reason); }
  void on_status() override { statuses.push_back(interfaces.status()); }
  void on_mode(InterfaceNumber interface, PumpMode mode) override {
    modes.emplace_back(interface, mode);
  }
  void on_handover(FileDescriptor /*connection*/) override {}
  void send(const wire::SaRequest& /*request*/) override {}
  [[nodiscard]] sa::Counters counters() const override { return {}; }

  [[nodiscard]] static verbs::PortSnapshot port_in(std::vector<PKey> pkeys, bool active = true) {
    verbs::PortSnapshot port;
    port.active = active;
    port.pkeys = std::move(pkeys);
    return port;
  }
  Calls taken() { return std::exchange(calls, {}); }
  /// Lets posted calls run.
  void poll() {
    context.restart();
    context.poll();
  }

  [[nodiscard]] Interfaces::Dependencies dependencies() {
    return {.context = context,
            .factory = *this,
            .options = options,
            .kept = kept,
            .changes = changes,
            .owner = *this,
            .sa = *this,
            .handed = handed,
            .log = *link::silent_logger()};
  }

  boost::asio::io_context context{1};
  Options options;
  KeptInterfaces kept;
  OperatorChanges changes;
  HandedInterfaces handed;
  Calls calls;
  std::map<std::string, FakeInterface*> by_name;
  std::string refused;          ///< cannot be created
  std::string existing;         ///< is adopted
  int tun = -1;                 ///< descriptor of those that are created
  SaRequestPort* sa = nullptr;  ///< of those that were created
  std::vector<std::string> discarded;
  std::vector<std::string> finished;
  std::vector<std::string> statuses;
  std::vector<std::pair<InterfaceNumber, PumpMode>> modes;
  Interfaces interfaces{dependencies()};
};

}  // namespace ipoib::daemon
