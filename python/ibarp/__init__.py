"""Neighbours, state and counters of the interfaces of ipoibd, by libibarp (ibarp(3)).

    import ibarp

    for name in ibarp.interfaces():
        with ibarp.Interface(name) as interface:
            print(name, interface.info()["state"])
            for entry in interface.neighbours(states=["failed"]):
                print(entry["address"], entry["state"])
            for event in interface.subscribe("link"):
                print(event["info"]["state"])

Structures of the library are dictionaries with the names of its members. IP addresses and GIDs are
objects of the module ipaddress, link-layer addresses are strings, and None stands for what is not
known. A call that fails raises OSError with the errno value that ibarp(3) names, so a missing entry is
FileNotFoundError, and a change without permission PermissionError.
"""

import ipaddress
import select
import socket
import time
import warnings

import cffi

from ._declarations import DECLARATIONS

__all__ = ["Events", "Interface", "interfaces"]

_ffi = cffi.FFI()
_ffi.cdef(DECLARATIONS)
_lib = _ffi.dlopen("libibarp.so.0")

_HAS_HARDWARE, _HAS_PATH, _IS_PINNED, _HAS_MAC = 1, 2, 4, 8
_GID_SIZE = 16
_PATH = ("dlid", "sl", "path_mtu", "rate_mbps")
_MODES = {"add": _lib.IBARP_ADD, "change": _lib.IBARP_CHANGE, "replace": _lib.IBARP_REPLACE}
_TOPICS = {"neighbours": _lib.IBARP_NEIGHBOURS, "link": _lib.IBARP_LINK,
           "groups": _lib.IBARP_GROUPS, "stations": _lib.IBARP_STATIONS, "stats": _lib.IBARP_STATS}
_JOIN_STATES = {1: "full", 2: "non-member", 4: "send-only", 8: "send-only-full"}


def _text(value):
    return _ffi.string(value).decode(errors="replace")


def _check(result, handle=_ffi.NULL):
    if result >= 0:
        return
    reason = _text(_lib.ibarp_error(handle)) or _text(_lib.ibarp_strerror(result))
    raise OSError(-result, reason)


def _address_to_c(address):
    address = ipaddress.ip_address(address)
    out = _ffi.new("struct ibarp_address *")
    out.family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    _ffi.memmove(out.bytes, address.packed, len(address.packed))
    return out


def _gid_to_c(gid):
    return _ffi.new("uint8_t[16]", ipaddress.IPv6Address(gid).packed)


def _gid(value):
    gid = ipaddress.IPv6Address(bytes(_ffi.buffer(value, 16)))
    return gid if int(gid) != 0 else None


def _hardware(value):
    text = _ffi.new("char[]", _lib.IBARP_HARDWARE_TEXT)
    return _text(_lib.ibarp_format_hardware(_ffi.addressof(value), text))


def _address(value):
    if value.family == 0:
        return None
    size = 4 if value.family == socket.AF_INET else 16
    return ipaddress.ip_address(bytes(_ffi.buffer(value.bytes, size)))


def _value(kind, value):
    """A member of a structure as an object of Python."""
    if kind.kind == "struct":
        return {"struct ibarp_address": _address, "struct ibarp_hardware": _hardware}[kind.cname](value)
    if kind.kind == "array":
        if kind.item.cname == "char":
            return _text(value)
        return _gid(value) if kind.length == _GID_SIZE else bytes(_ffi.buffer(value)).hex(":")
    return _text(value) if kind.kind == "pointer" else value


def _dictionary(pointer):
    """A structure that the library has filled in."""
    members = _ffi.typeof(pointer).item.fields
    return {name: _value(field.type, getattr(pointer, name)) for name, field in members
            if name != "size" and field.offset < pointer.size}


def _entry(pointer):
    out = _dictionary(pointer)
    flags = out.pop("flags")
    hardware = out.pop("hardware")
    out["pinned_gid"] = _gid(pointer.hardware.gid) if flags & _IS_PINNED else None
    out["lladdr"] = hardware if flags & _HAS_HARDWARE else None
    out["qpn"] = pointer.hardware.qpn if flags & _HAS_HARDWARE else None
    out["gid"] = _gid(pointer.hardware.gid) if flags & _HAS_HARDWARE else None
    path = {name: out.pop(name) for name in _PATH}
    out["path"] = path if flags & _HAS_PATH else None
    out["mac"] = out["mac"] if flags & _HAS_MAC else None
    return out


def _info(pointer):
    info = _dictionary(pointer)
    lladdr, qpn = info.pop("hardware"), pointer.hardware.qpn
    return {**info, "admin_up": bool(pointer.admin_up), "qpn": qpn or None,
            "lladdr": lladdr if qpn else None, "gid": _gid(pointer.hardware.gid)}


def _histogram(pointer):
    buckets = pointer.buckets
    return {"name": _text(pointer.name), "sum_ns": pointer.sum_ns,
            "bounds_ns": list(pointer.bounds_ns[0:buckets]),
            "counts": list(pointer.counts[0:buckets + 1])}


def _delta(pointer, delta):
    return {**_dictionary(pointer), "delta": delta}


def _station(pointer):
    out = _dictionary(pointer)
    out["served"] = bool(out.pop("is_served"))
    return out


def _member(pointer):
    return {"port_gid": _gid(pointer.port_gid),
            "join": [name for bit, name in _JOIN_STATES.items() if pointer.join_state & bit]}


def _collect(kind, convert, call):
    """Calls call(callback) and returns what the callback gets; an exception in it is raised."""
    out, failures = [], []

    def on_value(*values):
        try:
            out.append(convert(*values[:-1]))  # the last one is the callback's data
            return 0
        except Exception as error:  # must not pass through C
            failures.append(error)
            return 1

    result = call(_ffi.callback(kind, on_value))
    if failures:
        raise failures[0]
    return result, out


def interfaces():
    """The names of the interfaces of ipoibd in this network namespace, sorted."""
    result, out = _collect("ibarp_interface_fn *", _text,
                           lambda each: _lib.ibarp_interfaces(each, _ffi.NULL))
    _check(result)
    return out


class Events:
    """The events of a subscription: an iterator that waits for the next one.

    Each is a dictionary whose "event" tells what else it has, as of ibarp --json monitor:

        "neighbour"  "change" ("new", "changed", "deleted"), "why", "entry"
        "link"       "changed": names of what has changed, "info"
        "group"      "change" ("joining", "joined", "failed", "left"), "why", "group"
        "stats"      "interval_ms", "counters": those that have changed, with their "delta"
        "lost"       "events": how many are missing here
        "takeover"   nothing: another daemon serves the interface from now on

    Raises BrokenPipeError when the daemon has ended, also after "takeover"; then subscribe again."""

    def __init__(self, interface, topics, interval):
        self._interface = interface
        unknown = set(topics) - set(_TOPICS)
        if unknown:
            raise ValueError(f"no such topic: {', '.join(sorted(unknown))}")
        self._do(_lib.ibarp_subscribe, sum(_TOPICS[each] for each in set(topics)),
                 round(interval * 1000))

    def _do(self, function, *arguments):
        if self._interface is None:
            raise ValueError("the subscription has ended")
        return self._interface._do(function, *arguments)

    def close(self):
        """Ends the subscription."""
        interface, self._interface = self._interface, None
        if interface is not None and interface._handle:
            _lib.ibarp_unsubscribe(interface._handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def fileno(self):
        """A descriptor that is readable when there may be an event. Events are buffered, so call
        next(0) after that until it returns None."""
        return self._do(_lib.ibarp_fd)

    def next(self, timeout=None):
        """The next event; None if there is none in `timeout` seconds. Without, waits for one."""
        deadline = None if timeout is None else time.monotonic() + timeout
        # Waits here and not in the library, so that signals are handled.
        readable = select.poll()
        readable.register(self.fileno(), select.POLLIN)
        while True:
            event = self._take()
            if event is not None:
                return event
            left = None if deadline is None else max(0, deadline - time.monotonic()) * 1000
            if not readable.poll(left):
                return None

    def __iter__(self):
        return self

    def __next__(self):
        return self.next()

    def _take(self):
        out = _ffi.new("struct ibarp_event *")
        while True:
            out.size = _ffi.sizeof("struct ibarp_event")
            try:
                self._do(_lib.ibarp_next_event, out, 0)
            except BlockingIOError:
                return None
            event = self._event(out)
            if event is not None:
                return event

    def _event(self, out):
        """None for one of a later version."""
        change = {"change": _text(out.change), "why": _text(out.why)}
        if out.type == _lib.IBARP_NEIGHBOURS:
            return {"event": "neighbour", **change, "entry": _entry(out.entry)}
        if out.type == _lib.IBARP_GROUPS:
            return {"event": "group", **change, "group": _dictionary(out.group)}
        if out.type == _lib.IBARP_STATIONS:
            return {"event": "station", **change, "station": _station(out.station)}
        if out.type == _lib.IBARP_LINK:
            return {"event": "link", "changed": _text(out.changed).split(","), "info": _info(out.info)}
        if out.type == _lib.IBARP_STATS:
            counters = self._interface._list("delta", _delta, _lib.ibarp_deltas)
            return {"event": "stats", "interval_ms": out.interval_ms, "counters": counters}
        if out.type == _lib.IBARP_LOST:
            return {"event": "lost", "events": out.lost}
        if out.type == _lib.IBARP_TAKEOVER:
            return {"event": "takeover"}
        return None


class Interface:
    """A connection to the ipoibd of an interface. It may be used by one thread at a time."""

    def __init__(self, name, timeout=None):
        """`timeout`: seconds to wait for the daemon; None: the library's."""
        handle = _ffi.new("struct ibarp **")
        _check(_lib.ibarp_open(name.encode(), handle))
        self.name = name
        self._handle = handle[0]
        if timeout is not None:
            _lib.ibarp_set_timeout(self._handle, int(timeout * 1000))

    def close(self):
        handle, self._handle = self._handle, _ffi.NULL
        _lib.ibarp_close(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None):
            self.close()

    def _do(self, function, *arguments):
        if not self._handle:
            raise ValueError("the interface is closed")
        result = function(self._handle, *arguments)
        _check(result, self._handle)
        return result

    def _list(self, kind, convert, function, *arguments):
        if not self._handle:
            raise ValueError("the interface is closed")
        result, out = _collect(f"ibarp_{kind}_fn *", convert,
                               lambda each: function(self._handle, *arguments, each, _ffi.NULL))
        _check(result, self._handle)
        return out

    def _filter(self, network, states, family):
        out = _ffi.new("struct ibarp_filter *")
        out.size = _ffi.sizeof("struct ibarp_filter")
        out.family = {None: 0, 4: socket.AF_INET, 6: socket.AF_INET6}[family]
        if network is not None:
            network = ipaddress.ip_network(network, strict=False)
            out.prefix = _address_to_c(network.network_address)[0]
            out.prefix_length = network.prefixlen
        text = ",".join(states or []).encode()
        if len(text) >= len(out.states):
            raise ValueError("too many states")
        out.states = text
        return out

    def info(self):
        """The interface and the state of its bring-up."""
        out = _ffi.new("struct ibarp_info *")
        out.size = _ffi.sizeof("struct ibarp_info")
        self._do(_lib.ibarp_get_info, out)
        return _info(out)

    def neighbours(self, network=None, states=None, family=None):
        """The entries of a network, in one of these states, of the IP version 4 or 6; default: all."""
        wanted = self._filter(network, states, family)
        return self._list("entry", _entry, _lib.ibarp_list_matching, wanted)

    def get(self, address):
        """An entry; None if there is none."""
        out = _ffi.new("struct ibarp_entry *")
        out.size = _ffi.sizeof("struct ibarp_entry")
        try:
            self._do(_lib.ibarp_get, _address_to_c(address), out)
        except FileNotFoundError:
            return None
        return _entry(out)

    def resolve(self, address, timeout=5):
        """The path to a neighbour, which is resolved if it is not in the cache: a dictionary. Waits for
        at most 30 seconds; TimeoutError: it is not resolved in time."""
        descriptor = self._do(_lib.ibarp_resolve_start, _address_to_c(address), round(timeout * 1000))
        out = _ffi.new("struct ibarp_path *")
        out.size = _ffi.sizeof("struct ibarp_path")
        # Waits here and not in the library, so that signals are handled.
        readable = select.poll()
        readable.register(descriptor, select.POLLIN)
        while True:
            readable.poll()
            try:
                self._do(_lib.ibarp_resolve_finish, out)
            except BlockingIOError:
                continue
            path = _dictionary(out)
            lladdr = path.pop("hardware")
            return {**path, "lladdr": lladdr, "qpn": out.hardware.qpn, "gid": _gid(out.hardware.gid)}

    def set(self, address, lladdr, mode="replace"):
        """Sets a permanent entry; `mode` is "add", "change" or "replace". `lladdr` is "QPN@GID", or 20
        bytes in hexadecimal with colons."""
        hardware = _ffi.new("struct ibarp_hardware *")
        if _lib.ibarp_parse_hardware(lladdr.encode(), hardware) != 0:
            raise ValueError(f"{lladdr!r} is no link-layer address")
        self._do(_lib.ibarp_set, _address_to_c(address), hardware, _MODES[mode])

    def pin(self, address, gid, mode="replace"):
        """Pins an address to a GID."""
        self._do(_lib.ibarp_pin, _address_to_c(address), _gid_to_c(gid), _MODES[mode])

    def load(self, path):
        """Sets the entries and pins of a file; returns how many."""
        entries = _ffi.new("uint64_t *")
        self._do(_lib.ibarp_load_neighbours, str(path).encode(), entries)
        return entries[0]

    def delete(self, address):
        """Deletes an entry and its pin."""
        self._do(_lib.ibarp_delete, _address_to_c(address))

    def flush(self, network=None, states=None, family=None):
        """Deletes entries; returns how many. Permanent ones and pins only if `states` names them."""
        deleted = _ffi.new("uint64_t *")
        self._do(_lib.ibarp_flush_matching, self._filter(network, states, family), deleted)
        return deleted[0]

    def stations(self):
        """The addresses of stations behind an Ethernet interface, as of `ibarp stations`."""
        return self._list("station", _station, _lib.ibarp_stations)

    def groups(self):
        """The multicast groups of the interface."""
        return self._list("group", _dictionary, _lib.ibarp_groups)

    def members(self, mgid):
        """The ports that are members of a group, according to the subnet administrator."""
        return self._list("member", _member, _lib.ibarp_members, _gid_to_c(mgid))

    def stats(self):
        """The counters: name -> value."""
        counters = self._list("counter", _dictionary, _lib.ibarp_stats)
        return {each["name"]: each["value"] for each in counters}

    def subscribe(self, *topics, interval=1):
        """Events from now on about "neighbours", "link", "groups" and "stats"; default: all but the
        counters, which come each `interval` seconds. Replaces an earlier subscription. Get what there
        is after subscribing, and nothing is missed."""
        return Events(self, topics or ("neighbours", "link", "groups", "stations"), interval)

    def histograms(self):
        """Durations in buckets: name -> bounds_ns, counts (one more than bounds), sum_ns."""
        return {each.pop("name"): each
                for each in self._list("histogram", _histogram, _lib.ibarp_histograms)}

    def log_levels(self):
        """Module -> level."""
        levels = self._list("log", _dictionary, _lib.ibarp_log_levels)
        return {each["module"]: each["level"] for each in levels}

    def set_log_level(self, module, level):
        """The module "all" stands for all."""
        self._do(_lib.ibarp_set_log_level, module.encode(), level.encode())

    def trace(self):
        """The last events of the daemon's threads, oldest first."""
        return self._list("trace", _dictionary, _lib.ibarp_trace)

    def add_interface(self, pkey, name=None):
        """Adds an interface for another partition of the port; returns its name. Warns of a partition that the
        port is not in, or only as a limited member."""
        added = _ffi.new("char[]", _lib.IBARP_NAME_SIZE)
        self._do(_lib.ibarp_add_interface, pkey, name.encode() if name else _ffi.NULL, added)
        warning = _text(_lib.ibarp_warning(self._handle))
        if warning:
            warnings.warn(warning, stacklevel=2)
        return _text(added)

    def delete_interface(self):
        """Deletes the interface."""
        self._do(_lib.ibarp_delete_interface)
