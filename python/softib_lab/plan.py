"""What has to be done so that one lab becomes another: a list of steps, which are values.

The order: first what ends, then the subnet, hosts and memberships, then daemons, which all start at
once, then what needs their interfaces, at last services.
"""

import dataclasses

from .lab_file import Host, Interface, Subnet


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
    memberships: tuple  # ((pkey, host), "full" or "limited")

    def __str__(self):
        return "start the subnet"


@dataclasses.dataclass(frozen=True)
class AddHost:
    host: str

    def __str__(self):
        return f"{self.host}: add"


@dataclasses.dataclass(frozen=True)
class StartOpenSm:
    def __str__(self):
        return "start OpenSM"


@dataclasses.dataclass(frozen=True)
class SetMemberships:
    changes: tuple  # ((pkey, host), "full", "limited" or "none")
    subnet: Subnet
    memberships: tuple  # all that are to be

    def __str__(self):
        return "change memberships of partitions"


@dataclasses.dataclass(frozen=True)
class StartInterface:
    host: str
    interface: Interface

    def __str__(self):
        return f"{self.host}: start ipoibd for {self.interface.name}"


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
    added = [name for name in new_hosts if name not in old_hosts]
    return [*(step for before, after in pairs for step in _service_ends(before, after)),
            *(step for host in gone for step in _ends_of(host)),
            *(StopInterface(after.name, each.name) for before, after in pairs
              for each in before.interfaces if _is_restarted(each, _find(after, each.name))),
            *_subnet_steps(old, new, added),
            *(StartInterface(after.name, each) for before, after in pairs
              for each in after.interfaces if _is_started(_find(before, each.name), each)),
            *(step for before, after in pairs for step in _settings(before, after)),
            *(AwaitReady(after.name, each.name) for before, after in pairs
              for each in after.interfaces if _find(before, each.name) != each),
            *(step for before, after in pairs for step in _service_starts(before, after))]


def hosts_of(steps):
    """Returns the names of the hosts that the steps change."""
    return {step.host for step in steps if hasattr(step, "host")} | {
        host for step in steps if isinstance(step, SetMemberships) for (_, host), _ in step.changes}


def _find(host, interface):
    return next((each for each in host.interfaces if each.name == interface), None)


def _ends_of(host):
    return [*(StopService(host.name, name) for name, _ in host.services),
            *(StopInterface(host.name, each.name) for each in host.interfaces), RemoveHost(host.name)]


def _daemon_of(interface):
    """Returns what only another daemon can change."""
    return dataclasses.replace(interface, addresses=(), mtu=None)


def _is_restarted(before, after):
    """Whether the daemon of `before` ends. Only the daemon knows the MTU of an interface without `mtu`."""
    return (after is None or _daemon_of(before) != _daemon_of(after) or
            (before.mtu is not None and after.mtu is None))


def _is_started(before, after):
    return before is None or _is_restarted(before, after)


def _subnet_steps(old, new, added):
    before = old.memberships() if old else {}
    after = new.memberships()
    hosts = [AddHost(name) for name in added]
    if old is None:
        start = StartSubnet(new.subnet, tuple(after.items()))
        first = SetMemberships((), new.subnet, tuple(after.items()))
        return [start, *hosts, *([first, StartOpenSm()] if new.subnet.sm == "opensm" else [])]
    remain = {host.name for host in new.hosts}
    changes = {key: after.get(key, "none") for key in {**before, **after}
               if before.get(key, "none") != after.get(key, "none") and key[1] in remain}
    set_members = [SetMemberships(tuple(changes.items()), new.subnet, tuple(after.items()))] if changes else []
    return [*hosts, *set_members]


def _settings(before, after):
    """Addresses, MTUs, forwarding and routes of a host that was `before`."""
    steps = [SetForwarding(after.name, after.forward)] if before.forward != after.forward else []
    lost_routes = False
    for interface in after.interfaces:
        known = _find(before, interface.name)
        is_new = _is_started(known, interface)
        kept = () if is_new else known.addresses
        gone = [each for each in kept if each not in interface.addresses]
        steps += [RemoveAddress(after.name, interface.name, each) for each in gone]
        steps += [AddAddress(after.name, interface.name, each) for each in interface.addresses if each not in kept]
        if is_new:
            steps.append(BringUp(after.name, interface.name))
        if interface.mtu is not None and (is_new or known.mtu != interface.mtu):
            steps.append(SetMtu(after.name, interface.name, interface.mtu))
        lost_routes = lost_routes or bool(gone) or (is_new and known is not None)
    steps += [RemoveRoute(after.name, each) for each in before.routes if each not in after.routes]
    # The kernel deletes the routes over an interface or an address that has gone.
    steps += [AddRoute(after.name, each) for each in after.routes if lost_routes or each not in before.routes]
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
