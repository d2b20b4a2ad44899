#!/usr/bin/env python3
"""The Python package ibarp, with a running daemon."""

import json
import sys
import pathlib

import hosts
from hosts import wait_until

# Runs in the host's network namespace; prints what it finds as JSON.
SCRIPT = r"""
import errno, ipaddress, json, ibarp

out = {"interfaces": ibarp.interfaces()}
with ibarp.Interface("ib0", timeout=30) as ib0:
    info = ib0.info()
    out["info"] = {key: str(info[key]) for key in ("interface", "state", "gid", "pkey", "mtu", "lladdr")}
    peer = ib0.get("10.44.0.2")
    out["peer"] = {"address": str(peer["address"]), "gid": str(peer["gid"]), "dlid": peer["path"]["dlid"]}
    out["all"] = sorted(str(each["address"]) for each in ib0.neighbours())
    out["none"] = ib0.neighbours("10.99.0.0/16")
    out["v6"] = [str(each["address"]) for each in ib0.neighbours(family=4, states=["failed"])]
    assert ib0.get("10.44.0.9") is None
    ib0.delete("10.44.0.2")
    path = ib0.resolve("10.44.0.2", timeout=30)
    out["resolved"] = [str(path["gid"]), path["dlid"], path["mtu"], path["pkey"],
                       str(path["source_gid"]) == out["info"]["gid"], ib0.get("10.44.0.2")["state"]]
    for address in ("10.44.0.1", "10.44.9.9"):
        try:
            ib0.resolve(address)
        except OSError as error:
            out[address] = errno.errorcode[error.errno]
    ib0.set("10.44.0.9", "0x401@fe80::77", "add")
    entry = ib0.get(ipaddress.ip_address("10.44.0.9"))
    out["set"] = [entry["state"], entry["qpn"], str(entry["gid"]), entry["lladdr"], entry["path"]]
    try:
        ib0.set("10.44.0.9", "0x401@fe80::77", "add")
    except FileExistsError as error:
        out["exists"] = [error.errno == errno.EEXIST, error.strerror]
    ib0.pin("10.44.0.8", "fe80::78")
    out["pinned"] = str(ib0.get("10.44.0.8")["pinned_gid"])
    out["flushed"] = ib0.flush("10.44.0.8/32", states=["pinned"])
    ib0.delete("10.44.0.9")
    groups = ib0.groups()
    out["groups"] = sorted(each["membership"] for each in groups)
    out["members"] = len(ib0.members(groups[0]["mgid"]))
    out["packets"] = ib0.stats()["tx_packets"]
    histogram = ib0.histograms()["resolution_time"]
    out["histogram"] = [sum(histogram["counts"]), len(histogram["counts"]) - len(histogram["bounds_ns"])]
    ib0.set_log_level("link", "debug")
    out["level"] = ib0.log_levels()["link"]
    out["trace"] = len(ib0.trace())
    out["added"] = ib0.add_interface(0x8001)
try:
    ib0.info()
except ValueError:
    out["closed"] = True
with ibarp.Interface("ib0") as ib0:
    events = ib0.subscribe("neighbours", "stats", interval=0.1)
    ib0.set("10.44.0.10", "0x401@fe80::77")
    event = next(each for each in events if each["event"] == "neighbour"
                 and each["entry"]["address"] == ipaddress.ip_address("10.44.0.10"))
    out["event"] = [event["change"], event["entry"]["state"], event["entry"]["qpn"]]
    stats = next(each for each in events if each["event"] == "stats" and each["counters"])
    out["delta"] = all(each["delta"] != 0 and each["name"] in ib0.stats() for each in stats["counters"])
    events.close()
    try:
        events.next(0)
    except ValueError:
        out["unsubscribed"] = True
    with ib0.subscribe("link") as events:
        out["no event"] = events.next(timeout=0)
        out["descriptor"] = events.fileno() > 2
    try:
        ib0.subscribe("link", interval=0.001)
    except OSError as error:
        out["interval"] = error.errno == errno.EINVAL
    try:
        ib0.subscribe("weather")
    except ValueError:
        out["topic"] = True
with ibarp.Interface("ib0.8001") as added:
    added.delete_interface()
try:
    ibarp.Interface("nosuch")
except OSError as error:
    out["missing"] = [error.errno == errno.ENODEV, "nosuch" in error.strerror]
print(json.dumps(out))
"""


class Python(hosts.Pair):
    def setUp(self):
        try:
            import cffi  # noqa: F401
        except ImportError:
            self.skipTest("python3-cffi is not installed")
        self.set_up("--partition", "1=full")

    def test_package(self):
        self.start()
        wait_until(lambda: self.left.reaches("10.44.0.2"), "left reaches right")
        build = pathlib.Path(hosts.BIN).resolve().parent
        done = self.left.run("env", f"PYTHONPATH={build}/python", f"LD_LIBRARY_PATH={build}/lib",
                             sys.executable, "-c", SCRIPT, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        out = json.loads(done.stdout)
        self.assertEqual(out["interfaces"], ["ib0"])
        self.assertEqual((out["info"]["state"], out["info"]["pkey"], out["info"]["mtu"]),
                         ("up", str(0xffff), "2044"))
        peer = self.left.ibarp("show")
        self.assertEqual(out["info"]["lladdr"], self.left.ibarp("info")["lladdr"])
        self.assertEqual(out["peer"], {"address": "10.44.0.2", "gid": peer["gid"],
                                       "dlid": peer["path"]["dlid"]})
        self.assertEqual((out["all"], out["none"], out["v6"]), (["10.44.0.2"], [], []))
        self.assertEqual(out["resolved"], [peer["gid"], peer["path"]["dlid"], 2048, 0xffff, True,
                                           "reachable"])
        self.assertEqual((out["10.44.0.1"], out["10.44.9.9"]), ("EINVAL", "ENETUNREACH"))
        self.assertEqual(out["set"][:3], ["permanent", 0x401, "fe80::77"])
        self.assertTrue(out["set"][3].startswith("00:00:04:01:fe:80:"))
        self.assertIsNone(out["set"][4])
        self.assertTrue(out["exists"][0])
        self.assertIn("10.44.0.9", out["exists"][1])
        self.assertEqual((out["pinned"], out["flushed"]), ("fe80::78", 1))
        self.assertIn("full", out["groups"])
        self.assertGreater(out["members"], 0)
        self.assertGreater(out["packets"], 0)
        self.assertGreaterEqual(out["histogram"][0], 1)
        self.assertEqual(out["histogram"][1], 1)
        self.assertEqual(out["level"], "debug")
        self.assertGreater(out["trace"], 0)
        self.assertEqual(out["added"], "ib0.8001")
        self.assertTrue(out["closed"])
        self.assertEqual(out["event"], ["new", "permanent", 0x401])
        self.assertTrue(out["delta"])
        self.assertIsNone(out["no event"])
        for name in ("unsubscribed", "descriptor", "interval", "topic"):
            self.assertTrue(out[name], name)
        self.assertEqual(out["missing"], [True, True])


if __name__ == "__main__":
    hosts.main()
