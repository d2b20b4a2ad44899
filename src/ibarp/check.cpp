// Checks an interface, its port and its subnet, as far as the daemon and the host know them.
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "findings.hpp"
#include "run.hpp"
#include "text.hpp"

namespace ipoib::ibarp {

namespace fs = std::filesystem;

namespace {

/// The kernel's default, which is enough for the queues of several interfaces.
constexpr std::uint64_t kEnoughLockedMemory = 8ULL << 20;

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

void check_groups(Findings& findings, const Client& client, const ibarp_info& info) {
  if (std::string_view(info.state) != "up") return;
  const auto groups = client.groups();
  if (const auto* const group = find_group(groups, kBroadcast)) {
    findings.ok("broadcast group", "MLID " + lid_text(group->mlid) + ", " + group->membership);
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
  check_drops(findings, client);
  return findings;
}

}  // namespace ipoib::ibarp
