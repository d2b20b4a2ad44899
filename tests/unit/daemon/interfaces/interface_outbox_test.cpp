#include "daemon/interfaces/interface_outbox.hpp"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <utility>
#include <vector>

#include "daemon/pump/sa_requests.hpp"

namespace ipoib::daemon {
namespace {

using namespace std::chrono_literals;

class InterfaceOutboxTest : public ::testing::Test {
 protected:
  static constexpr InterfaceNumber kNumber{3};

  /// Fills the mailbox, so that whatever is posted from now on waits.
  void fill() {
    while (mailbox_.post(LinkReportRequest())) {
    }
  }
  /// The messages that the mailbox has now.
  std::vector<ToInterface> taken() {
    std::vector<ToInterface> out;
    mailbox_.drain(out);
    return out;
  }
  /// Empties the mailbox, and returns the messages that waited, in order. A report request, which
  /// the outbox does not post while others wait, says that it is empty.
  std::vector<ToInterface> delivered() {
    (void)taken();
    std::vector<ToInterface> out;
    constexpr int kPatience = 2000;
    for (int i = 0; i < kPatience && !outbox_.try_post(LinkReportRequest()); ++i) {
      context_.run_one_for(10ms);
      for (ToInterface& each : taken()) out.push_back(std::move(each));
    }
    EXPECT_EQ(taken().size(), 1U) << "messages still wait";
    return out;
  }
  template <class Message>
  static const Message& as(const ToInterface& message) {
    return std::get<Message>(message);
  }
  static PortChanged port(PortRole role, bool active) {
    link::PortStatus status;
    status.active = active;
    return {status, role};
  }

  boost::asio::io_context context_;
  InterfaceMailbox mailbox_{2};
  InterfaceOutbox outbox_{context_, mailbox_};
};

TEST_F(InterfaceOutboxTest, PostsAtOnceWhatTheMailboxHasRoomFor) {
  outbox_.post(Renamed{"ib0"});
  outbox_.post(Renamed{"ib1"});
  const auto all = taken();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(as<Renamed>(all[0]).name, "ib0");
  EXPECT_EQ(as<Renamed>(all[1]).name, "ib1");
}

TEST_F(InterfaceOutboxTest, PostsTheRestInOrderOnceThereIsRoom) {
  fill();
  outbox_.post(Renamed{"ib0"});
  outbox_.post(port(PortRole::primary, true));
  outbox_.post(SetMode{PumpMode::active});
  const auto all = delivered();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(as<Renamed>(all[0]).name, "ib0");
  EXPECT_TRUE(as<PortChanged>(all[1]).status.active);
  EXPECT_EQ(as<SetMode>(all[2]).mode, PumpMode::active);
}

TEST_F(InterfaceOutboxTest, NothingOvertakesAMessageThatWaits) {
  fill();
  outbox_.post(Renamed{"ib0"});
  (void)taken();
  ToInterface later = Renamed{"ib1"};
  EXPECT_FALSE(outbox_.try_post(std::move(later)));
  EXPECT_EQ(as<Renamed>(later).name, "ib1") << "the message has changed";
  const auto all = delivered();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(as<Renamed>(all[0]).name, "ib0");
}

TEST_F(InterfaceOutboxTest, AWaitingMessageIsReplacedByALaterOneOfItsKind) {
  fill();
  outbox_.post(Renamed{"ib0"});
  outbox_.post(SetMode{PumpMode::active});
  outbox_.post(Renamed{"ib1"});
  const auto all = delivered();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(as<SetMode>(all[0]).mode, PumpMode::active);
  EXPECT_EQ(as<Renamed>(all[1]).name, "ib1");
}

TEST_F(InterfaceOutboxTest, EachPortHasAMessageOfItsOwn) {
  fill();
  outbox_.post(port(PortRole::primary, false));
  outbox_.post(port(PortRole::backup, false));
  outbox_.post(port(PortRole::primary, true));
  const auto all = delivered();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(as<PortChanged>(all[0]).role, PortRole::backup);
  EXPECT_EQ(as<PortChanged>(all[1]).role, PortRole::primary);
  EXPECT_TRUE(as<PortChanged>(all[1]).status.active);
}

TEST_F(InterfaceOutboxTest, AReconfigurationHasTheChangesOfTheOneThatItReplaces) {
  const IpAddress one = *parse_ip_address("10.0.0.1");
  const IpAddress two = *parse_ip_address("10.0.0.2");
  const Gid to = *Gid::parse("fe80::1");
  fill();
  outbox_.post(Reconfigured{.poll = PollMode::busy, .neighbours = {{one, to}, {two, to}}});
  outbox_.post(Reconfigured{.neighbours = {{one, std::nullopt}}});
  const auto all = delivered();
  ASSERT_EQ(all.size(), 1U);
  const auto& changes = as<Reconfigured>(all[0]);
  EXPECT_EQ(changes.poll, PollMode::busy);
  ASSERT_EQ(changes.neighbours.size(), 2U);
  EXPECT_FALSE(changes.neighbours.at(one).has_value());
  EXPECT_TRUE(changes.neighbours.at(two).has_value());
}

TEST_F(InterfaceOutboxTest, EachResponseAndEachFailedObjectIsDelivered) {
  const auto id = first_link_request(kNumber);
  int first = 0;
  int second = 0;
  fill();
  outbox_.post(wire::SaResponse{id, wire::SaFailure(wire::SaFailure::Kind::no_sm)});
  outbox_.post(ObjectFailed{&first});
  outbox_.post(wire::SaResponse{id, wire::SaFailure(wire::SaFailure::Kind::timeout)});
  outbox_.post(ObjectFailed{&second});
  const auto all = delivered();
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(std::get<wire::SaFailure>(as<wire::SaResponse>(all[0]).result).kind,
            wire::SaFailure::Kind::no_sm);
  EXPECT_EQ(as<ObjectFailed>(all[1]).object, &first);
  EXPECT_EQ(std::get<wire::SaFailure>(as<wire::SaResponse>(all[2]).result).kind,
            wire::SaFailure::Kind::timeout);
  EXPECT_EQ(as<ObjectFailed>(all[3]).object, &second);
}

TEST_F(InterfaceOutboxTest, WhatIsForAReplacedPortIsNotDelivered) {
  fill();
  outbox_.post(port(PortRole::primary, true));
  outbox_.post(wire::SaResponse{first_link_request(kNumber, PortRole::primary),
                                wire::SaFailure(wire::SaFailure::Kind::no_sm)});
  outbox_.post(ClientReregister{PortRole::backup});
  outbox_.post(PortReplaced());
  const auto all = delivered();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(as<ClientReregister>(all[0]).role, PortRole::backup);
  EXPECT_EQ(as<PortReplaced>(all[1]).role, PortRole::primary);
}

/// A link that is up leaves its groups when it stops; one that has lost the port cannot.
TEST_F(InterfaceOutboxTest, AStopOvertakesChangesOfThePort) {
  fill();
  outbox_.post(port(PortRole::primary, false));
  outbox_.post(Renamed{"ib0"});
  outbox_.post(Stop{});
  const auto all = delivered();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(as<Renamed>(all[0]).name, "ib0");
  EXPECT_TRUE(std::holds_alternative<Stop>(all[1]));
}

}  // namespace
}  // namespace ipoib::daemon
