// Daemons on one port count their memberships together.
#include "daemon/port/shared_memberships.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "ipoib/file_descriptor.hpp"
#include "ipoib/well_known_groups.hpp"
#include "link/config.hpp"
#include "tests/support/softib/temporary_folder.hpp"
#include "wire/mgid.hpp"

namespace ipoib::daemon {
namespace {

using wire::McMemberRecord;

class SharedMembershipsTest : public ::testing::Test {
 protected:
  /// A daemon on the port.
  class Daemon {
   public:
    explicit Daemon(const std::string& folder, const std::string& port = "mlx5_0-1")
        : memberships_(
              std::make_unique<SharedMemberships>(SharedMemberships::open(folder, port).value())) {}

    /// Whether the request is to be sent.
    bool sends_join(const Gid& mgid, std::uint8_t state = McMemberRecord::kFullMember) {
      return sends(wire::join_query(mgid, Gid(), kDefaultPKey, state));
    }
    bool sends_leave(const Gid& mgid, std::uint8_t state = McMemberRecord::kFullMember) {
      return sends(wire::leave_query(mgid, Gid(), state));
    }
    [[nodiscard]] SharedMemberships::Action action() const { return action_; }
    /// The response to the last request but `earlier`.
    void respond(bool success = true, std::uint64_t earlier = 0) {
      const wire::SaRequestId id(last_ - earlier);
      if (success) return memberships_->after({id, McMemberRecord()});
      memberships_->after({id, wire::SaFailure(wire::SaStatus::request_invalid)});
    }
    [[nodiscard]] SharedMemberships& memberships() { return *memberships_; }
    void join(const Gid& mgid, std::uint8_t state = McMemberRecord::kFullMember) {
      EXPECT_TRUE(sends_join(mgid, state));
      respond();
    }

   private:
    bool sends(const wire::SaQuery& query) {
      action_ = memberships_->before({wire::SaRequestId(++last_), query});
      return action_ == SharedMemberships::Action::send;
    }
    std::unique_ptr<SharedMemberships> memberships_;
    std::uint64_t last_ = 0;
    SharedMemberships::Action action_ = SharedMemberships::Action::send;
  };

  [[nodiscard]] std::size_t files() const {
    const auto all = std::filesystem::directory_iterator(folder.path());
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }

  const Gid group = wire::broadcast_gid(kDefaultPKey);
  const Gid other = wire::broadcast_gid(PKey(0x8012));
  softib::test::TemporaryFolder folder;
  Daemon one{folder.path()};
  std::optional<Daemon> two{std::in_place, folder.path()};
};

/// Of one daemon with two interfaces, each with a partition.
class GroupsOfInterfaces : public ::testing::Test {
 protected:
  using Action = SharedMemberships::Action;

  static Gid group(std::uint32_t number, PKey pkey) {
    return wire::multicast_gid(Ipv4Address(0xef000000 + number), pkey);
  }
  [[nodiscard]] Action join(InterfaceNumber interface, const Gid& mgid, PKey pkey,
                            std::uint8_t state = McMemberRecord::kFullMember) {
    const wire::SaRequestId id(first_link_request(interface).value() + ++number_);
    const auto action = memberships_.before({id, wire::join_query(mgid, Gid(), pkey, state)});
    if (action == Action::send) memberships_.after({id, McMemberRecord()});
    return action;
  }
  void leave(InterfaceNumber interface, const Gid& mgid) {
    const wire::SaRequestId id(first_link_request(interface).value() + ++number_);
    const auto query = wire::leave_query(mgid, Gid(), McMemberRecord::kFullMember);
    EXPECT_EQ(memberships_.before({id, query}), Action::send);
    memberships_.after({id, McMemberRecord()});
  }
  /// Returns how many groups the interface joins until it is refused.
  std::uint32_t join_all(InterfaceNumber interface, PKey pkey) {
    std::uint32_t joined = 0;
    while (join(interface, group(joined, pkey), pkey) == Action::send) ++joined;
    return joined;
  }

  static constexpr InterfaceNumber kFirst{1};
  static constexpr InterfaceNumber kSecond{2};
  static constexpr PKey kSecondPKey{0x8012};
  SharedMemberships memberships_;
  std::uint64_t number_ = 0;
};

TEST_F(GroupsOfInterfaces, OneHasAllThatALinkAsksFor) {
  EXPECT_EQ(join_all(kFirst, kDefaultPKey), link::Limits().host_groups);
}

TEST_F(GroupsOfInterfaces, OnePortHasATotalWithRoomForEachInterface) {
  const auto first = join_all(kFirst, kDefaultPKey);
  const auto second = join_all(kSecond, kSecondPKey);
  EXPECT_GE(second, SharedMemberships::kMaxGroups / 4);
  EXPECT_LE(first + second, SharedMemberships::kMaxGroups);
}

TEST_F(GroupsOfInterfaces, ThoseThatAnInterfaceNeedsAreNotCounted) {
  (void)join_all(kFirst, kDefaultPKey);
  EXPECT_EQ(join(kFirst, wire::broadcast_gid(kDefaultPKey), kDefaultPKey), Action::send);
  EXPECT_EQ(join(kFirst, wire::multicast_gid(kAllNodes, kDefaultPKey), kDefaultPKey), Action::send);
  EXPECT_EQ(join(kFirst, wire::multicast_gid(kAllNodesOfIpv6, kDefaultPKey), kDefaultPKey),
            Action::send);
  EXPECT_EQ(join(kFirst, group(5000, kDefaultPKey), kDefaultPKey, McMemberRecord::kNonMember),
            Action::send)
      << "creates no group";
}

TEST_F(GroupsOfInterfaces, AMembershipIsCountedOnce) {
  const auto all = join_all(kFirst, kDefaultPKey);
  EXPECT_EQ(join(kFirst, group(0, kDefaultPKey), kDefaultPKey), Action::send) << "is confirmed";
  leave(kFirst, group(0, kDefaultPKey));
  EXPECT_EQ(join(kFirst, group(all, kDefaultPKey), kDefaultPKey), Action::send);
  EXPECT_EQ(join(kFirst, group(0, kDefaultPKey), kDefaultPKey), Action::refuse);
  memberships_.on_deleted(group(1, kDefaultPKey));
  EXPECT_EQ(join(kFirst, group(0, kDefaultPKey), kDefaultPKey), Action::send);
  memberships_.on_port_lost();
  EXPECT_EQ(join_all(kSecond, kSecondPKey), all);
}

TEST_F(SharedMembershipsTest, OnlyTheLastMemberSendsTheLeave) {
  one.join(group);
  two->join(group);
  EXPECT_FALSE(one.sends_leave(group));
  EXPECT_EQ(one.action(), SharedMemberships::Action::leave_out);
  EXPECT_TRUE(two->sends_leave(group));
}

TEST_F(SharedMembershipsTest, GroupsPortsAndJoinStatesAreCountedSeparately) {
  two->join(other);
  two->join(group, McMemberRecord::kSendOnlyNonMember);
  Daemon elsewhere(folder.path(), "mlx5_0-2");
  elsewhere.join(group);
  one.join(group);
  EXPECT_TRUE(one.sends_leave(group));
}

TEST_F(SharedMembershipsTest, MembershipOfADeadDaemonEnds) {
  one.join(group);
  two->join(group);
  two.reset();
  EXPECT_TRUE(one.sends_leave(group));
}

TEST_F(SharedMembershipsTest, NobodyJoinsWhileALeaveIsOutstanding) {
  one.join(group);
  EXPECT_TRUE(one.sends_leave(group));
  EXPECT_FALSE(two->sends_join(group));
  EXPECT_EQ(two->action(), SharedMemberships::Action::postpone);
  one.respond();
  EXPECT_TRUE(two->sends_join(group));
}

TEST_F(SharedMembershipsTest, OutstandingJoinCountsAsAMembership) {
  EXPECT_TRUE(one.sends_join(group));
  two->join(group);
  EXPECT_FALSE(two->sends_leave(group)) << "the join of the other may have been handled before";
}

TEST_F(SharedMembershipsTest, FailedJoinIsNoMembership) {
  EXPECT_TRUE(one.sends_join(group));
  one.respond(false);
  two->join(group);
  EXPECT_TRUE(two->sends_leave(group));
}

TEST_F(SharedMembershipsTest, FailedConfirmationKeepsTheMembership) {
  one.join(group);
  EXPECT_TRUE(one.sends_join(group));
  one.respond(false);
  two->join(group);
  EXPECT_FALSE(two->sends_leave(group));
}

TEST_F(SharedMembershipsTest, LeaveOfAnOutstandingJoinEndsTheMembership) {
  EXPECT_TRUE(one.sends_join(group));
  EXPECT_TRUE(one.sends_leave(group));
  one.respond(true, 1);  // to the join
  EXPECT_FALSE(two->sends_join(group)) << "the leave is still outstanding";
  one.respond();
  two->join(group);
  EXPECT_TRUE(two->sends_leave(group));
}

TEST_F(SharedMembershipsTest, LeaveWaitsForAnOutstandingJoinIfOthersAreMembers) {
  two->join(group);
  EXPECT_TRUE(one.sends_join(group));
  EXPECT_FALSE(one.sends_leave(group));
  EXPECT_EQ(one.action(), SharedMemberships::Action::postpone);
  EXPECT_FALSE(two->sends_leave(group)) << "the join may still succeed";
  EXPECT_EQ(two->action(), SharedMemberships::Action::leave_out);
  one.respond(true, 1);  // to the join
  EXPECT_TRUE(one.sends_leave(group)) << "nobody else would send it";
}

TEST_F(SharedMembershipsTest, JoinAfterALeaveStartsANewMembership) {
  one.join(group);
  EXPECT_TRUE(one.sends_leave(group));
  EXPECT_TRUE(one.sends_join(group));
  one.respond(true, 1);  // to the leave
  one.respond();
  two->join(group);
  EXPECT_FALSE(two->sends_leave(group));
  EXPECT_TRUE(one.sends_leave(group));
}

TEST_F(SharedMembershipsTest, OwnJoinDoesNotLetOthersJoinWhileALeaveIsOutstanding) {
  one.join(group);
  EXPECT_TRUE(one.sends_leave(group));
  EXPECT_TRUE(one.sends_join(group));
  EXPECT_FALSE(two->sends_join(group)) << "the leave would end this membership";
  one.respond();
  EXPECT_FALSE(two->sends_join(group));
  one.respond(true, 1);  // to the leave
  two->join(group);
  EXPECT_FALSE(two->sends_leave(group)) << "the other has joined again";
}

TEST_F(SharedMembershipsTest, ResponsesToJoinsMayComeInAnotherOrder) {
  two->join(group);
  EXPECT_TRUE(one.sends_join(group));
  EXPECT_FALSE(one.sends_leave(group));
  EXPECT_TRUE(one.sends_join(group));
  one.respond();
  one.respond(false, 2);
  EXPECT_FALSE(two->sends_leave(group)) << "the second join has succeeded";
}

TEST_F(SharedMembershipsTest, MembershipsInADeletedGroupEnd) {
  one.join(group);
  one.join(group, McMemberRecord::kSendOnlyNonMember);
  one.join(group, McMemberRecord::kNonMember);
  one.join(other);
  one.memberships().on_deleted(group);
  two->join(group);
  two->join(group, McMemberRecord::kSendOnlyNonMember);
  two->join(group, McMemberRecord::kNonMember);
  two->join(other);
  EXPECT_TRUE(two->sends_leave(group));
  EXPECT_TRUE(two->sends_leave(group, McMemberRecord::kSendOnlyNonMember));
  EXPECT_TRUE(two->sends_leave(group, McMemberRecord::kNonMember));
  EXPECT_FALSE(two->sends_leave(other)) << "not deleted";
}

TEST_F(SharedMembershipsTest, JoinThatWasOutstandingDuringADeletionDecides) {
  one.join(group);
  EXPECT_TRUE(one.sends_join(group));
  one.memberships().on_deleted(group);
  one.respond();
  two->join(group);
  EXPECT_FALSE(two->sends_leave(group));
}

TEST_F(SharedMembershipsTest, ReregistrationEndsMembershipsButNotOutstandingJoins) {
  one.join(group);
  EXPECT_TRUE(one.sends_join(other));
  one.memberships().on_reregister();
  one.respond();
  two->join(group);
  two->join(other);
  EXPECT_TRUE(two->sends_leave(group));
  EXPECT_FALSE(two->sends_leave(other));
}

TEST_F(SharedMembershipsTest, LossOfThePortEndsMembershipsAndOutstandingJoins) {
  one.join(group);
  EXPECT_TRUE(one.sends_join(other));
  one.memberships().on_port_lost();
  one.respond();
  two->join(group);
  two->join(other);
  EXPECT_TRUE(two->sends_leave(group));
  EXPECT_TRUE(two->sends_leave(other));
}

TEST_F(SharedMembershipsTest, RepeatedConfirmationsAreOneMembership) {
  for (int i = 0; i < 5; ++i) one.join(group);
  two->join(group);
  EXPECT_FALSE(one.sends_leave(group));
  EXPECT_TRUE(two->sends_leave(group));
}

TEST_F(SharedMembershipsTest, OneOfTwoThatLeaveAtOneMomentSendsTheLeave) {
  constexpr std::size_t kRounds = 300;
  std::barrier together(2);
  std::array<std::vector<bool>, 2> sent;
  const auto run = [&](Daemon& daemon, std::vector<bool>& leaves) {
    for (std::size_t i = 0; i < kRounds; ++i) {
      daemon.join(group);
      together.arrive_and_wait();
      leaves.push_back(daemon.sends_leave(group));
      together.arrive_and_wait();
      if (leaves.back()) daemon.respond();
      together.arrive_and_wait();
    }
  };
  std::thread other_daemon([&] { run(*two, sent[1]); });
  run(one, sent[0]);
  other_daemon.join();
  for (std::size_t i = 0; i < kRounds; ++i)
    ASSERT_TRUE(sent[0].at(i) || sent[1].at(i)) << "round " << i;
}

TEST_F(SharedMembershipsTest, LastDaemonRemovesTheFile) {
  EXPECT_EQ(files(), 1U);
  two.reset();
  EXPECT_EQ(files(), 1U);
  {
    const Daemon elsewhere(folder.path(), "mlx5_0-2");
    EXPECT_EQ(files(), 2U);
  }
  EXPECT_EQ(files(), 1U);
}

TEST_F(SharedMembershipsTest, FilesOfDeadDaemonsAreRemoved) {
  std::ofstream(folder / "mlx5_9-1") << "";
  const Daemon elsewhere(folder.path(), "mlx5_0-2");
  EXPECT_EQ(files(), 2U);
}

TEST_F(SharedMembershipsTest, LinksAreNotFollowed) {
  const softib::test::TemporaryFolder private_folder;
  std::ofstream(private_folder / "secret") << "";
  std::filesystem::create_symlink(private_folder / "secret", folder / "mlx5_0-3");
  EXPECT_FALSE(SharedMemberships::open(folder.path(), "mlx5_0-3"));
  EXPECT_TRUE(std::filesystem::exists(private_folder / "secret"));
}

TEST_F(SharedMembershipsTest, ReportsAFileThatAnotherProcessKeepsLocked) {
  const std::string path = folder / "mlx5_0-4";
  const FileDescriptor stopped(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  struct flock exclusive {};
  exclusive.l_type = F_WRLCK;
  exclusive.l_len = 1;
  ASSERT_EQ(::fcntl(stopped.get(), F_OFD_SETLK, &exclusive), 0);
  const auto refused = SharedMemberships::open(folder.path(), "mlx5_0-4");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EBUSY);
  EXPECT_EQ(refused.error().message, path + ": another process keeps it locked (lslocks)");
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(SharedMembershipsTest, ReportsAFolderThatCannotBeMade) {
  const auto refused = SharedMemberships::open("/dev/null/members", "mlx5_0-1");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("/dev/null"), std::string::npos);
}

TEST(UnsharedMembershipsTest, SendsEverything) {
  SharedMemberships alone;
  const auto query = wire::leave_query(wire::broadcast_gid(kDefaultPKey), Gid(), 1);
  EXPECT_EQ(alone.before({wire::SaRequestId(1), query}), SharedMemberships::Action::send);
  alone.after({wire::SaRequestId(1), McMemberRecord()});
}

}  // namespace
}  // namespace ipoib::daemon
