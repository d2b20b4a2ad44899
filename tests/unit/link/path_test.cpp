// Rows of docs/states.md, "Path".
#include <gmock/gmock.h>
#include <spdlog/sinks/ringbuffer_sink.h>

#include "tests/unit/link/object_fixture.hpp"

namespace ipoib::link {
namespace {

class PathStates : public ObjectFixture {
 protected:
  using Condition = PathTable::Condition;

  PathStates() { config.limits.path_requests = 2; }

  [[nodiscard]] Condition use() { return paths.use(*user, now); }
  template <class State>
  [[nodiscard]] bool is() {
    const Path* const path = paths.find(kPeerHw.gid);
    return path != nullptr && std::holds_alternative<State>(path->state());
  }
  [[nodiscard]] bool is_gone() { return paths.find(kPeerHw.gid) == nullptr; }
  void release() { user = PathRef(); }
  /// Sends requests for other paths until no more may be outstanding.
  void make_busy() {
    for (std::uint64_t guid = 100; guid < 102; ++guid) {
      others.push_back(paths.acquire(port_gid(guid)));
      (void)paths.use(*others.back(), now);
      busy_with.push_back(path_requests().back());
    }
    out.events.clear();
  }
  void make_requesting() {
    EXPECT_EQ(use(), Condition::pending);
    request = path_requests().at(0);
    forget();
  }
  void make_waiting() {
    make_busy();
    EXPECT_EQ(use(), Condition::pending);
    EXPECT_TRUE(is<Path::Waiting>());
  }
  void make_ready() {
    make_requesting();
    grant(request);
    forget();
  }
  void make_needs_refresh() {
    make_ready();
    paths.invalidate(*user, "test");
  }
  void make_refreshing() {
    make_needs_refresh();
    EXPECT_EQ(use(), Condition::usable);
    request = path_requests().at(0);
    forget();
  }
  void make_failed() {
    make_requesting();
    refuse(request);
    forget();
  }
  /// Sends a report of the path's port, and some of another port.
  void report() {
    paths.on_out_of_service(port_gid(0x99), now);
    paths.on_in_service(port_gid(0x99), now);
    EXPECT_EQ(count(Counter::path_reports), 0U) << "the reports of other ports";
    paths.on_in_service(kPeerHw.gid, now);
    EXPECT_EQ(count(Counter::path_reports), 1U);
  }
  /// The request fails because it was too early.
  void expect_new_request() {
    refuse(request);
    EXPECT_EQ(count(Counter::path_failures), 0U);
    ASSERT_EQ(path_requests().size(), 1U);
    EXPECT_EQ(path_requests()[0].record.dgid, kPeerHw.gid);
    EXPECT_EQ(paths.outstanding(), 1U);
    const PathRequest renewed = path_requests()[0];
    forget();
    refuse(request);
    EXPECT_TRUE(path_requests().empty()) << "the old request is complete";
    grant(renewed);
    EXPECT_TRUE(is<Path::Ready>());
  }
  void reach_path_deadline() {
    now = paths.next_deadline();
    paths.tick(now);
  }

  PathRef user = paths.acquire(kPeerHw.gid);
  std::deque<PathRef> others;
  std::vector<PathRequest> busy_with;
  PathRequest request;
};

TEST_F(PathStates, Path_Idle_Use) {
  EXPECT_EQ(use(), Condition::pending);
  EXPECT_TRUE(is<Path::Requesting>());
  ASSERT_EQ(path_requests().size(), 1U);
  const PathRequest sent = path_requests()[0];
  EXPECT_EQ(sent.record.dgid, kPeerHw.gid);
  EXPECT_EQ(sent.record.sgid, kOwn.gid);
  EXPECT_EQ(sent.record.pkey, kDefaultPKey);
  EXPECT_EQ(sent.record.numb_path, 1);
  EXPECT_TRUE(sent.record.reversible);
  // DGID, SGID, Reversible, NumbPath, P_Key: bits 2, 3, 11, 12, 13.
  EXPECT_EQ(sent.components, 0x380cU);
}

TEST_F(PathStates, Path_Idle_Use_Busy) {
  make_busy();
  EXPECT_EQ(use(), Condition::pending);
  EXPECT_TRUE(is<Path::Waiting>());
  EXPECT_TRUE(path_requests().empty());
}

TEST_F(PathStates, Path_Idle_Unused) {
  release();
  EXPECT_TRUE(is_gone());
}

TEST_F(PathStates, Path_Idle_Report) {
  report();
  EXPECT_TRUE(is<Path::Idle>());
}

TEST_F(PathStates, Path_Idle_Restored) {
  const SavedPath saved{.attributes = {.dlid = Lid(9), .sl = ServiceLevel(2), .hop_limit = 3},
                        .mtu = 2048};
  EXPECT_TRUE(paths.restore(*user, saved));
  EXPECT_TRUE(is<Path::NeedsRefresh>());
  EXPECT_TRUE(path_requests().empty());
  ASSERT_EQ(handles.made.size(), 2U) << "the broadcast group has one, too";
  EXPECT_EQ(handles.made[1].dlid, Lid(9));
  ASSERT_TRUE(handles.made[1].global);
  EXPECT_EQ(handles.made[1].global->dgid, kPeerHw.gid);
  EXPECT_EQ(use(), Condition::usable);
  EXPECT_EQ(path_requests().size(), 1U) << "it may be outdated";
  EXPECT_TRUE(paths.restore(*user, {})) << "what the SA is about to say is newer";
  EXPECT_TRUE(is<Path::Refreshing>());
}

TEST_F(PathStates, Path_Idle_Restored_NoHandle) {
  handles.refuses = true;
  EXPECT_FALSE(paths.restore(*user, {}));
  EXPECT_TRUE(is<Path::Idle>());
  EXPECT_EQ(count(Counter::address_handle_refusals), 1U);
}

TEST_F(PathStates, Path_Waiting_Use) {
  make_waiting();
  EXPECT_EQ(use(), Condition::pending);
  EXPECT_TRUE(is<Path::Waiting>());
}

TEST_F(PathStates, Path_Waiting_Use_Packet) {
  make_busy();
  EXPECT_EQ(paths.use(*user, now, Purpose::reply), Condition::pending);
  PathRef other = paths.acquire(kNewPeerHw.gid);
  EXPECT_EQ(paths.use(*other, now, Purpose::reply), Condition::pending);
  PathRef third = paths.acquire(port_gid(77));
  EXPECT_EQ(paths.use(*third, now, Purpose::reply), Condition::pending);
  EXPECT_EQ(paths.use(*third, now, Purpose::packet), Condition::pending);
  refuse(busy_with[0]);
  ASSERT_EQ(path_requests().size(), 1U);
  EXPECT_EQ(path_requests()[0].record.dgid, port_gid(77)) << "the one that a packet waits for";
  refuse(busy_with[1]);
  ASSERT_EQ(path_requests().size(), 2U);
  EXPECT_EQ(path_requests()[1].record.dgid, kPeerHw.gid) << "then those of the replies, in order";
}

TEST_F(PathStates, Path_Waiting_Turn) {
  make_waiting();
  refuse(busy_with[0]);
  EXPECT_TRUE(is<Path::Requesting>());
  ASSERT_EQ(path_requests().size(), 1U);
  EXPECT_EQ(path_requests()[0].record.dgid, kPeerHw.gid);
}

TEST_F(PathStates, Path_Waiting_Unused) {
  make_waiting();
  release();
  EXPECT_TRUE(is_gone());
  refuse(busy_with[0]);
  EXPECT_TRUE(path_requests().empty());
}

TEST_F(PathStates, Path_Waiting_Report) {
  make_waiting();
  report();
  EXPECT_TRUE(is<Path::Waiting>());
}

TEST_F(PathStates, Path_Requesting_Use) {
  make_requesting();
  EXPECT_EQ(use(), Condition::pending);
  EXPECT_TRUE(path_requests().empty()) << "one request for each GID";
}

TEST_F(PathStates, Path_Requesting_Response) {
  make_requesting();
  wire::PathRecord record = path_record(kPeerHw.gid, 7, 5);
  record.sl = ServiceLevel(3);
  respond(request, record);
  ASSERT_NE(user->ready(), nullptr);
  EXPECT_EQ(user->ready()->mtu, 4096U);
  EXPECT_EQ(use(), Condition::usable);
  EXPECT_EQ(handles.made.back(),
            (AddressVector{.dlid = Lid(7), .sl = ServiceLevel(3), .rate = 3, .global = {}}));
}

TEST_F(PathStates, Path_Requesting_Response_NoHandle) {
  make_requesting();
  handles.refuses = true;
  grant(request);
  EXPECT_TRUE(is<Path::Failed>());
  EXPECT_EQ(count(Counter::address_handle_refusals), 1U);
}

TEST_F(PathStates, Path_Requesting_RequestFailed) {
  make_requesting();
  refuse(request);
  EXPECT_TRUE(is<Path::Failed>());
  EXPECT_EQ(count(Counter::path_failures), 1U);
}

TEST_F(PathStates, Path_Requesting_Unused) {
  make_requesting();
  release();
  EXPECT_TRUE(is<Path::Requesting>());
  grant(request);
  EXPECT_TRUE(is<Path::Ready>());
}

TEST_F(PathStates, Path_Requesting_Report) {
  make_requesting();
  report();
  EXPECT_TRUE(is<Path::Requesting>());
  EXPECT_TRUE(path_requests().empty()) << "a flood of reports causes no flood of requests";
  EXPECT_EQ(paths.outstanding(), 1U);
}

TEST_F(PathStates, Path_Requesting_Response_Reported) {
  make_requesting();
  report();
  grant(request);
  EXPECT_TRUE(is<Path::NeedsRefresh>());
  EXPECT_TRUE(path_requests().empty());
  EXPECT_EQ(use(), Condition::usable);
  EXPECT_EQ(path_requests().size(), 1U);
}

TEST_F(PathStates, Path_Requesting_RequestFailed_Reported) {
  make_requesting();
  report();
  expect_new_request();
}

TEST_F(PathStates, Path_Requesting_RequestFailed_Reported_Unused) {
  make_requesting();
  report();
  release();
  refuse(request);
  EXPECT_TRUE(path_requests().empty());
  EXPECT_EQ(paths.outstanding(), 0U);
}

TEST_F(PathStates, Path_Ready_Use) {
  make_ready();
  EXPECT_EQ(use(), Condition::usable);
  EXPECT_TRUE(is<Path::Ready>());
  EXPECT_TRUE(path_requests().empty());
}

TEST_F(PathStates, Path_Ready_Invalidate) {
  make_ready();
  paths.on_source_lid(*user, Lid(7), now);
  EXPECT_TRUE(is<Path::Ready>()) << "the LID of the path";
  paths.on_source_lid(*user, Lid(8), now);
  EXPECT_TRUE(is<Path::NeedsRefresh>());
  EXPECT_EQ(count(Counter::path_lid_mismatches), 1U);
  // The SA responds with the same LID: the mismatch is ignored from now on.
  (void)use();
  grant(path_requests().at(0));
  paths.on_source_lid(*user, Lid(8), now);
  EXPECT_TRUE(is<Path::Ready>());
  paths.invalidate_all("test");
  EXPECT_TRUE(is<Path::NeedsRefresh>());
}

TEST_F(PathStates, Path_Ready_Deadline) {
  make_ready();
  reach_path_deadline();
  EXPECT_TRUE(is<Path::NeedsRefresh>());
  EXPECT_TRUE(path_requests().empty()) << "requested again at its next use";
}

TEST_F(PathStates, Path_Ready_Deadline_Unused) {
  make_ready();
  release();
  reach_path_deadline();
  EXPECT_TRUE(is_gone());
}

TEST_F(PathStates, Path_Ready_Unused) {
  make_ready();
  release();
  EXPECT_TRUE(is<Path::Ready>());
  user = paths.acquire(kPeerHw.gid);
  EXPECT_EQ(use(), Condition::usable);
}

TEST_F(PathStates, Path_Ready_Report) {
  make_ready();
  prepare_path(kNewPeerHw.gid);
  report();
  EXPECT_TRUE(is<Path::NeedsRefresh>());
  EXPECT_TRUE(path_requests().empty()) << "requested again at its next use";
  EXPECT_NE(paths.find(kNewPeerHw.gid)->ready(), nullptr) << "other paths are not affected";
}

TEST_F(PathStates, Path_Ready_Report_Unused) {
  make_ready();
  release();
  report();
  EXPECT_TRUE(is_gone());
}

TEST_F(PathStates, Path_NeedsRefresh_Use) {
  make_needs_refresh();
  EXPECT_EQ(use(), Condition::usable);
  EXPECT_TRUE(is<Path::Refreshing>());
  EXPECT_EQ(path_requests().size(), 1U);
  EXPECT_NE(user->usable(), nullptr);
}

TEST_F(PathStates, Path_NeedsRefresh_Use_Early) {
  make_refreshing();
  refuse(request);
  EXPECT_EQ(use(), Condition::usable);
  EXPECT_TRUE(is<Path::NeedsRefresh>());
  EXPECT_TRUE(path_requests().empty());
  now += config.path.negative.first * 2;
  make_busy();
  EXPECT_EQ(use(), Condition::usable);
  EXPECT_TRUE(is<Path::NeedsRefresh>());
  refuse(busy_with[0]);
  EXPECT_EQ(use(), Condition::usable);
  EXPECT_TRUE(is<Path::Refreshing>());
}

TEST_F(PathStates, Path_NeedsRefresh_Invalidate) {
  make_needs_refresh();
  paths.invalidate(*user, "again");
  EXPECT_TRUE(is<Path::NeedsRefresh>());
}

TEST_F(PathStates, Path_NeedsRefresh_Unused) {
  make_needs_refresh();
  release();
  EXPECT_TRUE(is_gone());
}

TEST_F(PathStates, Path_NeedsRefresh_Report) {
  make_refreshing();
  refuse(request);
  report();
  EXPECT_TRUE(is<Path::NeedsRefresh>());
  EXPECT_EQ(use(), Condition::usable);
  EXPECT_EQ(path_requests().size(), 1U) << "although a request failed a moment ago";
}

TEST_F(PathStates, Path_Refreshing_Use) {
  make_refreshing();
  EXPECT_EQ(use(), Condition::usable);
  EXPECT_TRUE(path_requests().empty());
}

TEST_F(PathStates, Path_Refreshing_Response) {
  make_refreshing();
  const AddressHandlePtr before = user->usable()->handle;
  grant(request);
  EXPECT_TRUE(is<Path::Ready>());
  EXPECT_EQ(user->ready()->handle, before) << "the path is the same, so the handle is kept";
  paths.invalidate(*user, "test");
  (void)use();
  grant(path_requests().at(0), 9);
  EXPECT_NE(user->ready()->handle, before);
  EXPECT_EQ(user->ready()->attributes.dlid, Lid(9));
}

TEST_F(PathStates, Path_Refreshing_RequestFailed) {
  make_refreshing();
  const AddressHandlePtr before = user->usable()->handle;
  refuse(request);
  EXPECT_TRUE(is<Path::NeedsRefresh>());
  EXPECT_EQ(user->usable()->handle, before);
}

TEST_F(PathStates, Path_Refreshing_Invalidate) {
  make_refreshing();
  paths.invalidate(*user, "again");
  EXPECT_TRUE(is<Path::Refreshing>());
}

TEST_F(PathStates, Path_Refreshing_Unused) {
  make_refreshing();
  release();
  EXPECT_TRUE(is<Path::Refreshing>());
  refuse(request);
  EXPECT_TRUE(is_gone()) << "needs a refresh, and is unused";
}

TEST_F(PathStates, Path_Refreshing_Report) {
  make_refreshing();
  report();
  EXPECT_TRUE(is<Path::Refreshing>());
  EXPECT_NE(user->usable(), nullptr) << "stays in use";
  EXPECT_TRUE(path_requests().empty());
}

TEST_F(PathStates, Path_Refreshing_Response_Reported) {
  make_refreshing();
  report();
  grant(request);
  EXPECT_TRUE(is<Path::NeedsRefresh>());
}

TEST_F(PathStates, Path_Refreshing_RequestFailed_Reported) {
  make_refreshing();
  report();
  expect_new_request();
}

TEST_F(PathStates, Path_Failed_Use) {
  make_failed();
  EXPECT_EQ(use(), Condition::failed);
  EXPECT_TRUE(path_requests().empty());
}

TEST_F(PathStates, Path_Failed_Use_Later) {
  make_failed();
  for (unsigned failures = 1; failures < 8; ++failures) {
    const TimePoint began = now;
    while (use() == Condition::failed) now += 100ms;
    const Duration pause = config.path.negative.after(failures);  // before the jitter
    EXPECT_GE(now - began, pause * 3 / 4) << "backs off";
    EXPECT_LE(now - began, pause * 5 / 4 + 100ms);
    EXPECT_TRUE(is<Path::Requesting>());
    refuse(path_requests().at(0));
    forget();
  }
}

TEST_F(PathStates, Path_Failed_Deadline) {
  make_failed();
  reach_path_deadline();
  EXPECT_FALSE(is_gone()) << "has a user";
  release();
  EXPECT_TRUE(is_gone());
}

TEST_F(PathStates, Path_Failed_Unused) {
  make_failed();
  release();
  EXPECT_TRUE(is<Path::Failed>());
  user = paths.acquire(kPeerHw.gid);
  EXPECT_EQ(use(), Condition::failed);
  release();
  reach_path_deadline();
  EXPECT_TRUE(is_gone());
}

TEST_F(PathStates, Path_Failed_Report) {
  make_failed();
  report();
  EXPECT_TRUE(is<Path::Failed>());
  EXPECT_EQ(use(), Condition::pending) << "the pause has ended";
  EXPECT_EQ(path_requests().size(), 1U);
}

using PathTableTest = PathStates;

TEST_F(PathTableTest, BackOffIsRememberedWithoutAUser) {
  const auto fail_and_wait = [this] {
    EXPECT_EQ(use(), Condition::pending);
    refuse(path_requests().at(0));
    forget();
    const TimePoint began = now;
    while (use() == Condition::failed) now += 100ms;
    refuse(path_requests().at(0));
    forget();
    return now - began;
  };
  const Duration first = fail_and_wait();
  Duration last{};
  for (int i = 0; i < 4; ++i) {
    release();
    user = paths.acquire(kPeerHw.gid);
    EXPECT_EQ(use(), Condition::failed) << "the pause goes on";
    const TimePoint began = now;
    while (use() == Condition::failed) now += 100ms;
    last = now - began;
    refuse(path_requests().at(0));
    forget();
  }
  EXPECT_GT(last, 2 * first);
}

TEST_F(PathTableTest, OneRequestForAllNeighboursOnAPort) {
  const PathRef second = paths.acquire(kPeerHw.gid);
  EXPECT_EQ(&*second, &*user);
  (void)use();
  EXPECT_EQ(paths.use(*second, now), Condition::pending);
  EXPECT_EQ(path_requests().size(), 1U);
}

TEST_F(PathTableTest, GlobalRouteWhenTheRecordHasAHopLimit) {
  make_requesting();
  wire::PathRecord record = path_record(kPeerHw.gid, 7);
  record.hop_limit = 5;
  record.flow_label = 0x12345;
  record.traffic_class = 9;
  respond(request, record);
  EXPECT_EQ(handles.made.back().global, (GlobalRoute{.dgid = kPeerHw.gid,
                                                     .sgid_index = 0,
                                                     .flow_label = 0x12345,
                                                     .hop_limit = 5,
                                                     .traffic_class = 9}));
}

TEST_F(PathTableTest, GlobalRouteWhenThePortRequiresOne) {
  paths.set_source({.port = kOwnGid, .grh_required = true});
  make_requesting();
  grant(request);
  EXPECT_EQ(handles.made.back().global,
            (GlobalRoute{.dgid = kPeerHw.gid, .sgid_index = 0, .hop_limit = 1}));
}

TEST_F(PathTableTest, GlobalRouteUsesTheIndexOfThePortsGid) {
  paths.set_source({{kOwn.gid, 3}, 0});
  make_requesting();
  wire::PathRecord record = path_record(kPeerHw.gid, 0);
  record.hop_limit = 64;
  respond(request, record);
  ASSERT_TRUE(is<Path::Ready>());
  EXPECT_EQ(handles.made.back().dlid, Lid()) << "a link layer without LIDs";
  EXPECT_EQ(handles.made.back().global->sgid_index, 3);
}

TEST_F(PathTableTest, AddressVectorHasThePathBitsOfTheRecordsSlid) {
  for (const std::uint8_t lmc : {std::uint8_t{0}, std::uint8_t{2}}) {
    paths.set_source({kOwnGid, lmc});
    const PathRef other = paths.acquire(port_gid(50U + lmc));
    (void)paths.use(*other, now);
    wire::PathRecord record = path_record(other->gid(), 9);
    record.slid = Lid(7);
    respond(path_requests().back(), record);
    EXPECT_EQ(handles.made.back().source_path_bits, lmc == 0 ? 0 : 3);
  }
}

TEST_F(PathTableTest, AnyLidOfThePortMatchesThePath) {
  paths.set_source({kOwnGid, 2});
  make_requesting();
  grant(request, 6);
  for (const Lid lid : {Lid(4), Lid(5), Lid(6), Lid(7)}) paths.on_source_lid(*user, lid, now);
  EXPECT_EQ(count(Counter::path_lid_mismatches), 0U);
  for (const Lid lid : {Lid(8), Lid(9), Lid(11)}) paths.on_source_lid(*user, lid, now);
  EXPECT_EQ(count(Counter::path_lid_mismatches), 1U) << "all three belong to one other port";
  EXPECT_TRUE(is<Path::NeedsRefresh>());
}

TEST_F(PathTableTest, MismatchDuringARefreshIsNotIgnoredAfterIt) {
  make_ready();
  paths.invalidate_all("test");
  (void)use();
  ASSERT_TRUE(is<Path::Refreshing>());
  paths.on_source_lid(*user, Lid(8), now);
  grant(path_requests().at(0));
  paths.on_source_lid(*user, Lid(8), now);
  EXPECT_TRUE(is<Path::NeedsRefresh>());
}

TEST_F(PathTableTest, InvalidRecordIsAFailure) {
  make_requesting();
  respond(request, path_record(kPeerHw.gid, 7, 9));
  EXPECT_TRUE(is<Path::Failed>());
}

TEST_F(PathTableTest, ResponseToAnUnknownRequestIsIgnored) {
  make_requesting();
  EXPECT_FALSE(paths.on_response({wire::SaRequestId(9999), path_record(kPeerHw.gid, 7)}, now));
  EXPECT_TRUE(is<Path::Requesting>());
}

TEST_F(PathTableTest, FullTableEvictsUnusedPathsOnly) {
  config.limits.paths = 2;
  make_ready();
  others.push_back(paths.acquire(kNewPeerHw.gid));
  EXPECT_FALSE(paths.acquire(port_gid(50)));
  release();
  others.push_back(paths.acquire(port_gid(50)));
  EXPECT_TRUE(others.back());
  EXPECT_TRUE(is_gone());
  EXPECT_EQ(count(Counter::paths_evicted), 1U);
}

TEST_F(PathTableTest, OutstandingRequestsAreLimited) {
  config.limits.path_requests = 3;
  for (std::uint64_t guid = 100; guid < 150; ++guid) {
    others.push_back(paths.acquire(port_gid(guid)));
    (void)paths.use(*others.back(), now);
    EXPECT_LE(paths.outstanding(), 3U);
  }
  for (std::size_t i = 0; i < 50; ++i) grant(path_requests().at(i));
  EXPECT_EQ(paths.outstanding(), 0U);
  for (const PathRef& path : others) EXPECT_NE(path->ready(), nullptr);
}

TEST_F(PathTableTest, AlternatingSourceLidsCauseOneRequestInEachInterval) {
  make_ready();
  constexpr std::size_t kIntervals = 10;
  constexpr int kFrames = 100;
  std::size_t requests = 0;
  for (std::size_t i = 0; i < kIntervals * kFrames; ++i) {
    paths.on_source_lid(*user, i % 2 == 0 ? Lid(8) : Lid(9), now);
    EXPECT_EQ(use(), Condition::usable);
    requests += path_requests().size();
    for (const PathRequest& asks : path_requests()) grant(asks);
    forget();
    now += config.path.mismatch_interval / kFrames;
  }
  EXPECT_EQ(requests, kIntervals);
}

class PathLog : public ObjectFixture {
 protected:
  /// Lets so many requests fail in a row, each sent as soon as the back-off allows it.
  void fail(const Gid& gid, unsigned times, const SaFailure& failure) {
    PathRef user = table.acquire(gid);
    for (unsigned i = 0; i < times; ++i) {
      while (table.use(*user, now) != PathTable::Condition::pending) now += std::chrono::seconds(1);
      (void)table.on_response({path_requests().back().id, failure}, now);
      out.events.clear();
    }
  }

  std::shared_ptr<spdlog::sinks::ringbuffer_sink_st> lines =
      std::make_shared<spdlog::sinks::ringbuffer_sink_st>(64);
  Logger log{"link", lines};
  PathTable table{{config, handles, out, ids, random, log}, kHashKey};
};

TEST_F(PathLog, LogsTheNthFailureInARowIfNIsAPowerOfTwo) {
  fail(kPeerHw.gid, 8, SaFailure(wire::SaStatus::no_records));
  EXPECT_EQ(count(Counter::path_failures), 8U);
  EXPECT_EQ(lines->last_raw().size(), 4U) << "the 1st, 2nd, 4th and 8th";
  const std::string line = lines->last_formatted().front();
  const std::string gid = kPeerHw.gid.to_string();
  for (const std::string_view words :
       {std::string_view(gid), wire::name(wire::SaStatus::no_records),
        wire::likely_cause(wire::SaStatus::no_records)}) {
    EXPECT_NE(line.find(words), std::string::npos) << line;
  }
}

TEST_F(PathLog, SaysWhyThereIsNoAddressHandle) {
  handles.refuses = true;
  PathRef user = table.acquire(kPeerHw.gid);
  (void)table.use(*user, now);
  (void)table.on_response({path_requests().at(0).id, path_record(kPeerHw.gid, 7)}, now);
  EXPECT_THAT(lines->last_formatted(),
              testing::Contains(
                  testing::HasSubstr("path " + kPeerHw.gid.to_string() + ": no address handle: ")));
}

TEST_F(PathLog, LogsAtMostOneFailureASecond) {
  for (std::uint64_t guid = 1; guid < 10; ++guid) {
    fail(port_gid(guid), 1, SaFailure(SaFailure::Kind::local, "no response"));
  }
  EXPECT_EQ(count(Counter::path_failures), 9U);
  EXPECT_EQ(lines->last_raw().size(), 1U);
  now += std::chrono::seconds(1);
  fail(port_gid(10), 1, SaFailure{});
  EXPECT_EQ(lines->last_raw().size(), 2U);
}

}  // namespace
}  // namespace ipoib::link
