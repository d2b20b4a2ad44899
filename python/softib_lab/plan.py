"""What has to be done so that one lab becomes another: a list of steps, which are values.

The order: first what ends, then the subnet, hosts and memberships, then daemons, which all start at
once, meanwhile bridges and stations, then what needs the daemons' interfaces, at last services.
"""

import dataclasses
import re
import typing

from .lab_file import Bridge, Host, Interface, StationInterface, Subnet


@dataclasses.dataclass(frozen=True)
class StopService:
    host: str
    name: str

    def __str__(self):
        return f"{self.host}: end the service {self.name}"


@dataclasses.dataclass(frozen=True)
class StopInterface:
    host: str
    interface: str

    def __str__(self):
        return f"{self.host}: end ipoibd of {self.interface}"


@dataclasses.dataclass(frozen=True)
class RemoveLink:
    """A bridge, or the interface of a station with its port."""
    host: str
    link: str

    def __str__(self):
        return f"{self.host}: remove {self.link}"


@dataclasses.dataclass(frozen=True)
class RemoveHca:
    host: str
    hca: str

    def __str__(self):
        return f"{self.host}: remove the HCA {self.hca}"


@dataclasses.dataclass(frozen=True)
class RemoveHost:
    host: str

    def __str__(self):
        return f"{self.host}: remove"


@dataclasses.dataclass(frozen=True)
class StopSubnet:
    def __str__(self):
        return "end the subnet"


@dataclasses.dataclass(frozen=True)
class StartSubnet:
    subnet: Subnet
    memberships: tuple  # ((pkey, HCA), "full" or "limited")

    def __str__(self):
        return "start the subnet"


@dataclasses.dataclass(frozen=True)
class AddHost:
    host: str

    def __str__(self):
        return f"{self.host}: add"


@dataclasses.dataclass(frozen=True)
class AddHca:
    host: str
    hca: str

    def __str__(self):
        return f"{self.host}: add the HCA {self.hca}"


@dataclasses.dataclass(frozen=True)
class StartOpenSm:
    subnet: Subnet

    def __str__(self):
        return "start OpenSM"


@dataclasses.dataclass(frozen=True)
class SetMemberships:
    changes: tuple  # ((pkey, HCA), "full", "limited" or "none")
    subnet: Subnet
    memberships: tuple  # all that are to be
    hosts: tuple = ()  # that have these HCAs

    def __str__(self):
        return "change memberships of partitions"


@dataclasses.dataclass(frozen=True)
class StartInterface:
    host: str
    interface: Interface

    def __str__(self):
        return f"{self.host}: start ipoibd for {self.interface.name}"


@dataclasses.dataclass(frozen=True)
class AddBridge:
    host: str
    bridge: Bridge

    def __str__(self):
        return f"{self.host}: add the bridge {self.bridge.name}"


@dataclasses.dataclass(frozen=True)
class AddStationInterface:
    host: str
    interface: StationInterface

    def __str__(self):
        return f"{self.host}: connect {self.interface.name} to {self.interface.partition}"


@dataclasses.dataclass(frozen=True)
class AddPort:
    host: str
    bridge: str
    port: str

    def __str__(self):
        return f"{self.host}: add {self.port} to {self.bridge}"


@dataclasses.dataclass(frozen=True)
class RemovePort:
    host: str
    bridge: str
    port: str

    def __str__(self):
        return f"{self.host}: take {self.port} from {self.bridge}"


@dataclasses.dataclass(frozen=True)
class SetSysctl:
    """Without a value: sets the one that there was before the first step."""
    host: str
    name: str
    value: typing.Optional[str]
    interface: str = ""  # that has to exist

    def __str__(self):
        return f"{self.host}: set {self.name}" + (f" to {self.value}" if self.value is not None else " back")


@dataclasses.dataclass(frozen=True)
class RemoveAddress:
    host: str
    interface: str
    address: str

    def __str__(self):
        return f"{self.host}: take the address {self.address} from {self.interface}"


@dataclasses.dataclass(frozen=True)
class AddAddress:
    host: str
    interface: str
    address: str

    def __str__(self):
        return f"{self.host}: give {self.interface} the address {self.address}"


@dataclasses.dataclass(frozen=True)
class RemoveRoute:
    host: str
    route: str

    def __str__(self):
        return f"{self.host}: delete the route {self.route}"


@dataclasses.dataclass(frozen=True)
class AddRoute:
    host: str
    route: str

    def __str__(self):
        return f"{self.host}: add the route {self.route}"


@dataclasses.dataclass(frozen=True)
class SetForwarding:
    host: str
    on: bool

    def __str__(self):
        return f"{self.host}: {'forward' if self.on else 'do not forward'} packets"


@dataclasses.dataclass(frozen=True)
class BringUp:
    host: str
    interface: str

    def __str__(self):
        return f"{self.host}: set {self.interface} up"


@dataclasses.dataclass(frozen=True)
class SetMtu:
    """After BringUp: a link without carrier has no MTU to go below yet."""
    host: str
    interface: str
    mtu: int

    def __str__(self):
        return f"{self.host}: set the MTU of {self.interface} to {self.mtu}"


@dataclasses.dataclass(frozen=True)
class AwaitReady:
    host: str
    interface: str

    def __str__(self):
        return f"{self.host}: wait until {self.interface} is ready"


@dataclasses.dataclass(frozen=True)
class StartService:
    host: str
    name: str
    command: str

    def __str__(self):
        return f"{self.host}: start the service {self.name}"


def plan(old, new):
    """Returns the steps that make the lab `new` of `old`; either may be None, for no lab. A changed
    subnet is another one, with all its hosts."""
    if old and (new is None or old.subnet != new.subnet or old.name != new.name):
        ending = [step for host in old.hosts for step in _ends_of(host)]
        return [*ending, StopSubnet(), *(plan(None, new) if new else [])]
    if new is None:
        return []
    old_hosts = {host.name: host for host in old.hosts} if old else {}
    new_hosts = {host.name: host for host in new.hosts}
    pairs = [(old_hosts.get(name, Host(name)), host) for name, host in new_hosts.items()]
    gone = [host for name, host in old_hosts.items() if name not in new_hosts]
    changes = _Changes(old_hosts, new_hosts)
    return [*(step for before, after in pairs for step in _service_ends(before, after)),
            *(step for host in gone for step in _ends_of(host)),
            *(StopInterface(after.name, each.name) for before, after in pairs
              for each in before.interfaces if _is_restarted(each, _find(after, each.name))),
            *(RemoveLink(after.name, each.name) for before, after in pairs
              for each in (*before.station_interfaces, *before.bridges) if changes.is_removed(after, each)),
            *(RemoveHca(after.name, hca) for before, after in pairs if before.name in old_hosts
              for hca in before.hcas if hca not in after.hcas),
            *_subnet_steps(old, new, old_hosts),
            *(step for before, after in pairs for step in _sysctls(before, after, None)),
            *(StartInterface(after.name, each) for before, after in pairs
              for each in after.interfaces if _is_started(_find(before, each.name), each)),
            *(AddBridge(after.name, each) for _, after in pairs
              for each in after.bridges if changes.is_added(after, each)),
            *(AddStationInterface(after.name, each) for _, after in pairs
              for each in after.station_interfaces if changes.is_added(after, each)),
            *(step for before, after in pairs for step in _settings(before, after, changes)),
            *(step for before, after in pairs for step in _ports(before, after, changes)),
            *(AwaitReady(after.name, each.name) for before, after in pairs
              for each in after.interfaces if _find(before, each.name) != each),
            *(step for before, after in pairs for step in _service_starts(before, after))]


def hosts_of(steps):
    """Returns the names of the hosts that the steps change."""
    return {step.host for step in steps if hasattr(step, "host")} | {
        host for step in steps if isinstance(step, SetMemberships) for host in step.hosts}


class _Changes:
    """Which bridges and interfaces of stations are removed, and which are added."""

    def __init__(self, old_hosts, new_hosts):
        self._old_hosts = old_hosts
        self._new_hosts = new_hosts

    def is_added(self, host, link):
        """Whether a bridge or an interface of a host is a new one."""
        before = self._old_hosts.get(host.name)
        known = before and _find(before, link.name)
        return known is None or not self._is_kept(known, link)

    def is_removed(self, host, link):
        """Whether one of the host as it was, which there still is, has to go."""
        after = _find(host, link.name)
        return after is None or not self._is_kept(link, after)

    def _is_kept(self, before, after):
        if isinstance(before, Interface) or isinstance(after, Interface):
            return isinstance(before, Interface) and isinstance(after, Interface) and not _is_restarted(before, after)
        if not isinstance(after, StationInterface):
            return isinstance(before, Bridge)
        # A new host, or a new bridge, has no ports yet.
        host, name = after.bridge
        bridges = [hosts[host] for hosts in (self._old_hosts, self._new_hosts) if host in hosts]
        return (isinstance(before, StationInterface) and len(bridges) == 2 and
                all(isinstance(_find(each, name), Bridge) for each in bridges) and
                dataclasses.replace(before, addresses=()) == dataclasses.replace(after, addresses=()))


def _find(host, interface):
    """Returns the interface, bridge or interface of a station of this name; None if there is none."""
    return next((each for each in host.links if each.name == interface), None)


def _ends_of(host):
    return [*(StopService(host.name, name) for name, _ in host.services),
            *(StopInterface(host.name, each.name) for each in host.interfaces),
            *(RemoveHca(host.name, hca) for hca in host.hcas), RemoveHost(host.name)]


def _daemon_of(interface):
    """Returns what only another daemon can change."""
    return dataclasses.replace(interface, addresses=(), mtu=None)


def _is_restarted(before, after):
    """Whether the daemon of `before` ends. Only the daemon knows the MTU of an interface without `mtu`."""
    return (not isinstance(after, Interface) or _daemon_of(before) != _daemon_of(after) or
            (before.mtu is not None and after.mtu is None))


def _is_started(before, after):
    return not isinstance(before, Interface) or _is_restarted(before, after)


def _subnet_steps(old, new, old_hosts):
    before = old.memberships() if old else {}
    after = new.memberships()
    hosts = []
    for host in new.hosts:
        known = old_hosts.get(host.name)
        hosts += [AddHost(host.name)] if known is None else []
        hosts += [AddHca(host.name, hca) for hca in host.hcas if known is None or hca not in known.hcas]
    if old is None:
        start = StartSubnet(new.subnet, tuple(after.items()))
        first = SetMemberships((), new.subnet, tuple(after.items()))
        return [start, *hosts, *([first, StartOpenSm(new.subnet)] if new.subnet.sm == "opensm" else [])]
    owners = new.owners()
    changes = {key: after.get(key, "none") for key in {**before, **after}
               if before.get(key, "none") != after.get(key, "none") and key[1] in owners}
    if not changes:
        return hosts
    changed = tuple(dict.fromkeys(owners[hca] for _, hca in changes))
    return [*hosts, SetMemberships(tuple(changes.items()), new.subnet, tuple(after.items()), changed)]


def _settings(before, after, changes):
    """Addresses, MTUs, settings of interfaces, forwarding and routes of a host that was `before`."""
    steps = [SetForwarding(after.name, after.forward)] if before.forward != after.forward else []
    lost_routes = False
    for link in after.links:
        known = _find(before, link.name)
        is_new = changes.is_added(after, link)
        kept = () if is_new else known.addresses
        gone = [each for each in kept if each not in link.addresses]
        steps += _sysctls(before, after, link, is_new)
        steps += [RemoveAddress(after.name, link.name, each) for each in gone]
        steps += [AddAddress(after.name, link.name, each) for each in link.addresses if each not in kept]
        if is_new:
            steps.append(BringUp(after.name, link.name))
        # A bridge and the interface of a station are made with their MTU.
        if link.mtu is not None and (known.mtu != link.mtu if not is_new else isinstance(link, Interface)):
            steps.append(SetMtu(after.name, link.name, link.mtu))
        lost_routes = lost_routes or bool(gone) or (is_new and known is not None)
    steps += [RemoveRoute(after.name, each) for each in before.routes if each not in after.routes]
    # The kernel deletes the routes over an interface or an address that has gone.
    steps += [AddRoute(after.name, each) for each in after.routes if lost_routes or each not in before.routes]
    return steps


def _sysctls(before, after, link, is_new=False):
    """Settings of an interface, or without one of the host as a whole. Those of an interface that is new
    are all set."""
    def interface_of(name):
        parts = re.split(r"[./]", name, 3)
        is_of_one = len(parts) == 4 and parts[2] in ("conf", "neigh")
        return next((each.name for each in (*after.links, *before.links)
                     if is_of_one and re.match(re.escape(each.name) + "[./]", parts[3])), None)

    wanted = link.name if link else None
    old, new = dict(before.sysctls), dict(after.sysctls)
    back = [SetSysctl(after.name, name, None, wanted or "") for name in old
            if name not in new and interface_of(name) == wanted and not is_new]
    return back + [SetSysctl(after.name, name, value, wanted or "") for name, value in new.items()
                   if interface_of(name) == wanted and (is_new or old.get(name) != value)]


def _ports(before, after, changes):
    """Ports of the host's bridges; those of stations come with the stations."""
    steps = []
    for bridge in after.bridges:
        known = _find(before, bridge.name)
        kept = () if changes.is_added(after, bridge) else known.ports
        steps += [RemovePort(after.name, bridge.name, port) for port in kept
                  if port not in bridge.ports and isinstance(_find(after, port), Interface)]
        steps += [AddPort(after.name, bridge.name, port) for port in bridge.ports
                  if port not in kept or changes.is_added(after, _find(after, port))]
    return steps


def _service_ends(before, after):
    return [StopService(before.name, name) for name, command in before.services
            if dict(after.services).get(name) != command]


def _service_starts(before, after):
    return [StartService(after.name, name, command) for name, command in after.services
            if dict(before.services).get(name) != command]


def without_hosts(lab, names):
    """Returns the lab without some hosts."""
    return dataclasses.replace(lab, hosts=tuple(host for host in lab.hosts if host.name not in names))
