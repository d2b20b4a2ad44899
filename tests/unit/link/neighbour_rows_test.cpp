// Rows of docs/states.md, "Neighbour", of the form: in this state, this stimulus leads to that
// state.
#include <functional>
#include <ostream>

#include "tests/unit/link/neighbour_fixture.hpp"

namespace ipoib::link::neighbour_rows {
namespace {

struct Row;
class NeighbourRowStates : public NeighbourStates, public ::testing::WithParamInterface<Row> {
 public:
  using NeighbourStates::entry;
  using NeighbourStates::grant;
  using NeighbourStates::kNewPeerHw;
  using NeighbourStates::kPeer;
  using NeighbourStates::kPeerHw;
  using NeighbourStates::neighbours;
  using NeighbourStates::out;
  using NeighbourStates::path_request;
  using NeighbourStates::path_requests;
  using NeighbourStates::reach_deadline;
  using NeighbourStates::refuse;
  using NeighbourStates::sent_arp;
  using NeighbourStates::state;
};
using T = NeighbourRowStates;
using Step = std::function<void(T&)>;

struct Row {
  const char* name;
  Step enter;
  Step stimulus;
  const char* next;
  Step check = &T::expect_nothing_sent;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

// Stimuli.
Step confirm(const HwAddress& address) {
  return [=](T& t) { t.confirm(address); };
}
Step learn(const HwAddress& address) {
  return [=](T& t) { t.learn(address); };
}
Step set_permanent(const HwAddress& address) {
  return [=](T& t) { t.set_permanent(address); };
}
Step restore(std::optional<Duration> reachable_for) {
  return [=](T& t) { t.restore(reachable_for); };
}
void path_ready(T& t) { t.grant(t.path_request); }
void path_failed(T& t) { t.refuse(t.path_request); }

// Checks.
Step route(const HwAddress& address) {
  return [=](T& t) { t.expect_route(address), t.expect_nothing_sent(); };
}
void sent(T& t) { t.expect_sent_to(T::kPeerHw, 1); }
void reply_sent(T& t) { t.expect_reply_sent_to(T::kPeerHw); }
void nothing_known(T& t) {
  t.expect_nothing_sent();
  EXPECT_TRUE(t.out.known_neighbours.empty());
}
void request_sent_to_all(T& t) {
  ASSERT_EQ(t.sent_arp().size(), 1U);
  EXPECT_EQ(t.sent_arp()[0].to, kMulticastQpn);
  EXPECT_EQ(t.entry()->parked(), 0U);
}
void request_sent(T& t) {
  ASSERT_EQ(t.sent_arp().size(), 1U);
  EXPECT_EQ(t.sent_arp()[0].message.operation, wire::ArpOperation::request);
  EXPECT_EQ(t.sent_arp()[0].to, T::kPeerHw.qpn);
}
void known_by_itself(T& t) {
  t.expect_nothing_sent();
  EXPECT_EQ(t.out.known_neighbours, (std::vector{KnownNeighbour{T::kPeer, T::kPeerHw, false}}));
}
void known_by_operator(T& t) {
  t.expect_nothing_sent();
  EXPECT_EQ(t.out.known_neighbours, (std::vector{KnownNeighbour{T::kPeer, T::kPeerHw, true}}));
}
Step dropped(Counter why) {
  return [=](T& t) { t.expect_dropped(why); };
}
/// A response that arrives after the entry has gone has no effect.
Step dropped_and_unregistered(Counter why) {
  return [=](T& t) {
    t.expect_dropped(why);
    EXPECT_EQ(t.neighbours.count(EvictionClass::unresolved), 0U);
    t.grant(t.path_request);
    t.expect_nothing_sent();
  };
}
Step no_request_and_parked(std::size_t frames) {
  return [=](T& t) {
    EXPECT_TRUE(t.path_requests().empty());
    EXPECT_EQ(t.entry()->parked(), frames);
    t.expect_nothing_sent();
  };
}

const std::vector<Row>& rows() {
  const HwAddress& known = T::kPeerHw;
  const HwAddress& other = T::kNewPeerHw;
  const HwAddress& other_qp = T::kOtherQp;
  // clang-format off
  static const std::vector<Row> rows{
      {"Adopt_PathReady_Confirmed", &T::make_incomplete_with_path, confirm(known), "reachable", sent},
      {"Adopt_PathReady_Unconfirmed", &T::make_new_with_path, learn(known), "stale"},
      {"Adopt_PathReady_Unconfirmed_Parked", &T::make_incomplete_with_path, learn(known), "delay", sent},
      {"New_Confirmed", &T::make_new_with_path, confirm(known), "reachable"},
      {"New_Unconfirmed", &T::make_new, learn(known), "resolving"},
      {"New_Solicit", &T::make_new, &T::solicit, "incomplete", request_sent_to_all},
      {"Incomplete_Solicit", &T::make_incomplete, &T::solicit, "incomplete", nothing_known},
      {"Resolving_Solicit", &T::make_resolving, &T::solicit, "resolving", known_by_itself},
      {"Reachable_Solicit", &T::make_reachable, &T::solicit, "reachable", request_sent},
      {"Stale_Solicit", &T::make_stale, &T::solicit, "probing", request_sent},
      {"Delay_Solicit", &T::make_delay, &T::solicit, "probing", request_sent},
      {"Probing_Solicit", &T::make_probing, &T::solicit, "probing", request_sent},
      {"Failed_Solicit", &T::make_failed, &T::solicit, "failed", request_sent_to_all},
      {"Permanent_Solicit", &T::make_permanent, &T::solicit, "permanent", known_by_operator},
      {"New_Restored", &T::make_new_with_path, restore(std::nullopt), "stale", route(known)},
      {"New_Restored_Reachable", &T::make_new_with_path, restore(10s), "reachable", route(known)},
      {"New_SetPermanent", &T::make_new, set_permanent(known), "permanent", no_request_and_parked(0)},
      {"Incomplete_Unconfirmed", &T::make_incomplete, learn(known), "resolving", route(known)},
      {"Incomplete_LinkDown", &T::make_incomplete, &T::link_down, "gone", dropped_and_unregistered(Counter::drop_link_down)},
      {"Incomplete_SetPermanent", &T::make_incomplete_with_path, set_permanent(known), "permanent", sent},
      {"Incomplete_Removed", &T::make_incomplete, &T::remove, "gone", dropped_and_unregistered(Counter::drop_neighbour_removed)},
      {"Resolving_Packet", &T::make_resolving, &T::send, "resolving", no_request_and_parked(2)},
      {"Resolving_UnconfirmedSame", &T::make_resolving, learn(known), "resolving", no_request_and_parked(1)},
      {"Resolving_Contradicted", &T::make_resolving, &T::contradict, "resolving", route(known)},
      {"Resolving_PathReady_Unconfirmed_Parked", &T::make_resolving, path_ready, "delay", sent},
      {"Resolving_PathFailed", &T::make_resolving, path_failed, "failed", dropped(Counter::drop_path_failed)},
      {"Resolving_LinkDown", &T::make_resolving, &T::link_down, "gone", dropped_and_unregistered(Counter::drop_link_down)},
      {"Resolving_Removed", &T::make_resolving, &T::remove, "gone", dropped_and_unregistered(Counter::drop_neighbour_removed)},
      {"Reachable_Contradicted", &T::make_reachable, &T::contradict, "stale", route(known)},
      {"Reachable_Reply", &T::make_reachable, &T::send_reply, "reachable", reply_sent},
      {"Reachable_Deadline", &T::make_reachable, &T::reach_deadline, "stale"},
      {"Reachable_LinkDown", &T::make_reachable, &T::link_down, "stale", route(known)},
      {"Reachable_SetPermanent", &T::make_reachable, set_permanent(other), "permanent", route(other)},
      {"Reachable_Removed", &T::make_reachable, &T::remove, "gone"},
      {"Stale_ConfirmedSame", &T::make_stale, confirm(known), "reachable"},
      {"Stale_UnconfirmedOther", &T::make_stale, learn(other), "resolving", route(other)},
      {"Stale_Contradicted", &T::make_stale, &T::contradict, "stale", route(known)},
      {"Stale_Reply", &T::make_stale, &T::send_reply, "stale", reply_sent},
      {"Stale_LinkDown", &T::make_stale, &T::link_down, "stale"},
      {"Stale_Removed", &T::make_stale, &T::remove, "gone"},
      {"Delay_Packet", &T::make_delay, &T::send, "delay", sent},
      {"Delay_ConfirmedSame", &T::make_delay, confirm(known), "reachable"},
      {"Delay_ConfirmedOther", &T::make_delay, confirm(other_qp), "reachable", route(other_qp)},
      {"Delay_UnconfirmedSame", &T::make_delay, learn(known), "delay"},
      {"Delay_UnconfirmedOther", &T::make_delay, learn(other_qp), "stale", route(other_qp)},
      {"Delay_Contradicted", &T::make_delay, &T::contradict, "delay", route(known)},
      {"Delay_Reply", &T::make_delay, &T::send_reply, "delay", reply_sent},
      {"Delay_LinkDown", &T::make_delay, &T::link_down, "stale"},
      {"Delay_SetPermanent", &T::make_delay, set_permanent(known), "permanent"},
      {"Delay_Removed", &T::make_delay, &T::remove, "gone"},
      {"Probing_Packet", &T::make_probing, &T::send, "probing", sent},
      {"Probing_ConfirmedSame", &T::make_probing, confirm(known), "reachable"},
      {"Probing_ConfirmedOther", &T::make_probing, confirm(other), "resolving", route(other)},
      {"Probing_UnconfirmedSame", &T::make_probing, learn(known), "probing"},
      {"Probing_UnconfirmedOther", &T::make_probing, learn(other_qp), "stale"},
      {"Probing_Contradicted", &T::make_probing, &T::contradict, "probing", route(known)},
      {"Probing_Reply", &T::make_probing, &T::send_reply, "probing", reply_sent},
      {"Probing_LinkDown", &T::make_probing, &T::link_down, "stale"},
      {"Probing_SetPermanent", &T::make_probing, set_permanent(other), "permanent"},
      {"Probing_Removed", &T::make_probing, &T::remove, "gone"},
      {"Failed_Packet", &T::make_failed, &T::send, "failed", dropped(Counter::drop_neighbour_failed)},
      {"Failed_Confirmed", &T::make_failed, confirm(known), "resolving"},
      {"Failed_LinkDown", &T::make_failed, &T::link_down, "gone"},
      {"Failed_SetPermanent", &T::make_failed, set_permanent(known), "permanent"},
      {"Failed_Removed", &T::make_failed, &T::remove, "gone"},
      {"Permanent_Packet_PathReady", &T::make_permanent, &T::send, "permanent", sent},
      {"Permanent_Confirmed", &T::make_permanent, confirm(other), "permanent", route(known)},
      {"Permanent_Unconfirmed", &T::make_permanent, learn(other), "permanent", route(known)},
      {"Permanent_Contradicted", &T::make_permanent, &T::contradict, "permanent", route(known)},
      {"Permanent_PathReady", &T::make_permanent_waiting, path_ready, "permanent", sent},
      {"Permanent_PathFailed", &T::make_permanent_waiting, path_failed, "permanent", dropped(Counter::drop_path_failed)},
      {"Permanent_Removed", &T::make_permanent_waiting, &T::remove, "gone", dropped_and_unregistered(Counter::drop_neighbour_removed)},
  };
  // clang-format on
  return rows;
}

TEST_P(NeighbourRowStates, Row) {
  const Row& row = GetParam();
  row.enter(*this);
  row.stimulus(*this);
  EXPECT_EQ(state(), row.next);
  row.check(*this);
}
INSTANTIATE_TEST_SUITE_P(, NeighbourRowStates, ::testing::ValuesIn(rows()),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace ipoib::link::neighbour_rows
