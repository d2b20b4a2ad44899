// Links with an SA that is slow, busy, redirects, or sends wrong responses.
#include "tests/sim/sim_fixture.hpp"
#include "wire/class_port_info.hpp"
#include "wire/notice.hpp"
#include "wire/sa_records.hpp"

namespace ipoib::sim {
namespace {

class SaBehaviour : public Sim {
 protected:
  using Sim::Sim;
  static constexpr Qpn kRedirectedQpn{77};  // QPN of the redirected SA

  using Change = std::function<void(wire::SaHeader& header, MutableBytes record)>;
  /// Changes the responses for one attribute.
  void tamper(std::uint16_t attribute, Change change) {
    world.mad_tap = [attribute, change = std::move(change)](softib::MadPacket& packet) {
      auto header = *wire::SaHeader::parse(packet.mad);
      if (header.mad.is_response() && header.mad.attribute_id == attribute) {
        change(header, MutableBytes(packet.mad).subspan(wire::kSaHeaderSize));
        header.emit(packet.mad);
      }
      return true;
    };
  }
  void tamper_with_paths(std::function<void(wire::PathRecord&)> change) {
    tamper(wire::attribute::kPathRecord,
           [change = std::move(change)](wire::SaHeader&, MutableBytes record) {
             auto path = *wire::PathRecord::parse(record);
             change(path);
             path.emit(record);
           });
  }
  /// Redirects requests to QP1.
  void redirect_requests() {
    world.mad_tap = [](softib::MadPacket& packet) {
      auto header = *wire::SaHeader::parse(packet.mad);
      if (packet.source != wire::kGsiQpn || !header.mad.is_response()) return true;
      header.mad.status = static_cast<std::uint16_t>(wire::SaStatus::redirect);
      header.emit(packet.mad);
      wire::ClassPortInfo info;
      info.redirect.lid = packet.slid;
      info.redirect.pkey = kDefaultPKey;
      info.redirect.qpn = kRedirectedQpn;
      info.redirect.qkey = wire::kGsiQKey;
      info.emit(MutableBytes(packet.mad).subspan(wire::kSaHeaderSize));
      return true;
    };
  }
  /// The sum over all hosts.
  [[nodiscard]] std::uint64_t total(std::uint64_t sa::Counters::*counter) const {
    std::uint64_t sum = 0;
    for (const auto& host : hosts) sum += host->sa_counters().*counter;
    return sum;
  }
  /// Sends `count` packets, one every 100 ms; returns how many arrive.
  [[nodiscard]] std::size_t arrive(std::size_t count) {
    const std::size_t before = b().received_from(a().ip());
    for (std::size_t i = 0; i < count; ++i) {
      a().send(b().ip());
      world.run_for(100ms);
    }
    return b().received_from(a().ip()) - before;
  }
};

TEST_F(SaBehaviour, RedirectionIsFollowed) {
  redirect_requests();
  two_hosts();
  EXPECT_TRUE(reaches(a(), b()));
  const auto redirects = a().sa_counters().redirects;
  EXPECT_GT(redirects, 0U);
  a().link().flush();
  Host& c = add(3);
  bring_up();
  EXPECT_TRUE(reaches(a(), c));
  EXPECT_EQ(a().sa_counters().redirects, redirects) << "the redirection holds";
}

TEST_F(SaBehaviour, ReportsAreAcceptedAfterARedirection) {
  redirect_requests();
  two_hosts();
  const auto reports = a().sa_counters().reports;
  add(3);
  bring_up();
  EXPECT_GT(a().sa_counters().reports, reports);
}

TEST_F(SaBehaviour, SlowSaIsWaitedFor) {
  for (const auto delay : {300ms, 1000ms, 2000ms, 3500ms}) {
    world.faults.sa_delay = delay;
    hosts.clear();
    add_many(2);
    bring_up();
    EXPECT_TRUE(keeps_trying(a(), b(), 20s)) << delay.count() << " ms";
  }
}

TEST_F(SaBehaviour, BusySaIsRetried) {
  unsigned busy = 2;
  tamper(wire::attribute::kPathRecord, [&busy](wire::SaHeader& header, MutableBytes) {
    if (busy == 0) return;
    --busy;
    header.mad.status = static_cast<std::uint16_t>(wire::SaStatus::busy);
  });
  two_hosts();
  EXPECT_TRUE(reaches(a(), b(), 5s));
  EXPECT_EQ(busy, 0U);
  EXPECT_EQ(total(&sa::Counters::busy), 2U);
}

TEST_F(SaBehaviour, ResponseForAnotherPortIsRejected) {
  two_hosts();
  tamper_with_paths(
      [](wire::PathRecord& path) { path.dgid = Gid(path.dgid.prefix(), Guid(0xdead)); });
  EXPECT_EQ(arrive(50), 0U);
  EXPECT_GT(total(&sa::Counters::malformed_responses), 0U);
  world.mad_tap = nullptr;
  EXPECT_TRUE(keeps_trying(a(), b(), 60s));
}

class SaWithLmc : public SaBehaviour {
 protected:
  static softib::subnet::SubnetConfig four_lids() {
    softib::subnet::SubnetConfig config;
    config.lmc = 2;
    return config;
  }
  SaWithLmc() : SaBehaviour(four_lids()) {}
};

TEST_F(SaWithLmc, PathUsesTheLidsOfTheRecord) {
  const auto lid_of = [](Lid first, unsigned bits) {
    return Lid(static_cast<std::uint16_t>(first.value() + bits));
  };
  tamper_with_paths([&](wire::PathRecord& path) {
    path.slid = lid_of(path.slid, 3);
    path.dlid = lid_of(path.dlid, 1);
  });
  two_hosts();
  const Lid first = world.subnet().node(*world.subnet().find("hca1"))->port.lid;
  const Lid second = world.subnet().node(*world.subnet().find("hca2"))->port.lid;
  std::size_t there = 0;
  std::size_t back = 0;
  world.tap = [&](ConstBytes packet) {
    const auto ud = wire::UdPacket::parse(packet);
    if (!ud || is_multicast(ud->lrh.dlid) || ud->bth.destination <= wire::kGsiQpn) return true;
    there += ud->lrh.slid == lid_of(first, 3) && ud->lrh.dlid == lid_of(second, 1);
    back += ud->lrh.slid == lid_of(second, 3) && ud->lrh.dlid == lid_of(first, 1);
    return true;
  };
  EXPECT_EQ(arrive(20), 20U);
  EXPECT_TRUE(reaches(b(), a()));
  EXPECT_GE(there, 20U);
  EXPECT_GE(back, 1U);
  for (const auto& host : hosts) EXPECT_EQ(host->count(Counter::path_lid_mismatches), 0U);
}

TEST_F(SaBehaviour, RecordWithoutLidIsRejected) {
  two_hosts();
  tamper_with_paths([](wire::PathRecord& path) { path.dlid = Lid(0); });
  EXPECT_EQ(arrive(50), 0U);
  EXPECT_GT(total(&sa::Counters::malformed_responses), 0U);
  world.mad_tap = nullptr;
  EXPECT_TRUE(keeps_trying(a(), b(), 60s));
}

TEST_F(SaBehaviour, ResponseWithAnotherTransactionIdIsIgnored) {
  two_hosts();
  tamper(wire::attribute::kPathRecord,
         [](wire::SaHeader& header, MutableBytes) { header.mad.transaction_id ^= 0x55; });
  EXPECT_EQ(arrive(50), 0U);
  EXPECT_GT(total(&sa::Counters::timeouts), 0U);
  EXPECT_EQ(a().count(Counter::path_responses) + b().count(Counter::path_responses), 0U);
  world.mad_tap = nullptr;
  EXPECT_TRUE(keeps_trying(a(), b(), 60s));
}

/// A node that answers requests to the SA faster than the SA: it says that all paths lead to
/// itself.
class HostileNode : public SaBehaviour {
 protected:
  static constexpr Lid kOwn{0x77};

  /// Sends forged responses ahead of each response of the SA, with these transaction ids.
  void answer_first(std::function<std::vector<std::uint32_t>(std::uint32_t tid)> guesses) {
    world.mad_tap = [this, guesses = std::move(guesses)](softib::MadPacket& packet) {
      const auto header = *wire::SaHeader::parse(packet.mad);
      if (header.mad.is_response()) {
        const auto tid = static_cast<std::uint32_t>(header.mad.transaction_id);
        for (const auto guess : guesses(tid)) forge(packet, guess);
      }
      return true;
    };
    world.faults.sa_delay = 1ms;
  }
  void forge(softib::MadPacket packet, std::uint32_t tid) {
    packet.slid = kOwn;
    auto header = *wire::SaHeader::parse(packet.mad);
    header.mad.transaction_id = header.mad.transaction_id >> 32 << 32 | tid;
    header.emit(packet.mad);
    const auto record = MutableBytes(packet.mad).subspan(wire::kSaHeaderSize);
    if (header.mad.attribute_id == wire::attribute::kPathRecord) {
      auto path = *wire::PathRecord::parse(record);
      path.dlid = kOwn;
      path.emit(record);
    }
    world.inject_mad(packet);
  }
  /// A report to a() that b() is out of service.
  [[nodiscard]] softib::MadPacket out_of_service(Lid from) {
    softib::MadPacket packet;
    packet.slid = from;
    packet.dlid = world.subnet().node(a().node())->port.lid;
    wire::SaHeader header;
    header.mad.management_class = wire::mgmt_class::kSubnAdm;
    header.mad.class_version = 2;
    header.mad.method = wire::method::kReport;
    header.mad.attribute_id = wire::attribute::kNotice;
    header.emit(packet.mad);
    wire::Notice notice;
    notice.trap_number = wire::trap::kOutOfService;
    notice.gid = world.subnet().node(b().node())->port.gid();
    notice.emit(MutableBytes(packet.mad).subspan(wire::kSaHeaderSize));
    return packet;
  }
  /// Counts the packets that go to the hostile node.
  void watch() {
    world.tap = [this](ConstBytes packet) {
      stolen += wire::UdPacket::parse(packet)->lrh.dlid == kOwn ? 1 : 0;
      return true;
    };
  }
  std::size_t stolen = 0;
};

TEST_F(HostileNode, GuessingTransactionIdsDoesNoHarm) {
  watch();
  std::uint32_t last = 0;
  answer_first([&last](std::uint32_t tid) {
    std::vector<std::uint32_t> guesses;
    for (std::uint32_t i = 1; i <= 100; ++i) guesses.push_back(last + i);
    last = tid;
    return guesses;
  });
  two_hosts();
  EXPECT_TRUE(reaches(a(), b()));
  EXPECT_TRUE(reaches(b(), a()));
  EXPECT_EQ(stolen, 0U);
  EXPECT_EQ(total(&sa::Counters::timeouts), 0U);
}

TEST_F(HostileNode, KnowingTransactionIdsOnlyDelays) {
  two_hosts();
  watch();
  answer_first([](std::uint32_t tid) { return std::vector{tid}; });
  EXPECT_EQ(arrive(100), 0U);
  EXPECT_EQ(stolen, 0U);
  EXPECT_GT(total(&sa::Counters::foreign_responses), 0U);
  world.mad_tap = nullptr;
  EXPECT_TRUE(keeps_trying(a(), b(), 60s));
  EXPECT_EQ(stolen, 0U);
}

TEST_F(HostileNode, ReportsOfOthersAreDropped) {
  two_hosts();
  EXPECT_TRUE(reaches(a(), b()));
  const auto before = a().count(Counter::path_requests);
  for (int i = 0; i < 1000; ++i) world.inject_mad(out_of_service(kOwn));
  EXPECT_EQ(arrive(10), 10U);
  EXPECT_EQ(a().sa_counters().foreign_reports, 1000U);
  EXPECT_EQ(a().count(Counter::path_reports), 0U);
  EXPECT_EQ(a().count(Counter::path_requests), before);
}

/// Subnet managers forward traps, whoever sends them.
TEST_F(HostileNode, FalseReportsThroughTheSaInterruptNothing) {
  two_hosts();
  EXPECT_TRUE(reaches(a(), b()));
  const Lid sm = world.subnet().node(a().node())->port.sm_lid;
  for (int i = 0; i < 20; ++i) {
    const auto before = a().count(Counter::path_requests);
    world.inject_mad(out_of_service(sm));
    EXPECT_EQ(arrive(5), 5U);
    EXPECT_LE(a().count(Counter::path_requests), before + 1);
  }
  EXPECT_EQ(a().count(Counter::path_reports), 20U);
}

TEST_F(SaBehaviour, PathsAreRefreshedWithoutAGapInTraffic) {
  config.path.refresh = 10s;
  two_hosts();
  EXPECT_TRUE(reaches(a(), b()));
  const auto refreshed = [this] { return a().count(Counter::path_responses); };
  const auto before = refreshed();
  EXPECT_EQ(arrive(600), 600U);
  EXPECT_GE(refreshed(), before + 4);
  world.faults.sa_delay = 2s;
  EXPECT_EQ(arrive(600), 600U) << "during a slow response";
  world.faults.sa_drops_requests = true;
  EXPECT_EQ(arrive(600), 600U) << "without a response";
  EXPECT_GT(a().count(Counter::path_failures), 0U);
  world.faults = {};
  const auto after = refreshed();
  EXPECT_EQ(arrive(1200), 1200U);
  EXPECT_GT(refreshed(), after);
}

}  // namespace
}  // namespace ipoib::sim
