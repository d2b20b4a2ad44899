// Rows of docs/states.md, "Connection of the communication manager": in this state, this stimulus
// leads to that state, sends these messages and reports these events.
#include <functional>
#include <ostream>

#include "cm_fixture.hpp"

namespace softib::cm::connection_rows {
namespace {

struct Row;
class CmStates : public CmFixture, public testing::WithParamInterface<Row> {};
using T = CmFixture;
using Step = std::function<void(T&)>;

struct Row {
  const char* name;
  Step enter;
  Step stimulus;
  const char* next;
  Words sent{};
  Words told{};
  bool drops = false;  ///< the stimulus counts as an unexpected message
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

// States.
void start(T&) {}
void req_sent(T& t) { t.connect(); }
void req_received(T& t) { t.be_asked(); }
void rep_sent(T& t) { req_received(t), t.accept(); }
void rep_received(T& t) { req_sent(t), t.receive(t.rep()); }
void active(T& t) { rep_received(t), t.confirm(); }
void passive(T& t) { rep_sent(t), t.receive(t.rtu()); }
void dreq_sent(T& t) { active(t), t.disconnect(); }
void dreq_sent_passive(T& t) { passive(t), t.disconnect(); }
/// The user has rejected what he had accepted.
void withdrawn(T& t) { rep_sent(t), t.reject(); }
void dreq_received(T& t) { active(t), t.receive(t.dreq()); }
void dreq_received_passive(T& t) { passive(t), t.receive(t.dreq()); }
/// By the DREP of the peer.
void time_wait(T& t) { dreq_sent(t), t.receive(t.drep()); }
void time_wait_passive(T& t) { dreq_sent_passive(t), t.receive(t.drep()); }
void rejected(T& t) { req_received(t), t.reject(); }
void rejected_rep(T& t) { rep_received(t), t.reject(); }
/// By our DREP.
void answered(T& t) { dreq_received(t), t.disconnect(); }
/// The last time that a message is sent has passed.
Step exhausted(const Step& enter) {
  return [=](T& t) {
    enter(t);
    for (unsigned i = 0; i < kRetries; ++i) t.reach_deadline();
  };
}
Step with_mra(const Step& enter) {
  return [=](T& t) { enter(t), t.prepare_mra(); };
}

// Stimuli.
void get_req(T& t) { t.receive(t.req()); }
void get_rej(T& t) { t.receive(t.rej()); }
void get_rep(T& t) { t.receive(t.rep()); }
void get_rtu(T& t) { t.receive(t.rtu()); }
void get_dreq(T& t) { t.receive(t.dreq()); }
void get_drep(T& t) { t.receive(t.drep()); }
Step get_mra(CmSubject subject) {
  return [=](T& t) { t.receive(t.mra(subject)); };
}
/// The peer has had no answer to its REQ, so it knows no ID of ours.
void get_rej_of_req(T& t) {
  CmRej rej = t.rej(CmRejReason::timeout);
  rej.remote_id = CommId();
  t.receive(rej);
}
/// The REP names a queue pair that another connection has.
void get_stale_rep(T& t) {
  const Handle first = t.handle;
  t.listen();
  t.receive(t.req());
  t.forget_output();
  t.handle = first;
  CmRep rep = t.rep();
  rep.local_id = CommIdLayout::make(kTheirEpoch, kTheirSlot, 79);
  t.receive(rep);
}
/// Each of them is dropped.
Step get_each(const std::vector<Step>& messages) {
  return [=](T& t) {
    for (const auto& message : messages) {
      const auto before = t.manager.counters().dropped(Drop::unexpected);
      message(t);
      EXPECT_EQ(t.manager.counters().dropped(Drop::unexpected), before + 1);
    }
  };
}
/// None of them has an effect.
Step get_late(const std::vector<Step>& messages) {
  return [=](T& t) {
    for (const auto& message : messages) message(t);
  };
}
void establish_again(T& t) {
  EXPECT_EQ(t.manager.communication_established(t.handle).error().code, EISCONN);
}
void wait(T& t) { t.reach_deadline(); }
void destroyed_then_wait(T& t) { t.destroy(), t.reach_deadline(); }

const std::vector<Row>& rows() {
  const Step mra_req = get_mra(CmSubject::req);
  const Step mra_rep = get_mra(CmSubject::rep);
  const Words none{};
  // clang-format off
  static const std::vector<Row> rows{
      {"Cm_New_Connect", start, &T::connect, "ReqSent", {"REQ"}},
      {"Cm_New_Req", &T::listen, get_req, "ReqReceived", none, {"ConnectionRequested"}},

      {"Cm_ReqSent_Mra", req_sent, mra_req, "ReqSent"},
      {"Cm_ReqSent_Rej", req_sent, get_rej, "gone", none, {"Rejected 28"}},
      {"Cm_ReqSent_Rep", req_sent, get_rep, "RepReceived", none, {"Accepted"}},
      {"Cm_ReqSent_Rep_Stale", req_sent, get_stale_rep, "gone", {"REJ 10", "REJ 10"}, {"Rejected 10", "Rejected 10"}},
      {"Cm_ReqSent_Other", req_sent, get_each({mra_rep, get_rtu, get_dreq, get_drep}), "ReqSent", none, none, true},
      {"Cm_ReqSent_Destroy", req_sent, &T::destroy, "gone", {"REJ 4"}},
      {"Cm_ReqSent_Deadline", req_sent, wait, "ReqSent", {"REQ"}},
      {"Cm_ReqSent_Deadline_Last", exhausted(req_sent), wait, "gone", {"REJ 4"}, {"Unanswered"}},
      {"Cm_ReqSent_PeerGone", req_sent, &T::peer_gone, "ReqSent", {"REQ"}},

      {"Cm_ReqReceived_Accept", req_received, &T::accept, "RepSent", {"REP"}},
      {"Cm_ReqReceived_Reject", req_received, &T::reject, "TimeWait", {"REJ 3"}},
      {"Cm_ReqReceived_PrepareMra", req_received, &T::prepare_mra, "ReqReceived"},
      {"Cm_ReqReceived_Forget", req_received, &T::forget, "gone"},
      {"Cm_ReqReceived_Destroy", req_received, &T::destroy, "TimeWait", {"REJ 28"}},
      {"Cm_ReqReceived_Req", req_received, get_req, "ReqReceived"},
      {"Cm_ReqReceived_Req_Mra", with_mra(req_received), get_req, "ReqReceived", {"MRA"}},
      {"Cm_ReqReceived_Rej", req_received, get_rej_of_req, "TimeWait", none, {"Rejected 4"}},
      {"Cm_ReqReceived_Other", req_received, get_each({mra_req, mra_rep, get_rep, get_rtu, get_drep}), "ReqReceived", none, none, true},
      {"Cm_ReqReceived_PeerGone", req_received, &T::peer_gone, "TimeWait", none, {"Rejected 4"}},
      {"Cm_ReqReceived_Stale", req_received, &T::be_stale, "TimeWait", {"REJ 10", "REJ 10"}, {"Rejected 10"}},

      {"Cm_RepSent_Reject", rep_sent, &T::reject, "DreqSent", {"REJ 3"}},
      {"Cm_RepSent_CommunicationEstablished", rep_sent, &T::communication_established, "Established", none, {"Established"}},
      {"Cm_RepSent_Destroy", rep_sent, &T::destroy, "DreqSent", {"REJ 28"}},
      {"Cm_RepSent_Req", rep_sent, get_req, "RepSent", {"REP"}},
      {"Cm_RepSent_Mra", rep_sent, mra_rep, "RepSent"},
      {"Cm_RepSent_Rej", rep_sent, get_rej, "TimeWait", none, {"Rejected 28"}},
      {"Cm_RepSent_Rtu", rep_sent, get_rtu, "Established", none, {"Established"}},
      {"Cm_RepSent_Dreq", rep_sent, get_dreq, "DreqReceived", none, {"Disconnected, awaits answer"}},
      {"Cm_RepSent_Other", rep_sent, get_each({mra_req, get_rep, get_drep}), "RepSent", none, none, true},
      {"Cm_RepSent_Deadline", rep_sent, wait, "RepSent", {"REP"}},
      {"Cm_RepSent_Deadline_Last", exhausted(rep_sent), wait, "DreqSent", {"REJ 4"}, {"Unanswered"}},
      {"Cm_RepSent_PeerGone", rep_sent, &T::peer_gone, "TimeWait", none, {"Rejected 28"}},
      {"Cm_RepSent_Stale", rep_sent, &T::be_stale, "TimeWait", {"REJ 10", "REJ 10"}, {"Rejected 10"}},

      {"Cm_RepReceived_Confirm", rep_received, &T::confirm, "Established", {"RTU"}},
      {"Cm_RepReceived_Reject", rep_received, &T::reject, "TimeWait", {"REJ 3"}},
      {"Cm_RepReceived_PrepareMra", rep_received, &T::prepare_mra, "RepReceived"},
      {"Cm_RepReceived_Destroy", rep_received, &T::destroy, "TimeWait", {"REJ 28"}},
      {"Cm_RepReceived_Rep", rep_received, get_rep, "RepReceived"},
      {"Cm_RepReceived_Rep_Mra", with_mra(rep_received), get_rep, "RepReceived", {"MRA"}},
      {"Cm_RepReceived_Rej", rep_received, get_rej, "TimeWait", none, {"Rejected 28"}},
      {"Cm_RepReceived_Dreq", rep_received, get_dreq, "TimeWait", {"DREP"}, {"Rejected 28"}},
      {"Cm_RepReceived_Other", rep_received, get_each({mra_req, get_rtu, get_drep}), "RepReceived", none, none, true},
      {"Cm_RepReceived_PeerGone", rep_received, &T::peer_gone, "TimeWait", none, {"Rejected 28"}},
      {"Cm_RepReceived_Stale", rep_received, &T::be_stale, "TimeWait", {"REJ 10", "REJ 10"}, {"Rejected 10"}},

      {"Cm_Established_CommunicationEstablished", passive, establish_again, "Established"},
      {"Cm_Established_Disconnect", active, &T::disconnect, "DreqSent", {"DREQ"}},
      {"Cm_Established_Destroy", active, &T::destroy, "DreqSent", {"DREQ"}},
      {"Cm_Established_Rep", active, get_rep, "Established", {"RTU"}},
      {"Cm_Established_Rep_Passive", passive, get_each({get_rep}), "Established", none, none, true},
      {"Cm_Established_Late", passive, get_late({get_req, get_rtu}), "Established"},
      {"Cm_Established_Rej", active, get_rej, "TimeWait", none, {"Disconnected"}},
      {"Cm_Established_Dreq", active, get_dreq, "DreqReceived", none, {"Disconnected, awaits answer"}},
      {"Cm_Established_Other", active, get_each({mra_rep, get_drep}), "Established", none, none, true},
      {"Cm_Established_PeerGone", active, &T::peer_gone, "TimeWait", none, {"Disconnected"}},
      {"Cm_Established_Stale", active, &T::be_stale, "DreqSent", {"REJ 10", "DREQ"}},

      {"Cm_DreqSent_Destroy", dreq_sent, destroyed_then_wait, "DreqSent", {"DREQ"}},
      {"Cm_DreqSent_Late", dreq_sent_passive, get_late({get_req, get_rep, get_rtu}), "DreqSent"},
      {"Cm_DreqSent_Req_Withdrawn", withdrawn, get_req, "DreqSent", {"REJ 28"}},
      {"Cm_DreqSent_Rtu_Withdrawn", withdrawn, get_rtu, "DreqSent", {"REJ 28"}},
      {"Cm_DreqSent_Rej", dreq_sent, get_rej, "TimeWait", none, {"Disconnected"}},
      {"Cm_DreqSent_Dreq", dreq_sent, get_dreq, "TimeWait", {"DREP"}, {"Disconnected"}},
      {"Cm_DreqSent_Drep", dreq_sent, get_drep, "TimeWait", none, {"Disconnected"}},
      {"Cm_DreqSent_Drep_Withdrawn", withdrawn, get_drep, "TimeWait"},
      {"Cm_DreqSent_Other", dreq_sent, get_each({mra_req}), "DreqSent", none, none, true},
      {"Cm_DreqSent_Deadline", dreq_sent, wait, "DreqSent", {"DREQ"}},
      {"Cm_DreqSent_Deadline_Last", exhausted(dreq_sent), wait, "TimeWait", none, {"Disconnected"}},
      {"Cm_DreqSent_PeerGone", dreq_sent, &T::peer_gone, "TimeWait", none, {"Disconnected"}},

      {"Cm_DreqReceived_Disconnect", dreq_received, &T::disconnect, "TimeWait", {"DREP"}},
      {"Cm_DreqReceived_Destroy", dreq_received, &T::destroy, "TimeWait", {"DREP"}},
      {"Cm_DreqReceived_Late", dreq_received_passive, get_late({get_req, get_rep, get_rtu, get_dreq}), "DreqReceived"},
      {"Cm_DreqReceived_Other", dreq_received, get_each({mra_req, get_rej, get_drep}), "DreqReceived", none, none, true},
      {"Cm_DreqReceived_PeerGone", dreq_received, &T::peer_gone, "TimeWait"},

      {"Cm_TimeWait_Late", time_wait_passive, get_late({get_req, get_rep, get_rtu}), "TimeWait"},
      {"Cm_TimeWait_Req_Rejected", rejected, get_req, "TimeWait", {"REJ 3"}},
      {"Cm_TimeWait_Rep_Rejected", rejected_rep, get_rep, "TimeWait", {"REJ 3"}},
      {"Cm_TimeWait_Rtu_Rejected", rejected, get_rtu, "TimeWait", {"REJ 3"}},
      {"Cm_TimeWait_Dreq", time_wait, get_late({get_dreq, get_dreq}), "TimeWait", {"DREP", "DREP"}},
      {"Cm_TimeWait_Dreq_Answered", answered, get_dreq, "TimeWait", {"DREP"}},
      {"Cm_TimeWait_Other", time_wait, get_each({mra_req, get_rej, get_drep}), "TimeWait", none, none, true},
      {"Cm_TimeWait_Deadline", time_wait, wait, "gone", none, {"TimeWaitOver"}},
      {"Cm_TimeWait_Deadline_Released", rejected, wait, "gone"},
      {"Cm_TimeWait_Destroy", time_wait, destroyed_then_wait, "gone"},
      {"Cm_TimeWait_PeerGone", time_wait, &T::peer_gone, "TimeWait"},
  };
  // clang-format on
  return rows;
}

INSTANTIATE_TEST_SUITE_P(Row, CmStates, testing::ValuesIn(rows()),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_P(CmStates, Row) {
  const Row& row = GetParam();
  row.enter(*this);
  forget_output();
  const auto dropped = manager.counters().dropped(Drop::unexpected);
  const bool is_new = handle == Handle();
  row.stimulus(*this);
  const auto words = sent();
  const auto events = told();
  if (is_new && !events.empty()) handle = last_told[0].handle;
  EXPECT_EQ(state(), row.next);
  if (state() == "Established" || state() == "DreqReceived") {
    EXPECT_EQ(manager.pending_requests(), 0U) << "a connection is no request";
  }
  EXPECT_EQ(words, row.sent);
  EXPECT_EQ(events, row.told);
  EXPECT_EQ(manager.counters().dropped(Drop::unexpected) > dropped, row.drops);
  EXPECT_EQ(manager.counters().dropped(Drop::no_connection), 0U);
}

/// Whatever happens then, a state is left in the end, and nothing is kept.
TEST_P(CmStates, EndsOnceItIsDestroyed) {
  const Row& row = GetParam();
  row.enter(*this);
  row.stimulus(*this);
  std::vector<Handle> all;
  manager.for_each_connection([&](const Connection& one) { all.push_back(one.handle()); });
  for (const Handle one : all) manager.destroy(one, now);
  (void)told();
  for (unsigned i = 0; i < 4 * kRetries && deadline() != ipoib::kNever; ++i) reach_deadline();
  EXPECT_EQ(manager.connection_count(), 0U);
  EXPECT_EQ(manager.pending_requests(), 0U);
  EXPECT_EQ(told(), Words{}) << "no event after it was destroyed";
}

}  // namespace
}  // namespace softib::cm::connection_rows
