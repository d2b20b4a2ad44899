#include "daemon/options/option_values.hpp"

#include <grp.h>
#include <net/if.h>

#include <algorithm>
#include <sstream>

#include "daemon/options/cpus.hpp"
#include "daemon/options/interface_plan.hpp"
#include "daemon/process/privileges.hpp"
#include "ipoib/number.hpp"
#include "ipoib/pkey_table.hpp"
#include "wire/sa_values.hpp"

namespace ipoib::daemon {

namespace {

[[noreturn]] void refuse(const std::string& option, const std::string& text,
                         const std::string& allowed) {
  throw UsageError("--" + option + " " + text + ": must be " + allowed);
}

std::optional<std::uint64_t> read_number(const std::string& text) {
  const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  return hexadecimal ? ipoib::parse_number<std::uint64_t>(text.substr(2), 16)
                     : ipoib::parse_number<std::uint64_t>(text);
}

}  // namespace

std::uint64_t parse_number(const std::string& option, const std::string& text, std::uint64_t least,
                           std::uint64_t most) {
  const auto value = read_number(text);
  if (!value || *value < least || *value > most) {
    refuse(option, text, "a number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return *value;
}

bool parse_yes_no(const std::string& option, const std::string& text) {
  if (text == "yes") return true;
  if (text == "no") return false;
  refuse(option, text, "yes or no");
}

PKey parse_pkey(const std::string& option, const std::string& text) {
  const auto key = ipoib::parse_pkey(text);
  if (!key) refuse(option, text, "a P_Key from " + std::string(kPKeyRange));
  return key->as_full();
}

std::vector<PKey> parse_pkeys(const std::string& option, const std::vector<std::string>& texts) {
  std::vector<PKey> keys;
  for (const auto& text : texts) {
    const auto key = parse_pkey(option, text);
    if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    if (keys.size() > kMaxInterfaces) {
      refuse(option, text, "one of at most " + std::to_string(kMaxInterfaces) + " partitions");
    }
  }
  return keys;
}

EthernetChoice parse_ethernet(const std::string& option, const std::string& text) {
  if (text.empty() || text == "yes") return {.all = true, .pkeys = {}};
  if (text == "no") return {};
  std::vector<std::string> keys;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    keys.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return {.all = false, .pkeys = parse_pkeys(option, keys)};
}

std::map<PKey, VlanId> parse_vlans(const std::string& option,
                                   const std::vector<std::string>& texts) {
  std::map<PKey, VlanId> vlans;
  for (const auto& text : texts) {
    const auto equals = text.find('=');
    if (equals == std::string::npos) {
      refuse(option, text, "a VLAN and the P_Key of its partition, as 18=0x8012");
    }
    const auto what = option + " " + text + ":";
    const VlanId vlan(static_cast<std::uint16_t>(
        parse_number(what, text.substr(0, equals), 1, kLastVlan.value())));
    const auto pkey = parse_pkey(what, text.substr(equals + 1));
    for (const auto& [other_pkey, other] : vlans) {
      if (other == vlan) refuse(option, text, "each VLAN once");
      if (other_pkey == pkey) refuse(option, text, "each partition once");
    }
    vlans.emplace(pkey, vlan);
    if (vlans.size() >= kMaxInterfaces) {
      refuse(option, text, "one of at most " + std::to_string(kMaxInterfaces - 1) + " VLANs");
    }
  }
  return vlans;
}

std::vector<std::uint8_t> parse_scopes(const std::string& option, const std::string& text) {
  constexpr std::uint8_t kLargestScope = 14;
  std::vector<std::uint8_t> scopes;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const auto scope = static_cast<std::uint8_t>(
        parse_number(option, text.substr(begin, end - begin), 1, kLargestScope));
    if (std::ranges::find(scopes, scope) != scopes.end()) {
      refuse(option, text, "each scope once");
    }
    scopes.push_back(scope);
    begin = end + 1;
  }
  return scopes;
}

std::vector<unsigned> parse_cpus(const std::string& option, const std::string& text) {
  std::vector<unsigned> cpus;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const auto range = text.substr(begin, end - begin);
    const auto hyphen = range.find('-');
    if (range.empty() || hyphen == 0 || hyphen == range.size() - 1) {
      refuse(option, text, "CPUs and ranges of them, such as 0,2-3");
    }
    const auto first = parse_number(option, range.substr(0, hyphen), 0, kMaxCpus - 1);
    const auto last = hyphen == std::string::npos
                          ? first
                          : parse_number(option, range.substr(hyphen + 1), first, kMaxCpus - 1);
    for (auto cpu = static_cast<unsigned>(first); cpu <= last; ++cpu) {
      if (!can_run_on(cpu)) {
        throw UsageError("--" + option + " " + text + ": CPU " + std::to_string(cpu) +
                         " does not exist, is offline, or may not be used by this process");
      }
      if (std::ranges::find(cpus, cpu) != cpus.end()) refuse(option, text, "each CPU once");
      cpus.push_back(cpu);
    }
    begin = end + 1;
  }
  return cpus;
}

std::uint8_t parse_fabric_mtu(const std::string& option, const std::string& text) {
  const auto bytes = static_cast<std::uint32_t>(parse_number(option, text, 256, 4096));
  const auto code = wire::mtu_code(bytes);
  if (code == 0) refuse(option, text, "256, 512, 1024, 2048 or 4096");
  return code;
}

std::uint8_t parse_rate(const std::string& option, const std::string& text) {
  const auto code = wire::rate_code(text);
  if (code == 0) refuse(option, text, "one of " + wire::known_rates());
  return code;
}

namespace {
/// Whether softib accepts it as the name of a subnet or an HCA.
bool is_softib_name(std::string_view name) {
  constexpr std::string_view kMarks = "._-";
  return name.size() < 64 && name.front() != '.' && name.front() != '-' &&
         std::all_of(name.begin(), name.end(), [&](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  kMarks.find(c) != std::string_view::npos;
         });
}
}  // namespace

SoftibTarget parse_softib(const std::string& text) {
  const auto slash = std::min(text.find('/'), text.size());
  SoftibTarget target{text.substr(0, slash), text.substr(std::min(slash + 1, text.size()))};
  for (const auto& name : {target.subnet, target.hca}) {
    if (!name.empty() && !is_softib_name(name)) {
      throw UsageError("--softib " + text + ": '" + name +
                       "' is not a valid name (letters, digits, '.', '_', '-'; at most 63)");
    }
  }
  return target;
}

std::vector<control::ModuleLevel> parse_log(const std::string& text) {
  std::istringstream words(text);
  std::vector<control::ModuleLevel> out;
  for (std::string word; std::getline(words, word, ',');) {
    const auto equals = word.find('=');
    if (equals == std::string::npos) {
      out.push_back({"all", word});
    } else {
      out.push_back({word.substr(0, equals), word.substr(equals + 1)});
    }
  }
  return out;
}

LogTarget parse_log_target(const std::string& option, const std::string& text) {
  if (text == "stderr") return LogTarget::standard_error;
  if (text == "syslog") return LogTarget::syslog;
  refuse(option, text, "stderr or syslog");
}

SandboxMode parse_sandbox(const std::string& option, const std::string& text) {
  if (text == "on") return SandboxMode::on;
  if (text == "log") return SandboxMode::log;
  if (text == "off") return SandboxMode::off;
  refuse(option, text, "on, log or off");
}

Takeover parse_takeover(const std::string& option, const std::string& text) {
  if (text.empty()) return Takeover::if_running;
  if (text == "required") return Takeover::required;
  refuse(option, text, "required, or no value");
}

std::string parse_user(const std::string& option, const std::string& text) {
  if (!find_user(text)) refuse(option, text, "a user that exists: getent passwd lists them");
  return text;
}

std::string parse_group(const std::string& option, const std::string& text) {
  if (!find_group(text)) refuse(option, text, "a group that exists: getent group lists them");
  return text;
}

control::SocketAccess parse_control_group(const std::string& option, const std::string& text) {
  const auto comma = std::min(text.find(','), text.size());
  control::SocketAccess out;
  out.group_name = text.substr(0, comma);
  out.is_private = comma != text.size();
  if (out.group_name.empty() || (out.is_private && text.substr(comma) != ",private")) {
    refuse(option, text, "the name of a group, or that and \",private\"");
  }
  const auto* const group = ::getgrnam(out.group_name.c_str());
  if (group == nullptr) refuse(option, text, "a group that exists: getent group lists them");
  out.group = group->gr_gid;
  return out;
}

PortName parse_port_name(const std::string& option, const std::string& text) {
  const auto colon = std::min(text.rfind(':'), text.size());
  if (colon == 0) refuse(option, text, "an RDMA device and its port, as mlx5_1:1");
  PortName name{text.substr(0, colon), 1};
  if (colon != text.size()) {
    name.port = static_cast<std::uint8_t>(
        parse_number(option + " DEVICE:PORT", text.substr(colon + 1), 1, 254));
  }
  return name;
}

Reselect parse_reselect(const std::string& option, const std::string& text) {
  if (text == "always") return Reselect::always;
  if (text == "failure") return Reselect::failure;
  refuse(option, text, "always or failure");
}

PollMode parse_poll_mode(const std::string& option, const std::string& text) {
  if (text == "event") return PollMode::event;
  if (text == "busy") return PollMode::busy;
  if (text == "adaptive") return PollMode::adaptive;
  refuse(option, text, "event, busy or adaptive");
}

bool is_interface_name(const std::string& text) {
  return !text.empty() && text.size() < IFNAMSIZ && text != "." && text != ".." &&
         std::none_of(text.begin(), text.end(), [](unsigned char c) {
           return c <= ' ' || c == '"' || c == '\'' || c == '/' || c == ':' || c == '%' ||
                  c >= 0x7f;
         });
}

std::string parse_interface(const std::string& option, const std::string& text) {
  if (!is_interface_name(text)) refuse(option, text, kInterfaceNameRule);
  return text;
}

}  // namespace ipoib::daemon
