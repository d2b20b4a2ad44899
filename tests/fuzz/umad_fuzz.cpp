// The libibumad ABI of libsoftib.so with the arguments that programs may pass, and with any MADs
// from the node of the SM. The input is a script: a byte selects the next call, the bytes after it
// are its arguments. Calls return 0, a count, an id or a negative errno value; nothing is written
// beyond the caller's buffer, and no descriptor is left over.
#include <dirent.h>
#include <infiniband/umad.h>

#include <array>
#include <bit>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

#include "cost.hpp"
#include "require.hpp"
#include "softib/core/mad_packet.hpp"
#include "softib/core/mad_route.hpp"
#include "softib/umad/umad_host.hpp"
#include "test_subnet.hpp"

using namespace ipoib;
using namespace softib;

namespace {

constexpr std::size_t kMaxSteps = 128;
constexpr std::size_t kMaxPorts = 4;
constexpr std::size_t kMaxBuffer = 2048;
/// Connections to other ports stay open. A leak exceeds this soon.
constexpr std::size_t kOfConnections = 64;
constexpr std::uint64_t kMaxCost = 200'000;
constexpr std::uint8_t kGuard = 0xa5;

/// A subnet on which this process has the HCA "host1"; the tests speak for node 0.
struct World {
  test::TestSubnet subnet{2};
  std::unique_ptr<endpoint::Endpoint> sm = subnet.attach(0);

  World() {
    const std::string& path = subnet.folder().path();
    ::setenv(fabric::kDirectoryVariable, path.substr(0, path.rfind('/')).c_str(), 1);
    ::setenv(fabric::kSubnetVariable, subnet.folder().name().c_str(), 1);
    ::setenv(fabric::kHcaVariable, "host1", 1);
    std::string why;
    require(umad::UmadHost::get(0, why) != nullptr);
  }
};

World& world() {
  static World& one = *new World;  // never destroyed, as the endpoint of the process
  static const test::FolderAtExit removed(one.subnet.folder());
  return one;
}

std::size_t open_descriptors() {
  DIR* const folder = ::opendir("/proc/self/fd");
  std::size_t count = 0;
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

class Script {
 public:
  explicit Script(ConstBytes input) : in_(input) {}
  ~Script() {
    for (const int port : ports_) require(umad_close_port(port) == 0);
  }

  void run() {
    for (std::size_t step = 0; step < kMaxSteps && in_.left() > 0; ++step) {
      const CostLimit limit(kMaxCost);
      do_step(in_.u8());
    }
  }

 private:
  void do_step(std::uint8_t what) {
    switch (what % 12) {
      case 0:
        return open();
      case 1:
        return close();
      case 2:
        return add_agent();
      case 3:
        return add_agent_by_attributes();
      case 4:
        return (void)umad_unregister(any_port(), agent());
      case 5:
      case 6:
        return send();
      case 7:
      case 8:
        return receive();
      case 9:
      case 10:
        return arrive();
      case 11:
        return query();
    }
  }

  void open() {
    if (ports_.size() >= kMaxPorts) return;
    const char* const names[] = {nullptr, "softib0", "mlx5_0", ""};
    const int port = umad_open_port(names[in_.u8() % std::size(names)], number());
    if (port >= 0) ports_.push_back(port);
  }
  void close() {
    const int port = any_port();
    const int result = umad_close_port(port);
    require((result == 0) == (std::erase(ports_, port) == 1));
  }
  void add_agent() {
    std::array<long, 16 / sizeof(long)> mask{static_cast<long>(in_.u32()),
                                             static_cast<long>(in_.u32())};
    const bool has_methods = in_.u8() % 2 != 0;
    const int result = umad_register(any_port(), in_.u8() - 2, in_.u8() - 2, in_.u8() % 4,
                                     has_methods ? mask.data() : nullptr);
    require(result < static_cast<int>(umad::kMaxPortAgents));
  }
  void add_agent_by_attributes() {
    umad_reg_attr attributes{};
    attributes.mgmt_class = in_.u8();
    attributes.mgmt_class_version = in_.u8();
    attributes.flags = in_.u8() % 4;
    attributes.method_mask[0] = in_.u32();
    attributes.oui = in_.u24();
    attributes.rmpp_version = in_.u8() % 3;
    std::uint32_t id = 0;
    require(umad_register2(any_port(), &attributes, &id) >= 0);
  }
  void send() {
    const std::size_t size = in_.u16() % kMaxBuffer;
    std::vector<std::uint8_t> buffer(umad_size() + size);
    const int agent_id = agent();
    const int timeout = in_.u8() % 4 - 1;
    const int retries = in_.u8() % 4 - 1;
    const bool to_sm = in_.u8() % 4 != 0;
    const auto bytes = in_.take(std::min(buffer.size(), in_.left()));
    std::ranges::copy(bytes, buffer.begin());
    if (to_sm) umad_set_addr(buffer.data(), 1, 1, 0, 0);
    if (to_sm) umad_set_pkey(buffer.data(), 0);
    (void)umad_send(any_port(), agent_id, buffer.data(), static_cast<int>(size), timeout, retries);
  }
  void receive() {
    const std::size_t room = in_.u16() % kMaxBuffer;
    std::vector<std::uint8_t> buffer(umad_size() + room + 1, kGuard);
    int length = in_.u8() == 0 ? -1 : static_cast<int>(room);
    const int result = umad_recv(any_port(), buffer.data(), &length, 0);
    require(buffer.back() == kGuard);
    require(result < 0 || length <= static_cast<int>(room));
  }
  /// A MAD from the SM's node: anything, or for an agent of this process.
  void arrive() {
    MadPacket packet;
    packet.slid = Lid(1);
    packet.dlid = Lid(2);
    packet.source = packet.destination = Qpn(in_.u8() % 8 == 0 ? 0 : 1);
    packet.qkey = packet.destination == Qpn(1) ? wire::kGsiQKey : QKey();
    const std::uint8_t how = in_.u8();
    const auto bytes = in_.take(std::min(packet.mad.size(), in_.left()));
    std::ranges::copy(bytes, packet.mad.begin());
    if (auto header = wire::MadHeader::parse(packet.mad); header && how % 2 != 0) {
      std::string why;
      const auto self = umad::UmadHost::get(0, why)->endpoint().self();
      const MadRoute route{self.node, self.slot, self.epoch, how / 2U % 16};
      header->transaction_id =
          std::uint64_t{route.high_half()} << 32 | (header->transaction_id & 0x3);
      header->emit(packet.mad);
    }
    auto* const receiver = [] {
      std::string why;
      return static_cast<endpoint::MadReceiver*>(umad::UmadHost::get(0, why));
    }();
    (void)receiver->receive_mad(packet);
  }
  void query() {
    umad_port_t port{};
    if (umad_get_port(in_.u8() % 2 == 0 ? nullptr : "softib0", number(), &port) == 0) {
      require(umad_release_port(&port) == 0);
    }
    std::array<char, 64> path{};
    (void)umad_get_issm_path("softib0", number(), path.data(), in_.u8() % 64);
    (void)umad_poll(any_port(), 0);
  }

  [[nodiscard]] int number() { return in_.u8() % 6 - 2; }
  [[nodiscard]] int agent() { return in_.u8() % 36 - 2; }
  /// Mostly one that is open.
  [[nodiscard]] int any_port() {
    const std::uint8_t pick = in_.u8();
    if (ports_.empty() || pick % 16 == 0) return pick / 16 == 0 ? -1 : 4711;
    return ports_[pick % ports_.size()];
  }

  ByteReader in_;
  std::vector<int> ports_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  (void)world();
  static const std::size_t kDescriptors = open_descriptors();
  Script({data, size}).run();
  require(open_descriptors() <= kDescriptors + kOfConnections);
  return 0;
}
