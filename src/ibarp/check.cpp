// Checks an interface, its port and its subnet, as far as the daemon and the host know them.
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "findings.hpp"
#include "run.hpp"
#include "text.hpp"

namespace ipoib::ibarp {

namespace fs = std::filesystem;

namespace {

/// The kernel's default, which is enough for the queues of several interfaces.
constexpr std::uint64_t kEnoughLockedMemory = 8ULL << 20;

/// Bytes of the header that the packets of IP have on the link (RFC 4391, 6).
constexpr std::uint32_t kEncapsulation = 4;

struct Awaited {
  std::string what;
  std::string remedy;
};

/// What an interface waits for ends with what to do about it, in parentheses.
Awaited awaited_by(const ibarp_info& info) {
  const std::string text = info.waiting_for;
  const auto begin = text.rfind(" (");
  if (begin == std::string::npos || !text.ends_with(')')) return {text, ""};
  return {text.substr(0, begin), text.substr(begin + 2, text.size() - begin - 3)};
}

void check_state(Findings& findings, const ibarp_info& info) {
  const std::string name = info.interface;
  findings.ok("daemon",
              std::string("ipoibd ") + info.version + ", process " + std::to_string(info.pid));
  if (info.admin_up != 0) {
    findings.ok("interface", "administratively up");
  } else {
    findings.wrong("interface", "administratively down", "ip link set " + name + " up");
  }
  const std::string port = std::string(info.device) + " port " + std::to_string(info.port);
  if (std::string_view(info.state) != "up") {
    const auto [what, remedy] = awaited_by(info);
    findings.wrong("port", port + " waits for " + what, remedy);
    return;
  }
  findings.ok("port", port + ", LID " + lid_text(info.lid));
  if (info.sm_lid != 0) findings.ok("subnet manager", "LID " + lid_text(info.sm_lid));
}

void check_partition(Findings& findings, const ibarp_info& info) {
  if (info.membership[0] == '\0') return;
  const std::string pkey = "P_Key " + hexadecimal(info.pkey, 4);
  if (!is_limited(info)) {
    findings.ok("partition", pkey + ", full member");
    return;
  }
  findings.warn("partition", pkey + ", limited member: it reaches full members only",
                "if hosts with limited membership are to reach each other, make the port a full "
                "member, in the configuration of the subnet manager");
}

/// The subnet administrator refuses a port that is slower than the group; but the port may become
/// slower later, when its cable does.
void check_broadcast_group(Findings& findings, const ibarp_info& info, const ibarp_group& group) {
  std::string text = "MLID " + lid_text(group.mlid) + ", " + group.membership;
  const std::uint32_t mtu = info.mtu == 0 ? 0 : info.mtu + kEncapsulation;
  if (mtu != 0 && info.port_mtu != 0) {
    text += ", MTU " + std::to_string(mtu) + " (the port: " + std::to_string(info.port_mtu) + ")";
  }
  if (info.group_rate_mbps != 0 && info.port_rate_mbps != 0) {
    text +=
        ", rate " + rate(info.group_rate_mbps) + " (the port: " + rate(info.port_rate_mbps) + ")";
  }
  const bool is_slower = info.port_rate_mbps != 0 && info.group_rate_mbps > info.port_rate_mbps;
  const bool is_smaller = info.port_mtu != 0 && mtu > info.port_mtu;
  if (is_slower || is_smaller) {
    findings.warn("broadcast group",
                  text + ": the port is " + (is_slower ? "slower" : "smaller") +
                      " than the group, so it loses multicasts",
                  is_slower
                      ? "ibstat, iblinkinfo: the cable, or the port of the switch"
                      : "the MTU of the partition, in the configuration of the subnet manager");
  } else {
    findings.ok("broadcast group", text);
  }
}

void check_groups(Findings& findings, const Client& client, const ibarp_info& info) {
  if (std::string_view(info.state) != "up") return;
  const auto groups = client.groups();
  if (const auto* const group = find_group(groups, kBroadcast)) {
    check_broadcast_group(findings, info, *group);
  }
  const auto missing = std::ranges::count_if(
      groups, [](const auto& group) { return std::string_view(group.membership) == "missing"; });
  if (missing == 0) return;
  findings.ok("groups",
              std::to_string(missing) +
                  " to which the host sends has nobody joined; packets to them are dropped");
}

void check_mtu(Findings& findings, const ibarp_info& info) {
  if (info.host_mtu == 0 || info.mtu == 0) return;
  const std::string mtu = std::to_string(info.host_mtu) + " bytes";
  if (info.host_mtu <= info.mtu) {
    findings.ok("MTU", mtu);
    return;
  }
  const std::string limit = std::to_string(info.mtu);
  findings.wrong("MTU", mtu + ", but the subnet carries " + limit + ": larger packets are dropped",
                 "ip link set " + std::string(info.interface) + " mtu " + limit);
}

bool is_link_local(const sockaddr* address) {
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

void check_addresses(Findings& findings, const std::string& name) {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(first, &::freeifaddrs);
  std::size_t count = 0;
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (name != each->ifa_name || each->ifa_addr == nullptr || is_link_local(each->ifa_addr))
      continue;
    if (each->ifa_addr->sa_family == AF_INET || each->ifa_addr->sa_family == AF_INET6) ++count;
  }
  if (count > 0) {
    findings.ok("addresses", std::to_string(count) + " besides those of the link");
  } else {
    findings.warn("addresses", "none besides those of the link",
                  "ip addr add ADDRESS/BITS dev " + name);
  }
}

/// Only a user who may trace a process may read its limits.
void check_locked_memory(Findings& findings, const ibarp_info& info) {
  std::ifstream file("/proc/" + std::to_string(info.pid) + "/limits");
  for (std::string line; std::getline(file, line);) {
    constexpr std::string_view kName = "Max locked memory";
    if (!line.starts_with(kName)) continue;
    std::istringstream words(line.substr(kName.size()));
    std::string soft;
    words >> soft;
    if (soft == "unlimited" || std::strtoull(soft.c_str(), nullptr, 10) >= kEnoughLockedMemory) {
      findings.ok("locked memory", soft == "unlimited" ? "unlimited" : soft + " bytes");
    } else {
      findings.warn("locked memory", "at most " + soft + " bytes: more queues may fail",
                    "raise LimitMEMLOCK= of the unit, or ulimit -l");
    }
  }
}

/// Programs that have the device open, besides the daemon, as "name (process 12)". The kernel shows
/// only root whose files these are.
std::vector<std::string> programs_on(const ibarp_info& info) {
  std::error_code ignored;
  std::set<std::string> files;
  const auto device = fs::path("/sys/class/infiniband") / info.device / "device";
  for (const char* const kind : {"infiniband_verbs", "infiniband_mad"}) {
    for (const auto& each : fs::directory_iterator(device / kind, ignored)) {
      const auto name = each.path().filename().string();
      if (!name.starts_with("issm")) files.insert("/dev/infiniband/" + name);
    }
  }
  std::vector<std::string> out;
  if (files.empty()) return out;
  for (const auto& process : fs::directory_iterator("/proc", ignored)) {
    const auto pid = process.path().filename().string();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    if (pid == std::to_string(info.pid)) continue;
    bool uses = false;
    std::error_code gone;
    for (fs::directory_iterator each(process.path() / "fd", gone), end;
         !gone && !uses && each != end; each.increment(gone)) {
      uses = files.contains(fs::read_symlink(each->path(), ignored).string());
    }
    if (!uses) continue;
    std::string name;
    std::getline(std::ifstream(process.path() / "comm"), name);
    out.push_back(name + " (process " + pid + ")");
  }
  return out;
}

/// What shares the port with the interface: bandwidth, memory regions and queue pairs.
void check_programs(Findings& findings, const ibarp_info& info) {
  constexpr std::size_t kShown = 5;
  const auto programs = programs_on(info);
  if (programs.empty()) return;
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, programs.size()); ++i) {
    text += (i == 0 ? "" : ", ") + programs[i];
  }
  if (programs.size() > kShown) {
    text += " and " + std::to_string(programs.size() - kShown) + " others";
  }
  findings.ok("other programs", "on " + std::string(info.device) + ": " + text);
}

/// The times of the trace are those of the daemon's CLOCK_MONOTONIC, which differs in another time
/// namespace (time_namespaces(7)). Only those who may change things see the trace.
void check_clock(Findings& findings, const Client& client) {
  std::int64_t last = 0;
  const auto each = [](const ibarp_trace_record* record, void* data) {
    auto& newest = *static_cast<std::int64_t*>(data);
    newest = std::max(newest, record->when_ns);
    return 0;
  };
  if (ibarp_trace(client.get(), each, &last) != 0 || last == 0) return;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto age_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now - std::chrono::nanoseconds(last))
          .count();
  // The daemon has recorded that it was asked for the trace.
  constexpr std::int64_t kSame = 60'000;
  if (age_ms >= 0 && age_ms < kSame) {
    findings.ok("clock", "the trace has the time of this host");
    return;
  }
  const std::string offset = std::to_string((age_ms < 0 ? -age_ms : age_ms) / 1000);
  findings.warn("clock",
                "the times of the trace are " + offset + " seconds " +
                    (age_ms < 0 ? "ahead of" : "behind") + " this process's",
                "run ibarp in the time namespace of the daemon: nsenter --time=/proc/" +
                    std::to_string(client.info().pid) + "/ns/time ibarp trace");
}

/// Only interfaces of the kernel's driver have a file `pkey`.
void check_kernel_driver(Findings& findings, const ibarp_info& info) {
  std::error_code ignored;
  for (const auto& each : fs::directory_iterator("/sys/class/net", ignored)) {
    unsigned pkey = 0;
    std::ifstream(each.path() / "pkey") >> std::hex >> pkey;
    if (pkey == 0 || ((pkey ^ info.pkey) & 0x7fffU) != 0) continue;
    if (!fs::exists(each.path() / "device/infiniband" / info.device, ignored)) continue;
    findings.warn(
        "kernel driver",
        each.path().filename().string() + " of ib_ipoib is in the same partition of the port",
        "ip link set " + each.path().filename().string() +
            " down, if both are to have the same addresses");
  }
}

void check_drops(Findings& findings, const Client& client) {
  const std::string text = text_of(drops_of(client));
  if (text.empty()) {
    findings.ok("drops", "none since the start");
  } else {
    findings.warn("drops", "since the start: " + text,
                  "ibarp stats again: does one grow? ibarp(8) explains each");
  }
}

}  // namespace

Findings check(const Client& client) {
  Findings findings(client.interface());
  const ibarp_info info = client.info();
  check_state(findings, info);
  check_partition(findings, info);
  check_groups(findings, client, info);
  check_mtu(findings, info);
  check_addresses(findings, client.interface());
  check_locked_memory(findings, info);
  check_kernel_driver(findings, info);
  check_programs(findings, info);
  check_clock(findings, client);
  check_drops(findings, client);
  return findings;
}

}  // namespace ipoib::ibarp
