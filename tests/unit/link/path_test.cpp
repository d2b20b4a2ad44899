// Rows of docs/states.md, "Path".
#include <spdlog/sinks/ringbuffer_sink.h>

#include "tests/unit/link/parts_fixture.hpp"

namespace ipoib::link {
namespace {

class PathStates : public PartsFixture {
 protected:
  using Condition = PathTable::Condition;

  PathStates() { config.limits.path_questions = 2; }

  [[nodiscard]] Condition use() { return paths.use(*user, now); }
  template <class State>
  [[nodiscard]] bool is() {
    const Path* const path = paths.find(kHere.gid);
    return path != nullptr && std::holds_alternative<State>(path->state());
  }
  [[nodiscard]] bool is_gone() { return paths.find(kHere.gid) == nullptr; }
  void let_go() { user = PathRef(); }
  /// Has so many questions outstanding that there is none for another path.
  void be_busy() {
    for (std::uint64_t guid = 100; guid < 102; ++guid) {
      others.push_back(paths.acquire(port_gid(guid)));
      (void)paths.use(*others.back(), now);
      busy_with.push_back(asked().back());
    }
    out.events.clear();
  }
  void be_requesting() {
    EXPECT_EQ(use(), Condition::pending);
    question = asked().at(0);
    forget();
  }
  void be_waiting() {
    be_busy();
    EXPECT_EQ(use(), Condition::pending);
    EXPECT_TRUE(is<Path::Waiting>());
  }
  void be_ready() {
    be_requesting();
    grant(question);
    forget();
  }
  void be_needs_refresh() {
    be_ready();
    paths.invalidate(*user, "test");
  }
  void be_refreshing() {
    be_needs_refresh();
    EXPECT_EQ(use(), Condition::usable);
    question = asked().at(0);
    forget();
  }
  void be_failed() {
    be_requesting();
    refuse(question);
    forget();
  }
  /// The SA's report of the path's own port, and one of another port.
  void report() {
    paths.on_out_of_service(port_gid(0x99), now);
    paths.on_in_service(port_gid(0x99), now);
    EXPECT_EQ(count(Counter::path_reports), 0U) << "of others";
    paths.on_in_service(kHere.gid, now);
    EXPECT_EQ(count(Counter::path_reports), 1U);
  }
  void expect_asked_anew() {
    ASSERT_EQ(asked().size(), 1U);
    EXPECT_EQ(asked()[0].record.dgid, kHere.gid);
    EXPECT_EQ(paths.outstanding(), 1U);
    const AskPath anew = asked()[0];
    refuse(question);
    EXPECT_EQ(count(Counter::path_refusals), 0U) << "the old answer no longer matters";
    grant(anew);
    EXPECT_TRUE(is<Path::Ready>());
  }
  void reach_path_deadline() {
    now = paths.next_deadline();
    paths.tick(now);
  }

  PathRef user = paths.acquire(kHere.gid);
  std::deque<PathRef> others;
  std::vector<AskPath> busy_with;
  AskPath question;
};

TEST_F(PathStates, Path_Idle_Use) {
  EXPECT_EQ(use(), Condition::pending);
  EXPECT_TRUE(is<Path::Requesting>());
  ASSERT_EQ(asked().size(), 1U);
  const AskPath asks = asked()[0];
  EXPECT_EQ(asks.record.dgid, kHere.gid);
  EXPECT_EQ(asks.record.sgid, kOwn.gid);
  EXPECT_EQ(asks.record.pkey, kDefaultPKey);
  EXPECT_EQ(asks.record.numb_path, 1);
  EXPECT_TRUE(asks.record.reversible);
}

TEST_F(PathStates, Path_Idle_Use_Busy) {
  be_busy();
  EXPECT_EQ(use(), Condition::pending);
  EXPECT_TRUE(is<Path::Waiting>());
  EXPECT_TRUE(asked().empty());
}

TEST_F(PathStates, Path_Idle_Unused) {
  let_go();
  EXPECT_TRUE(is_gone());
}

TEST_F(PathStates, Path_Idle_Report) {
  report();
  EXPECT_TRUE(is<Path::Idle>());
}

TEST_F(PathStates, Path_Waiting_Use) {
  be_waiting();
  EXPECT_EQ(use(), Condition::pending);
  EXPECT_TRUE(is<Path::Waiting>());
}

TEST_F(PathStates, Path_Waiting_Turn) {
  be_waiting();
  refuse(busy_with[0]);
  EXPECT_TRUE(is<Path::Requesting>());
  ASSERT_EQ(asked().size(), 1U);
  EXPECT_EQ(asked()[0].record.dgid, kHere.gid);
}

TEST_F(PathStates, Path_Waiting_Unused) {
  be_waiting();
  let_go();
  EXPECT_TRUE(is_gone());
  refuse(busy_with[0]);
  EXPECT_TRUE(asked().empty());
}

TEST_F(PathStates, Path_Waiting_Report) {
  be_waiting();
  report();
  EXPECT_TRUE(is<Path::Waiting>());
}

TEST_F(PathStates, Path_Requesting_Use) {
  be_requesting();
  EXPECT_EQ(use(), Condition::pending);
  EXPECT_TRUE(asked().empty()) << "one question for one GID";
}

TEST_F(PathStates, Path_Requesting_Response) {
  be_requesting();
  wire::PathRecord record = path_record(kHere.gid, 7, 5);
  record.sl = ServiceLevel(3);
  answer(question, record);
  ASSERT_NE(user->ready(), nullptr);
  EXPECT_EQ(user->ready()->mtu, 4096U);
  EXPECT_EQ(use(), Condition::usable);
  EXPECT_EQ(handles.made.back(),
            (AddressVector{.dlid = Lid(7), .sl = ServiceLevel(3), .rate = 3, .global = {}}));
}

TEST_F(PathStates, Path_Requesting_Response_NoHandle) {
  be_requesting();
  handles.refuses = true;
  grant(question);
  EXPECT_TRUE(is<Path::Failed>());
  EXPECT_EQ(count(Counter::address_handle_refusals), 1U);
}

TEST_F(PathStates, Path_Requesting_RequestFailed) {
  be_requesting();
  refuse(question);
  EXPECT_TRUE(is<Path::Failed>());
  EXPECT_EQ(count(Counter::path_refusals), 1U);
}

TEST_F(PathStates, Path_Requesting_Unused) {
  be_requesting();
  let_go();
  EXPECT_TRUE(is<Path::Requesting>());
  grant(question);
  EXPECT_TRUE(is<Path::Ready>());
}

TEST_F(PathStates, Path_Requesting_Report) {
  be_requesting();
  report();
  EXPECT_TRUE(is<Path::Requesting>());
  expect_asked_anew();
}

TEST_F(PathStates, Path_Ready_Use) {
  be_ready();
  EXPECT_EQ(use(), Condition::usable);
  EXPECT_TRUE(is<Path::Ready>());
  EXPECT_TRUE(asked().empty());
}

TEST_F(PathStates, Path_Ready_Invalidate) {
  be_ready();
  paths.on_source_lid(*user, Lid(7), now);
  EXPECT_TRUE(is<Path::Ready>()) << "that is where the path leads to";
  paths.on_source_lid(*user, Lid(8), now);
  EXPECT_TRUE(is<Path::NeedsRefresh>());
  EXPECT_EQ(count(Counter::path_lid_mismatches), 1U);
  // The SA stays with its answer: then that LID is no doubt any more.
  (void)use();
  grant(asked().at(0));
  paths.on_source_lid(*user, Lid(8), now);
  EXPECT_TRUE(is<Path::Ready>());
  paths.invalidate_all("test");
  EXPECT_TRUE(is<Path::NeedsRefresh>());
}

TEST_F(PathStates, Path_Ready_Deadline) {
  be_ready();
  reach_path_deadline();
  EXPECT_TRUE(is<Path::NeedsRefresh>());
  EXPECT_TRUE(asked().empty()) << "its next use asks";
}

TEST_F(PathStates, Path_Ready_Deadline_Unused) {
  be_ready();
  let_go();
  reach_path_deadline();
  EXPECT_TRUE(is_gone());
}

TEST_F(PathStates, Path_Ready_Unused) {
  be_ready();
  let_go();
  EXPECT_TRUE(is<Path::Ready>());
  user = paths.acquire(kHere.gid);
  EXPECT_EQ(use(), Condition::usable);
}

TEST_F(PathStates, Path_Ready_Report) {
  be_ready();
  prepare_path(kThere.gid);
  report();
  EXPECT_TRUE(is<Path::NeedsRefresh>());
  EXPECT_TRUE(asked().empty()) << "its next use asks";
  EXPECT_NE(paths.find(kThere.gid)->ready(), nullptr) << "another path is as it was";
}

TEST_F(PathStates, Path_Ready_Report_Unused) {
  be_ready();
  let_go();
  report();
  EXPECT_TRUE(is_gone());
}

TEST_F(PathStates, Path_NeedsRefresh_Use) {
  be_needs_refresh();
  EXPECT_EQ(use(), Condition::usable);
  EXPECT_TRUE(is<Path::Refreshing>());
  EXPECT_EQ(asked().size(), 1U);
  EXPECT_NE(user->usable(), nullptr);
}

TEST_F(PathStates, Path_NeedsRefresh_Use_Early) {
  be_refreshing();
  refuse(question);
  EXPECT_EQ(use(), Condition::usable);
  EXPECT_TRUE(is<Path::NeedsRefresh>());
  EXPECT_TRUE(asked().empty());
  now += config.path.negative.first * 2;
  be_busy();
  EXPECT_EQ(use(), Condition::usable);
  EXPECT_TRUE(is<Path::NeedsRefresh>());
  refuse(busy_with[0]);
  EXPECT_EQ(use(), Condition::usable);
  EXPECT_TRUE(is<Path::Refreshing>());
}

TEST_F(PathStates, Path_NeedsRefresh_Invalidate) {
  be_needs_refresh();
  paths.invalidate(*user, "again");
  EXPECT_TRUE(is<Path::NeedsRefresh>());
}

TEST_F(PathStates, Path_NeedsRefresh_Unused) {
  be_needs_refresh();
  let_go();
  EXPECT_TRUE(is_gone());
}

TEST_F(PathStates, Path_NeedsRefresh_Report) {
  be_refreshing();
  refuse(question);
  report();
  EXPECT_TRUE(is<Path::NeedsRefresh>());
  EXPECT_EQ(use(), Condition::usable);
  EXPECT_EQ(asked().size(), 1U) << "though it was refused a moment ago";
}

TEST_F(PathStates, Path_Refreshing_Use) {
  be_refreshing();
  EXPECT_EQ(use(), Condition::usable);
  EXPECT_TRUE(asked().empty());
}

TEST_F(PathStates, Path_Refreshing_Response) {
  be_refreshing();
  const AddressHandlePtr before = user->usable()->handle;
  grant(question);
  EXPECT_TRUE(is<Path::Ready>());
  EXPECT_EQ(user->ready()->handle, before) << "the same way, the same handle";
  paths.invalidate(*user, "test");
  (void)use();
  grant(asked().at(0), 9);
  EXPECT_NE(user->ready()->handle, before);
  EXPECT_EQ(user->ready()->attributes.dlid, Lid(9));
}

TEST_F(PathStates, Path_Refreshing_RequestFailed) {
  be_refreshing();
  const AddressHandlePtr before = user->usable()->handle;
  refuse(question);
  EXPECT_TRUE(is<Path::NeedsRefresh>());
  EXPECT_EQ(user->usable()->handle, before);
}

TEST_F(PathStates, Path_Refreshing_Invalidate) {
  be_refreshing();
  paths.invalidate(*user, "again");
  EXPECT_TRUE(is<Path::Refreshing>());
}

TEST_F(PathStates, Path_Refreshing_Unused) {
  be_refreshing();
  let_go();
  EXPECT_TRUE(is<Path::Refreshing>());
  refuse(question);
  EXPECT_TRUE(is_gone()) << "in doubt, and unused";
}

TEST_F(PathStates, Path_Refreshing_Report) {
  be_refreshing();
  report();
  EXPECT_TRUE(is<Path::Refreshing>());
  EXPECT_NE(user->usable(), nullptr) << "in use meanwhile";
  expect_asked_anew();
}

TEST_F(PathStates, Path_Failed_Use) {
  be_failed();
  EXPECT_EQ(use(), Condition::failed);
  EXPECT_TRUE(asked().empty());
}

TEST_F(PathStates, Path_Failed_Use_Later) {
  be_failed();
  TimePoint began = now;
  Duration silence{};
  for (int refusals = 1; refusals < 8; ++refusals) {
    began = now;
    while (use() == Condition::failed) now += 100ms;
    const Duration longer = now - began;
    EXPECT_LE(longer, config.path.negative.last * 5 / 4 + 100ms);
    if (refusals == 4) {
      EXPECT_GT(longer, silence) << "it backs off";
    }
    silence = longer;
    EXPECT_TRUE(is<Path::Requesting>());
    refuse(asked().at(0));
    forget();
  }
}

TEST_F(PathStates, Path_Failed_Deadline) {
  be_failed();
  reach_path_deadline();
  EXPECT_FALSE(is_gone()) << "it has a user";
  let_go();
  EXPECT_TRUE(is_gone());
}

TEST_F(PathStates, Path_Failed_Unused) {
  be_failed();
  let_go();
  EXPECT_TRUE(is<Path::Failed>());
  user = paths.acquire(kHere.gid);
  EXPECT_EQ(use(), Condition::failed);
  let_go();
  reach_path_deadline();
  EXPECT_TRUE(is_gone());
}

TEST_F(PathStates, Path_Failed_Report) {
  be_failed();
  report();
  EXPECT_TRUE(is<Path::Failed>());
  EXPECT_EQ(use(), Condition::pending) << "its silence is over";
  EXPECT_EQ(asked().size(), 1U);
}

using PathTableTest = PathStates;

TEST_F(PathTableTest, AskedOnceForAllNeighboursOfOnePort) {
  const PathRef second = paths.acquire(kHere.gid);
  EXPECT_EQ(&*second, &*user);
  (void)use();
  EXPECT_EQ(paths.use(*second, now), Condition::pending);
  EXPECT_EQ(asked().size(), 1U);
}

TEST_F(PathTableTest, GlobalRouteWhenTheRecordHasAHopLimit) {
  be_requesting();
  wire::PathRecord record = path_record(kHere.gid, 7);
  record.hop_limit = 5;
  record.flow_label = 0x12345;
  record.traffic_class = 9;
  answer(question, record);
  EXPECT_EQ(handles.made.back().global, (GlobalRoute{.dgid = kHere.gid,
                                                     .sgid_index = 0,
                                                     .flow_label = 0x12345,
                                                     .hop_limit = 5,
                                                     .traffic_class = 9}));
}

TEST_F(PathTableTest, GlobalRouteBeginsAtThePortsGid) {
  paths.set_source({kOwn.gid, 3}, 0);
  be_requesting();
  wire::PathRecord record = path_record(kHere.gid, 0);
  record.hop_limit = 64;
  answer(question, record);
  ASSERT_TRUE(is<Path::Ready>());
  EXPECT_EQ(handles.made.back().dlid, Lid()) << "a link layer without LIDs";
  EXPECT_EQ(handles.made.back().global->sgid_index, 3);
}

TEST_F(PathTableTest, AddressVectorHasThePathBitsOfTheRecordsSlid) {
  for (const std::uint8_t lmc : {std::uint8_t{0}, std::uint8_t{2}}) {
    paths.set_source(kOwnGid, lmc);
    const PathRef other = paths.acquire(port_gid(50U + lmc));
    (void)paths.use(*other, now);
    wire::PathRecord record = path_record(other->gid(), 9);
    record.slid = Lid(7);
    answer(asked().back(), record);
    EXPECT_EQ(handles.made.back().source_path_bits, lmc == 0 ? 0 : 3);
  }
}

TEST_F(PathTableTest, EachLidOfItsPortIsThePaths) {
  paths.set_source(kOwnGid, 2);
  be_requesting();
  grant(question, 6);
  for (const Lid lid : {Lid(4), Lid(5), Lid(6), Lid(7)}) paths.on_source_lid(*user, lid, now);
  EXPECT_EQ(count(Counter::path_lid_mismatches), 0U);
  for (const Lid lid : {Lid(8), Lid(9), Lid(11)}) paths.on_source_lid(*user, lid, now);
  EXPECT_EQ(count(Counter::path_lid_mismatches), 1U) << "they are of one other port";
  EXPECT_TRUE(is<Path::NeedsRefresh>());
}

TEST_F(PathTableTest, AnAnswerExcusesNoLidThatWasSeenWhileItWasAskedFor) {
  be_ready();
  paths.invalidate_all("test");
  (void)use();
  ASSERT_TRUE(is<Path::Refreshing>());
  paths.on_source_lid(*user, Lid(8), now);
  grant(asked().at(0));
  paths.on_source_lid(*user, Lid(8), now);
  EXPECT_TRUE(is<Path::NeedsRefresh>());
}

TEST_F(PathTableTest, RecordThatMakesNoSenseIsARefusal) {
  be_requesting();
  answer(question, path_record(kHere.gid, 7, 9));
  EXPECT_TRUE(is<Path::Failed>());
}

TEST_F(PathTableTest, AnswerToNoQuestionIsIgnored) {
  be_requesting();
  EXPECT_FALSE(paths.on_answer(QuestionId(9999), path_record(kHere.gid, 7), now));
  EXPECT_TRUE(is<Path::Requesting>());
}

TEST_F(PathTableTest, FullTableEvictsUnusedPathsOnly) {
  config.limits.paths = 2;
  be_ready();
  others.push_back(paths.acquire(kThere.gid));
  EXPECT_FALSE(paths.acquire(port_gid(50)));
  let_go();
  others.push_back(paths.acquire(port_gid(50)));
  EXPECT_TRUE(others.back());
  EXPECT_TRUE(is_gone());
  EXPECT_EQ(count(Counter::paths_evicted), 1U);
}

TEST_F(PathTableTest, QuestionsOutstandingAreBounded) {
  config.limits.path_questions = 3;
  for (std::uint64_t guid = 100; guid < 150; ++guid) {
    others.push_back(paths.acquire(port_gid(guid)));
    (void)paths.use(*others.back(), now);
    EXPECT_LE(paths.outstanding(), 3U);
  }
  for (std::size_t i = 0; i < 50; ++i) grant(asked().at(i));
  EXPECT_EQ(paths.outstanding(), 0U);
  for (const PathRef& path : others) EXPECT_NE(path->ready(), nullptr);
}

class PathDoubts : public PathStates {};

TEST_F(PathDoubts, AskNoMoreOftenThanTheFloorHoweverOftenTheSourceLidChanges) {
  be_ready();
  constexpr std::size_t kFloors = 10;
  constexpr int kFramesInEach = 100;
  std::size_t questions = 0;
  for (std::size_t i = 0; i < kFloors * kFramesInEach; ++i) {
    paths.on_source_lid(*user, i % 2 == 0 ? Lid(8) : Lid(9), now);
    EXPECT_EQ(use(), Condition::usable);
    questions += asked().size();
    for (const AskPath& asks : asked()) grant(asks);
    forget();
    now += config.path.mismatch_interval / kFramesInEach;
  }
  EXPECT_EQ(questions, kFloors);
}

class PathLog : public PartsFixture {
 protected:
  /// As many refusals in a row, each at the first moment at which it is asked for again.
  void be_refused(const Gid& gid, unsigned times, const Refusal& refusal) {
    PathRef user = table.acquire(gid);
    for (unsigned i = 0; i < times; ++i) {
      while (table.use(*user, now) != PathTable::Condition::pending) now += std::chrono::seconds(1);
      (void)table.on_answer(asked().back().id, refusal, now);
      out.events.clear();
    }
  }

  std::shared_ptr<spdlog::sinks::ringbuffer_sink_st> lines =
      std::make_shared<spdlog::sinks::ringbuffer_sink_st>(64);
  Logger log{"link", lines};
  PathTable table{PathTable::Dependencies{config, handles, out, ids, random, log}};
};

TEST_F(PathLog, RefusalsInARowAreLoggedEverMoreSeldomByNameAndCause) {
  be_refused(kHere.gid, 8, Refusal{wire::SaStatus::no_records});
  EXPECT_EQ(count(Counter::path_refusals), 8U);
  EXPECT_EQ(lines->last_raw().size(), 4U) << "the 1st, 2nd, 4th and 8th";
  const std::string line = lines->last_formatted().front();
  const std::string gid = kHere.gid.to_string();
  for (const std::string_view words :
       {std::string_view(gid), wire::name(wire::SaStatus::no_records),
        wire::likely_cause(wire::SaStatus::no_records)}) {
    EXPECT_NE(line.find(words), std::string::npos) << line;
  }
}

TEST_F(PathLog, HasAtMostOneRefusalASecond) {
  for (std::uint64_t guid = 1; guid < 10; ++guid) {
    be_refused(port_gid(guid), 1, Refusal{.status = {}, .why = "nobody answers"});
  }
  EXPECT_EQ(count(Counter::path_refusals), 9U);
  EXPECT_EQ(lines->last_raw().size(), 1U);
  now += std::chrono::seconds(1);
  be_refused(port_gid(10), 1, Refusal{});
  EXPECT_EQ(lines->last_raw().size(), 2U);
}

}  // namespace
}  // namespace ipoib::link
