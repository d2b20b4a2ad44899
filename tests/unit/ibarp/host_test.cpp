// What the ibarp program finds on a host: routes, interfaces, files of /etc and /sys, and echo
// replies. The daemon is a server in the test's process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <span>
#include <thread>

#include "finding_lines.hpp"
#include "program.hpp"
#include "running_program.hpp"
#include "running_server.hpp"
#include "tests/unit/linux/namespace_fixture.hpp"

namespace ipoib::ibarp {
namespace {

namespace fs = std::filesystem;
using control::Entry;
using control::RunningServer;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kLladdr = "00:00:04:01:fe:80:00:00:00:00:00:00:00:02:c9:03:00:00:00:01";

void write_file(const fs::path& path, std::string_view text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

/// The other end of a TUN device, which answers echo requests.
class EchoPeer {
 public:
  enum class Mode { answers, answers_others, answers_as_a_member };

  explicit EchoPeer(const std::string& name) : tun_(::open("/dev/net/tun", O_RDWR | O_CLOEXEC)) {
    ifreq request{};
    name.copy(request.ifr_name, IFNAMSIZ - 1);
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    EXPECT_EQ(::ioctl(tun_.get(), TUNSETIFF, &request), 0) << std::strerror(errno);
    thread_ = std::thread([this] { run(); });
  }
  ~EchoPeer() {
    const std::uint64_t one = 1;
    EXPECT_EQ(::write(stop_.get(), &one, sizeof one), ssize_t{sizeof one});
    thread_.join();
  }
  /// Sends a packet to the host.
  void send(std::span<std::uint8_t> packet) {
    EXPECT_GT(::write(tun_.get(), packet.data(), packet.size()), 0);
  }
  std::atomic<Mode> mode = Mode::answers;
  std::atomic<std::size_t> received = 0;  ///< bytes

 private:
  using Packet = std::span<std::uint8_t>;

  void run() {
    while (true) {
      std::array<pollfd, 2> polled{{{tun_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}}};
      if (::poll(polled.data(), polled.size(), -1) < 0 || polled[1].revents != 0) return;
      std::array<std::uint8_t, 2048> bytes{};
      const auto size = ::read(tun_.get(), bytes.data(), bytes.size());
      if (size <= 0) continue;
      received += static_cast<std::size_t>(size);
      answer({bytes.data(), static_cast<std::size_t>(size)});
    }
  }
  void answer(Packet packet) {
    const bool is_ipv4 = packet[0] >> 4 == 4;
    const std::size_t addresses = is_ipv4 ? 12 : 8;
    const std::size_t length = is_ipv4 ? 4 : 16;
    const std::size_t icmp = is_ipv4 ? 20 : 40;
    const int protocol = is_ipv4 ? 1 : 58;
    if (packet[is_ipv4 ? 9 : 6] != protocol || packet[icmp] != (is_ipv4 ? 8 : 128)) return;
    if (is_ipv4) checksums_are_right_ = checksums_are_right_ && sum(packet.subspan(icmp)) == 0xffff;
    const auto source = packet.subspan(addresses, length);
    std::ranges::swap_ranges(source, packet.subspan(addresses + length, length));
    if (mode == Mode::answers_as_a_member) return answer_as_a_member(packet, icmp);
    change(packet, icmp, icmp, is_ipv4 ? 0 : 129);
    if (!checksums_are_right_) return;
    if (mode == Mode::answers) return send(packet);
    for (const std::size_t field : {icmp + 6, icmp + 4}) {  // sequence number, identifier
      change(packet, icmp, field, packet[field] ^ 1);
      send(packet);
      change(packet, icmp, field, packet[field] ^ 1);
    }
  }
  /// Answers with an address of its own, which is next to that of the host.
  void answer_as_a_member(Packet packet, std::size_t icmp) {
    const bool is_ipv4 = icmp == 20;
    const std::size_t length = is_ipv4 ? 4 : 16;
    const auto source = packet.subspan(icmp - 2 * length, length);
    std::ranges::copy(packet.subspan(icmp - length, length), source.begin());
    source.back() ^= 2;
    packet[icmp] = is_ipv4 ? 0 : 129;
    put_checksum(packet.subspan(icmp), 2,
                 is_ipv4 ? 0 : sum(packet.subspan(8, 32)) + packet[5] + 58);
    if (is_ipv4) put_checksum(packet.first(icmp), 10, 0);
    send(packet);
  }
  static void put_checksum(Packet bytes, std::size_t at, unsigned more) {
    bytes[at] = bytes[at + 1] = 0;
    const unsigned total = sum(bytes) + more;
    const unsigned checksum = ~((total & 0xffff) + (total >> 16)) & 0xffff;
    bytes[at] = static_cast<std::uint8_t>(checksum >> 8);
    bytes[at + 1] = static_cast<std::uint8_t>(checksum & 0xff);
  }
  static unsigned sum(Packet bytes) {
    unsigned total = 0;
    for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) total += bytes[i] * 256U + bytes[i + 1];
    while (total > 0xffff) total = (total & 0xffff) + (total >> 16);
    return total;
  }
  /// Changes the first byte of a word of an ICMP message, and its checksum (RFC 1624).
  static void change(Packet packet, std::size_t icmp, std::size_t at, unsigned value) {
    std::array<std::uint8_t, 6> words{static_cast<std::uint8_t>(~packet[icmp + 2]),
                                      static_cast<std::uint8_t>(~packet[icmp + 3]),
                                      static_cast<std::uint8_t>(~packet[at]),
                                      0xff,
                                      static_cast<std::uint8_t>(value),
                                      0};
    const unsigned checksum = ~sum(words) & 0xffff;
    packet[at] = static_cast<std::uint8_t>(value);
    packet[icmp + 2] = static_cast<std::uint8_t>(checksum >> 8);
    packet[icmp + 3] = static_cast<std::uint8_t>(checksum & 0xff);
  }

  FileDescriptor tun_;
  FileDescriptor stop_{::eventfd(0, EFD_CLOEXEC)};
  bool checksums_are_right_ = true;
  std::thread thread_;
};

/// A host with one interface of ipoibd, which has the address 10.44.0.1/24.
class OnAHost : public test::NamespaceTest {
 protected:
  void SetUp() override {
    NamespaceTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    server_.emplace();
    name_ = server_->name();
    peer_.emplace(name_);
    ip("addr add 10.44.0.1/24 dev " + name_);
    ip("addr add fd44::1/64 nodad dev " + name_);
    ip("link set " + name_ + " up");
    put(healthy());
  }

  control::InterfaceInfo healthy() {
    control::InterfaceInfo info;
    info.interface = name_;
    info.device = "mlx5_0";
    info.port = 2;
    info.pkey = PKey(0x8001);
    info.qkey = QKey(0x1234'5678);
    info.lid = Lid(3);
    info.sm_lid = Lid(1);
    info.mtu = info.host_mtu = 2044;
    info.membership = "full";
    info.state = "up";
    info.version = "1.2.3";
    info.pid = static_cast<std::uint32_t>(::getpid());
    info.groups = {
        {*Gid::parse("ff12:401b:8001::ffff:ffff"), Lid(0xc000), "full", Ipv4Address(0xffffffff)},
        {*Gid::parse("ff12:401b:8001::f01:203"), Lid(0), "missing", Ipv4Address(0xef010203)},
        {*Gid::parse("ff12:401b:8001::f01:204"), Lid(0), "joining", Ipv4Address(0xef010204), 7}};
    return info;
  }
  static Entry neighbour(const char* address) {
    Entry entry;
    entry.address = parse_ip_address(address).value();
    entry.state = "reachable";
    entry.hardware = HwAddress::parse(kLladdr);
    entry.path = control::Path{Lid(4), ServiceLevel(1), 2048, 40'000};
    return entry;
  }
  template <class Value>
  void put(Value value) {
    server_->handler.put(std::move(value));
  }
  void put_drops(std::uint64_t refused) {
    put(std::vector<control::Counter>{{"packets_sent", 7, false},
                                      {"drop_bad_arp_sender", refused, true},
                                      {"drop_path_failed", 5, true}});
  }
  static Lines ask(std::vector<std::string> words) {
    words.emplace_back("-j");
    return lines_of(run_ibarp(words));
  }
  static Lines explain(const std::string& address) { return ask({"explain", address}); }
  static Lines explain_from(const std::string& address) {
    return ask({"explain", "--from", address});
  }
  /// The finding about the route to an address on the link.
  [[nodiscard]] std::string on_link(const std::string& source = ", from 10.44.0.1") const {
    return "ok: by " + name_ + ", on its link" + source;
  }

  std::optional<RunningServer> server_;
  std::string name_;
  std::optional<EchoPeer> peer_;
};

TEST_F(OnAHost, ExplainsANeighbourThatIsKnown) {
  Entry entry = neighbour("10.44.0.2");
  entry.idle = std::chrono::milliseconds(1234);
  entry.uses = 1;
  entry.waiting = 3;
  put(entry);
  const std::string path = "ok: LID 0x0004, SL 1, MTU 2048, rate 40 Gb/s";
  EXPECT_EQ(explain("10.44.0.2"), (Lines{{"route", on_link()},
                                         {"neighbour", std::string("ok: reachable, ") + kLladdr},
                                         {"path", path},
                                         {"packets", "ok: 1 sent, 3 waiting, the last 1.2s ago"}}));
  ip("route add 192.0.2.0/24 via 10.44.0.2");
  EXPECT_EQ(explain("192.0.2.9")["route"],
            "ok: by " + name_ + " and the gateway 10.44.0.2, from 10.44.0.1");
  EXPECT_EQ(explain("192.0.2.9")["path"], path) << "that to the gateway";

  server_->handler.put_neighbour(neighbour("10.44.0.3"));
  EXPECT_EQ(explain("10.44.0.3"),
            (Lines{{"route", on_link()},
                   {"neighbour", std::string("ok: reachable, ") + kLladdr +
                                     "; it was not known, and has answered now"},
                   {"path", path},
                   {"packets", "ok: 0 sent, 0 waiting"}}));
  entry = neighbour("10.44.0.4");
  entry.state = "failed";
  put(entry);
  EXPECT_THAT(explain("10.44.0.4")["neighbour"], HasSubstr("it was not known"));
  auto limited = healthy();
  limited.membership = "limited";
  put(limited);
  EXPECT_THAT(explain("10.44.0.2")["partition"],
              HasSubstr("if that of 10.44.0.2 is one, too, no packet arrives"));
}

TEST_F(OnAHost, ExplainsWhereAResolutionEnds) {
  Entry silent = neighbour("10.44.0.77");
  silent.hardware.reset();
  silent.path.reset();
  server_->handler.put_neighbour(silent);
  const std::string no_answer =
      "on that host: ibarp check; it needs the address, and an interface in partition 0x8001";
  const Lines expected{
      {"route", on_link()},
      {"neighbour", "wrong: 10.44.0.77 does not answer ARP requests -> " + no_answer}};
  EXPECT_EQ(explain("10.44.0.77"), expected);
  silent.address = parse_ip_address("fd44::77").value();
  server_->handler.put_neighbour(silent);
  EXPECT_EQ(explain("fd44::77")["neighbour"],
            "wrong: fd44::77 does not answer neighbour solicitations -> " + no_answer);
  auto limited = healthy();
  limited.membership = "limited";
  limited.pkey = PKey(0x0001);
  put(limited);
  auto with_partition = expected;
  with_partition["partition"] =
      "warning: this port is a limited member: it reaches full members only -> make one of the two "
      "ports a full member, in the configuration of the subnet manager";
  EXPECT_EQ(explain("10.44.0.77"), with_partition);
  put(healthy());

  Entry without_path = neighbour("10.44.0.78");
  without_path.path.reset();
  server_->handler.put_neighbour(without_path);
  EXPECT_EQ(explain("10.44.0.78"),
            (Lines{{"route", on_link()},
                   {"neighbour", std::string("ok: has answered: ") + kLladdr},
                   {"path",
                    "wrong: the subnet administrator gives none to GID fe80::2:c903:0:1 -> saquery "
                    "PathRecord; look whether both ports are in partition 0x8001, and not both "
                    "limited members"}}));
  EXPECT_EQ(explain("10.44.0.79")["neighbour"],
            "wrong: " + name_ + ": not on this link -> ibarp check dev " + name_);
}

TEST_F(OnAHost, ExplainsGroups) {
  ip("route add 224.0.0.0/4 dev " + name_);
  const std::string full = "ok: MGID ff12:401b:8001::ffff:ffff, MLID 0xc000, full";
  EXPECT_EQ(explain("10.44.0.255"), (Lines{{"route", on_link()}, {"group", full}}));
  EXPECT_EQ(explain("239.1.2.5")["group"], "ok: not known yet: the first packet to it looks it up");
  EXPECT_EQ(explain("239.1.2.3")["group"],
            "wrong: MGID ff12:401b:8001::f01:203, MLID -, missing: no host has joined it, so the "
            "subnet has no such group -> on a host that should receive, look whether it has "
            "joined: ip maddr; ibarp groups");
  EXPECT_EQ(explain("239.1.2.4")["group"],
            "wrong: MGID ff12:401b:8001::f01:204, MLID -, joining; 7 packets waiting -> the subnet "
            "administrator has not answered: ibarp check dev " +
                name_);
}

TEST_F(OnAHost, ExplainsRoutesThatLeadElsewhere) {
  EchoPeer other("other");
  ip("addr add 198.51.100.1/24 dev other");
  ip("link set other up");
  ip("route add unreachable 203.0.113.0/24");
  EXPECT_EQ(explain("198.51.100.2"),
            (Lines{{"route",
                    "wrong: leaves by other, which is not an interface of ipoibd (unicast) -> ip "
                    "route get 198.51.100.2; ibarp interface lists those of ipoibd"}}));
  EXPECT_THAT(explain("203.0.113.1")["route"], StartsWith("wrong: "));
  EXPECT_EQ(explain("192.0.2.1"),
            (Lines{{"route",
                    "wrong: the host has none, or one that refuses packets: none is sent -> ip "
                    "route get 192.0.2.1; add a route or an address of its subnet"}}));
  EXPECT_EQ(explain("10.44.0.1"),
            (Lines{{"route", "ok: an address of this host: its packets do not leave it"}}));
  RunningServer second;
  put(neighbour("10.44.0.2"));
  EXPECT_EQ(
      ask({"explain", "10.44.0.2", "dev", second.name()})["route"],
      "wrong: leaves by " + name_ + ", not by " + second.name() + " -> ip route get 10.44.0.2");
  EXPECT_EQ(ask({"explain", "10.44.0.2", "dev", name_})["route"], on_link());
}

TEST_F(OnAHost, ExplainsAnInterfaceThatIsNotUp) {
  auto info = healthy();
  info.admin_up = false;
  put(info);
  const Lines down{{"route", on_link()},
                   {"interface", "wrong: " + name_ + " is administratively down -> ip link set " +
                                     name_ + " up"}};
  for (const char* const command : {"explain", "probe"}) {
    EXPECT_EQ(ask({command, "10.44.0.2"}), down);
  }
  EXPECT_EQ(explain_from("10.44.0.2"), (Lines{{"interface", down.at("interface")}}));
  info = healthy();
  info.state = "port_init";
  info.waiting_for = "a cable";
  put(info);
  EXPECT_EQ(explain("10.44.0.2")["interface"],
            "wrong: " + name_ + " is not up; it waits for a cable -> ibarp check dev " + name_);
}

TEST_F(OnAHost, ExplainsWhatKeepsASenderAway) {
  const auto filter = [&](const std::string& device, int value) {
    std::ofstream("/proc/sys/net/ipv4/conf/" + device + "/rp_filter") << value;
  };
  filter("all", 0);
  filter(name_, 0);
  put_drops(0);
  put(neighbour("10.44.0.2"));
  const std::string back = "ok: by " + name_ + ", on its link";
  const std::string known = std::string("ok: 10.44.0.2 is reachable, ") + kLladdr;
  Lines found{{"route back", back},
              {"neighbour", known},
              {"drops", "ok: nothing that arrived was refused since the start"}};
  EXPECT_EQ(explain_from("10.44.0.2"), found);
  put_drops(9);
  found["drops"] =
      "warning: of what arrived since the start, from all senders: drop_bad_arp_sender 9 -> ibarp "
      "stats again: does one grow? ibarp(8) explains each";
  found["neighbour"] =
      "ok: 10.44.0.77 is not known: neither side has sent anything to the other lately";
  EXPECT_EQ(explain_from("10.44.0.77"), found);
  EXPECT_EQ(explain_from("10.44.0.1"),
            (Lines{{"address",
                    "wrong: one of this host: the kernel takes packets from it for forged -> ibarp "
                    "stats: drop_duplicate_address; the log names who has it, too"}}));

  ip("route add 192.0.2.0/24 via 10.44.0.2");
  EXPECT_EQ(explain_from("192.0.2.9")["neighbour"], known) << "the gateway";
  Entry pinned = neighbour("10.44.0.9");
  pinned.pinned = pinned.hardware->gid;
  put(pinned);
  EXPECT_EQ(explain_from("10.44.0.9")["neighbour"],
            std::string("warning: 10.44.0.9 is reachable, ") + kLladdr +
                "; pinned to GID fe80::2:c903:0:1 -> if its card was replaced: ibarp replace "
                "10.44.0.9 gid GID");
  auto limited = healthy();
  limited.membership = "limited";
  put(limited);
  EXPECT_THAT(explain_from("10.44.0.2")["partition"],
              StartsWith("warning: this port is a limited member: it receives from full members"));

  // The kernel's filter of reverse paths.
  EchoPeer other("other");
  ip("addr add 198.51.100.1/24 dev other");
  ip("link set other up");
  filter("other", 1);
  const std::string text = "by other, not by " + name_;
  const std::string remedy = " -> ip route get 198.51.100.2";
  const auto refused = [&](int value, const std::string& what, const std::string& to) {
    return "wrong: " + what + "; rp_filter is " + std::to_string(value) +
           ", so the kernel drops packets from there -> ip route get " + to +
           "; or sysctl net.ipv4.conf." + name_ + ".rp_filter";
  };
  const auto route_back = [&](const char* address) { return explain_from(address)["route back"]; };
  EXPECT_EQ(route_back("198.51.100.2"), "warning: " + text + remedy);
  EXPECT_EQ(route_back("192.88.0.1"),
            "warning: none: no answer is sent -> ip route get 192.88.0.1");
  filter(name_, 2);
  EXPECT_EQ(route_back("198.51.100.2"), "warning: " + text + remedy);
  EXPECT_EQ(route_back("192.88.0.1"), refused(2, "none: no answer is sent", "192.88.0.1"));
  filter(name_, 1);
  EXPECT_EQ(route_back("198.51.100.2"), refused(1, text, "198.51.100.2"));
  EXPECT_EQ(route_back("10.44.0.2"), back);
  filter(name_, 0);
  filter("all", 1);
  EXPECT_EQ(route_back("198.51.100.2"), refused(1, text, "198.51.100.2"));
  EXPECT_EQ(route_back("2001:db8::1"),
            "warning: none: no answer is sent -> ip route get 2001:db8::1");

  RunningServer second;
  EXPECT_EQ(run_ibarp({"explain", "--from", "198.51.100.2"}).status, 2) << "by which interface?";
  EXPECT_EQ(route_back("10.44.0.2"), back) << "that of the route";
  EXPECT_THAT(ask({"explain", "--from", "10.44.0.2", "dev", second.name()})["interface"],
              HasSubstr(" is not up"));
}

TEST_F(OnAHost, ProbesANeighbour) {
  server_->handler.put_neighbour(neighbour("10.44.0.2"));
  Lines found = ask({"probe", "10.44.0.2"});
  EXPECT_EQ(found["route"], on_link());
  EXPECT_EQ(found["neighbour"], "ok: arp_requests_broadcast 1; 10.44.0.2 has answered");
  EXPECT_THAT(found["path"], AllOf(StartsWith("ok: LID 0x0004, SL 1, MTU 2048; path_requests 1; "
                                              "neighbour and path known after "),
                                   HasSubstr(" ms")));
  EXPECT_THAT(found["datagram"], StartsWith("ok: echo reply after "));
  EXPECT_EQ(ask({"probe", "10.44.0.2"})["neighbour"], found["neighbour"]) << "asked again";
  server_->handler.put_neighbour(neighbour("fd44::2"));
  found = ask({"probe", "fd44::2"});
  EXPECT_THAT(found["path"], StartsWith("ok: LID 0x0004"));
  EXPECT_THAT(found["datagram"], StartsWith("ok: echo reply after "));

  // An entry that the operator has set stays.
  Entry permanent = neighbour("10.44.0.3");
  permanent.state = "permanent";
  put(permanent);
  found = ask({"probe", "10.44.0.3"});
  EXPECT_EQ(found["neighbour"], "ok: 10.44.0.3 is known, and not asked again");
  EXPECT_THAT(found["path"], HasSubstr("; nothing was sent; "));

  peer_->mode = EchoPeer::Mode::answers_others;
  EXPECT_THAT(ask({"probe", "10.44.0.2"})["datagram"], StartsWith("wrong: no reply"));
  peer_->mode = EchoPeer::Mode::answers;

  // By a socket of ICMP, which the kernel gives to some groups.
  std::ofstream("/proc/sys/net/ipv4/ping_group_range") << "0 0";
  EXPECT_THAT(ask({"probe", "10.44.0.2"})["datagram"], StartsWith("ok: echo reply after "));
  EXPECT_THAT(ask({"probe", "fd44::2"})["datagram"], StartsWith("ok: echo reply after "));
}

TEST_F(OnAHost, ProbesTheHostsOfAGroup) {
  ip("route add 224.0.0.0/4 dev " + name_);
  std::ofstream("/proc/sys/net/ipv4/icmp_echo_ignore_broadcasts") << "0";
  const auto probe = [](const char* address) { return ask({"probe", address}); };
  const auto groups = {"10.44.0.255", "239.1.2.3", "ff02::1", "ff05::7"};
  ip("route add multicast ff00::/8 dev " + name_ + " table local metric 1");
  for (const char* const range : {"1 0", "0 0"}) {  // raw sockets, and those of ICMP
    std::ofstream("/proc/sys/net/ipv4/ping_group_range") << range;
    for (const char* const group : groups) {
      peer_->mode = EchoPeer::Mode::answers_as_a_member;
      Lines found = probe(group);
      EXPECT_EQ(found.count("neighbour"), 0U) << "there is none to resolve";
      EXPECT_THAT(found["datagram"], StartsWith("ok: echo reply after ")) << group << range;
    }
  }
  peer_->mode = EchoPeer::Mode::answers_others;
  for (const char* const group : {"10.44.0.255", "ff02::1"}) {
    EXPECT_THAT(probe(group)["datagram"],
                StartsWith("warning: no host has answered an ICMP echo request to all of them -> "))
        << group << ": this host, which is a member, does not count";
  }
}

TEST_F(OnAHost, ExplainsAndProbesALinkLocalAddressOfItsInterface) {
  // Another interface has a route to the same prefix, which the kernel finds first.
  EchoPeer other("other");
  ip("link set other up");
  ip("addr add fe80::5/64 dev other nodad");
  ip("addr add fe80::1/64 dev " + name_ + " nodad");
  put(neighbour("fe80::2"));
  server_->handler.put_neighbour(neighbour("fe80::2"));
  const std::vector<std::vector<std::string>> choices{{}, {"dev", name_}};
  for (const auto& choice : choices) {
    const auto with = [&](std::vector<std::string> words) {
      words.insert(words.end(), choice.begin(), choice.end());
      return ask(words);
    };
    EXPECT_EQ(with({"explain", "fe80::2"})["route"], on_link(", from fe80::1"));
    EXPECT_EQ(with({"explain", "--from", "fe80::2"})["route back"],
              "ok: by " + name_ + ", on its link");
    EXPECT_THAT(with({"probe", "fe80::2"})["datagram"], StartsWith("ok: echo reply after "));
    EXPECT_EQ(with({"explain", "ff02::fb"})["route"], on_link(", from fe80::1"));
  }
  EXPECT_THAT(ask({"explain", "fe80::5", "dev", "other"})["route"],
              StartsWith("ok: an address of this host"));
  EXPECT_EQ(run_ibarp({"explain", "fe80::2", "dev", "none"}).status, 1);
  const RunningServer second;
  EXPECT_EQ(run_ibarp({"explain", "fe80::2"}).status, 2) << "on which link?";
}

TEST_F(OnAHost, ProbesUntilAStepFails) {
  Entry silent = neighbour("10.44.0.77");
  silent.hardware.reset();
  server_->handler.put_neighbour(silent);
  EXPECT_EQ(ask({"probe", "10.44.0.77"}),
            (Lines{{"route", on_link()},
                   {"neighbour",
                    "wrong: arp_requests_broadcast 1; 10.44.0.77 did not answer ARP requests -> "
                    "ibarp explain 10.44.0.77"}}));
  Entry without_path = neighbour("10.44.0.78");
  without_path.path.reset();
  server_->handler.put_neighbour(without_path);
  EXPECT_EQ(ask({"probe", "10.44.0.78"}),
            (Lines{{"route", on_link()},
                   {"neighbour", "ok: arp_requests_broadcast 1; 10.44.0.78 has answered"},
                   {"path", "wrong: " + name_ +
                                ": the subnet administrator does not answer -> ibarp explain "
                                "10.44.0.78"}}));
}

TEST_F(OnAHost, ChecksWhatTheHostKnows) {
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("tmpfs", "/sys/class", "tmpfs", 0, nullptr) != 0) {
    GTEST_SKIP() << "needs a mount namespace of its own: " << std::strerror(errno);
  }
  const auto check = [&] { return ask({"check", "dev", name_}); };
  Lines found = check();
  EXPECT_EQ(found["addresses"], "ok: 2 besides those of the link");
  EXPECT_EQ(found.count("kernel driver"), 0U);
  ip("addr del 10.44.0.1/24 dev " + name_);
  EXPECT_EQ(check()["addresses"], "ok: 1 besides those of the link");
  ip("addr del fd44::1/64 dev " + name_);
  EXPECT_EQ(check()["addresses"],
            "warning: none besides those of the link -> ip addr add ADDRESS/BITS dev " + name_);

  // An interface of the kernel's driver.
  write_file("/sys/class/net/eth0/mtu", "1500\n");
  write_file("/sys/class/net/ib7/pkey", "0x0001\n");
  EXPECT_EQ(check().count("kernel driver"), 0U) << "of another port";
  fs::create_directories("/sys/class/net/ib7/device/infiniband/mlx5_0");
  EXPECT_EQ(check()["kernel driver"],
            "warning: ib7 of ib_ipoib is in the same partition of the port -> ip link set ib7 "
            "down, if both are to have the same addresses");
  write_file("/sys/class/net/ib7/pkey", "0x8002\n");
  EXPECT_EQ(check().count("kernel driver"), 0U) << "of another partition";
}

/// What `ibarp top` shows of a second sample, whose values are more than those of the first one.
class Top : public OnAHost {
 protected:
  static constexpr std::size_t kSent = 1028;  ///< bytes of an IP packet of the host between both
  static constexpr std::size_t kReceived = 500;

  void SetUp() override {
    OnAHost::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    std::ofstream("/proc/sys/net/ipv6/conf/" + name_ + "/disable_ipv6") << 1;  // it is chatty
    put_sample(0);
    server_->handler.before_request = [this](const auto& request) {
      if (std::holds_alternative<control::ListRequest>(request) && samples_ == 1) {
        exchange_packets();  // after the first sample
      }
      if (!std::holds_alternative<control::InfoRequest>(request)) return;
      if (++samples_ == 2) put_sample(1);
    };
    exchange_packets();  // so that no counter begins at 0
  }
  void put_sample(std::uint64_t number) {
    put(std::vector<control::Counter>{{"tx_packets", 100 + 300 * number, false},
                                      {"rx_packets", 50 + 40 * number, false},
                                      {"neighbours", 4, false},
                                      {"drop_a", 5 + 10 * number, true},
                                      {"drop_b", 1 + 2 * number, true}});
    put_entry("10.44.0.2", "reachable", 10 + 100 * number, 3000);
    put_entry("10.44.0.3", "stale", 5000, 2000);
    put_entry("10.44.0.4", "delay", 50 - 30 * number, 1000);
    if (number == 0) return;
    put_entry("10.44.0.5", "reachable", 7, 4000);
  }
  /// The host sends a packet, and gets one.
  void exchange_packets() {
    const std::size_t before = peer_->received;
    const FileDescriptor sender(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(9);
    to.sin_addr.s_addr = htonl(0x0a2c0002);
    const std::array<char, kSent - 28> payload{};
    EXPECT_EQ(::sendto(sender.get(), payload.data(), payload.size(), 0,
                       reinterpret_cast<const sockaddr*>(&to), sizeof to),
              ssize_t{payload.size()});
    while (peer_->received < before + kSent) std::this_thread::yield();  // then it is counted
    std::array<std::uint8_t, kReceived> packet{0x45};
    peer_->send(packet);
  }
  void put_entry(const char* address, const char* state, std::uint64_t uses, int idle_ms) {
    Entry entry = neighbour(address);
    entry.state = state;
    entry.uses = uses;
    entry.idle = std::chrono::milliseconds(idle_ms);
    put(entry);
  }
  /// The addresses of the lines, by their last number.
  static std::string order_of(const std::string& table) {
    std::string order;
    for (auto at = table.find("10.44.0."); at != std::string::npos;
         at = table.find("10.44.0.", at + 1)) {
      order += table.at(at + 8);
    }
    return order;
  }

  std::atomic<int> samples_ = 0;
};

TEST_F(Top, RatesAreDifferencesOfTwoSamples) {
  const Outcome outcome = run_ibarp({"--json", "top", "--count", "1", "--interval", "0.1"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto all = boost::json::parse(outcome.out);
  const double seconds = static_cast<double>(all.at("interval_ms").as_int64()) / 1000;
  EXPECT_GE(seconds, 0.1);
  const auto expect_rate = [&](const boost::json::value& rate, double difference) {
    EXPECT_NEAR(rate.as_double() * seconds, difference, difference / 50);
  };
  const auto& interface = all.at("interfaces").at(0);
  EXPECT_EQ(interface.at("interface"), boost::json::value(name_));
  EXPECT_EQ(interface.at("state"), "up");
  EXPECT_EQ(interface.at("admin_up"), true);
  EXPECT_EQ(interface.at("neighbours").to_number<int>(), 4);
  expect_rate(interface.at("tx_packets_per_s"), 300);
  expect_rate(interface.at("rx_packets_per_s"), 40);
  expect_rate(interface.at("drops_per_s"), 12);
  expect_rate(interface.at("tx_bits_per_s"), 8 * kSent);
  expect_rate(interface.at("rx_bits_per_s"), 8 * kReceived);
  const std::vector<std::pair<const char*, double>> expected{
      {"10.44.0.2", 100}, {"10.44.0.4", 20}, {"10.44.0.5", 7}, {"10.44.0.3", 0}};
  const auto& neighbours = all.at("neighbours").as_array();
  ASSERT_EQ(neighbours.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(neighbours[i].at("entry").at("address"), expected[i].first) << "by rate";
    expect_rate(neighbours[i].at("packets_per_s"), expected[i].second);
  }
}

TEST_F(Top, TablesAreSortedByTheKey) {
  for (const auto& [key, order] : std::map<std::string, std::string>{{"rate", "2453"},
                                                                     {"address", "2345"},
                                                                     {"state", "4253"},
                                                                     {"idle", "4325"},
                                                                     {"uses", "3245"}}) {
    samples_ = 0;
    server_->handler.handle(control::DeleteRequest{parse_ip_address("10.44.0.5").value()},
                            [](const auto&) {});
    put_sample(0);
    const Outcome outcome = run_ibarp({"top", "--count", "1", "--interval", "0.1", "--sort", key});
    EXPECT_EQ(order_of(outcome.out), order) << outcome.out;
    EXPECT_THAT(outcome.out,
                testing::ContainsRegex(
                    name_ + " +up +[0-9.]+k? +[0-9.]+k? +[0-9.]+k +[0-9.]+k +[0-9.]+ +4"));
    EXPECT_THAT(outcome.out, testing::ContainsRegex("10.44.0.3 +" + name_ +
                                                    " +stale +0 +5000 +2s +0 +fe80::2:c903:0:1"));
  }
}

TEST_F(Top, KeysSortTheScreen) {
  RunningProgram top({"top", "--interval", "3600"}, RunningProgram::Output::terminal,
                     {{"TERM", "xterm"}});
  const std::string end = "\033[J";  // of a screen
  (void)top.until(end);
  for (const auto& [key, order] :
       {std::pair{"i", "432"}, {"u", "342"}, {"a", "234"}, {"s", "423"}}) {
    top.press(key);
    EXPECT_EQ(order_of(top.until(end)), order) << key;
  }
  top.press(" ");  // another sample at once, which has rates
  EXPECT_THAT(top.until(end), HasSubstr("10.44.0.5"));
  top.press("r");
  EXPECT_EQ(order_of(top.until(end)), "2453");
  top.press("Q");
  EXPECT_EQ(top.wait(), 0);
}

TEST_F(Top, ADownOrLostInterfaceHasNoRates) {
  auto down = healthy();
  down.admin_up = false;
  put(down);
  EXPECT_THAT(run_ibarp({"top", "--count", "1", "--interval", "0.1"}).out,
              testing::ContainsRegex(name_ + " +down +"));
  down.state = "no_device";
  put(down);
  const auto all =
      boost::json::parse(run_ibarp({"--json", "top", "--count", "1", "--interval", "0.1"}).out);
  EXPECT_EQ(all.at("interfaces").at(0).at("state"), "no_device");
  EXPECT_EQ(all.at("interfaces").at(0).at("admin_up"), false);
  EXPECT_TRUE(all.at("neighbours").as_array().empty());
}

TEST_F(Top, MetricsHaveTheBytesOfTheHost) {
  exchange_packets();
  const auto text = run_ibarp({"metrics"}).out;
  const auto value = [&](const std::string& metric) {
    const auto at = text.find(metric + "{interface=\"" + name_ + "\"} ");
    return at == std::string::npos ? 0
                                   : std::strtoull(text.c_str() + text.find(' ', at), nullptr, 10);
  };
  const auto received = value("ipoib_rx_bytes_total");
  EXPECT_GE(received, kReceived);
  EXPECT_LT(received, kSent);
  EXPECT_GE(value("ipoib_tx_bytes_total"), kSent);
  EXPECT_THAT(text, HasSubstr("\nipoib_limited_member{interface=\"" + name_ + "\"} 0\n"));
}

/// The files of an archive of tar(1), whose headers are checked.
std::map<std::string, std::string> files_of(const std::string& archive) {
  constexpr std::size_t kBlock = 512;
  std::map<std::string, std::string> files;
  std::size_t at = 0;
  for (; at + kBlock <= archive.size() && archive[at] != '\0';) {
    std::string header = archive.substr(at, kBlock);
    const auto number = [&](std::size_t from) {
      return std::strtoull(header.c_str() + from, nullptr, 8);
    };
    const std::string name = header.substr(0, 100).c_str();
    const auto size = number(124);
    const auto checksum = number(148);
    EXPECT_EQ(number(100), 0600U) << name;
    EXPECT_EQ(number(108) + number(116), 0U) << name;
    EXPECT_NEAR(static_cast<double>(number(136)), static_cast<double>(std::time(nullptr)), 60);
    EXPECT_EQ(header[156], '0');
    EXPECT_EQ(header.substr(257, 8), std::string("ustar\00000", 8));
    std::fill_n(header.begin() + 148, 8, ' ');
    unsigned sum = 0;
    for (const char byte : header) sum += static_cast<unsigned char>(byte);
    EXPECT_EQ(checksum, sum) << name;
    EXPECT_TRUE(files.emplace(name, archive.substr(at + kBlock, size)).second) << name;
    at += kBlock + (size + kBlock - 1) / kBlock * kBlock;
  }
  EXPECT_EQ(archive.substr(at), std::string(2 * kBlock, '\0'));
  return files;
}

TEST_F(OnAHost, ABugReportHasWhatTheDaemonAndTheHostTell) {
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("tmpfs", "/sys/class", "tmpfs", 0, nullptr) != 0 ||
      ::mount("tmpfs", "/etc", "tmpfs", 0, nullptr) != 0) {
    GTEST_SKIP() << "needs a mount namespace of its own: " << std::strerror(errno);
  }
  auto info = healthy();
  info.ports.resize(1);
  info.ports[0].device = "mlx5_1";
  info.ports[0].port = 1;
  put(info);
  put(neighbour("10.44.0.2"));
  write_file("/etc/os-release", "NAME=Test\n");
  write_file("/etc/ipoibd/a.conf", "pkey=0x8001\nqkey=0x1234\nname=qkey\nqkey\n");
  write_file("/etc/ipoibd/more/b.conf", "mtu=2044\n");
  write_file("/etc/ipoibd/large", std::string((1U << 20) + 7, 'x'));
  write_file("/sys/class/infiniband/mlx5_0/ports/2/state", "4: ACTIVE\nmore\n");
  write_file("/sys/class/infiniband/mlx5_0/ports/2/counters/port_rcv_data", "77\n");
  write_file("/sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n");
  const Outcome outcome = run_ibarp({"bugreport", "--output", "-"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  auto files = files_of(outcome.out);
  const std::string front = name_ + "/";
  const std::string process = "process-" + std::to_string(::getpid()) + ".txt";
  std::vector<std::string> names;
  names.reserve(files.size());
  for (const auto& [name, text] : files) names.push_back(name);
  EXPECT_THAT(names, testing::UnorderedElementsAre(
                         "README", "versions.txt", "metrics.txt", process, "port-mlx5_0-2.txt",
                         "port-mlx5_1-1.txt", "configuration/a.conf", "configuration/more/b.conf",
                         "configuration/large", front + "info.json", front + "stats.txt",
                         front + "trace.txt", front + "log-levels.txt", front + "check.txt",
                         front + "neighbours.txt", front + "groups.txt"));
  EXPECT_EQ(files["configuration/a.conf"], "pkey=0x8001\nqkey=(left out)\nname=qkey\nqkey\n");
  EXPECT_EQ(files["configuration/more/b.conf"], "mtu=2044\n");
  EXPECT_EQ(files["configuration/large"].size(), (1U << 20) + 1) << "the rest is left out";
  EXPECT_EQ(files["port-mlx5_0-2.txt"], "counters/port_rcv_data: 77\nstate: 4: ACTIVE\n");
  EXPECT_EQ(files["port-mlx5_1-1.txt"], "state: 1: DOWN\n");
  utsname host{};
  ASSERT_EQ(::uname(&host), 0);
  EXPECT_EQ(files["versions.txt"], run_ibarp({"--version"}).out + host.sysname + " " +
                                       host.release + " " + host.version + " " + host.machine +
                                       "\nNAME=Test\n");
  std::ifstream command_line("/proc/self/cmdline");
  std::string words(std::istreambuf_iterator<char>(command_line), {});
  std::ranges::replace(words, '\0', '\n');
  EXPECT_THAT(files[process], AllOf(StartsWith(words + "\nLimit "), HasSubstr("Max open files")));
  EXPECT_THAT(files[front + "info.json"],
              AllOf(HasSubstr(R"("interface":")" + name_), Not(HasSubstr("12345678")),
                    Not(HasSubstr("305419896"))))
      << "no Q_Key";
  const auto same = [&](const char* file, std::vector<std::string> command) {
    command.insert(command.end(), {"dev", name_});
    EXPECT_EQ(files[front + file], run_ibarp(command).out) << file;
  };
  EXPECT_THAT(files[front + "stats.txt"],
              StartsWith(name_ + ":\n  dropped:\n    path_failed  2\n"));
  same("log-levels.txt", {"log"});
  same("check.txt", {"check"});
  same("neighbours.txt", {"--wide", "show"});
  same("groups.txt", {"groups"});
  EXPECT_THAT(files["metrics.txt"], HasSubstr("ipoib_up{interface=\"" + name_ + "\"} 1\n"));
  EXPECT_THAT(files["README"], StartsWith("A report of ibarp bugreport."));

  // What fails is named; what is not there is left out.
  fs::remove("/etc/os-release");
  info.pid = 0x7fff'ffff;
  put(info);
  put(std::vector<control::Station>{});
  const std::string file = "/etc/report.tar";
  const Outcome written = run_ibarp({"bugreport", "--output", file});
  EXPECT_EQ(written.out, file + "\n");
  struct stat status {};
  ASSERT_EQ(::stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, mode_t{0600});
  std::ifstream stream(file, std::ios::binary);
  files = files_of({std::istreambuf_iterator<char>(stream), {}});
  EXPECT_EQ(files.count(front + "stations.txt"), 1U);
  EXPECT_EQ(files.count(process), 0U);
  EXPECT_THAT(files["problems.txt"],
              AllOf(HasSubstr("os-release: "), HasSubstr("/proc/2147483647: ")));
  EXPECT_EQ(run_ibarp({"bugreport", "--output", file}).status, 1) << "the file exists";
  ASSERT_EQ(::chdir("/etc"), 0);
  EXPECT_THAT(run_ibarp({"bugreport"}).out, testing::MatchesRegex("ipoibd-report-.*\\.tar\n"));
}

}  // namespace
}  // namespace ipoib::ibarp
