// The options of ipoibd, from the command line and the configuration file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "control/neighbour_file.hpp"
#include "control/socket_folder.hpp"
#include "control/values.hpp"
#include "daemon/process/sandbox.hpp"
#include "daemon/pump/poll_policy.hpp"
#include "daemon/pump/port_selection.hpp"
#include "ipoib/address.hpp"
#include "ipoib/vlan_id.hpp"
#include "link/config.hpp"
#include "verbs/ud_queue_pair.hpp"

namespace ipoib::daemon {

/// Values of --softib and --roce; empty names stand for softib's defaults.
struct SoftibTarget {
  std::string subnet;
  std::string hca;
  /// The network interface, or an address of it, for a RoCE port in place of a subnet.
  std::optional<std::string> roce = {};
  friend bool operator==(const SoftibTarget&, const SoftibTarget&) = default;
};

/// Value of --ethernet.
struct EthernetChoice {
  bool all = false;
  std::vector<PKey> pkeys;  ///< full members' keys
  [[nodiscard]] bool includes(PKey pkey) const {
    return all || std::ranges::find(pkeys, pkey) != pkeys.end();
  }
  friend bool operator==(const EthernetChoice&, const EthernetChoice&) = default;
};

enum class LogTarget : std::uint8_t { standard_error, syslog };
/// Whether to take over from a running daemon: never; if there is one; or always, so that the
/// daemon does not start without one.
enum class Takeover : std::uint8_t { no, if_running, required };

struct Options {
  std::string device;  ///< RDMA device; empty: the first with such an InfiniBand port
  std::uint8_t port = 1;
  std::optional<PortName> backup;         ///< takes over when the port above cannot serve
  SelectionSettings selection;            ///< between the two
  std::optional<std::uint8_t> gid_index;  ///< of a RoCE port; none: verbs::choose_gid()
  std::vector<PKey> pkeys;        ///< full members' keys without duplicates; empty: all of the port
  std::string interface = "ib0";  ///< base of the interfaces' names, see InterfacePlan
  std::string netns;              ///< for the interfaces; empty: the daemon's own
  std::optional<SoftibTarget> softib;
  EthernetChoice ethernet;                           ///< which interfaces are TAPs
  std::size_t ethernet_stations = kDefaultStations;  ///< limit of those behind each TAP
  bool ethernet_strict_source = false;               ///< of stations, see ethernet::View
  std::map<PKey, VlanId> vlans;  ///< of the TAP of base_partition(), by partition
  bool wait = false;             ///< wait for device and port to appear
  bool keep = false;             ///< at the end, leave the network interfaces for the next daemon
  bool cleanup = false;          ///< only remove those that were left
  Takeover takeover = Takeover::no;
  bool stable_privacy = false;           ///< opaque IPv6 identifiers instead of the port's GUID
  std::uint32_t max_ip_mtu = kMaxIpMtu;  ///< bytes; the link's own MTU may be less
  verbs::QueueDepths queues;
  link::Config link;  ///< except the P_Key, which each interface sets
  std::vector<control::ModuleLevel> log{{"all", "info"}};
  LogTarget log_target = LogTarget::standard_error;
  std::string pid_file;  ///< empty: none
  std::string user;      ///< to run as; empty: choose_account()
  std::string group;     ///< empty: that of the user
  SandboxMode sandbox = SandboxMode::on;
  control::SocketAccess control_access;
  std::vector<control::StaticNeighbour> neighbours;  ///< of the file of neighbours
  PollMode poll = PollMode::adaptive;
  std::vector<unsigned> cpus;  ///< for the interfaces' threads, see CpuShares; empty: any
  bool acm = false;            ///< answer librdmacm in place of ibacm, see acm::Server
  bool reload = false;  ///< do not run, but make the running daemon read its configuration again
  std::map<std::string, std::string> settings;  ///< all of these, by option, as text

  /// Whether the host's side of a partition carries Ethernet frames.
  [[nodiscard]] bool is_ethernet(PKey pkey) const {
    return ethernet.includes(pkey) || vlans.contains(pkey);
  }
  [[nodiscard]] std::optional<VlanId> vlan_of(PKey pkey) const {
    const auto at = vlans.find(pkey);
    return at != vlans.end() ? std::optional(at->second) : std::nullopt;
  }

  static constexpr std::size_t kDefaultStations = 1024;
  static constexpr std::size_t kMaxStations = 65536;

  /// The minimum for IPv4 (RFC 791, 3.2), and the maximum for an InfiniBand MTU of 4096.
  static constexpr std::uint32_t kMinIpMtu = 68;
  static constexpr std::uint32_t kMaxIpMtu = link::kMaxIpMtu;
};

/// Text to print instead of running: --help, --version, --check-config.
struct Information {
  std::string text;
};

inline constexpr const char* kConfigurationFolder = "/etc/ipoibd";

/// Invalid options; what() says what is valid.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Parses `arguments`, without the program's name, and the configuration files: that of --config,
/// else those in `folder` (configuration_files.hpp), but none with --softib; then the file of
/// neighbours: that of --neighbour-file, else the one in `folder` in the same way. Throws
/// UsageError.
[[nodiscard]] std::variant<Options, Information> parse_options(
    std::span<const std::string> arguments, const std::string& folder = kConfigurationFolder);

}  // namespace ipoib::daemon
