// Queue pair, TUN and clock of an interface, in memory, and a pump that uses them.
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <deque>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "daemon/pump/pump.hpp"
#include "daemon/pump/sleeper.hpp"
#include "linux/pollable_tun.hpp"
#include "linux/route_source.hpp"
#include "tests/unit/link/object_fixture.hpp"
#include "verbs/recoverable_ud_port.hpp"

namespace ipoib::daemon {

class FakeQueuePair final : public verbs::RecoverableUdPort {
 public:
  [[nodiscard]] Qpn qpn() const override { return number; }
  [[nodiscard]] Result<AddressHandlePtr> create_address_handle(const AddressVector& to) override {
    return AddressHandlePtr(new AddressHandle(to));
  }
  [[nodiscard]] Result<void> configure(const UdAttributes& attributes) override {
    configured.push_back(attributes);
    if (refuses_attributes) return Error{EINVAL, "refused"};
    return {};
  }
  std::size_t send(std::span<Outgoing> batch) override {
    const auto posted = std::min(room, batch.size());
    room -= posted;
    for (Outgoing& each : batch.first(posted)) sent.push_back(std::move(each.frame));
    return posted;
  }
  std::size_t receive(std::vector<Incoming>& out, std::size_t limit) override {
    ++receive_calls;
    if (on_receive) on_receive();
    const auto count = static_cast<std::ptrdiff_t>(std::min(limit, arrived.size()));
    std::move(arrived.begin(), arrived.begin() + count, std::back_inserter(out));
    arrived.erase(arrived.begin(), arrived.begin() + count);
    return static_cast<std::size_t>(count);
  }
  [[nodiscard]] Result<void> attach(const Gid& mgid, Lid /*mlid*/) override {
    if (mgid == refused_group) return Error{ENOMEM, "no room"};
    attached.push_back(mgid);
    return {};
  }
  [[nodiscard]] Result<void> detach(const Gid& mgid, Lid /*mlid*/) override {
    std::erase(attached, mgid);
    return {};
  }

  void arm() override {
    ++arms;
    if (on_arm) on_arm();
  }
  void acknowledge_events() override {}
  [[nodiscard]] bool is_broken() const override { return broken; }
  void on_object_failed(const void* object) override { broken |= object == this; }
  [[nodiscard]] Result<void> restart() override {
    ++restarts;
    broken = false;
    progress.completed += std::exchange(progress.in_flight, 0);
    if (on_restart) on_restart();
    if (refuses_restart) return Error{EIO, "does not restart"};
    return {};
  }
  [[nodiscard]] Result<void> recreate() override {
    ++recreations;
    if (refuses_recreation) return Error{ENOMEM, "cannot be created"};
    number = Qpn(number.value() + 1);
    return {};
  }
  [[nodiscard]] SendProgress send_progress() const override { return progress; }
  [[nodiscard]] const verbs::UdCounters& counters() const override { return counted; }

  Qpn number{0x11};
  std::size_t room = 1000;  ///< in the send queue
  std::vector<Frame> sent;
  std::deque<Incoming> arrived;
  std::vector<UdAttributes> configured;
  std::vector<Gid> attached;
  Gid refused_group;
  SendProgress progress;
  bool broken = false;
  bool refuses_attributes = false;
  bool refuses_restart = false;
  bool refuses_recreation = false;
  unsigned receive_calls = 0;
  unsigned arms = 0;
  unsigned restarts = 0;
  unsigned recreations = 0;
  std::function<void()> on_arm;
  std::function<void()> on_receive;
  std::function<void()> on_restart;
  verbs::UdCounters counted;
};

class FakeTun final : public linux::PollableTun {
 public:
  [[nodiscard]] const std::string& name() const override { return name_; }
  bool read(const HostPools& pools, std::size_t headroom, std::vector<Frame>& out,
            std::size_t limit) override {
    limits.push_back(limit);
    if (passed_on > 0) {
      --passed_on;
      return true;
    }
    for (std::size_t count = 0; count < limit && !to_fabric.empty(); ++count) {
      Frame frame = pools.packets.take();
      if (!frame) return true;
      frame.window(headroom, to_fabric.front().size());
      std::ranges::copy(to_fabric.front(), frame.bytes().begin());
      out.push_back(std::move(frame));
      to_fabric.pop_front();
    }
    return !to_fabric.empty();
  }
  bool write(ConstBytes packet) override {
    from_fabric.emplace_back(packet.begin(), packet.end());
    return true;
  }
  [[nodiscard]] bool accepts(Segmentation::Kind /*kind*/) const override { return false; }
  bool write_large(std::span<const ConstBytes> /*pieces*/, const Segmentation& /*how*/) override {
    return false;
  }
  [[nodiscard]] Result<void> set_mtu(std::uint32_t bytes) override {
    mtu = bytes;
    return {};
  }
  [[nodiscard]] Result<void> set_carrier(bool on) override {
    carrier = on;
    carriers.push_back(on);
    return {};
  }
  void set_speed(std::uint32_t mbps) override { speed = mbps; }
  [[nodiscard]] linux::HostDrops drops() const override { return {}; }
  [[nodiscard]] bool is_up() const override { return true; }
  [[nodiscard]] bool is_gone() const override { return gone; }

  std::deque<std::vector<std::uint8_t>> to_fabric;
  std::vector<std::vector<std::uint8_t>> from_fabric;
  std::vector<std::size_t> limits;  ///< of each read
  std::size_t passed_on = 0;        ///< reads that find frames of VLANs only, which go elsewhere
  std::uint32_t mtu = 0;
  std::uint32_t speed = 0;
  bool carrier = false;
  std::vector<bool> carriers;  ///< as set so far
  bool gone = false;

 private:
  std::string name_ = "ibx";
};

/// Announces what the test puts into `announced`.
class FakeRoutes final : public linux::RouteSource {
 public:
  [[nodiscard]] int descriptor() const override { return -1; }
  void read(std::vector<RouteChange>& changes) override {
    ++reads;
    if (on_read) on_read();
    changes.insert(changes.end(), announced.begin(), announced.end());
    announced.clear();
  }
  void rename(const std::string& to) override { name = to; }

  std::vector<RouteChange> announced;
  std::function<void()> on_read;
  std::string name;
  unsigned reads = 0;
};

/// Virtual time, which only sleep() moves: to the deadline.
class FakeSleeper final : public Sleeper {
 public:
  [[nodiscard]] TimePoint now() override { return time; }
  [[nodiscard]] WokenBy sleep(TimePoint now, TimePoint deadline) override {
    deadlines.push_back(deadline);
    if (on_sleep) on_sleep();
    if (deadline != kNever && deadline > now) time = deadline;
    return {.completions = std::exchange(completions, false),
            .routes = std::exchange(routes, false)};
  }

  TimePoint time{std::chrono::seconds(1000)};
  std::vector<TimePoint> deadlines;
  bool completions = false;        ///< whether completions end the next sleep
  bool routes = false;             ///< whether announced routes do
  std::function<void()> on_sleep;  ///< has to make the loop end some time
};

/// Of a pump that takes all its frames from one pool, and logs nothing.
inline Pump::Dependencies pump_dependencies(FramePool& frames, TunPort& tun, UdPort& queue_pair,
                                            RouteFollower& routes, TraceRing& trace) {
  return {.tun = tun,
          .queue_pair = queue_pair,
          .host_frames = {frames, frames},
          .messages = frames,
          .routes = routes,
          .trace = trace,
          .log = *link::silent_logger(),
          .link_log = *link::silent_logger()};
}

}  // namespace ipoib::daemon
