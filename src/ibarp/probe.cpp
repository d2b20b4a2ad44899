// Reaches a neighbour step by step: ARP or Neighbour Discovery, the path, a datagram.
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <map>
#include <optional>
#include <span>
#include <string_view>

#include "echo.hpp"
#include "resolution.hpp"
#include "route_findings.hpp"
#include "run.hpp"
#include "text.hpp"

namespace ipoib::ibarp {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kResolutionPatienceMs = 10'000;
constexpr std::chrono::milliseconds kEchoPatience{2000};

std::string milliseconds(Clock::duration time) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3f ms",
                std::chrono::duration<double, std::milli>(time).count());
  return text.data();
}

/// Counters of what the steps send.
constexpr std::array<const char*, 4> kRequests{"arp_requests_broadcast", "arp_requests_unicast",
                                               "nd_solicitations_multicast",
                                               "nd_solicitations_unicast"};
constexpr std::array<const char*, 1> kPathRequests{"path_requests"};

Counts counts(const Client& client) {
  Counts out;
  for (const ibarp_counter& each : client.counters()) out[each.name] = each.value;
  return out;
}

class Probe {
 public:
  Probe(const Command& command, std::uint16_t sequence)
      : command_(command), sequence_(sequence), findings_(command.host) {}

  Findings run() {
    const auto route = find_route(findings_, command_);
    if (!route) return std::move(findings_);
    const Client client(route->device);
    if (!is_up(findings_, client.info())) return std::move(findings_);
    if (route->type != "broadcast" && !is_multicast(*command_.address)) {
      if (!resolve(client, route->gateway.value_or(*command_.address))) return std::move(findings_);
    }
    exchange(*route);
    return std::move(findings_);
  }

 private:
  /// Forgets what is known, unless the operator has set it, and asks the neighbour and the SA
  /// again. Returns whether the path is known.
  bool resolve(const Client& client, const ibarp_address& hop) {
    const bool is_asked = forget(client, hop);
    const auto before = counts(client);
    const auto begin = Clock::now();
    ibarp_path path{};
    path.size = sizeof(path);
    const int result = resolve_patiently(client, hop, kResolutionPatienceMs, path);
    const std::string why = result == 0 ? "" : reason_of(client.interface(), client.get(), result);
    const auto time = Clock::now() - begin;
    const auto now = counts(client);
    const bool has_answered = result == 0 || has_hardware(client, hop);
    if (!has_answered) {
      findings_.wrong("neighbour",
                      sent(before, now, kRequests) + "; " + text_of(hop) + " did not answer " +
                          requests_for(hop),
                      "ibarp explain " + command_.host);
      return false;
    }
    findings_.ok("neighbour",
                 is_asked ? sent(before, now, kRequests) + "; " + text_of(hop) + " has answered"
                          : text_of(hop) + " is known, and not asked again");
    if (result != 0) {
      findings_.wrong("path", why, "ibarp explain " + command_.host);
      return false;
    }
    findings_.ok("path", "LID " + lid_text(path.dlid) + ", SL " + std::to_string(path.sl) +
                             ", MTU " + std::to_string(path.mtu) + "; " +
                             sent(before, now, kPathRequests) +
                             "; neighbour and path known after " + milliseconds(time));
    return true;
  }

  static bool has_hardware(const Client& client, const ibarp_address& hop) {
    ibarp_entry entry{};
    entry.size = sizeof(entry);
    return ibarp_get(client.get(), &hop, &entry) == 0 && (entry.flags & IBARP_HAS_HARDWARE) != 0;
  }

  /// Deletes the entry unless it is permanent or pinned; only root may do it. Returns whether it
  /// has gone.
  static bool forget(const Client& client, const ibarp_address& hop) {
    ibarp_filter filter{sizeof(ibarp_filter), 0, {}, 0, {}};
    filter.prefix = hop;
    filter.prefix_length = hop.family == AF_INET ? 32 : 128;
    std::uint64_t deleted = 0;
    if (ibarp_flush_matching(client.get(), &filter, &deleted) != 0) return false;
    ibarp_entry entry{};
    entry.size = sizeof(entry);
    return ibarp_get(client.get(), &hop, &entry) == -ENOENT;
  }

  /// "arp_requests_broadcast 2", by the counters with these names.
  static std::string sent(const Counts& before, Counts now, std::span<const char* const> names) {
    std::string out;
    for (const char* const name : names) {
      const auto at = before.find(name);
      const auto more = now[name] - (at == before.end() ? 0 : at->second);
      if (more == 0) continue;
      out += (out.empty() ? "" : ", ") + std::string(name) + " " + std::to_string(more);
    }
    return out.empty() ? "nothing was sent" : out;
  }

  void exchange(const HostRoute& route) {
    std::optional<Echo> echo;
    try {
      echo.emplace(*command_.address, route);
    } catch (const Failure& failure) {
      findings_.warn("datagram", failure.what(), "run ibarp probe as root");
      return;
    }
    try {
      if (const auto time = echo->exchange(sequence_, kEchoPatience)) {
        findings_.ok("datagram", "echo reply after " + milliseconds(*time));
      } else if (echo->is_to_group()) {
        findings_.warn("datagram", "no host has answered an ICMP echo request to all of them",
                       "on one of them: net.ipv4.icmp_echo_ignore_broadcasts, which is 1 unless "
                       "set, or net.ipv6.icmp.echo_ignore_multicast; ip maddr; ibarp stats");
      } else {
        findings_.wrong("datagram",
                        "no reply to an ICMP echo request in " +
                            std::to_string(kEchoPatience.count() / 1000) + " seconds",
                        "on that host: a firewall, or the route back; ibarp stats");
      }
    } catch (const Failure& failure) {
      findings_.warn("datagram", failure.what(),
                     "a firewall on this host, or its route: ip route get " + command_.host);
    }
  }

  const Command& command_;
  const std::uint16_t sequence_;
  Findings findings_;
};

}  // namespace

Findings probe(const Command& command, std::uint16_t sequence) {
  return Probe(command, sequence).run();
}

}  // namespace ipoib::ibarp
