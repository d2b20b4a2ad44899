#include "daemon/options/option_groups.hpp"

#include <functional>

#include "daemon/options/option_values.hpp"
#include "wire/sa_values.hpp"

namespace ipoib::daemon {

namespace {

namespace po = boost::program_options;

/// An option whose value is passed to `take`.
po::typed_value<std::string>* text(const char* placeholder,
                                   std::function<void(const std::string&)> take) {
  return po::value<std::string>()->value_name(placeholder)->notifier(std::move(take));
}

/// An option that sets the number `field`, whose current value is the default.
template <class T>
po::typed_value<std::string>* number(const char* option, T& field, std::uint64_t least,
                                     std::uint64_t most) {
  return text("N",
              [=, &field](const std::string& value) {
                field = static_cast<T>(parse_number(option, value, least, most));
              })
      ->default_value(std::to_string(field));
}

po::options_description backup_options(Options& out) {
  po::options_description group("Backup port");
  group.add_options()(
      "backup",
      text("NAME[:PORT]", [&](const auto& v) { out.backup = parse_port_name("backup", v); }),
      "RDMA device and port that take over when those of --device lose their link, their subnet "
      "manager or their P_Key, with the same interfaces (default: none)")(
      "backup-reselect",
      text("always|failure",
           [&](const auto& v) { out.selection.reselect = parse_reselect("backup-reselect", v); })
          ->default_value("always"),
      "when the port of --device serves again: when it has been usable for the hold-down time, or "
      "only when the backup fails")(
      "hold-down",
      text("N",
           [&](const auto& v) {
             out.selection.hold_down = std::chrono::seconds(parse_number("hold-down", v, 0, 3600));
           })
          ->default_value("10"),
      "seconds that a port has to be usable without interruption before the interfaces are moved "
      "to it, unless the other one is down");
  return group;
}

void add_ethernet_options(po::options_description& group, Options& out) {
  group.add_options()(
      "ethernet",
      text("[=P,...]", [&](const auto& v) { out.ethernet = parse_ethernet("ethernet", v); })
          ->implicit_value(""),
      "make the interfaces Ethernet ones (TAPs), for bridges, virtual machines and containers; "
      "with "
      "P_Keys, those of these partitions")(
      "ethernet-stations",
      number("ethernet-stations", out.ethernet_stations, 0, Options::kMaxStations),
      "limit of the virtual machines and containers behind an Ethernet interface; with 0, only the "
      "host uses it")(
      "ethernet-strict-source", po::bool_switch(&out.ethernet_strict_source),
      "drop what a station behind an Ethernet interface sends from an address that another station "
      "has");
  const auto vlans = [&](const std::vector<std::string>& v) { out.vlans = parse_vlans("vlan", v); };
  group.add_options()(
      "vlan", po::value<std::vector<std::string>>()->value_name("ID=P")->notifier(vlans),
      "carry the frames of a VLAN of the Ethernet interface into the partition with this P_Key. "
      "May be given several times (default: none)");
}

po::options_description interface_options(Options& out) {
  po::options_description group("Interface");
  group.add_options()("port", number("port", out.port, 1, 254), "port of the RDMA device")(
      "pkey", po::value<std::vector<std::string>>()->value_name("P")->notifier([&](const auto& v) {
        out.pkeys = parse_pkeys("pkey", v);
      }),
      "P_Key of a partition; the membership bit does not matter. May be given several times "
      "(default: all partitions of the port)")(
      "device", text("NAME[:PORT]", [&](const auto& v) { out.device = v; }),
      "RDMA device, as named by ibv_devices, and its port, if --port does not choose it (default: "
      "the first with such an InfiniBand port)")(
      "gid-index",
      text("N",
           [&](const auto& v) {
             out.gid_index = static_cast<std::uint8_t>(parse_number("gid-index", v, 0, 255));
           }),
      "index of a RoCE port's GID, which must be of RoCE v2 and an IPv6 address (default: prefers "
      "an address of the port's network device, then a link-local one)")(
      "name",
      text("IF", [&](const auto& v) { out.interface = parse_interface("name", v); })
          ->default_value(out.interface),
      "name of the network interface; of several, that of the default partition; the others append "
      "their P_Key to it: ib0.8001")(
      "netns", text("NAME", [&](const auto& v) { out.netns = v; }),
      "network namespace for the interfaces, a name of ip netns or a path (default: the daemon's)")(
      "mtu", number("mtu", out.max_ip_mtu, Options::kMinIpMtu, Options::kMaxIpMtu),
      "limit of the interface's MTU, in bytes; the broadcast group may allow less")(
      "stable-privacy", po::bool_switch(&out.stable_privacy),
      "use IPv6 addresses that do not reveal the port's GUID (RFC 8064)")(
      "softib",
      text("[=SUBNET/HCA]", [&](const auto& v) { out.softib = parse_softib(v); })
          ->implicit_value(""),
      "run on an HCA of an emulated subnet, which is started if it is not running; both names "
      "may be omitted")(
      "roce", po::value<std::string>()->implicit_value("")->value_name("[=ADDRESS|INTERFACE]"),
      "run on an emulated RoCE port of a network interface, or of one of its addresses (default: "
      "that of the default route); implies --softib")(
      "wait", po::bool_switch(&out.wait),
      "wait for an RDMA device or port that does not exist at the start, instead of failing")(
      "keep", po::bool_switch(&out.keep),
      "leave the interfaces with their addresses and routes at the end, for the next daemon")(
      "takeover",
      text("[=required]", [&](const auto& v) { out.takeover = parse_takeover("takeover", v); })
          ->implicit_value(""),
      "take over the interfaces of a running ipoibd of the port without a pause, if there is one; "
      "required: end if there is none")(
      "cleanup", po::bool_switch(&out.cleanup),
      "remove the interfaces of the port and partitions that were left, and end");
  add_ethernet_options(group, out);
  return group;
}

po::options_description link_options(Options& out) {
  auto& link = out.link;
  auto& creation = link.creation;
  po::options_description group("Link");
  group.add_options()(
      "scope",
      text("N[,N...]", [&](const auto& v) { link.scopes = parse_scopes("scope", v); })
          ->default_value("2,5,8,14"),
      "multicast scopes in which the broadcast group is searched, in this order; it is created in "
      "the first. 2: link-local, 5: site, 8: organization, 14: global")(
      "create-group",
      text("yes|no", [&](const auto& v) { creation.allowed = parse_yes_no("create-group", v); })
          ->default_value("no"),
      "create the broadcast group if the subnet has none, with the parameters below")(
      "group-mtu",
      text("N", [&](const auto& v) { creation.mtu = parse_fabric_mtu("group-mtu", v); })
          ->default_value(std::to_string(wire::mtu_bytes(creation.mtu))),
      "bytes of InfiniBand payload: 256, 512, 1024, 2048 or 4096")(
      "group-rate",
      text("N", [&](const auto& v) { creation.rate = parse_rate("group-rate", v); })
          ->default_value("10"),
      "Gb/s that each member must support")(
      "group-qkey",
      text("N",
           [&](const auto& v) {
             creation.qkey =
                 QKey(static_cast<std::uint32_t>(parse_number("group-qkey", v, 0, 0xffffffff)));
           })
          ->default_value("0x0b1b"),
      "Q_Key")("group-sl",
               text("N",
                    [&](const auto& v) {
                      creation.sl = ServiceLevel(
                          static_cast<std::uint8_t>(parse_number("group-sl", v, 0, 15)));
                    })
                   ->default_value("0"),
               "service level")(
      "no-dhcp-rewrite", po::bool_switch()->notifier([&](bool off) { link.dhcp_rewrite = !off; }),
      "do not change DHCP messages to the form of RFC 4390")(
      "neighbour-file", po::value<std::string>()->value_name("FILE"),
      "file with permanent neighbour entries, and IP addresses that are pinned to a GID (default: "
      "/etc/ipoibd/neighbours if it exists, but none with --softib)")(
      "strict-arp",
      text("yes|no", [&](const auto& v) { link.strict_arp = parse_yes_no("strict-arp", v); })
          ->default_value("yes"),
      "drop ARP and Neighbour Discovery messages whose sender claims another queue pair or GID "
      "than its own");
  return group;
}

po::options_description limit_options(Options& out) {
  auto& link = out.link;
  po::options_description group("Limits and periods");
  group.add_options()("neighbours", number("neighbours", link.limits.neighbours, 16, 1048576),
                      "maximum number of neighbour entries")(
      "unresolved", number("unresolved", link.limits.unresolved, 1, 65536),
      "maximum number of neighbours being resolved at a time")(
      "arp-rate", number("arp-rate", link.limits.solicitations, 1, 100000),
      "maximum number of broadcast ARP and multicast ND requests per second")(
      "membership-check",
      text("N",
           [&](const auto& v) {
             link.membership_check =
                 std::chrono::seconds(parse_number("membership-check", v, 1, 3600));
           })
          ->default_value("120"),
      "seconds between checks that the port is still in its multicast groups, which another "
      "program on the port may have left")("receive-queue",
                                           number("receive-queue", out.queues.receive, 64, 16384),
                                           "depth of the receive queue, in work requests")(
      "send-queue", number("send-queue", out.queues.send, 16, 16384),
      "depth of the send queue, in work requests; rounded down to a power of two");
  return group;
}

po::options_description process_options(Options& out) {
  po::options_description group("Process");
  group.add_options()(
      "poll",
      text("event|busy|adaptive", [&](const auto& v) { out.poll = parse_poll_mode("poll", v); })
          ->default_value("adaptive"),
      "what an interface without packets does: sleep at once, poll all the time, which takes a "
      "CPU for each, or poll for a moment before it sleeps")(
      "cpu", text("N[-N][,...]", [&](const auto& v) { out.cpus = parse_cpus("cpu", v); }),
      "CPUs to which the threads of the interfaces are pinned in turn (default: not pinned)")(
      "log",
      text("LEVEL|MODULE=LEVEL,...", [&](const auto& v) { out.log = parse_log(v); })
          ->default_value("info"),
      "log levels: trace, debug, info, warning, error, off; modules: link, sa, verbs, "
      "control, daemon")(
      "log-target",
      text("stderr|syslog",
           [&](const auto& v) { out.log_target = parse_log_target("log-target", v); })
          ->default_value("stderr"),
      "where to write the log")("pid-file", text("FILE", [&](const auto& v) { out.pid_file = v; }),
                                "file for the process id (default: none)")(
      "user", text("USER", [&](const auto& v) { out.user = parse_user("user", v); }),
      "user to run as after the start, a name or number (default: ipoibd if there is such a user "
      "and it may use the devices, else the user that has started it)")(
      "group", text("GROUP", [&](const auto& v) { out.group = parse_group("group", v); }),
      "group to run as, a name or number (default: that of the user)")(
      "sandbox",
      text("on|log|off", [&](const auto& v) { out.sandbox = parse_sandbox("sandbox", v); })
          ->default_value("on"),
      "refuse system calls that the daemon does not need; log: the kernel logs and permits them")(
      "control-group",
      text("GROUP[,private]",
           [&](const auto& v) { out.control_access = parse_control_group("control-group", v); }),
      "group whose members may make changes with ibarp, as root may; with private, nobody else may "
      "read (default: no group, and everybody may read)")(
      "acm", po::bool_switch(&out.acm),
      "answer librdmacm, in place of ibacm, how to reach the IP addresses of neighbours, on "
      "/run/ibacm.sock")(
      "config", po::value<std::string>()->value_name("FILE"),
      "file with more options, lines \"option = value\"; the command line takes precedence "
      "(default: those in /etc/ipoibd that exist, but none with --softib)")(
      "check-config", "check the options and the configuration files, and end")(
      "reload", po::bool_switch(&out.reload),
      "make the running ipoibd read its configuration files again, and end; its log says what has "
      "changed, and what takes effect only when it is started again")("help,h", "print this text")(
      "version,V", "print the version");
  return group;
}

}  // namespace

po::options_description all_options(Options& out) {
  po::options_description all;
  all.add(interface_options(out))
      .add(backup_options(out))
      .add(link_options(out))
      .add(limit_options(out))
      .add(process_options(out));
  return all;
}

}  // namespace ipoib::daemon
