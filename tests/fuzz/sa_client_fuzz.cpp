// The SA client with arbitrary MADs, times and requests. The input is a script: a byte selects the
// next step, the bytes after it are its arguments. In the end each request has exactly one
// response.
#include <spdlog/sinks/null_sink.h>

#include <memory>

#include "../unit/sa/memory_mad_port.hpp"
#include "cost.hpp"
#include "ipoib/log.hpp"
#include "require.hpp"
#include "sa/sa_client.hpp"

using namespace ipoib;
using namespace ipoib::sa;

namespace {

constexpr std::size_t kMaxSteps = 2000;
constexpr std::uint64_t kMaxCost = 100'000;
const Gid kPort(Gid::kLinkLocalPrefix, Guid(1));

class Script {
 public:
  explicit Script(ConstBytes input) : input_(input) {}

  void run() {
    for (std::size_t step = 0; step < kMaxSteps && input_.left() > 0; ++step) {
      {
        const CostLimit limit(kMaxCost);
        do_step(input_.u8());
      }
      check();
    }
    // No more responses: all requests time out.
    for (std::size_t step = 0; client_.next_deadline() != kNever; ++step) {
      require(step < kMaxSteps * 50);
      advance();
    }
    check();
    require(client_.pending() == 0);
  }

 private:
  void do_step(std::uint8_t what) {
    switch (what % 11) {
      case 0:
        return request();
      case 1:
        return set_sm();
      case 2:
        return advance();
      case 3:
        return receive({.bytes = take(input_.u8())});
      case 4:
        return respond();
      case 5:
        if (!port_.sent.empty()) receive({.timed_out = true, .bytes = pick().mad});
        return;
      case 6:
        port_.refusing = !port_.refusing;
        return;
      case 7:
        return report();
      case 8:
        return redirect();
      case 9:
        return respond_from_elsewhere();
      case 10:
        return flood();
    }
  }

  void request() {
    ++requested_;
    const wire::SaRequestId id(input_.u8() % 4);
    const Gid other(Gid::kLinkLocalPrefix, Guid(input_.u8()));
    switch (input_.u8() % 5) {
      case 0:
        return client_.request({id, wire::path_query(kPort, other, kDefaultPKey)}, now_);
      case 1:
        return client_.request({id, wire::join_query(other, kPort, kDefaultPKey, 1)}, now_);
      case 2:
        return client_.request({id, wire::leave_query(other, kPort, 1)}, now_);
      case 3:
        return client_.request({id, wire::subscribe_query(input_.u8())}, now_);
      case 4:
        return client_.request({id, wire::members_query(other)}, now_);
    }
  }

  void set_sm() {
    const Lid lid(input_.u8());
    other_bit_ = input_.u8() % 4;
    client_.set_sm(lid == Lid(0) ? std::nullopt : std::optional(MadDestination{lid, {}, 0}), now_);
  }

  void advance() {
    if (client_.next_deadline() == kNever) return;
    now_ = std::max(now_, client_.next_deadline());
    client_.on_time(now_);
  }

  /// A report, with bytes of the input as its notice.
  void report() {
    wire::SaHeader header;
    header.mad.management_class = wire::mgmt_class::kSubnAdm;
    header.mad.class_version = 2;
    header.mad.method = wire::method::kReport;
    header.mad.attribute_id = wire::attribute::kNotice;
    ReceivedMad mad{.bytes = std::vector<std::uint8_t>(wire::kSaHeaderSize), .from = {}};
    header.emit(mad.bytes);
    mad.from.lid = Lid(input_.u8());
    const auto notice = take(input_.u8());
    mad.bytes.insert(mad.bytes.end(), notice.begin(), notice.end());
    receive(std::move(mad));
  }

  /// The SA redirects to another queue pair, or to none.
  void redirect() {
    if (port_.sent.empty()) return;
    wire::ClassPortInfo::Address to;
    to.gid = Gid(input_.u8(), Guid(1));
    to.lid = Lid(input_.u8());
    to.pkey = PKey(input_.u16());
    to.qpn = Qpn(input_.u8());
    port_.redirect(pick(), to);
    client_.on_readable(now_);
  }

  /// A valid response from a port that was not asked: nothing happens.
  void respond_from_elsewhere() {
    if (port_.sent.empty()) return;
    const auto request = pick();
    const auto before = client_.counters();
    auto path = wire::PathRecord::parse(ConstBytes(request.mad).subspan(wire::kSaHeaderSize));
    port_.respond(request, input_.u8(), *path);
    auto& from = port_.inbox.back().from;
    // A retry has the same transaction id, perhaps with another address.
    from.lid = Lid(static_cast<std::uint16_t>((from.lid.value() ^ (1U << other_bit_)) + 0x100));
    if (from.global) from.global->dgid = Gid(0xfec0'0000'0000'0077, Guid(input_.u8()));
    auto forged = std::exchange(port_.inbox, {});
    while (client_.next_deadline() <= now_) client_.on_time(now_);  // what is due anyway
    check();
    port_.inbox = std::move(forged);
    const auto waiting = client_.pending();
    client_.on_readable(now_);
    require(client_.responses().empty() && client_.pending() == waiting);
    require(client_.counters().redirects == before.redirects);
    require(client_.counters().busy == before.busy);
  }

  /// More MADs than are received in a turn.
  void flood() {
    for (unsigned count = input_.u8() % 8U; count > 0; --count) {
      port_.inbox.push_back({.bytes = std::vector<std::uint8_t>(wire::kMadSize, input_.u8())});
    }
    const auto before = port_.inbox.size();
    client_.on_readable(now_);
    require(before - port_.inbox.size() == std::min(before, config_.mads_per_turn));
    while (!port_.inbox.empty()) client_.on_readable(now_);
  }

  /// A valid response to a request, partly overwritten with bytes of the input.
  void respond() {
    if (port_.sent.empty()) return;
    const auto& request = pick();
    auto bytes = request.mad;
    const auto record = MutableBytes(bytes).subspan(wire::kSaHeaderSize);
    if (wire::SaHeader::parse(bytes)->mad.attribute_id == wire::attribute::kPathRecord) {
      auto path = *wire::PathRecord::parse(record);
      path.dlid = Lid(4);
      path.mtu = 4;
      path.emit(record);
    } else {
      auto group = *wire::McMemberRecord::parse(record);
      group.mlid = kFirstMulticastLid;
      group.mtu = 4;
      group.emit(record);
    }
    bytes[3] =
        bytes[3] == wire::method::kDelete ? wire::method::kDeleteResp : wire::method::kGetResp;
    const std::size_t at = input_.u8();
    const auto changes = take(input_.u8() % 64);
    for (std::size_t i = 0; i < changes.size() && at + i < bytes.size(); ++i) {
      bytes[at + i] = changes[i];
    }
    receive({.bytes = std::move(bytes), .from = request.to});
  }

  void receive(ReceivedMad mad) {
    port_.inbox.push_back(std::move(mad));
    client_.on_readable(now_);
  }

  void check() {
    answered_ += client_.responses().size();
    client_.responses().clear();
    require(port_.inbox.empty());
    require(client_.pending() <= config_.window + config_.max_waiting + config_.max_leaves);
    require(requested_ == answered_ + client_.pending());
  }

  const MemoryMadPort::Sent& pick() { return port_.sent[input_.u8() % port_.sent.size()]; }
  std::vector<std::uint8_t> take(std::size_t count) {
    const auto bytes = input_.take(std::min(count, input_.left()));
    return {bytes.begin(), bytes.end()};
  }

  static Config small() {
    Config config;
    config.window = 3;
    config.max_waiting = 5;
    config.max_leaves = 5;
    config.mads_per_turn = 3;
    return config;
  }

  ByteReader input_;
  Config config_ = small();
  MemoryMadPort port_;
  Logger log_{"sa", std::make_shared<spdlog::sinks::null_sink_st>()};
  TimePoint now_{std::chrono::seconds(1)};
  SaClient client_{config_, port_, log_, 1, random_from(1)};
  std::uint8_t other_bit_ = 0;
  std::size_t requested_ = 0;
  std::size_t answered_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Script({data, size}).run();
  return 0;
}
