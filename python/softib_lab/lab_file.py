"""The lab file: its values, and the parser, which reports each error with line and column.

No I/O but reading the schema and parse_file().
"""

import dataclasses
import difflib
import ipaddress
import json
import pathlib
import typing

import jsonschema
import yaml

DEFAULT_PARTITION = "default"
DEFAULT_PKEY = 0x7fff
OPENSM_HCA = "opensm"
KINDS = ("ping", "tcp", "reaches", "does not reach", "runs")
BRIDGE_MTU = 1500  # bytes, of a bridge and its stations without "mtu"
# Options of ipoibd that the lab sets, and the key that decides on them.
LAB_OPTIONS = {"--pkey": "partition", "--name": "the interface's name", "--softib": "the host's name",
               "--mtu": "mtu", "--ethernet": "ethernet", "--netns": "the host's name", "--backup": "backup",
               "--vlan": "vlans",
               "--log-target": "", "--reload": "", "--cleanup": "", "--check-config": "", "--takeover": "",
               "--keep": "", "--help": "", "--version": ""}

# --- Values -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Partition:
    name: str
    pkey: int  # without the membership bit
    mtu: typing.Optional[int] = None  # bytes
    rate: typing.Optional[float] = None  # Gb/s


@dataclasses.dataclass(frozen=True)
class Subnet:
    mtu: int = 2048  # bytes
    sm: str = "own"  # or "opensm"
    partitions: tuple = (Partition(DEFAULT_PARTITION, DEFAULT_PKEY),)
    sm_host: str = ""  # whose HCA OpenSM uses; empty: it has its own
    topology: str = ""  # of `softib subnet --topology`; empty: one switch


@dataclasses.dataclass(frozen=True)
class Interface:
    """An interface of ipoibd."""
    name: str
    partition: str = DEFAULT_PARTITION
    pkey: int = DEFAULT_PKEY
    membership: str = "full"  # or "limited"
    addresses: tuple = ()  # "10.44.0.1/24"
    mtu: typing.Optional[int] = None  # bytes; None: that of the broadcast group
    ethernet: bool = False
    options: tuple = ()  # of ipoibd
    backup: str = ""  # the HCA of the backup port; empty: none
    vlans: tuple = ()  # (VLAN, name of its partition, P_Key)

    @property
    def pkeys(self):
        """The P_Keys of its own partition and of its VLANs."""
        return (self.pkey, *(pkey for _, _, pkey in self.vlans))


@dataclasses.dataclass(frozen=True)
class StationInterface:
    """One end of a veth, whose other end is a port of a bridge."""
    name: str
    bridge: tuple  # (host, name)
    addresses: tuple = ()
    mtu: int = BRIDGE_MTU  # bytes
    mac: str = ""  # empty: the kernel's choice

    @property
    def partition(self):
        return "/".join(self.bridge)


@dataclasses.dataclass(frozen=True)
class Bridge:
    """A bridge of the kernel."""
    name: str
    ports: tuple  # names of interfaces of its host
    addresses: tuple = ()
    mtu: int = BRIDGE_MTU  # bytes


@dataclasses.dataclass(frozen=True)
class Host:
    name: str
    interfaces: tuple = ()
    forward: bool = False
    routes: tuple = ()
    services: tuple = ()  # (name, command line)
    station_interfaces: tuple = ()
    bridges: tuple = ()
    sysctls: tuple = ()  # (name, value)

    @property
    def links(self):
        """All its network interfaces."""
        return (*self.interfaces, *self.bridges, *self.station_interfaces)

    @property
    def hcas(self):
        """The names of its HCAs; a station has none."""
        if self.station_interfaces and not self.interfaces:
            return ()
        return tuple(dict.fromkeys([self.name, *(each.backup for each in self.interfaces if each.backup)]))


@dataclasses.dataclass(frozen=True)
class Fault:
    at: float  # seconds after the end of `up`
    change: str  # arguments of softib set


@dataclasses.dataclass(frozen=True)
class Expectation:
    line: int
    kind: str  # one of KINDS
    sources: tuple  # names of hosts
    targets: tuple  # IP addresses, and names of hosts; of "runs", the command line
    count: int = 3
    port: typing.Optional[int] = None
    bytes: int = 1 << 20
    within: int = 20  # seconds


@dataclasses.dataclass(frozen=True)
class Lab:
    name: str
    subnet: Subnet
    hosts: tuple
    expectations: tuple = ()
    faults: tuple = ()

    def host(self, name):
        return next((host for host in self.hosts if host.name == name), None)

    def memberships(self):
        """Returns {(pkey, HCA): "full" or "limited"}; every HCA is a member of the default partition,
        in which it reaches the SA."""
        found = {(DEFAULT_PKEY, hca): "full" for host in self.hosts for hca in host.hcas}
        for host in self.hosts:
            for interface in host.interfaces:
                for hca in (host.name, interface.backup) if interface.backup else (host.name,):
                    found.update({(pkey, hca): interface.membership for pkey in interface.pkeys})
        return found

    def owners(self):
        """Returns {HCA: host}."""
        return {hca: host.name for host in self.hosts for hca in host.hcas}


# --- Errors -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, order=True)
class Problem:
    line: int  # from 1
    column: int  # from 1
    message: str


class LabFileError(Exception):
    """What is wrong with a lab file: a line for each problem."""

    def __init__(self, file, problems):
        self.problems = sorted({dataclasses.replace(each, message=printable(each.message)) for each in problems})
        super().__init__("\n".join(f"{file}:{each.line}:{each.column}: {each.message}"
                                   for each in self.problems))


def printable(text):
    """Returns a text in which characters that a terminal would obey are written as in Python."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape", "surrogatepass").decode() for each in text)


def did_you_mean(word, names):
    """Returns "; did you mean NAME?", or an empty string if no name is similar."""
    close = difflib.get_close_matches(word, list(names), 1)
    return f"; did you mean '{close[0]}'?" if close else ""


# --- YAML with marks --------------------------------------------------------------------------


class Document:
    """A YAML document as Python values, and where each of them is: the path of keys and indices to
    (line, column), from 1."""

    def __init__(self, text):
        self.problems = []
        self.values = {}
        self.keys = {}
        self._loader = yaml.SafeLoader(text)
        try:
            node = self._loader.get_single_node()
            self.value = self._value(node, (), ()) if node else None
        finally:
            self._loader.dispose()

    def at(self, path):
        """Returns the position of a value, or of the nearest one around it."""
        path = tuple(path)
        while path and path not in self.values:
            path = path[:-1]
        return self.values.get(path, (1, 1))

    def key_at(self, path):
        """Returns the position of the key of a member."""
        return self.keys.get(tuple(path)) or self.at(path)

    def _value(self, node, path, around):
        self.values[path] = _position(node.start_mark)
        if node in around:
            self._problem(node, "an alias contains itself")
            return None
        if isinstance(node, yaml.SequenceNode):
            return [self._value(each, (*path, i), (*around, node)) for i, each in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, (*around, node))
        try:
            return self._loader.construct_object(node)
        # What the package yaml raises for a value that its tag does not fit: of a tag in the file, such as !!bool.
        except (ValueError, KeyError, AttributeError, OverflowError, yaml.constructor.ConstructorError):
            self._problem(node, f"'{node.value}' is no value of the type {node.tag.rpartition(':')[2]}")
            return None

    def _mapping(self, node, path, around):
        found = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._problem(key_node, "a key is a word")
                continue
            key = key_node.value  # also of a host whose name is a number
            if key in found:
                self._problem(key_node, f"the key '{key}' is there twice")
                continue
            self.keys[(*path, key)] = _position(key_node.start_mark)
            found[key] = self._value(value_node, (*path, key), around)
        return found

    def _problem(self, node, message):
        self.problems.append(Problem(*_position(node.start_mark), message))


def _position(mark):
    return mark.line + 1, mark.column + 1


# --- Schema -----------------------------------------------------------------------------------


def _schema():
    """Reads the published schema, which is installed with this module."""
    folder = pathlib.Path(__file__).resolve().parent
    for path in (folder / "softib-lab.json", folder.parents[1] / "docs" / "json" / "softib-lab.json"):
        if path.exists():
            return json.loads(path.read_text(encoding="utf-8"))
    raise FileNotFoundError(f"softib-lab.json is not in {folder}: install it again")


def _shown(value):
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    return f"'{value}'" if isinstance(value, str) else json.dumps(value, default=str)


def _problems_of(error, document):
    """Yields the problems in an error of jsonschema."""
    path = tuple(error.absolute_path)
    title = error.schema.get("title", "") if isinstance(error.schema, dict) else ""
    subject = f"'{path[-1]}'" if path and isinstance(path[-1], str) else "an entry of a list" if path else "the file"
    if error.validator == "additionalProperties":
        known = error.schema["properties"]
        for key in error.instance:
            if key not in known:
                yield Problem(*document.key_at((*path, key)), f"unknown key '{key}' of {title}"
                              f"{did_you_mean(key, known)} (known: {', '.join(known)})")
    elif error.validator == "required":
        missing = [key for key in error.validator_value if key not in error.instance]
        yield Problem(*document.at(path), f"{subject} is {title}: the key '{missing[0]}' is missing"
                      if title else f"the key '{missing[0]}' is missing")
    elif "propertyNames" in error.absolute_schema_path:
        yield Problem(*document.key_at((*path, error.instance)), f"expected {title}, found '{error.instance}'")
    else:
        guess = did_you_mean(error.instance, map(str, error.schema["enum"])) \
            if error.validator == "enum" and isinstance(error.instance, str) else ""
        yield Problem(*document.at(path), f"{subject}: expected {title or error.message}, "
                      f"found {_shown(error.instance)}{guess}")


# --- Parser -----------------------------------------------------------------------------------


def parse_file(path, name=None):
    """Reads a lab file; `name` replaces the lab's. Raises LabFileError or OSError."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return parse(file.read(), str(path), name)


def parse(text, file, name=None):
    """Parses the text of a lab file. The default of the name is that of the file. Raises
    LabFileError."""
    try:
        document = Document(text)
    except yaml.MarkedYAMLError as error:
        line, column = _position(error.problem_mark or error.context_mark)
        raise LabFileError(file, [Problem(line, column, f"no valid YAML: {error.problem}")]) from None
    except yaml.reader.ReaderError as error:
        line, column = text.count("\n", 0, error.position) + 1, error.position - text.rfind("\n", 0, error.position)
        raise LabFileError(file, [Problem(line, column, f"no valid YAML: the character {error.character:#x} is not "
                                          "allowed")]) from None
    except RecursionError:
        raise LabFileError(file, [Problem(1, 1, "no lab: too many lists and mappings are within each other")]) from None
    problems = list(document.problems)
    validator = jsonschema.Draft202012Validator(_schema())
    for error in validator.iter_errors(document.value):
        problems += _problems_of(error, document)
    if problems:
        raise LabFileError(file, problems)
    reader = _Reader(document)
    lab = reader.lab(name or document.value.get("name") or pathlib.Path(file).stem)
    if reader.problems:
        raise LabFileError(file, reader.problems)
    return lab


class _Reader:
    """Makes values of a document that agrees with the schema, and checks what the schema cannot."""

    def __init__(self, document):
        self.document = document
        self.problems = []

    def problem(self, path, message):
        self.problems.append(Problem(*self.document.at(path), message))

    def lab(self, name):
        value = self.document.value
        partitions = self._partitions(value.get("subnet", {}).get("partitions", {}))
        hosts = tuple(self._host(each, settings or {}, partitions)
                      for each, settings in value["hosts"].items())
        self._check_addresses(hosts)
        self._check_hcas(hosts)
        used = {pkey for host in hosts for interface in host.interfaces for pkey in interface.pkeys}
        for each in partitions.values():
            if each.pkey not in used | {DEFAULT_PKEY}:
                self.problem(("subnet", "partitions", each.name),
                             f"no interface is in the partition '{each.name}'")
        settings = value.get("subnet", {})
        subnet = Subnet(settings.get("mtu", 2048), settings.get("sm", "own"), tuple(partitions.values()),
                        settings.get("sm host", ""), settings.get("topology", ""))
        self._check_sm(subnet, hosts)
        for each in partitions.values():
            if each.mtu and each.mtu > subnet.mtu:
                self.problem(("subnet", "partitions", each.name, "mtu"),
                             f"the partition's MTU, {each.mtu}, exceeds that of the ports, {subnet.mtu}: set 'mtu' of "
                             "'subnet'")
        expectations = tuple(self._expectation(i, each, hosts) for i, each in enumerate(value.get("expect", ())))
        hcas = [hca for host in hosts for hca in host.hcas] + [OPENSM_HCA] * (subnet.sm == "opensm")
        faults = tuple(Fault(each["at"], self._change(i, each["set"], hcas))
                       for i, each in enumerate(value.get("faults", ())))
        return Lab(name, subnet, hosts, expectations, faults)

    def _change(self, index, text, hcas):
        """Checks that a change names an HCA; softib checks the rest when it is made."""
        words = text.split()
        hca = {"sm": None, "cable": None, "switch": None, "partition": 2, "pkey": 2}.get(words[0], 1)
        if hca is not None and (len(words) <= hca or words[hca] not in {*hcas, "delete"}):
            self.problem(("faults", index, "set"), f"there is no HCA '{words[hca]}'{did_you_mean(words[hca], hcas)}"
                         if len(words) > hca else f"softib set {words[0]} needs an HCA")
        return text

    def _check_sm(self, subnet, hosts):
        if subnet.sm_host:
            path = ("subnet", "sm host")
            host = next((each for each in hosts if each.name == subnet.sm_host), None)
            if subnet.sm != "opensm":
                self.problem(path, "only opensm runs on a host: set 'sm' to opensm")
            elif host is None:
                names = [each.name for each in hosts]
                self.problem(path, f"there is no host '{subnet.sm_host}'{did_you_mean(subnet.sm_host, names)}")
            elif not host.hcas:
                self.problem(path, f"{host.name} is a station: it has no HCA")
        elif subnet.sm == "opensm" and any(host.name == OPENSM_HCA for host in hosts):
            self.problem(("hosts", OPENSM_HCA), f"'{OPENSM_HCA}' is the HCA of OpenSM: give the host another name")

    def _check_hcas(self, hosts):
        """Checks that each HCA of a backup port is of one host, and no other's."""
        owners = {host.name: host.name for host in hosts} | {OPENSM_HCA: "OpenSM"}
        for host in hosts:
            for interface in host.interfaces:
                if interface.backup and (owner := owners.setdefault(interface.backup, host.name)) != host.name:
                    self.problem(("hosts", host.name, "interfaces", interface.name, "backup"),
                                 f"'{interface.backup}' is an HCA of {owner}")
                elif interface.backup == host.name:
                    self.problem(("hosts", host.name, "interfaces", interface.name, "backup"),
                                 f"'{host.name}' is the HCA of the primary port: choose another name")

    def _partitions(self, values):
        found = {DEFAULT_PARTITION: Partition(DEFAULT_PARTITION, DEFAULT_PKEY)}
        for name, settings in values.items():
            pkey = settings["pkey"] & 0x7fff
            path = ("subnet", "partitions", name, "pkey")
            other = next((each.name for each in found.values() if each.pkey == pkey and each.name != name), None)
            if pkey == 0:
                self.problem(path, "the P_Key 0x8000 is invalid")
            elif other:
                self.problem(path, f"the partition '{other}' has the P_Key {pkey:#x}, too")
            elif name == DEFAULT_PARTITION and pkey != DEFAULT_PKEY:
                self.problem(path, f"the P_Key of the partition '{name}' is {DEFAULT_PKEY:#x}")
            found[name] = Partition(name, pkey, settings.get("mtu"), settings.get("rate"))
        return found

    def _host(self, name, settings, partitions):
        path = ("hosts", name)
        interfaces, station_interfaces = [], []
        for each, values in settings.get("interfaces", {}).items():
            if values and "bridge" in values:
                station_interfaces.append(self._station_interface((*path, "interfaces", each), each, values))
            else:
                interfaces.append(self._interface(path, each, values or {}, partitions))
        by_pkey = {}
        for interface in interfaces:
            place = (*path, "interfaces", interface.name)
            for where, partition, pkey in ((place, interface.partition, interface.pkey),
                                           *(((*place, "vlans", str(vlan)), *each) for vlan, *each in interface.vlans)):
                if pkey >= 0 and pkey in by_pkey:
                    self.problem(where, f"{name} has the interface '{by_pkey[pkey]}' in the partition '{partition}': "
                                 "a host has one interface in a partition")
                by_pkey.setdefault(pkey, interface.name)
        bridges = self._bridges((*path, "bridges"), settings.get("bridges", {}), interfaces)
        for bridge in bridges:
            if any(bridge.name == each.name for each in (*interfaces, *station_interfaces)):
                self.problem((*path, "bridges", bridge.name), f"{name} has an interface '{bridge.name}', too")
        return Host(name, tuple(interfaces), settings.get("forward", False), tuple(settings.get("routes", ())),
                    tuple(settings.get("services", {}).items()), tuple(station_interfaces), bridges,
                    tuple((key, str(value)) for key, value in settings.get("sysctls", {}).items()))

    def _bridges(self, path, values, interfaces):
        found, bridge_of = [], {}
        for name, settings in values.items():
            settings = settings or {}
            self._check_name((*path, name), name)
            for i, port in enumerate(settings.get("ports", ())):
                place = (*path, name, "ports", i)
                interface = next((each for each in interfaces if each.name == port), None)
                if interface is None:
                    names = [each.name for each in interfaces]
                    self.problem(place, f"there is no interface '{port}'{did_you_mean(port, names)}")
                elif not interface.ethernet:
                    self.problem(place, f"only an Ethernet interface can be a port: set 'ethernet' of {port}")
                elif interface.addresses:
                    self.problem(place, f"{port} has addresses: a bridge has those of its ports")
                elif port in bridge_of:
                    self.problem(place, f"{port} is a port of {bridge_of[port]}, too")
                bridge_of[port] = name
            found.append(Bridge(name, tuple(settings.get("ports", ())),
                                self._addresses((*path, name), settings), settings.get("mtu", BRIDGE_MTU)))
        return tuple(found)

    def _station_interface(self, path, name, values):
        self._check_name(path, name)
        for key in ("partition", "membership", "ethernet", "options", "backup", "vlans"):
            if key in values:
                self.problem((*path, key), f"'{key}' is for interfaces without 'bridge'")
        bridge = tuple(values["bridge"].split("/"))
        hosts = self.document.value["hosts"]
        bridges = ((hosts.get(bridge[0]) or {}).get("bridges") or {})
        if bridge[1] not in bridges:
            known = [f"{host}/{each}" for host, settings in hosts.items()
                     for each in ((settings or {}).get("bridges") or {})]
            self.problem((*path, "bridge"), f"there is no bridge '{values['bridge']}'"
                         f"{did_you_mean(values['bridge'], known)}")
        elif bridge[0] == path[1]:
            self.problem((*path, "bridge"), "the bridge is that of another host")
        mtu = (bridges.get(bridge[1]) or {}).get("mtu", BRIDGE_MTU)
        if values.get("mtu", 0) > mtu:
            self.problem((*path, "mtu"), f"the MTU exceeds that of the bridge, {mtu}")
        return StationInterface(name, bridge, self._addresses(path, values), values.get("mtu", mtu),
                                values.get("mac", "").lower())

    def _check_name(self, path, name):
        if name == "lo":
            self.problem(path, "lo is the loopback interface: choose another name")

    def _addresses(self, path, values):
        return tuple(self._address((*path, "addresses", i), each)
                     for i, each in enumerate(values.get("addresses", ())))

    def _interface(self, path, name, values, partitions):
        path = (*path, "interfaces", name)
        self._check_name(path, name)
        if "mac" in values:
            self.problem((*path, "mac"), "'mac' is for interfaces with 'bridge'")
        partition = values.get("partition", DEFAULT_PARTITION)
        pkey = self._pkey((*path, "partition"), partition, partitions)
        vlans = tuple((int(vlan), each, self._pkey((*path, "vlans", vlan), each, partitions))
                      for vlan, each in values.get("vlans", {}).items())
        if vlans and not values.get("ethernet"):
            self.problem((*path, "vlans"), "only an Ethernet interface has VLANs: set 'ethernet'")
        addresses = self._addresses(path, values)
        for i, option in enumerate(values.get("options", ())):
            word = option.split("=")[0]
            if word in LAB_OPTIONS:
                key = LAB_OPTIONS[word]
                self.problem((*path, "options", i), f"{word} is not for the interfaces of a lab" +
                             (f": {key} decides on that" if key else ""))
        return Interface(name, partition, pkey, values.get("membership", "full"), addresses, values.get("mtu"),
                         values.get("ethernet", False), tuple(values.get("options", ())),
                         values.get("backup", ""), vlans)

    def _pkey(self, path, partition, partitions):
        """Returns the P_Key of a partition, or -1 if there is none of this name."""
        if partition in partitions:
            return partitions[partition].pkey
        self.problem(path, f"there is no partition '{partition}'{did_you_mean(partition, partitions)} "
                     f"(known: {', '.join(partitions)})")
        return -1

    def _address(self, path, text):
        try:
            if "/" not in text:
                raise ValueError
            return str(ipaddress.ip_interface(text))
        except ValueError:
            self.problem(path, f"expected an IP address with its prefix length, such as 10.44.0.1/24, found '{text}'")
            return text

    def _check_addresses(self, hosts):
        """Checks that no two hosts have an address in a partition. What is behind a bridge is in that of
        its ports."""
        pkeys = {(host.name, each.name): each.pkey for host in hosts for each in host.interfaces}
        for host in hosts:
            for bridge in host.bridges:
                pkeys[host.name, bridge.name] = next(
                    (pkeys[host.name, port] for port in bridge.ports if (host.name, port) in pkeys),
                    (host.name, bridge.name))
        owners = {}
        for host in hosts:
            for key, links in (("interfaces", host.interfaces), ("bridges", host.bridges),
                               ("interfaces", host.station_interfaces)):
                for link in links:
                    pkey = pkeys.get(getattr(link, "bridge", (host.name, link.name)))
                    for i, address in enumerate(link.addresses):
                        address = address.split("/")[0]
                        other = owners.setdefault((pkey, address), host.name)
                        if other != host.name:
                            self.problem(("hosts", host.name, key, link.name, "addresses", i),
                                         f"{other} has the address {address} in this partition, too")

    def _expectation(self, index, value, hosts):
        path = ("expect", index)
        kind = next(each for each in KINDS if each in value)
        names = [host.name for host in hosts]
        sources = self._names((*path, "from"), value["from"], names, lambda text: False)
        settings = {key: value[key] for key in ("count", "port", "bytes", "within") if key in value}
        line = self.document.at(path)[0]
        if kind == "runs":
            return Expectation(line, kind, sources, (value[kind],), **settings)
        targets = self._names((*path, kind), value[kind], names, _is_address)
        for name in targets if value[kind] != "all" else ():
            host = next((host for host in hosts if host.name == name), None)
            if host and address_of(host) is None:
                self.problem((*path, kind), f"{name} has no address")
        if value[kind] == "all":
            targets = tuple(host.name for host in hosts if address_of(host) is not None)
        if kind == "tcp" and "port" not in value:
            for target in targets:
                if _is_address(target) and host_of(hosts, target) is None:
                    self.problem((*path, kind), f"no host has the address {target}: give the 'port' of a service")
        return Expectation(line, kind, sources, targets, **settings)

    def _names(self, path, value, names, is_other):
        """Returns the hosts that a name, a list or "all" means, and what `is_other` accepts."""
        if value == "all" and "all" not in names:
            return tuple(names)
        words = [(path, value)] if isinstance(value, str) else [((*path, i), each) for i, each in enumerate(value)]
        for place, word in words:
            if word not in names and not is_other(word):
                self.problem(place, f"there is no host '{word}'{did_you_mean(word, names)}")
        return tuple(word for _, word in words)


def _is_address(text):
    try:
        ipaddress.ip_address(text)
        return True
    except ValueError:
        return False


def address_of(host):
    """Returns the first address of a host, without the prefix length; None if it has none."""
    return next((address.split("/")[0] for link in host.links for address in link.addresses), None)


def host_of(hosts, address):
    """Returns the host that has an address, given without the prefix length; None if none has."""
    wanted = ipaddress.ip_address(address)
    return next((host for host in hosts for link in host.links for each in link.addresses
                 if ipaddress.ip_interface(each).ip == wanted), None)
