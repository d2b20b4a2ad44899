#!/usr/bin/env python3
"""Tests the Python package ibarp with libibarp and a server in memory.

Usage: package_test.py SERVER PACKAGES LIBRARY [unittest's arguments]
"""
import ctypes
import errno
import gc
import importlib
import ipaddress
import os
import select
import subprocess
import sys
import threading
import time
import unittest
import warnings

SERVER = sys.argv[1]
NEIGHBOUR = ipaddress.ip_address("10.44.0.2")
PINNED = ipaddress.ip_address("2001:db8::3")
MGID = ipaddress.ip_address("ff12:401b::1")
STATES_SIZE = 128  # IBARP_TEXT_SIZE, with the final 0
LLADDR = "00:00:04:01:fe:80:00:00:00:00:00:00:00:00:00:00:00:00:00:01"
ibarp = None  # the package, once it is loaded


class Package(unittest.TestCase):
    """Each test has a server of its own: see memory_server.cpp."""

    def setUp(self):
        self.server = subprocess.Popen([SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end)
        folder, self.name = self.server.stdout.readline().split()
        os.environ["IPOIBD_DIR"] = folder

    def end(self):
        self.server.stdin.close()
        self.server.wait()
        self.server.stdout.close()

    def tell(self, command):
        """Tells the server to do something, and waits until it has."""
        print(command, file=self.server.stdin, flush=True)
        self.assertEqual(self.server.stdout.readline(), "done\n")

    def open(self, **options):
        interface = ibarp.Interface(self.name, **options)
        self.addCleanup(interface.close)
        return interface

    def assert_fails(self, number, text, call, *arguments, **options):
        with self.assertRaises(OSError) as raised:
            call(*arguments, **options)
        self.assertEqual(raised.exception.errno, number)
        self.assertIn(text, raised.exception.strerror)

    # --- The connection -------------------------------------------------------------------------

    def test_lists_the_interfaces(self):
        self.assertEqual(ibarp.interfaces(), [self.name])

    def test_a_missing_interface_has_no_daemon(self):
        self.assert_fails(errno.ENODEV, "nosuch", ibarp.Interface, "nosuch")

    def test_a_closed_interface_refuses_calls(self):
        with ibarp.Interface(self.name) as interface:
            self.assertEqual(interface.name, self.name)
            events = interface.subscribe("link")
        for call in (interface.info, interface.groups, events.fileno):
            with self.assertRaisesRegex(ValueError, "the interface is closed"):
                call()
        events.close()
        interface.close()

    def test_an_interface_that_nobody_has_is_closed(self):
        before = len(os.listdir("/proc/self/fd"))
        interface = ibarp.Interface(self.name)
        interface.info()
        self.assertGreater(len(os.listdir("/proc/self/fd")), before)
        del interface
        gc.collect()
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)

    def test_waits_as_long_as_it_is_told(self):
        interface = self.open(timeout=0.05)
        self.tell("hold")
        self.assert_fails(errno.ETIMEDOUT, "", interface.info)
        self.tell("release")
        patient = self.open(timeout=20)
        self.tell("hold")
        threading.Timer(0.2, self.tell, ("release",)).start()
        self.assertEqual(patient.info()["state"], "up")

    # --- Neighbours -----------------------------------------------------------------------------

    def test_an_entry_has_all_members(self):
        self.assertEqual(self.open().get("10.44.0.2"), {
            "address": NEIGHBOUR, "state": "reachable", "pinned_gid": None, "lladdr": LLADDR, "qpn": 0x401,
            "gid": ipaddress.ip_address("fe80::1"), "mac": None, "idle_ms": 90_000, "references": 4, "waiting": 5,
            "uses": 6, "path": {"dlid": 0x12, "sl": 3, "path_mtu": 2048, "rate_mbps": 40_000}})

    def test_what_is_not_known_is_none(self):
        self.assertEqual(self.open().get(PINNED), {
            "address": PINNED, "state": "failed", "pinned_gid": ipaddress.ip_address("fe80::9"), "lladdr": None,
            "qpn": None, "gid": None, "mac": "06:12:34:56:78:9a", "idle_ms": 0, "references": 0, "waiting": 0,
            "uses": 0, "path": None})
        self.assertIsNone(self.open().get("10.44.0.3"))

    def test_filters_neighbours(self):
        interface = self.open()
        for expected, options in (
                ([NEIGHBOUR, PINNED], {}), ([NEIGHBOUR], {"family": 4}), ([PINNED], {"family": 6}),
                ([NEIGHBOUR], {"network": "10.44.0.77/24"}), ([], {"network": "10.44.0.0/31"}),
                ([PINNED], {"network": PINNED}), ([NEIGHBOUR], {"states": ["reachable"]}),
                ([NEIGHBOUR, PINNED], {"states": ["failed", "reachable"]}), ([], {"states": ["stale"]})):
            found = interface.neighbours(**options)
            self.assertEqual([each["address"] for each in found], expected, options)
        self.assertEqual(found, [])
        with self.assertRaises(KeyError):
            interface.neighbours(family=5)
        self.assert_fails(errno.EINVAL, "", interface.neighbours, states=["asleep"])

    def test_the_states_of_a_filter_fit_or_are_refused(self):
        interface = self.open()
        for length in (STATES_SIZE, STATES_SIZE + 1):
            with self.assertRaisesRegex(ValueError, "too many states"):
                interface.neighbours(states=["x" * length])
        self.assert_fails(errno.EINVAL, "no state", interface.neighbours, states=["x" * (STATES_SIZE - 1)])

    def test_sets_and_deletes_entries(self):
        interface = self.open()
        interface.set("10.44.0.9", "0x401@fe80::1", "add")
        entry = interface.get("10.44.0.9")
        self.assertEqual((entry["state"], entry["lladdr"], entry["qpn"]), ("permanent", LLADDR, 0x401))
        self.assert_fails(errno.EEXIST, "10.44.0.9", interface.set, "10.44.0.9", LLADDR, "add")
        interface.set("10.44.0.9", "0x402@fe80::1")
        interface.set("10.44.0.9", "0x403@fe80::1", "change")
        self.assertEqual(interface.get("10.44.0.9")["qpn"], 0x403)
        interface.delete("10.44.0.9")
        self.assertIsNone(interface.get("10.44.0.9"))
        self.assert_fails(errno.ENOENT, "10.44.0.9", interface.delete, "10.44.0.9")
        self.assert_fails(errno.ENOENT, "10.44.0.9", interface.set, "10.44.0.9", LLADDR, "change")
        interface.set("10.44.0.9", LLADDR)
        with self.assertRaisesRegex(ValueError, "'nonsense' is no link-layer address"):
            interface.set("10.44.0.9", "nonsense")
        with self.assertRaises(KeyError):
            interface.set("10.44.0.9", LLADDR, "remove")

    def test_pins_addresses(self):
        interface = self.open()
        interface.pin("10.44.0.8", "fe80::78")
        self.assertEqual(interface.get("10.44.0.8")["pinned_gid"], ipaddress.ip_address("fe80::78"))

    def test_loads_entries_from_a_file(self):
        read, write = os.pipe()
        os.write(write, b"0x401@fe80::1 10.44.0.20\n0x402@fe80::2 10.44.0.21\n")
        os.close(write)
        interface = self.open()
        self.assertEqual(interface.load(f"/dev/fd/{read}"), 2)
        os.close(read)
        self.assertEqual(interface.get("10.44.0.21")["qpn"], 0x402)
        self.assert_fails(errno.ENOENT, "/nonexistent", interface.load, "/nonexistent/file")

    def test_deletes_many_entries(self):
        interface = self.open()
        self.assertEqual(interface.flush(family=6), 1)
        self.assertEqual(interface.flush(states=["stale"]), 0)
        interface.set("10.44.0.9", LLADDR)
        self.assertEqual(interface.flush("10.44.0.0/24"), 1)
        self.assertEqual(interface.flush(states=["permanent"]), 1)

    def test_resolves_an_address(self):
        self.assertEqual(self.open().resolve("10.44.0.2"), {
            "gid": ipaddress.ip_address("fe80::1"), "qpn": 0x401, "lladdr": LLADDR, "dlid": 0x12, "sl": 3, "mtu": 2048,
            "rate_mbps": 40_000, "pkey": 0x8001, "source_gid": ipaddress.ip_address("fe80::7"), "source_lid": 5})
        self.assert_fails(errno.ENETUNREACH, "not on this link", self.open().resolve, "10.44.0.3")

    def test_waits_for_the_resolution(self):
        interface = self.open()
        self.assert_fails(errno.EINVAL, "", interface.resolve, "10.44.0.2", timeout=30.001)
        self.assertEqual(interface.resolve("10.44.0.2", timeout=30)["qpn"], 0x401)
        self.tell("hold")
        threading.Timer(0.1, self.tell, ("release",)).start()
        self.assertEqual(interface.resolve("10.44.0.2")["qpn"], 0x401)

    # --- The interface --------------------------------------------------------------------------

    def test_information_about_the_interface(self):
        info = self.open().info()
        self.assertEqual(info, {
            "interface": self.name, "device": "softib0", "port": 1, "pkey": 0x8001, "lid": 5, "qkey": 0, "qpn": 0x48,
            "lladdr": "00:00:00:48:fe:80:00:00:00:00:00:00:00:00:00:00:00:00:00:07", "mtu": 0, "state": "up",
            "gid": ipaddress.ip_address("fe80::7"), "waiting_for": "nothing", "version": "", "pid": 0, "admin_up": True,
            "sm_lid": 0, "membership": "full", "host_mtu": 0, "port_mtu": 0, "port_rate_mbps": 0,
            "group_rate_mbps": 0})

    def test_stations(self):
        self.assertEqual(self.open().stations(), [{"address": ipaddress.ip_address("10.44.0.11"), "served": True,
                                                   "mac": "02:00:00:00:00:01", "state": "reachable", "idle_ms": 5}])

    def test_groups_and_their_members(self):
        interface = self.open()
        self.assertEqual(interface.groups(), [
            {"mgid": MGID, "mlid": 0xc000, "membership": "full", "waiting": 3,
             "address": ipaddress.ip_address("224.0.0.1")},
            {"mgid": ipaddress.ip_address("ff12::2"), "mlid": 0, "membership": "missing", "waiting": 0, "address": None}])
        self.assertEqual(interface.members(MGID), [
            {"port_gid": ipaddress.ip_address("fe80::7"), "join": ["full"]},
            {"port_gid": ipaddress.ip_address("fe80::8"), "join": ["non-member", "send-only-full"]}])
        self.assert_fails(errno.ETIMEDOUT, "subnet administrator", interface.members, "ff12::5")

    def test_counters_and_histograms(self):
        interface = self.open()
        of_interface = {name: value for name, value in interface.stats().items() if not name.startswith("control_")}
        self.assertEqual(of_interface, {"packets_sent": 7, "path_failed": 2, "join_failures": 3})
        self.assertEqual(interface.histograms(), {"resolution_time": {
            "bounds_ns": [1_000_000, 2_500_000], "counts": [3, 2, 1], "sum_ns": 42}})

    def test_log_levels(self):
        interface = self.open()
        self.assertEqual(interface.log_levels(), {"control": "info", "link": "info"})
        interface.set_log_level("link", "debug")
        self.assertEqual(interface.log_levels(), {"control": "info", "link": "debug"})

    def test_trace(self):
        self.assertEqual(self.open().trace(), [{"thread": "ib0", "keyword": "turn", "when_ns": 7, "first": 1, "second": 2}])

    def test_adds_and_deletes_interfaces(self):
        interface = self.open()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(interface.add_interface(0x8001), "ib0.8001")
        with self.assertWarnsRegex(UserWarning, "a limited member"):
            self.assertEqual(interface.add_interface(0x8003), "ib0.8001")
        self.assertEqual(interface.add_interface(0x8001, "storage"), "storage")
        self.assert_fails(errno.EEXIST, "the partition has an interface", interface.add_interface, 0x8002)
        interface.delete_interface()
        self.assert_fails(errno.EBUSY, "the last interface", interface.delete_interface)

    def test_an_exception_in_a_callback_is_raised(self):
        def convert(name):
            seen.append(name)
            raise RuntimeError("of the callback")

        seen = []
        interface = self.open()
        with self.assertRaisesRegex(RuntimeError, "of the callback"):
            interface._list("counter", convert, ibarp._lib.ibarp_stats)
        self.assertEqual(len(seen), 1, "it is not called again")

    # --- Events ---------------------------------------------------------------------------------

    def test_each_kind_of_event(self):
        with self.open().subscribe() as events:
            self.tell("publish")
            neighbour, link, group, station, lost, takeover = (next(events) for _ in range(6))
        self.assertEqual((neighbour["event"], neighbour["change"], neighbour["why"]), ("neighbour", "changed", "no response"))
        self.assertEqual((neighbour["entry"]["address"], neighbour["entry"]["mac"]), (PINNED, "06:12:34:56:78:9a"))
        self.assertEqual((link["event"], link["changed"]), ("link", ["state", "qpn"]))
        self.assertEqual([link["info"][name] for name in ("state", "qpn", "lladdr", "admin_up")],
                         ["joining", None, None, False])
        self.assertEqual((group["event"], group["change"], group["why"]), ("group", "left", "nobody listens"))
        self.assertEqual(group["group"]["mgid"], MGID)
        self.assertEqual((station["event"], station["change"], station["why"]), ("station", "appeared", "a frame"))
        self.assertEqual((station["station"]["served"], station["station"]["idle_ms"]), (True, 5))
        self.assertEqual(lost, {"event": "lost", "events": 3})
        self.assertEqual(takeover, {"event": "takeover"})

    def test_only_events_of_the_topic(self):
        with self.open().subscribe("groups", "link") as events:
            self.tell("publish")
            self.assertEqual([next(events)["event"] for _ in range(4)], ["link", "group", "lost", "takeover"])
        with self.assertRaisesRegex(ValueError, "no such topic: snow, weather"):
            self.open().subscribe("weather", "link", "snow")

    def test_a_topic_that_is_named_twice_counts_once(self):
        with self.open().subscribe("link", "link") as events:
            self.tell("publish")
            self.assertEqual([next(events)["event"] for _ in range(2)], ["link", "takeover"])

    def test_waits_for_an_event(self):
        events = self.open().subscribe("link")
        self.assertIsNone(events.next(0))
        readable = select.poll()
        readable.register(events.fileno(), select.POLLIN)
        self.assertEqual(readable.poll(0), [])
        begin = time.monotonic()
        self.assertIsNone(events.next(0.2))
        self.assertGreaterEqual(time.monotonic() - begin, 0.2)
        threading.Timer(0.1, self.tell, ("publish",)).start()
        self.assertEqual(events.next(60)["event"], "link")
        self.assertIs(iter(events), events)

    def test_counters_come_with_their_differences(self):
        interface = self.open()
        with interface.subscribe("stats", interval=0.1) as events:
            event = next(events)
        self.assertEqual(event["event"], "stats")
        self.assertGreaterEqual(event["interval_ms"], 100)
        self.assertLess(event["interval_ms"], 60_000)
        self.assertEqual([(each["name"], each["delta"]) for each in event["counters"]], [("packets_sent", 7)])
        self.assert_fails(errno.EINVAL, "", interface.subscribe, "stats", interval=0.099)

    def test_without_an_interval_counters_come_each_second(self):
        self.assertGreaterEqual(next(self.open().subscribe("stats"))["interval_ms"], 1000)

    def test_a_closed_subscription_refuses_calls(self):
        interface = self.open()
        interface.info()
        before = len(os.listdir("/proc/self/fd"))
        with interface.subscribe("link") as events:
            self.assertGreater(len(os.listdir("/proc/self/fd")), before)
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)
        with self.assertRaisesRegex(ValueError, "the subscription has ended"):
            events.next(0)
        events.close()
        self.assertEqual(interface.info()["state"], "up")
        with self.assertRaises(OSError):
            ibarp.Events(interface, ("link",), 1)._do(ibarp._lib.ibarp_resolve_finish, ibarp._ffi.NULL)

    def test_a_subscription_ends_with_the_daemon(self):
        events = self.open().subscribe("link")
        self.tell("stop")
        with self.assertRaises(BrokenPipeError):
            next(events)


def main():
    """Loads the package and its library, and runs the tests."""
    global ibarp  # pylint: disable=global-statement
    _, _, packages, library, *arguments = sys.argv
    try:
        import cffi  # noqa: F401 pylint: disable=import-outside-toplevel,unused-import
    except ImportError:
        print("python3-cffi is not installed")
        sys.exit(77)
    ctypes.CDLL(library)
    sys.path.insert(0, packages)
    ibarp = importlib.import_module("ibarp")
    unittest.main(argv=[sys.argv[0], *arguments])


if __name__ == "__main__":
    main()
