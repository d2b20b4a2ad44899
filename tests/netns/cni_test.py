#!/usr/bin/env python3
"""ipoibd-cni: what a container runtime does with it, with network namespaces in place of containers."""

import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

import hosts
from hosts import wait_until

PLUGIN = pathlib.Path(__file__).resolve().parents[2] / "python/ipoibd_cni/ipoibd-cni"
PLUGINS = "/usr/lib/cni"  # of Debian's containernetworking-plugins
VERSIONS = ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]


class Answer:
    def __init__(self, status, text):
        self.status, self.text = status, text

    @property
    def json(self):
        return json.loads(self.text)


class Plugin(hosts.Pair):
    """left has the daemon, and is the host of the containers."""

    OPTIONS = ()  # of the subnet
    LOG = ""  # what plugins write to the standard error

    def setUp(self):
        self.set_up(*self.OPTIONS)
        self.start()
        self.data = self.subnet.folder / "cni"
        self.pods = []
        self.addCleanup(self.remove_pods)

    def remove_pods(self):
        for pod in self.pods:
            subprocess.run(["ip", "netns", "del", pod], check=False, stderr=subprocess.DEVNULL)

    def pod(self, name):
        """A container, that is, a network namespace; returns its path."""
        name = f"ipoibd-{os.getpid()}-pod-{name}"
        subprocess.run(["ip", "netns", "add", name], check=True)
        self.pods.append(name)
        return f"/run/netns/{name}"

    def config(self, **changes):
        """A network configuration; a value of None leaves the member out."""
        given = {"cniVersion": "1.0.0", "name": "ib", "type": "ipoibd-cni", "device": "ib0", "pkey": "0x8001",
                 "dataDir": str(self.data),
                 "ipam": {"type": "host-local", "dataDir": str(self.data / "ipam"),
                          "ranges": [[{"subnet": "10.99.0.0/24", "gateway": "10.99.0.1"}]],
                          "routes": [{"dst": "198.51.100.0/24"}]}, **changes}
        return {key: value for key, value in given.items() if value is not None}

    def command(self, command, config, container="pod1", netns="", ifname="eth0", start=False, **variables):
        """Runs the plugin on the host, or starts it."""
        environment = {**self.subnet.environment, "CNI_COMMAND": command, "CNI_CONTAINERID": container,
                       "CNI_NETNS": netns, "CNI_IFNAME": ifname, "CNI_PATH": PLUGINS,
                       "PATH": f"{os.path.abspath(hosts.BIN)}:{os.environ['PATH']}", **variables}
        environment = {key: value for key, value in environment.items() if value is not None}
        text = config if isinstance(config, str) else json.dumps(config)
        process = subprocess.Popen(self.left.command(sys.executable, str(PLUGIN)), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True,
                                   start_new_session=True)
        if start:
            with process.stdin:
                process.stdin.write(text)
            process.stdin = None
            return process
        out, err = process.communicate(text, timeout=60)
        self.assertEqual(err, self.LOG, "nothing but the result is printed")
        return Answer(process.returncode, out)

    def succeed(self, *arguments, **options):
        done = self.command(*arguments, **options)
        self.assertEqual(done.status, 0, done.text)
        return done.json if done.text else None

    def fail_with(self, code, *arguments, **options):
        done = self.command(*arguments, **options)
        self.assertNotEqual(done.status, 0)
        self.assertEqual(done.json["code"], code, done.text)
        self.assertTrue(done.json["msg"])
        return done.json

    def link(self, netns, interface="eth0"):
        done = subprocess.run(["nsenter", f"--net={netns}", "ip", "-json", "addr", "show", "dev", interface],
                              capture_output=True, text=True, check=False)
        return json.loads(done.stdout)[0] if done.returncode == 0 else None

    def host_links(self):
        return {each["ifname"] for each in json.loads(self.left.run("ip", "-json", "link").stdout)}

    def assert_nothing_left(self):
        self.assertEqual({name for name in self.host_links() if name.startswith("cni")}, set())
        left = [path for path in self.data.rglob("*.json")]
        self.assertEqual(left, [], "the plugin's own files")
        addresses = [path.name for path in self.data.rglob("10.99.*")]
        self.assertEqual(addresses, [], "addresses of host-local")


@unittest.skipUnless(os.path.exists(f"{PLUGINS}/host-local"), "containernetworking-plugins is not installed")
class Partition(Plugin):
    """An interface of a partition in a container."""

    OPTIONS = [word for number in range(1, 11) for word in ("--partition", f"{number}=full")]

    def test_a_container_reaches_another_host(self):
        self.right.run(hosts.program("ibarp"), "interface", "add", "0x8001", "name", "peer", "dev", "ib0")
        self.right.configure("peer", "10.99.0.1/24")
        netns = self.pod("a")
        result = self.succeed("ADD", self.config(), netns=netns)
        self.assertEqual(result["cniVersion"], "1.0.0")
        self.assertEqual(result["interfaces"], [{"name": "eth0", "sandbox": netns}])
        self.assertEqual(result["ips"], [{"address": "10.99.0.2/24", "gateway": "10.99.0.1", "interface": 0}])
        self.assertEqual(result["routes"], [{"dst": "198.51.100.0/24"}])
        self.assertEqual(subprocess.run(["nsenter", f"--net={netns}", "ping", "-c", "3", "-W", "2", "10.99.0.1"],
                                        capture_output=True, check=False).returncode, 0)
        routes = subprocess.run(["nsenter", f"--net={netns}", "ip", "route"], capture_output=True, text=True, check=True)
        self.assertIn("198.51.100.0/24 via 10.99.0.1 dev eth0", routes.stdout)
        config = self.config(prevResult=result)
        self.succeed("CHECK", config, netns=netns)
        self.succeed("DEL", config, netns=netns)
        self.assertIsNone(self.link(netns))
        self.succeed("DEL", config, netns=netns)  # again
        self.assert_nothing_left()

    def test_mtu_and_versions(self):
        netns = self.pod("a")
        for version in VERSIONS:
            config = self.config(cniVersion=version, mtu=1400)
            result = self.succeed("ADD", config, netns=netns)
            self.assertEqual(result["cniVersion"], version)
            self.assertEqual(self.link(netns)["mtu"], 1400)
            self.assertEqual(result["interfaces"][0].get("mtu"), 1400 if version == "1.1.0" else None)
            self.assertEqual(result["ips"][0].get("version"), "4" if version < "1" else None)
            self.succeed("DEL", self.config(cniVersion=version, prevResult=result), netns=netns)
        self.assert_nothing_left()

    def test_what_check_finds(self):
        netns = self.pod("a")
        result = self.succeed("ADD", self.config(mtu=1400), netns=netns)
        config = self.config(mtu=1400, prevResult=result)
        inside = ["nsenter", f"--net={netns}", "ip"]
        for wrong, right in (["addr", "del", "10.99.0.2/24", "dev", "eth0"], ["addr", "add", "10.99.0.2/24", "dev", "eth0"]), \
                (["link", "set", "eth0", "mtu", "1300"], ["link", "set", "eth0", "mtu", "1400"]), \
                (["link", "set", "eth0", "down"], ["link", "set", "eth0", "up"]):
            subprocess.run([*inside, *wrong], check=True)
            self.fail_with(101, "CHECK", config, netns=netns)
            subprocess.run([*inside, *right], check=True)
        # The kernel has removed the route with the link.
        wait_until(lambda: "198.51.100.0/24" in self.fail_with(101, "CHECK", config, netns=netns)["msg"], "it is up")
        subprocess.run([*inside, "route", "add", "198.51.100.0/24", "via", "10.99.0.1"], check=True)
        self.succeed("CHECK", config, netns=netns)
        self.fail_with(7, "CHECK", self.config(mtu=1400), netns=netns)
        self.fail_with(1, "CHECK", self.config(cniVersion="0.3.1", prevResult=result), netns=netns)
        self.succeed("DEL", config, netns=netns)

    def test_ten_at_once(self):
        pods = [(f"pod{number}", self.pod(str(number)), self.config(pkey=0x8000 | number, name=f"ib{number}"))
                for number in range(1, 11)]
        with concurrent.futures.ThreadPoolExecutor(10) as executor:
            added = [executor.submit(self.succeed, "ADD", config, container=name, netns=netns)
                     for name, netns, config in pods]
            results = [each.result() for each in added]
        self.assertEqual([len(each["ips"]) for each in results], [1] * 10)
        for _, netns, _ in pods:
            self.assertIn("UP", self.link(netns)["flags"])
        with concurrent.futures.ThreadPoolExecutor(10) as executor:
            list(executor.map(lambda pod: self.succeed("DEL", pod[2], container=pod[0], netns=pod[1]), pods))
        self.assert_nothing_left()
        self.assertTrue(self.left.reaches("10.44.0.2"), "the daemon's other interface goes on")

    def test_killed_half_way(self):
        """Kills the plugin after growing times; DEL removes what it has left, and the next ADD succeeds."""
        netns = self.pod("a")
        killed = 0
        for milliseconds in (60, 90, 120, 160, 200, 260, 340, 450):
            process = self.command("ADD", self.config(), netns=netns, start=True)
            try:
                process.wait(milliseconds / 1000)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                killed += 1
            process.communicate()
            self.succeed("DEL", self.config(), netns=netns)
            self.assertIsNone(self.link(netns))
            self.assert_nothing_left()
        self.assertGreater(killed, 2)
        result = self.succeed("ADD", self.config(), netns=netns)
        self.succeed("DEL", self.config(prevResult=result), netns=netns)
        self.assert_nothing_left()

    def test_killed_at_each_step(self):
        """The plugin is killed by a program that it runs, before that does its work or after."""
        netns = self.pod("a")
        ip = self.subnet.folder / "bin" / "ip"
        ip.parent.mkdir()
        steps = "link set dev cni* netns *", "link set dev eth0 up", "addr add *", "-4 route add *"
        for step in steps:
            for then in "exit 1", "":
                pattern = step.replace(" ", "\\ ")
                ip.write_text(f'#!/bin/sh\ncase "$*" in {pattern}) kill -KILL "$PPID"; {then};; esac\n'
                              f'exec {shutil.which("ip")} "$@"\n'.replace("; ;;", ";;"), encoding="utf-8")
                ip.chmod(0o755)
                process = self.command("ADD", self.config(), netns=netns, start=True,
                                       PATH=f"{ip.parent}:{os.path.abspath(hosts.BIN)}:{os.environ['PATH']}")
                out, err = process.communicate()
                self.assertEqual((process.returncode, out, err), (-signal.SIGKILL, "", ""), step)
                self.succeed("DEL", self.config(), netns=netns)
                self.assertIsNone(self.link(netns))
                self.assert_nothing_left()

    def test_a_container_that_has_gone(self):
        netns = self.pod("a")
        self.succeed("ADD", self.config(), netns=netns)
        subprocess.run(["ip", "netns", "del", self.pods.pop()], check=True)
        self.succeed("DEL", self.config(), netns=netns)
        self.assert_nothing_left()
        self.succeed("DEL", self.config(), netns="")
        again = self.pod("b")
        wait_until(lambda: self.command("ADD", self.config(), netns=again, container="b").status == 0,
                   "the partition is free")
        self.succeed("DEL", self.config(), netns=again, container="b")

    def test_garbage(self):
        first, second = self.pod("a"), self.pod("b")
        config = {"cniVersion": "1.1.0"}
        self.succeed("ADD", self.config(**config), netns=first, container="a")
        self.succeed("ADD", self.config(**config, pkey="0x8002"), netns=second, container="b")
        valid = {"cni.dev/valid-attachments": [{"containerID": "b", "ifname": "eth0"}]}
        self.succeed("GC", self.config(**config, **valid), netns=None, container=None, ifname=None)
        self.assertIsNone(self.link(first))
        self.assertIsNotNone(self.link(second))
        self.succeed("GC", self.config(**config, **valid), netns=None, container=None, ifname=None)
        self.assertIsNotNone(self.link(second))
        self.fail_with(7, "GC", self.config(**config))
        self.fail_with(1, "GC", self.config(**valid))
        self.succeed("GC", self.config(**config, **{"cni.dev/valid-attachments": []}))
        self.assertIsNone(self.link(second))
        self.assert_nothing_left()

    def test_status(self):
        config = self.config(cniVersion="1.1.0")
        self.assertIsNone(self.succeed("STATUS", config, netns=None, container=None, ifname=None))
        self.fail_with(50, "STATUS", self.config(cniVersion="1.1.0", device="ib9"))
        self.left.daemon.end()
        found = self.fail_with(50, "STATUS", config)
        self.assertIn("ib0", found["details"])

    def test_what_add_refuses_leaves_nothing(self):
        netns, other = self.pod("a"), self.pod("b")
        self.succeed("ADD", self.config(), netns=netns)
        found = self.fail_with(100, "ADD", self.config(), netns=other, container="b")
        self.assertIn("0x8001", found["msg"], "the partition has an interface")
        self.fail_with(100, "ADD", self.config(pkey="0x8002"), netns=netns, container="c")
        self.fail_with(3, "ADD", self.config(), netns="/run/netns/does-not-exist", container="d")
        self.fail_with(7, "ADD", self.config(pkey="0x8003", ipam={"type": "nowhere"}), netns=other, container="e")
        self.assertIsNotNone(self.link(netns), "the first one stays")
        self.succeed("DEL", self.config(), netns=netns)
        self.assert_nothing_left()

    def test_a_chain(self):
        """The result of the plugin before is kept; addresses are not necessary."""
        netns = self.pod("a")
        before = {"cniVersion": "1.0.0", "interfaces": [{"name": "lo", "sandbox": netns}],
                  "ips": [{"address": "127.0.0.1/8", "interface": 0}], "dns": {"nameservers": ["192.0.2.53"]}}
        result = self.succeed("ADD", self.config(ipam=None, prevResult=before), netns=netns, ifname="ib1")
        self.assertEqual([each["name"] for each in result["interfaces"]], ["lo", "ib1"])
        self.assertEqual(result["ips"], before["ips"])
        self.assertEqual(result["dns"], before["dns"])
        self.succeed("CHECK", self.config(ipam=None, prevResult=result), netns=netns, ifname="ib1")
        self.succeed("DEL", self.config(ipam=None, prevResult=result), netns=netns, ifname="ib1")
        self.assert_nothing_left()


class Protocol(Plugin):
    def test_version(self):
        for config in {"cniVersion": "1.0.0"}, {"cniVersion": "9.9.9"}:
            found = self.succeed("VERSION", config, container=None, netns=None, ifname=None)
            self.assertEqual(found, {"cniVersion": config["cniVersion"], "supportedVersions": VERSIONS})

    def test_errors_have_codes(self):
        self.fail_with(6, "ADD", "{")
        self.fail_with(6, "ADD", "[]")
        self.fail_with(6, "ADD", "")
        found = self.fail_with(1, "ADD", self.config(cniVersion="2.0.0"))
        self.assertEqual(found["cniVersion"], "2.0.0")
        self.fail_with(1, "ADD", self.config(cniVersion=None))
        self.fail_with(4, "WHAT", self.config())
        self.fail_with(4, "ADD", self.config(), CNI_COMMAND=None)
        for changes in {"netns": None}, {"netns": ""}, {"container": None}, {"container": "-x"}, {"ifname": None}, \
                {"ifname": "a/b"}, {"ifname": "a" * 16}, {"ifname": ".."}:
            self.fail_with(4, "ADD", self.config(), **{"netns": "/run/netns/x", **changes})
        for changes in {"pkey": None}, {"pkey": "0"}, {"pkey": 0x8000}, {"pkey": "x"}, {"pkey": True}, {"mtu": "1"}, \
                {"mtu": 67}, {"name": None}, {"name": "../x"}, {"mode": "other"}, {"mode": "bridge"}, {"ipam": []}, \
                {"ipam": {"type": 1}}, {"device": 1}:
            self.fail_with(7, "ADD", self.config(**changes), netns="/run/netns/x")
        self.assert_nothing_left()


@unittest.skipUnless(os.path.exists(f"{PLUGINS}/host-local"), "containernetworking-plugins is not installed")
class Bridge(Plugin):
    """Containers behind an Ethernet interface: many in one partition."""

    def start(self, *options):
        super().start("--ethernet", *options)

    def test_ten_at_once(self):
        self.left.run("ip", "addr", "flush", "dev", "ib0")
        self.left.bridge("ib0", mtu=2044)
        config = self.config(mode="bridge", bridge="br0", pkey=None, mtu=1500,
                             ipam={"type": "host-local", "dataDir": str(self.data / "ipam"),
                                   "ranges": [[{"subnet": "10.44.0.0/24", "rangeStart": "10.44.0.100"}]]})
        pods = [(f"pod{number}", self.pod(str(number))) for number in range(10)]
        with concurrent.futures.ThreadPoolExecutor(10) as executor:
            results = list(executor.map(lambda pod: self.succeed("ADD", config, container=pod[0], netns=pod[1]), pods))
        addresses = {each["ips"][0]["address"] for each in results}
        self.assertEqual(len(addresses), 10)
        for result in results:
            ends = result["interfaces"]
            self.assertEqual([each.get("sandbox") for each in ends[:1]], [None])
            self.assertTrue(all(each["mac"] for each in ends))
        for _, netns in pods:
            reaches = ["nsenter", f"--net={netns}", "ping", "-c", "1", "-W", "1", "10.44.0.2"]
            wait_until(lambda: subprocess.run(reaches, capture_output=True, check=False).returncode == 0,
                       "a container reaches a host of the fabric")
        for (name, netns), result in zip(pods, results):
            self.succeed("CHECK", {**config, "prevResult": result}, container=name, netns=netns)
            self.succeed("DEL", config, container=name, netns=netns)
        self.assert_nothing_left()


class Conformance(Plugin):
    """What specification 1.1.0 asks of a plugin, beside a plugin for addresses that notes how it was called.
    The comments quote the specification."""

    # Fails, if there is a file with its command; else answers as version 1.1.0.
    IPAM = """#!{python}
import json, os, pathlib, sys
given, folder, command = sys.stdin.read(), pathlib.Path(__file__).parent, os.environ["CNI_COMMAND"]
sys.stdin.close()
names = ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS", "CNI_PATH"]
with open(folder / "calls", "a", encoding="utf-8") as calls:
    print(json.dumps([command, {{name: os.environ.get(name) for name in names}}, json.loads(given)]), file=calls)
sys.stderr.write("a line of its log\\n" if (folder / "talks").exists() else "")
if (folder / command).exists():
    print(json.dumps({{"cniVersion": "1.1.0", "code": 107, "msg": "exhausted", "details": "why"}}))
    sys.exit(1)
print({{"VERSION": json.dumps({{"cniVersion": "1.1.0", "supportedVersions": ["1.0.0", "1.1.0"]}}),
       "ADD": (folder / "result").read_text(encoding="utf-8")}}.get(command, ""))
"""
    RESULT = {"cniVersion": "1.1.0", "ips": [{"address": "192.0.2.5/24", "gateway": "192.0.2.1"},
                                             {"address": "2001:db8::5/64"}],
              "routes": [{"dst": "198.51.100.0/24", "gw": "192.0.2.9", "mtu": 1300, "advmss": 1000, "priority": 7},
                         {"dst": "203.0.113.0/24", "table": 77}, {"dst": "192.0.2.77/32", "scope": 253, "gw": ""}],
              "dns": {"nameservers": ["192.0.2.53"], "domain": "example"}}

    def start(self):
        """No daemon: the containers are behind a bridge."""
        self.left.run("ip", "link", "add", "br0", "up", "type", "bridge")
        self.folder = self.subnet.folder / "plugins"
        self.folder.mkdir()
        plugin = self.folder / "test-ipam"
        plugin.write_text(self.IPAM.format(python=sys.executable), encoding="utf-8")
        plugin.chmod(0o755)
        (self.folder / "result").write_text(json.dumps(self.RESULT), encoding="utf-8")

    def config(self, **changes):
        return super().config(**{"cniVersion": "1.1.0", "mode": "bridge", "bridge": "br0", "pkey": None, "device": None,
                                 "ipam": {"type": "test-ipam", "more": [1]}, "unknown": {"a": 1}, **changes})

    def command(self, *arguments, **options):
        return super().command(*arguments, **{"CNI_PATH": str(self.folder), **options})

    def calls(self, command=None):
        """The calls since the last one: command, environment, configuration; without those of VERSION."""
        path = self.folder / "calls"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return [each for each in map(json.loads, lines) if each[0] != "VERSION" and command in (None, each[0])]

    def let_fail(self, command):
        path = self.folder / command
        path.touch()
        self.addCleanup(path.unlink, missing_ok=True)
        return path

    def test_results(self):
        netns = self.pod("a")
        # "Plugins provided a prevResult key [...] must output it as their result, with any possible modifications"
        before = {"cniVersion": "1.1.0", "interfaces": [{"name": "lo", "sandbox": netns}], "dns": {"domain": "other"},
                  "ips": [{"address": "127.0.0.1/8", "interface": 0}], "routes": [{"dst": "192.0.2.0/24"}]}
        result = self.succeed("ADD", self.config(prevResult=before), netns=netns, CNI_ARGS="FOO=BAR;ABC=123")
        # "The same version supplied on input"
        self.assertEqual(result["cniVersion"], "1.1.0")
        # "An array of all interfaces created by the attachment, including any host-level interfaces"; "empty if on
        # the host [...] should be the value passed via CNI_NETNS"
        lo, port, own = result["interfaces"]
        self.assertEqual((lo, port.get("sandbox", ""), own["name"], own["sandbox"]),
                         (before["interfaces"][0], "", "eth0", netns))
        self.assertEqual(own["mac"], self.link(netns)["address"])
        self.assertEqual(own["mtu"], 1500)
        # "interface (uint): the index into the interfaces list"
        self.assertEqual([each["interface"] for each in result["ips"]], [0, 2, 2])
        self.assertEqual(result["routes"], before["routes"] + self.RESULT["routes"])
        self.assertEqual(result["dns"], self.RESULT["dns"])
        # "Execute that plugin with the same environment and configuration that it received"
        (command, environment, given), = self.calls()
        self.assertEqual(command, "ADD")
        self.assertEqual(environment, {"CNI_CONTAINERID": "pod1", "CNI_NETNS": netns, "CNI_IFNAME": "eth0",
                                       "CNI_ARGS": "FOO=BAR;ABC=123", "CNI_PATH": str(self.folder)})
        self.assertEqual(given["ipam"], {"type": "test-ipam", "more": [1]})
        self.assertEqual(given["unknown"], {"a": 1})

        def routes(table, destination):
            return json.loads(subprocess.run(["nsenter", f"--net={netns}", "ip", "-details", "-json", "route", "show",
                                              "table", table, destination], capture_output=True, check=True).stdout)[0]

        # The members of a route are obeyed.
        found = routes("main", "198.51.100.0/24")
        self.assertEqual((found["gateway"], found["metric"], found["metrics"][0]["mtu"], found["metrics"][0]["advmss"]),
                         ("192.0.2.9", 7, 1300, 1000))
        self.assertEqual(routes("77", "203.0.113.0/24")["gateway"], "192.0.2.1")
        # "If an interface of the requested name already exists in the container, the CNI plugin MUST return with an
        # error"
        self.fail_with(100, "ADD", self.config(), netns=netns, container="pod2")
        self.assertIsNotNone(self.link(netns), "the interface is that of the first container")

    def test_check(self):
        netns = self.pod("a")
        result = self.succeed("ADD", self.config(), netns=netns)
        config = self.config(prevResult=result)
        # "must handle CHECK being called immediately after an ADD"
        self.succeed("CHECK", config, netns=netns)
        # "should call CHECK on any delegated (e.g. IPAM) plugins and pass any errors on to its caller"
        failing = self.let_fail("CHECK")
        self.assertEqual(self.fail_with(107, "CHECK", config, netns=netns)["details"], "why")
        failing.unlink()
        # "should return an error if a resource included in the CNI Result type (interface, address or route) [...]
        # is missing or in an invalid state"
        port = result["interfaces"][0]["name"]
        inside = ["nsenter", f"--net={netns}", "ip"]
        outside = self.left.command("ip")
        for place, wrong, right in (
                (inside, "route del 198.51.100.0/24", "route add 198.51.100.0/24 via 192.0.2.5"),  # another way
                (inside, "route del 203.0.113.0/24 table 77", "route add 203.0.113.0/24 via 192.0.2.1 table 77"),
                (inside, "addr del 2001:db8::5/64 dev eth0", "addr add 2001:db8::5/64 dev eth0 nodad"),
                (outside, f"link set {port} nomaster", f"link set {port} master br0"),
                (outside, f"link set {port} down", f"link set {port} up")):
            subprocess.run([*place, *wrong.split()], check=True)
            self.fail_with(101, "CHECK", config, netns=netns)
            subprocess.run([*place, *right.split()], check=True)
            # "must allow for a later chained plugin to have modified networking resources, e.g. routes"
            self.succeed("CHECK", config, netns=netns)

    def test_removal(self):
        netns = self.pod("a")
        config = self.config()
        self.succeed("ADD", config, netns=netns)
        self.calls()
        # "complete a DEL action without error to the fullest extent possible"; "If any of the delegated plugins
        # return error, error should be returned by the upper plugin"
        failing = self.let_fail("DEL")
        self.fail_with(107, "DEL", config, netns=netns)
        self.assertIsNone(self.link(netns))
        failing.unlink()
        # "MUST accept multiple DEL calls [...] and return success if the interface in question [...] are missing"
        for variables in {"netns": netns}, {"netns": netns}, {"netns": None}, {"netns": "/run/netns/has-gone"}:
            self.succeed("DEL", config, **variables)
        self.assertEqual(len(self.calls("DEL")), 5)
        self.assert_nothing_left()
        # "If, on ADD, a delegated plugin fails, the upper plugin should execute again with DEL before returning
        # failure"
        self.let_fail("ADD")
        found = self.fail_with(107, "ADD", config, netns=netns)
        self.assertEqual((found["cniVersion"], found["details"]), ("1.1.0", "why"))
        self.assertEqual([each[0] for each in self.calls()], ["ADD", "DEL"])
        self.assertIsNone(self.link(netns))
        self.assert_nothing_left()

    def test_garbage_and_status(self):
        first, second = self.pod("a"), self.pod("b")
        self.succeed("ADD", self.config(), netns=first, container="a")
        self.succeed("ADD", self.config(ipam=None), netns=second, container="b")
        self.calls()
        valid = {"cni.dev/valid-attachments": []}
        nothing = {"netns": None, "container": None, "ifname": None}
        # "If an error is encountered, a plugin should continue; removing as many resources as possible, and report
        # the errors back"
        failing = self.let_fail("DEL")
        self.fail_with(100, "GC", self.config(**valid), **nothing)
        self.assertEqual((self.link(first), self.link(second)), (None, None))
        failing.unlink()
        # "MUST, additionally, forward any GC calls to delegated plugins they are configured to use"
        calls = self.calls("GC")
        self.assertEqual([each[2]["cni.dev/valid-attachments"] for each in calls], [[]])
        self.succeed("GC", self.config(**valid), **nothing)
        self.assert_nothing_left()
        # "must also execute a STATUS request to that plugin"; "if the delegated plugin return an error result, the
        # executing plugin should return an error result"
        self.calls()
        self.succeed("STATUS", self.config(), **nothing)
        self.assertEqual([each[0] for each in self.calls()], ["STATUS"])
        failing = self.let_fail("STATUS")
        self.fail_with(107, "STATUS", self.config(), **nothing)
        failing.unlink()
        self.fail_with(50, "STATUS", self.config(bridge="br9"), **nothing)
        # "Plugins should always expect other CNI operations [...] even if STATUS returns an error"
        self.succeed("ADD", self.config(ipam=None), netns=first)
        self.succeed("DEL", self.config(ipam=None), netns=first)

    def test_errors(self):
        # "The error message must contain the names of invalid variables"
        found = self.fail_with(4, "ADD", self.config(), container="", ifname="a b", netns=None)
        for name in "CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS":
            self.assertIn(name, found["msg"])
        # "Failed to decode content"; "Invalid network config"
        self.fail_with(6, "ADD", "{'a'}", netns="/run/netns/x")
        for previous in "x", [1], 7, {"ips": 1}, {"interfaces": ["lo"]}, {"routes": {}}:
            self.fail_with(7, "ADD", self.config(prevResult=previous), netns="/run/netns/x")
        # "VERSION: cniVersion: the value of cniVersion specified on input"
        self.assertEqual(self.succeed("VERSION", {"cniVersion": "0.1.0"})["cniVersion"], "0.1.0")
        # "Ensure that the delegated plugin's stderr is output to the calling plugin's stderr"
        (self.folder / "talks").touch()
        self.LOG = 2 * "a line of its log\n"  # of VERSION, and STATUS
        self.succeed("STATUS", self.config())


if __name__ == "__main__":
    hosts.main()
