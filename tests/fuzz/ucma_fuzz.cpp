// What two processes write to their rdma_cm devices, with a network and an SA between them that
// lose, repeat and reorder nothing but what the input says. An input is a list of steps: a byte
// that selects the action, and its arguments; a short input is continued with zeroes.
//
// The addresses in commands are replaced by those of a buffer: a wrong one is the program's fault.
#include <rdma/rdma_user_cm.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>

#include "cost.hpp"
#include "require.hpp"
#include "softib/rdma_cm/manager.hpp"
#include "softib/ucma/commands.hpp"
#include "tests/unit/softib/rdma_cm/fake_node.hpp"

using namespace ipoib;
using namespace softib;

namespace {

constexpr std::size_t kMaxSteps = 128;
constexpr std::uint64_t kMaxCost = 400'000;
constexpr std::size_t kMaxCarried = 4096;  ///< messages that one step may cause
constexpr std::size_t kMaxDeadlines = 100'000;
constexpr std::size_t kMaxBody = 600;  ///< more than the largest command
constexpr std::size_t kMaxResponse = 1024;
constexpr std::uint8_t kGuard = 0xa5;
constexpr std::size_t kNowhere = SIZE_MAX;

/// Where a command has the address of its response, or of an option's value.
std::size_t address_at(std::uint32_t command) {
  switch (command) {
    case RDMA_USER_CM_CMD_CREATE_ID:
      return offsetof(rdma_ucm_create_id, response);
    case RDMA_USER_CM_CMD_DESTROY_ID:
    case RDMA_USER_CM_CMD_QUERY_ROUTE:
    case RDMA_USER_CM_CMD_INIT_QP_ATTR:
    case RDMA_USER_CM_CMD_GET_EVENT:
    case RDMA_USER_CM_CMD_SET_OPTION:
    case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
    case RDMA_USER_CM_CMD_LEAVE_MCAST:
    case RDMA_USER_CM_CMD_MIGRATE_ID:
    case RDMA_USER_CM_CMD_QUERY:
    case RDMA_USER_CM_CMD_JOIN_MCAST:
      return 0;
    default:
      return kNowhere;
  }
}

struct Process {
  explicit Process(NodeIndex index)
      : node(index),
        manager({{{.ca_guid = Guid(index), .slot = 0, .epoch = 1U + index}, index}}, node, index) {
    for (auto& channel : channels) channel = manager.open_channel().value();
  }

  rdma_cm::FakeNode node;
  rdma_cm::Manager manager;
  std::array<rdma_cm::ChannelId, 2> channels;  ///< their descriptors are 0 and 1
};

class World {
 public:
  void step(ByteReader& in) {
    const CostLimit limit(kMaxCost);
    const std::uint8_t what = in.u8();
    Process& self = *processes_[what >> 7];
    switch (what % 16) {
      case 0:
        pass(std::chrono::milliseconds(in.u16()));
        break;
      case 1: {
        auto& channel = self.channels[in.u8() % self.channels.size()];
        self.manager.close_channel(channel, now_);
        channel = self.manager.open_channel().value();
        break;
      }
      case 2:
        is_cut_ = !is_cut_;
        break;
      case 3:
        is_sa_silent_ = !is_sa_silent_;
        break;
      default:
        write(self, in);
        break;
    }
    carry();
  }

  /// The programs close all channels: nothing is left, at the latest after all time-outs.
  void finish() {
    for (auto* const self : processes_) {
      for (const auto channel : self->channels) self->manager.close_channel(channel, now_);
      require(self->manager.id_count() == 0);
    }
    carry();
    for (std::size_t i = 0; next_deadline() != kNever; ++i) {
      require(i < kMaxDeadlines);
      now_ = std::max(now_, next_deadline());
      pass({});
    }
    for (auto* const self : processes_) {
      require(self->manager.communication(0).connection_count() == 0);
      require(self->manager.communication(0).resolution_count() == 0);
      require(self->manager.communication(0).pending_requests() == 0);
      require(self->node.locked.empty());
      require(self->node.services.empty());
      require(self->node.held.empty());
    }
  }

 private:
  void write(Process& self, ByteReader& in) {
    std::array<std::uint8_t, kMaxResponse + 1> memory{};
    memory.fill(kGuard);
    rdma_ucm_cmd_hdr header{};
    header.cmd = in.u8() % (RDMA_USER_CM_CMD_JOIN_MCAST + 2U);
    header.out = static_cast<std::uint16_t>(in.u16() % (kMaxResponse + 1));
    const std::uint8_t how = in.u8();
    const std::size_t size = in.u16() % kMaxBody;
    std::vector<std::uint8_t> command(sizeof header + size);
    header.in = static_cast<std::uint16_t>(how % 16 == 1 ? in.u16() : size);
    std::memcpy(command.data(), &header, sizeof header);
    const auto body = in.take(std::min(size, in.left()));
    std::ranges::copy(body, command.begin() + sizeof header);
    const std::size_t at = address_at(header.cmd);
    const std::uint64_t address =
        how % 16 == 0 ? 0 : reinterpret_cast<std::uintptr_t>(memory.data());
    if (header.cmd == RDMA_USER_CM_CMD_SET_OPTION) {
      const auto value = in.take(std::min(memory.size(), in.left()));
      std::ranges::copy(value, memory.begin());
    }
    if (at != kNowhere && at + sizeof address <= size) {
      std::memcpy(&command[sizeof header + at], &address, sizeof address);
    }
    const std::size_t channel = how >> 4 & 1;
    // A command that is too short names an address that is not there.
    const auto done = ucma::execute(
        {.manager = self.manager,
         .node = self.node,
         .channel = self.channels[channel],
         .now = now_,
         .channel_of =
             [&](int fd) {
               const bool is_channel = fd == 0 || fd == 1;
               return is_channel ? std::optional(self.channels[static_cast<std::size_t>(fd)])
                                 : std::nullopt;
             }},
        command);
    require(done || done.error().code > 0);
    const bool is_written = header.cmd != RDMA_USER_CM_CMD_SET_OPTION;
    if (is_written) {
      require(std::all_of(memory.begin() + header.out, memory.end(),
                          [](std::uint8_t byte) { return byte == kGuard; }));
    }
  }

  void pass(Duration time) {
    now_ += time;
    for (auto* const self : processes_) self->manager.on_time(now_);
    carry();
  }

  [[nodiscard]] TimePoint next_deadline() const {
    return std::min(client_.manager.next_deadline(), server_.manager.next_deadline());
  }

  void carry() {
    std::size_t carried = 0;
    for (bool is_busy = true; is_busy;) {
      is_busy = false;
      for (auto* const from : processes_) {
        for (const auto& packet : from->manager.take_outgoing(0)) {
          is_busy = true;
          require(++carried < kMaxCarried);
          deliver(*from, packet);
        }
      }
    }
  }

  void deliver(Process& from, const MadPacket& packet) {
    if (packet.dlid == Lid(1)) return respond(from, packet);
    if (is_cut_) return;
    for (auto* const to : processes_) {
      if (packet.dlid == to->node.port({}).lid && to->manager.is_recipient(0, packet)) {
        to->manager.receive(0, packet, now_);
      }
    }
  }

  /// The SA grants what it is asked for.
  void respond(Process& to, const MadPacket& packet) {
    auto header = wire::SaHeader::parse(packet.mad);
    if (!header || is_sa_silent_) return;
    MadPacket response = packet;
    response.reverse();
    const auto record = MutableBytes(response.mad).subspan(wire::kSaHeaderSize);
    const bool is_delete = header->mad.method == wire::method::kDelete;
    header->mad.method = is_delete ? wire::method::kDeleteResp : wire::method::kGetResp;
    if (header->mad.attribute_id == wire::attribute::kMcMemberRecord) {
      auto membership = wire::McMemberRecord::parse(record).value();
      membership.mlid = Lid(0xc001);
      if (membership.mgid.is_zero()) membership.mgid = Gid(0xff12'a01b'0000'0000, Guid(5));
      membership.emit(record);
    } else {
      rdma_cm::path_for(packet).emit(record);
    }
    header->emit(response.mad);
    if (to.manager.is_recipient(0, response)) to.manager.receive(0, response, now_);
  }

  TimePoint now_{std::chrono::hours(1)};
  Process client_{1};
  Process server_{2};
  const std::array<Process*, 2> processes_{&client_, &server_};
  bool is_cut_ = false;
  bool is_sa_silent_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ByteReader in(ConstBytes(data, size));
  World world;
  for (std::size_t step = 0; step < kMaxSteps && in.left() > 0; ++step) world.step(in);
  world.finish();
  return 0;
}
