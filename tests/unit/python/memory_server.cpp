// Serves one interface from memory, for the tests of the Python package. It prints the folder of
// its sockets and the name of the interface. Each line of its input is a command: "publish" sends
// one event of each kind, "hold" delays responses, "release" sends them, "stop" ends the server,
// but not the program. The end of the input ends all.
#include <iostream>
#include <string>

#include "ipoib/ibarp.h"
#include "running_server.hpp"

namespace ipoib::control {
namespace {

Entry neighbour() {
  Entry entry;
  entry.address = *parse_ip_address("10.44.0.2");
  entry.state = "reachable";
  entry.hardware = HwAddress{0, Qpn(0x401), *Gid::parse("fe80::1")};
  entry.path = Path{Lid(0x12), ServiceLevel(3), 2048, 40'000};
  entry.idle = std::chrono::seconds(90);
  entry.references = 4;
  entry.uses = 6;
  entry.waiting = 5;
  return entry;
}

/// An entry that is pinned and known to an Ethernet host, but has no path.
Entry pinned() {
  Entry entry;
  entry.address = *parse_ip_address("2001:db8::3");
  entry.state = "failed";
  entry.pinned = *Gid::parse("fe80::9");
  entry.mac = MacAddress(0x0612'3456'789a);
  return entry;
}

InterfaceInfo interface_info(const std::string& name) {
  InterfaceInfo info;
  info.interface = name;
  info.device = "softib0";
  info.port = 1;
  info.pkey = PKey(0x8001);
  info.qpn = Qpn(0x48);
  info.gid = *Gid::parse("fe80::7");
  info.lid = Lid(5);
  info.state = "up";
  info.waiting_for = "nothing";
  info.membership = "full";
  info.groups = {
      {*Gid::parse("ff12:401b::1"), Lid(0xc000), "full", *parse_ip_address("224.0.0.1"), 3},
      {*Gid::parse("ff12::2"), Lid(), "missing", std::nullopt, 0}};
  return info;
}

const Station kStation{*parse_ip_address("10.44.0.11"), MacAddress(0x0200'0000'0001), "reachable",
                       true, std::chrono::milliseconds(5)};

void fill(RunningServer& server) {
  server.handler.put(neighbour());
  server.handler.put(pinned());
  server.handler.put(interface_info(server.name()));
  server.handler.put(std::vector<Station>{kStation});
  server.handler.put(*Gid::parse("ff12:401b::1"),
                     {{*Gid::parse("fe80::7"), IBARP_FULL_MEMBER},
                      {*Gid::parse("fe80::8"), IBARP_NON_MEMBER | IBARP_SEND_ONLY_FULL_MEMBER}});
  server.trace.add("ib0").record("turn", TimePoint(std::chrono::nanoseconds(7)), 1, 2);
}

void publish(RunningServer& server) {
  auto down = interface_info(server.name());
  down.state = "joining";
  down.qpn = {};
  down.admin_up = false;
  server.publish(NeighbourEvent{"changed", "no response", pinned()});
  server.publish(LinkEvent{{"state", "qpn"}, down});
  server.publish(GroupEvent{"left", "nobody listens", down.groups.front()});
  server.publish(StationEvent{"appeared", "a frame", kStation});
  server.publish(LostEvent{3});
  server.publish(TakeoverEvent{});
}

}  // namespace
}  // namespace ipoib::control

int main() {
  using namespace ipoib::control;
  RunningServer server;
  fill(server);
  std::cout << kRunFolder.path() << ' ' << server.name() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "publish") publish(server);
    if (line == "hold") server.handler.hold();
    if (line == "release") server.handler.release();
    if (line == "stop") server.stop();
    std::cout << "done" << std::endl;
  }
}
