"""Shared by the routing tests: routers that find each other by OSPF, with a network behind each."""

import itertools
import re

import hosts
from hosts import wait_until

CONFIG = """
router id {router_id};
protocol device {{ scan time 1; }}
protocol direct {{ {family}; interface "lo"; }}
protocol kernel {{ {family} {{ import none; export all; }}; }}
protocol ospf {version} {{
  {family} {{ import all; export where source = RTS_DEVICE; }};
  area 0 {{ interface "{interface}" {{ type broadcast; hello 1; dead count 4; }}; }};
}}
"""


class Version:
    """Of the protocol: v2 carries IPv4 routes, v3 those of IPv6."""

    def __init__(self, name, family, behind):
        self.name = name
        self.family = family
        self.behind = behind  # the address behind router n

V2 = Version("v2", "ipv4", "10.99.{}.1".format)
V3 = Version("v3", "ipv6", "fd99:{}::1".format)


class Router:
    """bird on a host that is 10.44.0.NUMBER."""

    def __init__(self, host, number, version, interface="ib0"):
        self.host = host
        self.id = f"10.44.0.{number}"
        self.behind = version.behind(number)
        folder = host.subnet.folder / f"bird-{host.name}"
        folder.mkdir()
        self.control = f"{folder}/ctl"
        host.run("ip", "addr", "add", self.behind, "dev", "lo")
        config = folder / "conf"
        config.write_text(CONFIG.format(router_id=self.id, version=version.name,
                                        family=version.family, interface=interface))
        self.process = hosts.Process(
            host.command("bird", "-f", "-c", str(config), "-s", self.control, "-P", f"{folder}/pid"),
            folder / "log", host.subnet.environment)

    def neighbours(self):
        """The ids of the routers that it is fully adjacent to."""
        shown = self.host.run("birdc", "-s", self.control, "show", "ospf", "neighbors",
                              check=False).stdout
        return set(re.findall(r"^(\S+)\s+\d+\s+Full/", shown, re.MULTILINE))

    def reaches(self, other):
        """From the network behind it the one behind the other: both have to send something if the
        router is a station."""
        return self.host.reaches(other.behind, "-I", self.behind)


def run(test, version, places):
    """Starts a router at each (host, number, interface); all of them find each other, and reach the
    networks behind the others."""
    routers = []
    for place in places:
        host, number, interface = place
        routers.append(Router(host, number, version, interface))
        test.addCleanup(routers[-1].process.end)
    for router in routers:
        others = {other.id for other in routers} - {router.id}
        wait_until(lambda r=router, o=others: r.neighbours() == o,
                   f"{router.host.name} is adjacent to the others")
    for one, other in itertools.combinations(routers, 2):
        wait_until(lambda a=one, b=other: all([a.reaches(b), b.reaches(a)]),
                   f"the networks behind {one.host.name} and {other.host.name} reach each other")
