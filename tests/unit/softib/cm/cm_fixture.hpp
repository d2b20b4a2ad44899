// One communication manager, and a peer that the test plays: it writes the peer's messages, and
// reads what the manager sends and tells.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ipoib/overloaded.hpp"
#include "softib/cm/communication_manager.hpp"

namespace softib::cm {

using ipoib::Duration;
using ipoib::Overloaded;
using ipoib::TimePoint;
using wire::CmDrep;
using wire::CmDreq;
using wire::CmMra;
using wire::CmRej;
using wire::CmRejReason;
using wire::CmRep;
using wire::CmReq;
using wire::CmRtu;
using wire::CmSubject;
using Words = std::vector<std::string>;

inline constexpr wire::ServiceId kService{0x0000000001061234};
inline constexpr Qpn kOurQpn{0x110};
inline constexpr Qpn kTheirQpn{0x220};
inline constexpr std::uint32_t kTheirSlot = 3;
inline constexpr std::uint32_t kTheirEpoch = 9;
inline constexpr CommId kTheirId = CommIdLayout::make(kTheirEpoch, kTheirSlot, 77);
inline constexpr std::uint8_t kTimeCode = 18;  ///< 1.07 s
inline constexpr unsigned kRetries = 3;

/// A port of a subnet whose LIDs are multiples of 4.
inline PortAttributes port_with(Lid lid) {
  PortAttributes port;
  port.port_guid = Guid(0x0002c90000000000 + lid.value());
  port.lid = lid;
  port.lmc = 2;
  port.pkeys[0] = ipoib::kDefaultPKey;
  return port;
}

inline wire::PathRecord path_between(const PortAttributes& from, const PortAttributes& to) {
  wire::PathRecord path;
  path.sgid = from.gid();
  path.dgid = to.gid();
  path.slid = from.lid;
  path.dlid = to.lid;
  path.pkey = ipoib::kDefaultPKey;
  path.mtu = 4;
  path.rate = 3;
  path.lifetime = kTimeCode - 2;
  return path;
}

inline CmReq request_to_connect(Qpn qpn) {
  CmReq req;
  req.service_id = kService;
  req.qpn = qpn;
  req.starting_psn = wire::Psn(100);
  req.responder_resources = 4;
  req.initiator_depth = 5;
  req.retry_count = 6;
  req.rnr_retry_count = 7;
  req.remote_response_timeout = req.local_response_timeout = kTimeCode;
  req.max_cm_retries = kRetries;
  return req;
}

/// "REJ 28": the message, and its reason or status.
inline std::string describe(const wire::CmMessage& message) {
  static constexpr std::array<const char*, kMessages> kNames{
      "REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP", "LAP", "APR"};
  std::string text = kNames[message.index()];
  if (const auto* const rej = std::get_if<CmRej>(&message)) {
    text += ' ' + std::to_string(static_cast<unsigned>(rej->reason));
  } else if (const auto* const sidr = std::get_if<wire::CmSidrRep>(&message)) {
    text += ' ' + std::to_string(static_cast<unsigned>(sidr->status));
  } else if (const auto* const apr = std::get_if<wire::CmApr>(&message)) {
    text += ' ' + std::to_string(apr->status);
  }
  return text;
}

inline std::string describe(const Event& event) {
  return std::visit(
      Overloaded{
          [](const ConnectionRequested&) { return std::string("ConnectionRequested"); },
          [](const Accepted&) { return std::string("Accepted"); },
          [](const Established&) { return std::string("Established"); },
          [](const Rejected& rejected) {
            return "Rejected " + std::to_string(static_cast<unsigned>(rejected.rej.reason));
          },
          [](const Unanswered&) { return std::string("Unanswered"); },
          [](const Disconnected& one) {
            return std::string(one.awaits_answer ? "Disconnected, awaits answer" : "Disconnected");
          },
          [](const TimeWaitOver&) { return std::string("TimeWaitOver"); },
          [](const ServiceRequested&) { return std::string("ServiceRequested"); },
          [](const ServiceResolved& resolved) {
            return "ServiceResolved " + std::to_string(static_cast<unsigned>(resolved.rep.status));
          },
      },
      event.what);
}

class CmFixture : public testing::Test {
 public:
  /// The peer's message, from its port or another one.
  void receive(const wire::CmMessage& message, const PortAttributes* from = nullptr) {
    receive(wire::CmMad{++transaction, message}, from);
  }
  void receive(const wire::CmMad& mad, const PortAttributes* from = nullptr) {
    const auto& peer = from == nullptr ? theirs : *from;
    const auto route = Route::along(path_between(peer, ours), peer);
    manager.receive(route.packet(mad), ours, now);
  }

  /// What the manager has sent since the last call; the messages are also in `last_sent`.
  Words sent() {
    last_sent.clear();
    Words words;
    for (const auto& packet : manager.take_outgoing()) {
      EXPECT_EQ(packet.dlid, expected_dlid);
      EXPECT_EQ(packet.slid, ours.lid);
      last_sent.push_back(*wire::CmMad::parse(packet.mad));
      words.push_back(describe(last_sent.back().message));
    }
    return words;
  }
  /// The texts of the events since the last call; the events are also in `last_told`.
  Words told() {
    last_told = manager.take_events();
    Words words;
    for (const auto& event : last_told) words.push_back(describe(event));
    return words;
  }
  void forget_output() { (void)sent(), (void)told(); }
  template <class Message>
  [[nodiscard]] const Message& sent_message(std::size_t at = 0) const {
    return std::get<Message>(last_sent.at(at).message);
  }
  template <class What>
  [[nodiscard]] const What& told_event(std::size_t at = 0) const {
    return std::get<What>(last_told.at(at).what);
  }

  /// "gone" if there is no such connection.
  [[nodiscard]] std::string state() const {
    std::string name = "gone";
    manager.for_each_connection([&](const Connection& one) {
      if (one.handle() == handle) name = kConnectionStates.at(one.state());
    });
    return name;
  }
  [[nodiscard]] TimePoint deadline() const { return manager.next_deadline(); }
  void reach_deadline() {
    ASSERT_NE(manager.next_deadline(), ipoib::kNever);
    now = manager.next_deadline();
    manager.on_time(now);
  }

  // Messages of the peer about the connection.
  template <class Message>
  [[nodiscard]] Message theirs_about(Message message = {}) const {
    message.local_id = kTheirId;
    message.remote_id = handle;
    return message;
  }
  [[nodiscard]] CmReq req() const {
    CmReq one = request_to_connect(kTheirQpn);
    one.local_id = kTheirId;
    one.ca_guid = Guid(0x33);
    one.pkey = ipoib::kDefaultPKey;
    one.mtu = 4;
    one.primary = path_of_req(path_between(theirs, ours), 0);
    return one;
  }
  [[nodiscard]] CmMra mra(CmSubject subject) const {
    CmMra one = theirs_about<CmMra>();
    one.subject = subject;
    one.service_timeout = kTimeCode + 1;
    return one;
  }
  [[nodiscard]] CmRej rej(CmRejReason reason = CmRejReason::consumer) const {
    CmRej one = theirs_about<CmRej>();
    one.reason = reason;
    return one;
  }
  [[nodiscard]] CmRep rep() const {
    CmRep one = theirs_about<CmRep>();
    one.qpn = kTheirQpn;
    one.starting_psn = wire::Psn(200);
    one.responder_resources = 2;
    one.initiator_depth = 3;
    one.rnr_retry_count = 5;
    one.target_ack_delay = kTimeCode - 1;
    one.ca_guid = Guid(0x33);
    return one;
  }
  [[nodiscard]] CmRtu rtu() const { return theirs_about<CmRtu>(); }
  [[nodiscard]] CmDreq dreq() const {
    CmDreq one = theirs_about<CmDreq>();
    one.remote_qpn = kOurQpn;
    return one;
  }
  [[nodiscard]] CmDrep drep() const { return theirs_about<CmDrep>(); }

  // Calls of the user.
  void connect() {
    handle =
        manager.connect(request_to_connect(kOurQpn), path_between(ours, theirs), ours, now).value();
  }
  void listen() {
    if (!is_listening) is_listening = manager.listen(kService).has_value();
    ASSERT_TRUE(is_listening);
  }
  /// Gets the peer's REQ.
  void be_asked() {
    listen();
    receive(req());
    const auto events = manager.take_events();
    ASSERT_EQ(events.size(), 1U);
    handle = events[0].handle;
    last_told = events;
  }
  void accept() {
    CmRep one;
    one.qpn = kOurQpn;
    one.starting_psn = wire::Psn(300);
    one.responder_resources = 1;
    one.initiator_depth = 2;
    ASSERT_TRUE(manager.accept(handle, one, now));
  }
  void confirm() { ASSERT_TRUE(manager.confirm(handle, {})); }
  void reject() {
    CmRej one;
    one.reason = CmRejReason::no_resources;
    ASSERT_TRUE(manager.reject(handle, one, now));
  }
  void prepare_mra() {
    CmMra one;
    one.service_timeout = kTimeCode;
    ASSERT_TRUE(manager.prepare_mra(handle, one));
  }
  void communication_established() { ASSERT_TRUE(manager.communication_established(handle)); }
  void disconnect() { ASSERT_TRUE(manager.disconnect(handle, {}, now)); }
  void forget() { ASSERT_TRUE(manager.forget(handle)); }
  void destroy() { manager.destroy(handle, now); }
  void peer_gone() {
    manager.process_gone(Peer::of(theirs.lid, Gid(), theirs.lmc), theirs.lmc, kTheirSlot,
                         kTheirEpoch, now);
  }
  /// The peer uses its queue pair for another connection.
  void be_stale() {
    listen();
    CmReq other = req();
    other.local_id = CommIdLayout::make(kTheirEpoch, kTheirSlot, 78);
    receive(other);
  }

  PortAttributes ours = port_with(Lid(4));
  PortAttributes theirs = port_with(Lid(8));
  Lid expected_dlid = theirs.lid;
  TimePoint now{std::chrono::hours(1)};
  CommunicationManager manager{{.ca_guid = Guid(0x11), .slot = 1, .epoch = 2, .ack_delay = 15}};
  Handle handle;
  std::uint64_t transaction = 1000;
  bool is_listening = false;
  std::vector<wire::CmMad> last_sent;
  std::vector<Event> last_told;
};

}  // namespace softib::cm
