// The SA client while OpenSM ends, restarts, or another one takes over, and the reports of both.
// opensm_on_ibsim.py starts and ends them on command.
#include <fcntl.h>
#include <infiniband/umad.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <thread>

#include "sa/subscriptions.hpp"
#include "sa_client_host.hpp"
#include "wire/mad.hpp"

namespace ipoib::sa {
namespace {

using namespace test;
using wire::McMemberRecord;
using wire::PathRecord;

constexpr std::uint64_t kFirstRequest = 1ULL << 32;
const Gid kHost3 = *Gid::parse("fe80::10:5");

/// Sends a command to the driver and returns its response.
std::string command(const std::string& text) {
  static const int to = std::atoi(std::getenv("IBSIM_COMMANDS"));
  static const int from = std::atoi(std::getenv("IBSIM_RESPONSES"));
  const std::string line = text + "\n";
  if (write(to, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
  std::string response;
  for (char next = 0; read(from, &next, 1) == 1 && next != '\n';) response += next;
  return response;
}

Lid sm_lid() { return Lid(static_cast<std::uint16_t>(std::stoi(command("sm")))); }

/// ibsim delivers requests, such as reports, only to a program that registers as a subnet manager.
/// Other managers then send it SMInfo requests (IBA 14.2.5.13), and would wait forever for a
/// response, since ibsim has no timeouts. So this responds as a manager that is not active.
class InactiveManager {
 public:
  InactiveManager() : device_(umad_open_port(host().device.c_str(), host().port)) {
    constexpr std::array kClasses = {wire::mgmt_class::kSubnLid, wire::mgmt_class::kSubnDirected};
    for (const int one : kClasses) agents_.push_back(umad_register(device_, one, 1, 0, nullptr));
    std::array<char, 256> path{};
    (void)umad_get_issm_path(host().device.c_str(), host().port, path.data(), path.size());
    if (std::ranges::min(agents_) < 0 || open(path.data(), O_RDWR) < 0) std::abort();
    thread_ = std::jthread([this](const std::stop_token& end) { run(end); });
  }

 private:
  static constexpr std::uint16_t kSmInfo = 0x0020;
  static constexpr std::size_t kSmpData = 64;
  static constexpr std::uint64_t kOpenSmKey = 1;       ///< of its default configuration
  static constexpr std::uint16_t kDirection = 0x8000;  ///< direction bit of a directed-route MAD

  void run(const std::stop_token& end) {
    constexpr int kInterval = 100;  ///< ms between checks whether to end
    std::vector<std::uint8_t> buffer(umad_size() + wire::kMadSize);
    while (!end.stop_requested()) {
      int length = wire::kMadSize;
      const int agent = umad_recv(device_, buffer.data(), &length, kInterval);
      const MutableBytes mad(static_cast<std::uint8_t*>(umad_get_mad(buffer.data())),
                             wire::kMadSize);
      auto header = wire::MadHeader::parse(mad);
      if (agent < 0 || !header || header->attribute_id != kSmInfo || header->is_response())
        continue;
      const bool is_directed = header->management_class == wire::mgmt_class::kSubnDirected;
      header->method = wire::method::kGetResp;
      header->status = is_directed ? kDirection : 0;
      header->emit(mad);
      ByteWriter info(mad.subspan(kSmpData));
      info.u64(host().gid.guid().value());
      info.u64(kOpenSmKey);
      (void)umad_send(device_, agent, buffer.data(), wire::kMadSize, 0, 0);
    }
  }

  const int device_;
  std::vector<int> agents_;
  std::jthread thread_;
};

/// Uses a client as a daemon does: repeats failed requests, creates a group that it cannot join,
/// and keeps the port subscribed.
class Outages : public ClientTest {
 protected:
  static constexpr Duration kPause = std::chrono::milliseconds(500);

  static void SetUpTestSuite() { manager.emplace(); }
  static void TearDownTestSuite() { manager.reset(); }

  Outages() {
    subscriptions.renew();
    run_until([this] { return is_subscribed(); });
  }

  void want(const wire::SaQuery& query) {
    const wire::SaRequestId id(++last_id);
    wanted.emplace(id, query);
    client.request({id, query}, now());
  }
  void want_paths(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      want(wire::path_query(host().gid, host().peer, kDefaultPKey));
    }
  }
  void want_groups() {
    want(join(kBroadcast, kDefaultPKey, McMemberRecord::kFullMember));
    want(join(group(20), kDefaultPKey, McMemberRecord::kFullMember));
  }
  void run_until(const std::function<bool()>& holds) {
    while (!holds()) {
      settle();
      turn(client);
    }
  }
  void run_until_done() {
    run_until([this] { return wanted.empty() && is_subscribed(); });
  }
  [[nodiscard]] bool is_subscribed() {
    return to_subscribe == 0 && subscriptions.requests().empty() &&
           subscriptions.next_deadline() == kNever;
  }
  /// What a daemon does when the SM LID of its port changes.
  void follow_manager(Lid lid) {
    run_until([lid] { return sm_lid() == lid; });
    client.set_sm(MadDestination{lid, ServiceLevel(0), 0}, now());
    subscriptions.renew();
    want_groups();
  }
  [[nodiscard]] Lid lid_of(const Gid& port) {
    return port == host().gid
               ? host().lid
               : record<PathRecord>(wire::path_query(host().gid, port, kDefaultPKey)).dlid;
  }
  /// Runs until a report of this trap for this GID arrives.
  void wait_for_report(std::uint16_t trap, const Gid& gid) {
    run_until([&] {
      return std::ranges::any_of(std::exchange(client.notices(), {}),
                                 [&](const wire::Notice& notice) {
                                   return notice.trap_number == trap && notice.gid == gid;
                                 });
    });
  }
  /// Checks that the SA lets us create a group, and reports it to us.
  void expect_reports() {
    const Gid mgid = group(++last_group);
    want(create(mgid, McMemberRecord::kFullMember));
    wait_for_report(wire::trap::kGroupCreated, mgid);
    run_until_done();
    want(wire::leave_query(mgid, host().gid, McMemberRecord::kFullMember));
    wait_for_report(wire::trap::kGroupDeleted, mgid);
    run_until_done();
  }

  static inline std::optional<InactiveManager> manager;
  Subscriptions subscriptions{log, 1};
  std::map<wire::SaRequestId, wire::SaQuery> wanted;  ///< requests without a record so far
  std::size_t succeeded = 0;
  std::size_t recreated = 0;  ///< groups that did not exist when joined

 private:
  void settle() {
    subscriptions.on_time(now());
    for (const auto& request : std::exchange(subscriptions.requests(), {})) {
      client.request(request, now());
      ++to_subscribe;
    }
    for (const auto& response : std::exchange(client.responses(), {})) take(response);
    if (now() < again_at) return;
    for (const auto& [id, query] : std::exchange(again, {})) client.request({id, query}, now());
  }
  void take(const wire::SaResponse& response) {
    const auto* failure = std::get_if<wire::SaFailure>(&response.result);
    if (response.id.value() < kFirstRequest) {
      subscriptions.on_response(response, now());
      --to_subscribe;
      return;
    }
    const auto at = wanted.find(response.id);
    ASSERT_NE(at, wanted.end()) << "one response to each request";
    if (failure == nullptr) {
      ++succeeded;
      wanted.erase(at);
      return;
    }
    if (failure->status == wire::SaStatus::insufficient_components) {
      ++recreated;
      at->second =
          create(std::get<wire::JoinQuery>(at->second).record.mgid, McMemberRecord::kFullMember);
    }
    again.insert(*at);
    again_at = now() + kPause;
  }

  std::uint64_t last_id = kFirstRequest;
  std::uint32_t last_group = 30;
  std::map<wire::SaRequestId, wire::SaQuery> again;
  TimePoint again_at{};
  std::size_t to_subscribe = 0;  ///< outstanding requests
};

TEST_F(Outages, OutstandingRequestsSurviveARestart) {
  constexpr std::size_t kCount = 300;
  want_paths(kCount);
  run_until([this] { return succeeded > 0; });
  command("end host1");
  run_until([this] { return client.counters().timeouts > 0; });
  EXPECT_GT(wanted.size(), 0U);
  command("start host1 3");
  run_until_done();
  EXPECT_EQ(succeeded, kCount);
}

TEST_F(Outages, GroupsAndSubscriptionsAreRecreatedAfterARestart) {
  want_groups();
  run_until_done();
  command("end host1");
  want_paths(40);
  subscriptions.renew();
  command("start host1 3");
  const std::size_t before = recreated;
  want_groups();
  run_until_done();
  EXPECT_EQ(recreated, before + 1) << "it has lost the group that we had created";
  expect_reports();
}

TEST_F(Outages, ReregistrationDuringRequestsLosesNothing) {
  for (int round = 0; round < 3; ++round) {
    want_paths(50);
    want_groups();
    subscriptions.renew();
    turn(client);
  }
  run_until_done();
  expect_reports();
}

TEST_F(Outages, RequestsGoToTheStandbyThatTakesOver) {
  const Lid host1 = lid_of(host().peer);
  const Lid host3 = lid_of(kHost3);
  want_groups();
  run_until_done();
  command("start host3 1");
  want_paths(100);
  command("end host1");
  follow_manager(host3);
  run_until_done();
  expect_reports();
  command("end host3");
  want_paths(100);
  command("start host1 3");
  follow_manager(host1);
  run_until_done();
  expect_reports();
}

TEST_F(Outages, PortsInAndOutOfServiceAreReported) {
  command("unlink host3");
  wait_for_report(wire::trap::kOutOfService, kHost3);
  command("link host3");
  wait_for_report(wire::trap::kInService, kHost3);
}

}  // namespace
}  // namespace ipoib::sa

int main(int argc, char** argv) { return ipoib::sa::test::run(argc, argv); }
