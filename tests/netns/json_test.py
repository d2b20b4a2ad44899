#!/usr/bin/env python3
"""The JSON output of ibarp and softib is what the schemas in docs/json say."""

import copy
import json
import pathlib
import re
import signal
import subprocess
import threading
import unittest
import warnings

import hosts
from hosts import program, wait_until
from monitor import Monitor

try:
    import jsonschema
except ImportError:
    jsonschema = None

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "docs" / "json"


def schema(name):
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def validator_of(name):
    """Schemas refer to each other."""
    others = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.json")}
    with warnings.catch_warnings():  # its successor is not in older versions
        warnings.simplefilter("ignore", DeprecationWarning)
        resolver = jsonschema.RefResolver.from_schema(schema(name), store=others)
    return jsonschema.Draft202012Validator(schema(name), resolver=resolver)


def objects_of(value, path=()):
    """Yields the paths of all objects in a JSON value."""
    if isinstance(value, dict):
        yield path
    items = value.items() if isinstance(value, dict) else \
        enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield from objects_of(each, (*path, key))


class Schemas(unittest.TestCase):
    def setUp(self):
        if jsonschema is None:
            self.skipTest("python3-jsonschema is not installed")

    def test_are_valid_and_listed(self):
        listed = re.findall(r"\| \[([\w-]+)\.json\]", (FOLDER / "README.md").read_text(encoding="utf-8"))
        self.assertEqual(sorted(listed), sorted(path.stem for path in FOLDER.glob("*.json")))
        for name in listed:
            jsonschema.Draft202012Validator.check_schema(schema(name))
            self.assertEqual(schema(name)["$id"], f"{name}.json")
            for path in objects_of(schema(name)):
                part = schema(name)
                for key in path:
                    part = part[key]
                if part.get("type") == "object" and "propertyNames" not in part:
                    self.assertIs(part["additionalProperties"], False, (name, path))

    def test_each_command_has_one_or_a_reason(self):
        text = (FOLDER / "README.md").read_text(encoding="utf-8")
        with_schema = set(re.findall(r"`ibarp --json (\w+)", text))
        with_schema |= set(re.findall(r"`softib ([\w ]+?)(?: --cm)? --json`", text))
        without = set(re.findall(r"`ibarp ([\w ]+)`", text)) | set(re.findall(r"`softib ([\w ]+)`", text))
        self.assertEqual(with_schema & without, set())
        names = {"lab up", "lab down", "lab exec", "lab show", "lab check"}
        for tool in "ibarp", "softib":
            done = subprocess.run([program(tool), "--help"], capture_output=True, text=True, check=True)
            found = re.findall(r"(?m)^  ([a-z]+)\b", done.stdout)
            self.assertIn("show", found)
            names |= set(found)
        self.assertEqual(names - {"lab"} - with_schema - without, set())


class Output(hosts.Pair):
    def setUp(self):
        if jsonschema is None:
            self.skipTest("python3-jsonschema is not installed")
        self.set_up("--partition", "1=full")

    def check(self, name, output):
        """Returns the value, which the schema permits, and with another member in any object of fixed
        members does not."""
        value = json.loads(output)
        validator = validator_of(name)
        for error in validator.iter_errors(value):
            self.fail(f"{name}: {error.message} at {list(error.absolute_path)}")
        for path in objects_of(value):
            other = copy.deepcopy(value)
            part = other
            for key in path:
                part = part[key]
            part["Unknown Member"] = 1
            self.assertFalse(validator.is_valid(other), f"{name} permits unknown members at {path}")
        return value

    def ibarp(self, name, *words, host=None):
        done = (host or self.left).run(program("ibarp"), "--json", *words)
        return self.check(name, done.stdout)

    def test_ibarp_prints_valid_json(self):
        self.left.start("--pkey", "0xffff", "--pkey", "0x8003", address="10.44.0.1/24")
        self.right.start(address="10.44.0.2/24")
        wait_until(lambda: self.left.reaches("10.44.0.2"), "left reaches right")
        self.left.ping("10.44.0.99", "-c", "1", "-W", "0.1")
        self.left.run(program("ibarp"), "add", "10.44.0.7", "gid", "fe80::77", "dev", "ib0")
        self.left.run(program("ibarp"), "add", "10.44.0.8", "lladdr", "0x401@fe80::78", "dev", "ib0")
        states = {each["state"] for each in self.ibarp("ibarp-show", "show")}
        self.assertLessEqual({"pinned", "permanent"}, states)
        self.assertEqual(len(self.ibarp("ibarp-show", "get", "10.44.0.2")), 1)
        self.assertEqual(len(self.ibarp("ibarp-stats", "stats")), 2)
        infos = {each["interface"]: each for each in self.ibarp("ibarp-info", "info")}
        self.assertEqual(infos["ib0.8003"]["state"], "no_pkey")
        self.assertTrue(infos["ib0"]["groups"])
        groups = self.ibarp("ibarp-groups", "groups", "-m")
        self.assertTrue(any(each.get("members") for each in groups))
        self.assertTrue(self.ibarp("ibarp-log", "log", "link=debug")[0]["levels"])
        self.assertTrue(self.ibarp("ibarp-trace", "trace", "dev", "ib0")[0]["records"])
        self.assertEqual(len(self.ibarp("ibarp-interface", "interface")), 2)
        self.ibarp("ibarp-findings", "check", "dev", "ib0")
        self.ibarp("ibarp-findings", "explain", "10.44.0.2")
        self.ibarp("ibarp-findings", "explain", "--from", "10.44.0.2")
        self.ibarp("ibarp-findings", "probe", "10.44.0.2")
        announcement = threading.Timer(0.5, self.left.ping, ("10.44.0.2", "-c", "1"))
        announcement.start()
        self.ibarp("ibarp-capture", "capture", "/dev/null", "dev", "ib0", "--count", "1")
        announcement.join()
        self.ibarp("ibarp-interface-add", "interface", "add", "0x8002", "dev", "ib0")
        self.assertEqual(self.ibarp("ibarp-flush", "flush", "10.44.0.8", "nud", "permanent",
                                    "dev", "ib0")[0]["deleted"], 1)

    def test_a_monitor_prints_valid_json(self):
        self.left.start(address="10.44.0.1/24")
        monitor = Monitor(self.left, "all", "-ts")
        self.addCleanup(lambda: monitor.process.end(signal.SIGKILL))
        self.left.run(program("ibarp"), "add", "10.44.0.7", "gid", "fe80::77")
        self.softib_set("port", "left", "down")
        for kind in ("neighbour", "stats", "link", "group"):
            monitor.wait_for(kind, lambda event: event["event"] == kind)
        self.left.kill()
        monitor.wait_for("the end", lambda event: event["event"] == "end")
        self.left.start()
        monitor.wait_for("the start", lambda event: event["event"] == "start")
        for event in [*monitor.events(), {"event": "lost", "interface": "ib0", "events": 7},
                      {"event": "takeover", "interface": "ib0"}]:
            self.check("ibarp-monitor", json.dumps(event))

    def test_top_prints_valid_json(self):
        self.left.start(address="10.44.0.1/24")
        self.left.run(program("ibarp"), "add", "10.44.0.7", "gid", "fe80::77")
        done = self.left.run(program("ibarp"), "--json", "top", "--count", "2", "--interval", "0.1")
        shown = [self.check("ibarp-top", line) for line in done.stdout.splitlines()]
        self.assertEqual(len(shown), 2)
        self.assertEqual(shown[0]["neighbours"][0]["entry"]["address"], "10.44.0.7")
        self.assertEqual(shown[0]["neighbours"][0]["packets_per_s"], 0)
        self.assertIn("rx_bits_per_s", shown[1]["interfaces"][0])

    def test_a_lost_device_has_valid_json(self):
        self.left.start(address="10.44.0.1/24")
        self.softib_set("hca", "left", "failed")
        self.left.wait_for_log("waiting for softib0 to come back")
        wait_until(lambda: self.ibarp("ibarp-info", "info")[0]["state"] == "no_device", "it says so")
        self.assertEqual(self.ibarp("ibarp-interface", "interface")[0]["state"], "no_device")

    def test_softib_prints_valid_json(self):
        self.left.start(address="10.44.0.1/24")
        for section in ([], ["nodes"], ["partitions"], ["groups"], ["counters"]):
            done = self.subnet.run_softib("show", "--json", *section)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(self.check("softib-show", done.stdout)["running"])
        listed = self.check("softib-list", self.subnet.run_softib("list", "--json").stdout)
        self.assertIn(str(self.subnet.folder / "default"), [each["folder"] for each in listed])
        changed = self.check("softib-set", self.subnet.run_softib("set", "--json", "mtu", "left", "1024").stdout)
        self.assertEqual(changed, {"subnet": "default",
                                   "change": {"command": "set-mtu", "hca": "left", "mtu": 1024}})
        self.subnet.kill_subnet()
        self.assertFalse(self.check("softib-show",
                                    self.subnet.run_softib("show", "--json").stdout)["running"])
        self.check("softib-list", self.subnet.run_softib("list", "--json").stdout)
        self.left.daemon.end()
        stopped = self.check("softib-stop", self.subnet.run_softib("stop", "--json").stdout)
        self.assertEqual(stopped, {"subnet": "default", "folder": str(self.subnet.folder / "default"), "programs": []})

    def test_topologies_have_valid_json(self):
        net = self.subnet.folder / "a.net"
        net.write_text('Switch 4 "s"\n[1] "h"[1]\n[2] "r"[1]\nCa 2 "h"\n[1] "s"[1]\nRt 1 "r"\n')
        for source, cables in (("fat-tree:4", 48), (str(net), 1), ("line:2,0", 1)):
            done = self.subnet.run_softib("topology", "--json", source)
            self.assertEqual(done.returncode, 0, done.stderr)
            printed = self.check("softib-topology", done.stdout)
            self.assertEqual(len(printed["cables"]), cables)
            self.assertEqual(len(printed["remarks"]), 2 if source == str(net) else 0)

    @hosts.needs("rping")
    def test_connection_managers_have_valid_json(self):
        """A server and its client in one host; both sides are listed."""
        with subprocess.Popen([program("softib"), "run", "--hca", "left", "--", "rping", "-s", "-P"],
                              env=self.subnet.environment, stderr=subprocess.DEVNULL) as server:
            self.addCleanup(server.kill)

            def shown():
                return self.check("softib-show-cm", self.subnet.run_softib("show", "--cm", "--json").stdout)

            wait_until(lambda: any(one["ids"] for one in shown()["processes"]), "the listener is listed")
            self.subnet.run_softib("run", "--hca", "left", "--", "rping", "-c", "-C", "3", "-a", "127.0.0.1")
            messages = [one["messages"] for one in shown()["processes"]]
            self.assertTrue(any(one.get("rep", {}).get("sent") for one in messages), messages)
            server.kill()


if __name__ == "__main__":
    hosts.main()
