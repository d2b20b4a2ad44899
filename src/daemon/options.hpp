// The command line and the configuration file of ipoibd, in the same words.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "control/values.hpp"
#include "daemon/poll_policy.hpp"
#include "ipoib/address.hpp"
#include "link/config.hpp"
#include "verbs/ud_queue_pair.hpp"

namespace ipoib::daemon {

/// Where --softib leads to; empty names are softib's defaults.
struct SoftibTarget {
  std::string subnet;
  std::string hca;
  friend bool operator==(const SoftibTarget&, const SoftibTarget&) = default;
};

enum class LogTarget : std::uint8_t { standard_error, syslog };

struct Options {
  std::string device;  ///< RDMA device; empty: the first with such a port
  std::uint8_t port = 1;
  std::optional<std::uint8_t> gid_index;  ///< of a RoCE port; nothing: verbs::choose_gid()
  std::vector<PKey> pkeys;        ///< as full members' keys, each once; none: all of the port
  std::string interface = "ib0";  ///< base of the interfaces' names, see InterfacePlan
  std::string netns;              ///< for the interfaces; empty: the daemon's own
  std::optional<SoftibTarget> softib;
  bool wait = false;                     ///< for the device and its port to appear
  bool stable_privacy = false;           ///< opaque IPv6 identifiers instead of the port's GUID
  std::uint32_t max_ip_mtu = kMaxIpMtu;  ///< octets; the link's own MTU may be less
  verbs::QueueDepths queues;
  link::Config link;  ///< but for the P_Key, which is each interface's own
  std::vector<control::ModuleLevel> log{{"all", "info"}};
  LogTarget log_target = LogTarget::standard_error;
  std::string pid_file;  ///< empty: none
  PollMode poll = PollMode::adaptive;

  /// The least that IPv4 needs (RFC 791, 3.2), and the most that an InfiniBand MTU leaves.
  static constexpr std::uint32_t kMinIpMtu = 68;
  static constexpr std::uint32_t kMaxIpMtu = 4092;
};

/// A text that was asked for instead of work: --help, --version.
struct Information {
  std::string text;
};

/// The user has asked for something that cannot be; what() says what can.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// `arguments` without the program's name. Throws UsageError.
[[nodiscard]] std::variant<Options, Information> parse_options(
    std::span<const std::string> arguments);

}  // namespace ipoib::daemon
