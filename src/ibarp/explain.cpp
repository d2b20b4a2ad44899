// Says where packets to an address go, and what keeps them from arriving.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "findings.hpp"
#include "program/progress.hpp"
#include "resolution.hpp"
#include "route_findings.hpp"
#include "run.hpp"
#include "text.hpp"

namespace ipoib::ibarp {

namespace {

/// How long the daemon may take to resolve a neighbour: three ARP requests and a path.
constexpr int kResolveMs = 10'000;
/// How long a neighbour that was not confirmed lately may take to answer: three requests to it
/// alone and three to all, a second apart.
constexpr std::chrono::milliseconds kConfirmTime{10'000};
constexpr std::chrono::milliseconds kLookInterval{100};

std::string plural(std::uint64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

/// What has been dropped since `before`.
Counts since(const Counts& before, Counts now) {
  for (const auto& [name, value] : before) now[name] -= value;
  std::erase_if(now, [](const auto& each) { return each.second == 0; });
  return now;
}

class Explanation {
 public:
  explicit Explanation(const Command& command)
      : command_(command), address_(*command.address), findings_(command.host) {}

  Findings find() {
    const auto route = find_route(findings_, command_);
    if (!route) return std::move(findings_);
    const Client client(route->device);
    const ibarp_info info = client.info();
    if (!is_up(findings_, info)) return std::move(findings_);
    if (route->type == "broadcast" || is_multicast(address_)) {
      explain_group(client, route->type == "broadcast" ? kBroadcast : address_);
    } else {
      explain_neighbour(client, info, route->gateway.value_or(address_));
    }
    return std::move(findings_);
  }

 private:
  void explain_group(const Client& client, const ibarp_address& address) {
    const auto groups = client.groups();
    const ibarp_group* const group = find_group(groups, address);
    if (group == nullptr) {
      findings_.ok("group", "not known yet: the first packet to it looks it up");
      return;
    }
    const std::string membership = group->membership;
    const std::string text =
        "MGID " + gid_text(group->mgid) + ", MLID " + lid_text(group->mlid) + ", " + membership;
    if (membership == "missing") {
      findings_.wrong(
          "group", text + ": no host has joined it, so the subnet has no such group",
          "on a host that should receive, look whether it has joined: ip maddr; ibarp groups");
    } else if (group->mlid == 0) {
      findings_.wrong(
          "group", text + "; " + plural(group->waiting, "packet") + " waiting",
          "the subnet administrator has not answered: ibarp check dev " + client.interface());
    } else {
      findings_.ok("group", text);
    }
  }

  void explain_neighbour(const Client& client, const ibarp_info& info, const ibarp_address& hop) {
    const Counts before = drops_of(client);
    ibarp_entry entry = entry_of(client, hop);
    const bool was_known = was_known_ =
        (entry.flags & IBARP_HAS_PATH) != 0 && std::string_view(entry.state) != "failed";
    int result = 0;
    std::string why;
    if (was_known && is_unconfirmed(entry)) {
      entry = confirm(client, hop);
      if (!is_confirmed(entry)) result = -EHOSTUNREACH;
    } else if (!was_known) {
      ibarp_path path{};
      path.size = sizeof(path);
      result = resolve_patiently(client, hop, kResolveMs, path);
      if (result != 0) why = reason_of(client.interface(), client.get(), result);
      entry = entry_of(client, hop);
    }
    if (result == 0) {
      describe(entry, client.interface(), was_known);
      warn_of_limited_member(info, hop);
    } else {
      say_why(entry, info, hop, result, why);
    }
    const std::string counted = text_of(since(before, drops_of(client)));
    if (!counted.empty()) {
      findings_.warn("drops", "counted by the interface meanwhile: " + counted,
                     "ibarp(8) explains each counter");
    }
  }

  static bool is_confirmed(const ibarp_entry& entry) {
    const std::string_view state = entry.state;
    return state == "reachable" || state == "permanent";
  }
  static bool is_unconfirmed(const ibarp_entry& entry) { return !is_confirmed(entry); }

  /// Asks a neighbour that was not confirmed lately, as a packet would, and waits until it has
  /// answered or has failed. Returns the entry then.
  static ibarp_entry confirm(const Client& client, const ibarp_address& hop) {
    using Steady = std::chrono::steady_clock;
    program::Progress progress;
    ibarp_entry entry{};
    for (const auto end = Steady::now() + kConfirmTime; Steady::now() < end;) {
      // Has the daemon ask a neighbour that is stale; does nothing more while it is being asked.
      ibarp_path path{};
      path.size = sizeof(path);
      (void)ibarp_resolve(client.get(), &hop, 0, &path);
      entry = entry_of(client, hop);
      if (is_confirmed(entry) || std::string_view(entry.state) == "failed") break;
      progress.show("asking " + text_of(hop));
      std::this_thread::sleep_for(kLookInterval);
    }
    return entry;
  }

  /// Returns an entry without flags if there is none.
  static ibarp_entry entry_of(const Client& client, const ibarp_address& address) {
    ibarp_entry entry{};
    entry.size = sizeof(entry);
    const int result = ibarp_get(client.get(), &address, &entry);
    if (result == -ENOENT) return {};
    client.check(result);
    return entry;
  }

  void describe(const ibarp_entry& entry, const std::string& interface, bool was_known) {
    const std::string known = std::string(entry.state) + ", " + text_of(entry.hardware);
    if (std::string_view(entry.state) == "permanent") {
      findings_.warn("neighbour", known + ": set by an operator, so ARP and ND do not change it",
                     "if the host has another card or daemon now: ibarp del " +
                         text_of(entry.address) + " dev " + interface);
    } else {
      findings_.ok("neighbour",
                   known + (was_known ? "" : "; it was not known, and has answered now"));
    }
    findings_.ok("path", "LID " + lid_text(entry.dlid) + ", SL " + std::to_string(entry.sl) +
                             ", MTU " + std::to_string(entry.path_mtu) + ", rate " +
                             rate(entry.rate_mbps));
    std::string packets =
        std::to_string(entry.uses) + " sent, " + std::to_string(entry.waiting) + " waiting";
    if (entry.uses > 0) packets += ", the last " + age(entry.idle_ms) + " ago";
    findings_.ok("packets", packets);
  }

  /// What is known of a neighbour may be older than the membership of the two ports.
  void warn_of_limited_member(const ibarp_info& info, const ibarp_address& hop) {
    if (!is_limited(info)) return;
    findings_.warn("partition",
                   "this port is a limited member: if that of " + text_of(hop) +
                       " is one, too, no packet arrives, and the entry is an old one",
                   "ibarp probe " + text_of(hop) +
                       " asks again; make one of the two ports a full member, in the configuration "
                       "of the subnet manager");
  }

  void say_why(const ibarp_entry& entry, const ibarp_info& info, const ibarp_address& hop,
               int result, const std::string& why) {
    if (result != -EHOSTUNREACH && result != -ETIMEDOUT) {
      findings_.wrong("neighbour", why, "ibarp check dev " + std::string(info.interface));
      return;
    }
    const bool has_failed = std::string_view(entry.state) == "failed";
    if ((entry.flags & IBARP_HAS_HARDWARE) != 0 && !was_known_ && !has_failed) {
      findings_.ok("neighbour", "has answered: " + text_of(entry.hardware));
      findings_.wrong("path",
                      "the subnet administrator gives none to GID " + gid_text(entry.hardware.gid),
                      "saquery PathRecord; look whether both ports are in partition " +
                          hexadecimal(info.pkey, 4) + ", and not both limited members");
      return;
    }
    findings_.wrong(
        "neighbour", text_of(hop) + " does not answer " + requests_for(hop),
        "on that host: ibarp check; it needs the address, and an interface in partition " +
            hexadecimal(info.pkey | 0x8000U, 4));
    if (is_limited(info)) {
      findings_.warn(
          "partition", "this port is a limited member: it reaches full members only",
          "make one of the two ports a full member, in the configuration of the subnet manager");
    }
  }

  const Command& command_;
  const ibarp_address address_;
  Findings findings_;
  bool was_known_ = false;  ///< what the cache says of the neighbour is older than this command
};

}  // namespace

Findings explain(const Command& command) {
  return command.from.empty() ? Explanation(command).find() : explain_sender(command);
}

}  // namespace ipoib::ibarp
