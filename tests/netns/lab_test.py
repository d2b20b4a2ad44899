#!/usr/bin/env python3
"""Tests softib lab: labs from files come up, keep what does not change, and leave nothing."""

import importlib.util
import json
import os
import pathlib
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import hosts
from hosts import program, wait_until

try:
    import jsonschema
except ImportError:
    jsonschema = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOBODY = 65534
PATIENCE = 300  # for a command: many processes start, and the machine may be busy
PAIR = """\
name: pair
hosts:
  a: {interfaces: {ib0: {addresses: [10.44.0.1/24]}}}
  b: {interfaces: {ib0: {addresses: [10.44.0.2/24]}}}
expect:
  - {from: all, reaches: all}
"""


BRIDGED = """\
name: bridged
hosts:
  host:
    interfaces: {ib0: {ethernet: true}}
    bridges: {br0: {ports: [ib0], addresses: [10.44.0.1/24]}}
    sysctls: {net.ipv4.conf.br0.arp_notify: 1, net.ipv4.ip_default_ttl: 70}
  vm:
    interfaces: {eth0: {bridge: host/br0, mac: "02:00:00:00:00:11", mtu: 1400, addresses: [10.44.0.11/24]}}
  far: {interfaces: {ib0: {addresses: [10.44.0.2/24]}}}
expect:
  - {from: all, reaches: all}
"""


# Asks in VLAN 18 of ib0 who has 10.45.0.2, until somebody answers.
TAGGED_ARP = """
import socket, struct
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
link.bind(('ib0', 0))
link.settimeout(0.5)
source = bytes.fromhex('020000000099')
asked, own = socket.inet_aton('10.45.0.2'), socket.inet_aton('10.45.0.1')
request = struct.pack('!HHBBH6s4s6s4s', 1, 0x800, 6, 4, 1, source, own, bytes(6), asked)
for _ in range(100):
    link.send(b'\\xff' * 6 + source + struct.pack('!HHH', 0x8100, 18, 0x806) + request)
    try:
        # Its own requests are no replies: operation 2, from the address that was asked for.
        while struct.pack('!H', 2) != (reply := link.recv(2000))[20:22] or reply[28:32] != asked:
            pass
        print('answered')
        break
    except TimeoutError:
        pass
"""

# What each example needs beside the tools of all labs.
TOOLS_OF_EXAMPLES = {"fat-tree": ("iperf3", "opensm"), "dhcp": ("dnsmasq", "udhcpc", "dhclient"), "mpi": ("mpicc.openmpi", "mpirun.openmpi"),
                     "multicast": ("socat",), "ospf": ("bird",)}


def twelve():
    """A lab of 12 hosts; the even ones are limited members of a partition."""
    lines = ["name: twelve", "subnet: {partitions: {office: {pkey: 0x22}}}", "hosts:"]
    for i in range(1, 13):
        membership = "full" if i % 2 else "limited"
        lines.append(f"  h{i}: {{interfaces: {{ib0: {{partition: office, membership: {membership}, "
                     f"addresses: [10.44.0.{i}/24]}}}}}}")
    lines += ["expect:", "  - {from: h1, reaches: all}", "  - {from: all, reaches: h1}",
              "  - {from: h1, tcp: [h2, h12]}", "  - {from: h3, ping: h5}", "  - {from: h2, does not reach: h4}"]
    return "\n".join(lines)


class Lab(unittest.TestCase):
    USER = ()
    SUBNETS = "subnets"  # the name of their folder

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="softib-lab-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.folder.chmod(0o777)
        self.subnets = self.folder / self.SUBNETS
        self.subnets.mkdir()
        self.subnets.chmod(0o777)
        self.environment = dict(os.environ, SOFTIB_DIR=str(self.subnets))
        self.environment.pop("SOFTIB_SUBNET", None)
        self.file = self.write(PAIR)
        self.addCleanup(lambda: self.softib("down", status=None))

    def write(self, text):
        file = self.folder / "lab.yaml"
        file.write_text(text, encoding="utf-8")
        return file

    def softib(self, command, *more, status=0):
        """Runs `softib lab COMMAND FILE`, and returns what it prints on both streams."""
        done = subprocess.run([*self.USER, program("softib"), "lab", command, self.file, *more],
                              env=self.environment, check=False, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE)
        if status is not None:
            self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout

    def read_json(self, command, status=0):
        """Returns what a command prints with --json, and compares it with the published schema."""
        value = json.loads(self.softib(command, "--json", status=status))
        if jsonschema is not None:
            schema = json.loads((ROOT / f"docs/json/softib-lab-{command}.json").read_text(encoding="utf-8"))
            jsonschema.Draft202012Validator(schema).validate(value)
        return value

    def show(self):
        return self.read_json("show")

    def pids(self):
        """Returns (host, interface or service) -> process id."""
        return {(host["name"], each["name"]): each["pid"] for host in self.show()["hosts"]
                for each in host["interfaces"] + host["services"]}

    def assert_nothing_left(self):
        self.assertEqual(hosts.processes_with(f"SOFTIB_DIR={self.subnets}"), [])
        self.assertEqual(list(self.subnets.iterdir()), [])


class Labs(Lab):
    def test_twelve_hosts_leave_nothing(self):
        self.write(twelve())
        self.assertIn("twelve is up: 12 hosts", self.softib("up"))
        inside = {os.readlink(f"/proc/{pid}/ns/net") for pid in self.pids().values()}
        self.assertEqual(len(inside), 12)
        self.assertIn("twelve: 26 of 26 expectations hold", self.softib("check"))
        self.assertEqual(len(self.softib("show").splitlines()), 13)
        self.assertEqual(self.read_json("up"), {"lab": "twelve", "hosts": 12, "steps": 0})
        self.assertEqual(self.read_json("down"), {"lab": "twelve"})
        self.assert_nothing_left()
        named = subprocess.run(["ip", "netns"], check=True, capture_output=True, text=True).stdout.split()
        self.assertNotIn("h1", named, "only the lab sees the names of its hosts")

    def test_in_the_systems_folder(self):
        """/run, of which the lab has its own, with the folder of subnets in it."""
        script = 'mount -t tmpfs run /run && for verb in up check down; do "$0" lab "$verb" "$1" || exit; done'
        environment = {name: value for name, value in self.environment.items() if name != "SOFTIB_DIR"}
        done = subprocess.run(["unshare", "--mount", "sh", "-c", script, program("softib"), self.file], check=False,
                              env=environment, text=True, capture_output=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("pair: 2 of 2 expectations hold\npair is down\n", done.stdout)

    def test_a_command_on_a_host(self):
        self.softib("up")
        self.assertEqual(self.softib("exec", "b", "--", "sh", "-c", "ip -o -4 addr show ib0 | grep -c 10.44.0.2; exit 7",
                                     status=7), "1\n")
        self.assertEqual(self.softib("exec", "a", "--", "pwd"), f"{os.getcwd()}\n")
        self.assertIn("softib0", self.softib("exec", "a", "--", program("softib"), "run", "--", "ibv_devices"))
        self.assertIn("no host 'bb'; did you mean 'b'?", self.softib("exec", "bb", "--", "true", status=1))

    def test_expectations_that_do_not_hold(self):
        self.write(PAIR + "  - {from: a, does not reach: b}\n  - {from: a, ping: 10.44.0.9, count: 1}\n"
                   "  - {from: b, tcp: a, port: 1, within: 5}\n")
        self.softib("up")
        output = self.softib("check", status=1)
        self.assertIn(f"{self.file}:7: a does not reach b (10.44.0.2): it was answered", output)
        self.assertIn(f"{self.file}:8: a pings 10.44.0.9: 0 of ", output)
        self.assertIn(f"{self.file}:9: b connects to a (10.44.0.1) port 1: [Errno 111] Connection refused", output)
        self.assertIn("2 of 5 expectations hold", output)
        results = self.read_json("check", status=1)
        self.assertEqual([each["ok"] for each in results], [True, True, False, False, False])

    def test_a_second_up_changes_only_what_differs(self):
        self.softib("up")
        before = self.pids()
        self.assertIn("nothing differs", self.softib("up"))
        self.write(PAIR.replace("10.44.0.2/24]", "10.44.0.22/24], mtu: 1400") +
                   "  - {from: c, does not reach: 10.44.0.2}\n" +
                   "  - {from: a, tcp: c, port: 8000}\n")
        text = self.file.read_text(encoding="utf-8").replace(
            "expect:", "  c:\n    interfaces: {ib0: {addresses: [10.44.0.3/24]}}\n"
            "    services: {web: python3 -m http.server 8000}\nexpect:")
        self.write(text)
        self.softib("up")
        after = self.pids()
        self.assertEqual({key: after[key] for key in before}, before, "daemons that need not end run on")
        self.assertEqual(set(after) - set(before), {("c", "ib0"), ("c", "web")})
        shown = {host["name"]: host["interfaces"][0] for host in self.show()["hosts"]}
        self.assertEqual((shown["b"]["mtu"], [each for each in shown["b"]["addresses"] if "." in each]),
                         (1400, ["10.44.0.22/24"]))
        self.assertIn("8 of 8 expectations hold", self.softib("check"))
        self.write(PAIR)
        self.softib("up")
        self.assertEqual(set(self.pids()), set(before))
        self.assertEqual(self.pids()["a", "ib0"], before["a", "ib0"])
        self.assertEqual(hosts.processes_with("http.server"), [])
        self.assertIn("2 of 2 expectations hold", self.softib("check"))

    def test_faults_by_a_timetable(self):
        self.write(PAIR.replace("all}", "all, within: 2}") + "faults:\n  - {at: 3600, set: port b down}\n  - {at: 0, set: port a down}\n"
                   "  - {at: 0.1, set: lid a none}\n")
        self.softib("up")

        def states():
            return [each["state"] for each in self.show()["faults"]]
        wait_until(lambda: states()[2] != "due", "the faults are made")
        self.assertEqual(states()[:2], ["due", "done"])
        self.assertIn("'none'", states()[2])
        wait_until(lambda: self.show()["hosts"][0]["interfaces"][0]["state"] == "down", "a has lost its link")
        self.assertEqual(self.show()["hosts"][1]["interfaces"][0]["state"], "up")
        self.assertIn("no reply", self.softib("check", status=1))
        self.write(PAIR + "faults:\n  - {at: 0, set: port a up}\n")
        self.softib("up")
        wait_until(lambda: states() == ["done"], "the new fault is made")
        self.assertIn("2 of 2 expectations hold", self.softib("check"))

    def test_a_failed_up_leaves_nothing(self):
        self.write(PAIR.replace("  a:", "  c: {interfaces: {ib0: {options: [--no-such-option]}}}\n  a:"))
        output = self.softib("up", status=1)
        self.assertIn("no-such-option", output)
        self.assert_nothing_left()

    def test_a_failed_change_removes_what_it_has_touched(self):
        self.softib("up")
        before = self.pids()
        self.write(PAIR.replace("10.44.0.2/24]", "10.44.0.2/24], options: [--no-such-option]"))
        self.assertIn("removed: b", self.softib("up", status=1))
        self.assertEqual(self.pids(), {("a", "ib0"): before["a", "ib0"]})
        self.write(PAIR)
        self.softib("up")
        self.assertEqual(self.pids()["a", "ib0"], before["a", "ib0"])
        self.assertIn("2 of 2 expectations hold", self.softib("check"))

    def test_an_interrupted_up_leaves_nothing(self):
        """On a terminal, where the steps are shown."""
        self.write(PAIR.replace("  a:", "  c: {interfaces: {ib0: {options: [--wait, --device, none]}}}\n  a:"))
        for number in (signal.SIGINT, signal.SIGKILL):
            main, terminal = pty.openpty()
            up = subprocess.Popen([program("softib"), "lab", "up", self.file], env=self.environment, stdin=terminal,
                                  stdout=terminal, stderr=terminal, start_new_session=True,
                                  preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
            os.close(terminal)
            shown = b""
            while b"c: set ib0 up" not in shown:
                shown += os.read(main, 4096)
            up.send_signal(number)
            self.assertEqual(up.wait(PATIENCE), 130 if number == signal.SIGINT else -signal.SIGKILL)
            os.close(main)
            wait_until(lambda: not hosts.processes_with(f"SOFTIB_DIR={self.subnets}"), "all processes have ended")
            self.assert_nothing_left()

    def test_a_killed_keeper_leaves_what_down_removes(self):
        self.softib("up")
        os.kill(self.show()["pid"], signal.SIGKILL)
        wait_until(lambda: "is not up" in self.softib("show", status=1), "the keeper has ended")
        self.softib("down")
        self.assert_nothing_left()
        self.assertIn("is not up", self.softib("down", status=1))

    def test_a_wrong_file_changes_nothing(self):
        self.softib("up")
        before = self.pids()
        self.write(PAIR.replace("addresses", "adresses", 1))
        for command in ("up", "check"):
            self.assertIn(f"{self.file}:3:26: unknown key 'adresses' of an interface; did you mean 'addresses'?",
                          self.softib(command, status=1))
        self.assertEqual(self.pids(), before)

    def test_wrong_command_lines(self):
        for words, message in (
                ([], "which of up, down, exec, show and check?"), (["chek", "x"], "did you mean check?"),
                (["up"], "no lab file"), (["exec", "x"], "no host"), (["up", "x", "y"], "unexpected argument 'y'"),
                (["exec", "x", "a", "id"], "the command follows --"), (["up", "x", "--", "id"], "only exec"),
                (["exec", "--json", "x", "a"], "--json is not for exec")):
            done = subprocess.run([program("softib"), "lab", *words], check=False, text=True, capture_output=True,
                                  env=self.environment)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(message, done.stderr)
        missing = self.folder / "none"
        self.assertEqual(f"softib lab up: {missing}: No such file or directory\n", subprocess.run(
            [program("softib"), "lab", "up", missing], check=False, text=True, capture_output=True,
            env=self.environment).stderr)

    def test_another_name(self):
        self.addCleanup(lambda: self.softib("down", "--subnet", "other", status=None))
        self.softib("up", "--subnet", "other")
        self.assertIn("'pair' is not up", self.softib("show", status=1))
        self.assertIn("subnet other", subprocess.run(
            [program("softib"), "show", "--subnet", "other"], check=True, text=True, capture_output=True,
            env=self.environment).stdout)
        self.softib("down", "--subnet", "other")
        self.assert_nothing_left()

    def on(self, host, command, status=0):
        return self.softib("exec", host, "--", "sh", "-c", command, status=status).strip()

    def test_a_bridge_and_a_station(self):
        self.write(BRIDGED)
        self.softib("up")
        self.assertIn("bridged: 6 of 6 expectations hold", self.softib("check"))
        self.assertEqual(self.on("vm", "cat /sys/class/net/eth0/address /sys/class/net/eth0/mtu").split(),
                         ["02:00:00:00:00:11", "1400"])
        self.assertIn("02:00:00:00:00:11", self.on("host", "ibarp stations"))
        host, vm, _ = self.show()["hosts"]
        self.assertEqual([(each["name"], each["ports"], each["mtu"], each["addresses"]) for each in host["ethernet"]],
                         [("br0", ["ib0"], 1500, ["10.44.0.1/24"])])
        self.assertEqual([(each["name"], each["bridge"], each["state"]) for each in vm["ethernet"]],
                         [("eth0", "host/br0", "up")])
        self.assertIn("host/br0", self.softib("show"))
        nodes = self.on("far", f"{shlex.quote(program('softib'))} show nodes")
        self.assertNotIn("vm", nodes, "a station has no HCA")

    def test_a_vlan(self):
        """By a frame with a tag: not each kernel has VLANs."""
        self.write("subnet: {partitions: {red: {pkey: 0x12}}}\nhosts:\n"
                   "  a: {interfaces: {ib0: {ethernet: true, vlans: {18: red}}}}\n"
                   "  b: {interfaces: {ib0: {partition: red, addresses: [10.45.0.2/24]}}}\n")
        self.softib("up")
        self.assertEqual(self.softib("exec", "a", "--", sys.executable, "-c", TAGGED_ARP), "answered\n")
        before = self.pids()
        self.write(self.file.read_text(encoding="utf-8").replace("18", "19"))
        self.softib("up")
        self.assertNotEqual(self.pids()["a", "ib0"], before["a", "ib0"], "it needs another daemon")
        self.assertEqual(self.pids()["b", "ib0"], before["b", "ib0"])

    def test_a_station_moves_and_the_rest_stays(self):
        self.write(BRIDGED)
        self.softib("up")
        before = self.pids()
        self.write(BRIDGED.replace("    bridges: {br0", "    bridges: {br1: {mtu: 1400}, br0").replace(
            "host/br0, mac", "host/br1, mac").replace("hosts:", "hosts:\n  new: {interfaces: {eth0: {bridge: host/br0, "
                                                "addresses: [10.44.0.12/24]}}}"))
        self.softib("up")
        self.assertEqual(self.pids(), before)
        self.assertIn("master br1", self.on("host", "ip link show vm-eth0"))
        self.write(self.file.read_text(encoding="utf-8").replace("{from: all, reaches: all}",
                                                                 "{from: far, reaches: [host, new]}\n"
                                                                 "  - {from: far, does not reach: vm}"))
        self.assertIn("3 of 3 expectations hold", self.softib("check"))
        self.write(BRIDGED)
        self.softib("up")
        self.assertEqual(self.pids(), before)
        self.assertIn("6 of 6 expectations hold", self.softib("check"))
        self.assertNotIn("br1", self.on("host", "ip link"))

    def test_a_failed_change_of_a_bridge(self):
        """The station stays, and is connected again."""
        self.write(BRIDGED)
        self.softib("up")
        self.write(BRIDGED.replace("ethernet: true", "ethernet: true, options: [--no-such-option]"))
        self.assertIn("removed: host; the next up makes them again", self.softib("up", status=1))
        self.assertEqual(self.on("vm", "ls /sys/class/net"), "lo")
        self.write(BRIDGED)
        self.softib("up")
        self.assertIn("6 of 6 expectations hold", self.softib("check"))

    def test_settings_of_a_host(self):
        self.write(BRIDGED)
        self.softib("up")
        values = "sysctl -n net.ipv4.conf.br0.arp_notify net.ipv4.ip_default_ttl"
        self.assertEqual(self.on("host", values).split(), ["1", "70"])
        self.assertEqual(self.on("far", "sysctl -n net.ipv4.ip_default_ttl"), "64")
        self.write(BRIDGED.replace("arp_notify: 1, net.ipv4.ip_default_ttl: 70", "arp_notify: 0"))
        self.softib("up")
        self.assertEqual(self.on("host", values).split(), ["0", "64"])

    def test_a_backup_port(self):
        self.write(PAIR.replace("{ib0: {", "{ib0: {backup: second, ", 1) + "faults: [{at: 0, set: port a down}]\n")
        self.softib("up")
        wait_until(lambda: "backup softib1 port 1  up, active" in self.on("a", "ibarp info"), "the backup port serves")
        self.assertIn("2 of 2 expectations hold", self.softib("check"))
        self.on("a", f"{shlex.quote(program('softib'))} set port a up")
        self.write(PAIR)
        self.softib("up")
        nodes = json.loads(self.on("a", f"{shlex.quote(program('softib'))} show --json"))["nodes"]
        self.assertNotIn("second", [node["name"] for node in nodes])

    def test_expected_commands(self):
        self.write(PAIR.split("expect")[0] + """\
expect:
  - {from: all, runs: ip addr show ib0 | grep -q 10.44.0}
  - {from: a, runs: 'test -e "$SOFTIB_LAB/there" || { touch "$SOFTIB_LAB/there"; false; }'}
  - {from: a, runs: test -e lab.yaml}
  - {from: b, runs: "echo no; exit 3", within: 1}
  - {from: b, runs: sleep 3000.5, within: 1}
""")
        self.softib("up")
        output = self.softib("check", status=1)
        self.assertIn(":9: b runs echo no; exit 3: exit status 3: no", output)
        self.assertIn(":10: b runs sleep 3000.5: not finished after 1 s", output)
        self.assertIn("4 of 6 expectations hold", output)
        self.assertNotIn("sleep 3000.5", hosts.processes_with(f"SOFTIB_DIR={self.subnets}"))
        self.write("\n".join(self.file.read_text(encoding="utf-8").splitlines()[:5] +
                             ["  - {from: a, runs: 'true'}"]))
        self.assertIn("1 of 1 expectation holds", self.softib("check"))

    def test_labs_of_the_manual(self):
        """Each example in softib(1); OpenSM runs on a host of the second one."""
        page = (ROOT / "man/softib.1").read_text(encoding="utf-8")
        section = re.search(r"(?ms)^\.Sh LAB FILES$.*?(?=^\.Sh )", page)[0]
        texts = re.findall(r"(?ms)^\.Bd -literal[^\n]*\n(.*?)^\.Ed$", section)
        self.assertEqual(len(texts), 3)
        for text in texts:
            if "opensm" in text and shutil.which("opensm") is None:
                continue
            self.write(text)
            self.softib("up")
            self.softib("check")
            self.softib("down")
            self.assert_nothing_left()

    @unittest.skipUnless(shutil.which("opensm"), "opensm is not installed")
    def test_twelve_hosts_under_opensm_that_lose_links(self):
        self.write(twelve().replace("subnet: {", "subnet: {sm: opensm, ") + "\nfaults:\n"
                   "  - {at: 0, set: port h12 down}\n  - {at: 0.5, set: port h12 up}\n"
                   "  - {at: 0.5, set: link h3 loss 5 seed 1}\n")
        self.softib("up")
        wait_until(lambda: [each["state"] for each in self.show()["faults"]] == ["done"] * 3, "the faults are made")
        self.write(self.file.read_text(encoding="utf-8").replace("  - {from: h3, ping: h5}\n", ""))
        self.assertIn("twelve: 25 of 25 expectations hold", self.softib("check"))
        self.softib("down")
        self.assert_nothing_left()

    @unittest.skipUnless(shutil.which("opensm"), "opensm is not installed")
    def test_opensm_manages_the_subnet(self):
        text = twelve().replace("subnet: {", "subnet: {sm: opensm, ")
        lines = [line for line in text.splitlines() if not line.startswith(tuple(f"  h{i}:" for i in range(5, 13)))]
        self.write("\n".join(lines[:-3]) + "\n  - {from: h2, does not reach: h4}\n")
        self.softib("up")
        self.assertIn("7 of 7 expectations hold", self.softib("check"))
        self.write(self.file.read_text(encoding="utf-8").replace("limited", "full").replace("does not reach", "reaches"))
        self.softib("up")
        self.assertIn("7 of 7 expectations hold", self.softib("check"))


class Stream:
    """A program on a host of a lab that sends blocks, and one on another host that compares them."""

    def __init__(self, lab, name, receive, send):
        self.lab = lab
        self.logs = {side: lab.folder / f"{name}-{side}" for side in ("receiver", "sender")}
        self.receiver = self._start("receiver", "host-16", receive)
        wait_until(lambda: self._says("receiver", "listening"), f"{name} listens")
        self.sender = self._start("sender", "host-1", send)

    def _start(self, side, host, command):
        with open(self.logs[side], "wb") as log:
            process = subprocess.Popen([program("softib"), "lab", "exec", self.lab.file, host, "--", *command],
                                       env=self.lab.environment, stdout=log, stderr=log,
                                       stdin=subprocess.PIPE if side == "sender" else subprocess.DEVNULL)
        self.lab.addCleanup(process.wait)
        self.lab.addCleanup(process.kill)
        return process

    def output(self, side):
        return self.logs[side].read_text(encoding="utf-8")

    def _says(self, side, word):
        process = self.receiver if side == "receiver" else self.sender
        assert process.poll() is None or word in self.output(side), self.output(side)
        return word in self.output(side)

    def reports(self):
        """Returns how often the sender has said that blocks have arrived, which it does every 50 ms."""
        assert self.sender.poll() is None, self.output("sender") + self.output("receiver")
        return len(self.output("sender").splitlines())

    def end(self):
        """Returns the number of blocks, and the longest wait in milliseconds."""
        self.sender.stdin.close()
        for process in (self.sender, self.receiver):
            assert process.wait(hosts.PATIENCE) == 0, self.output("sender") + self.output("receiver")
        sent, longest = re.search(r"(\d+) blocks sent, longest wait (\d+) ms", self.output("sender")).groups()
        assert f"{sent} blocks have arrived" in self.output("receiver"), self.output("receiver")
        return int(sent), int(longest)


@hosts.needs("opensm")
class Faults(Lab):
    """TCP through ipoibd and RDMA WRITEs between hosts of a fat tree under OpenSM."""

    REPORTS = 5  # after a fault; one may be on its way when it happens

    def setUp(self):
        super().setUp()
        self.write_stream = pathlib.Path(os.path.abspath(hosts.BIN)).parent / "tests" / "write_stream"
        if not self.write_stream.exists():
            self.skipTest("librdmacm is not installed")
        self.write("""
subnet: {sm: opensm, sm host: host-2, topology: 'fat-tree:4'}
hosts:
  host-1: {interfaces: {ib0: {addresses: [10.44.0.1/24]}}}
  host-2: {}
  host-16: {interfaces: {ib0: {addresses: [10.44.0.16/24]}}}
expect: [{from: host-1, reaches: host-16, within: 30}]
""")
        self.softib("up")

    def set(self, *change):
        subprocess.run([program("softib"), "set", "--subnet", "lab", *change], check=True, env=self.environment)

    def ports(self, switch):
        """Returns the name of a neighbouring switch -> the port to it."""
        shown = subprocess.run([program("softib"), "show", "--subnet", "lab", "--json"], check=True,
                               env=self.environment, capture_output=True, text=True).stdout
        found = next(each for each in json.loads(shown)["switches"] if each["name"] == switch)
        return {port["to"]: port for port in found["ports"] if port.get("to")}

    def await_blocks(self, streams):
        """Waits until each stream goes on."""
        before = [each.reports() for each in streams]
        wait_until(lambda: all(each.reports() >= count + self.REPORTS for each, count in zip(streams, before)),
                   "the streams go on")

    def way_up(self, streams, switch, levels):
        """Returns which neighbour, of those whose name begins so, gets most of what the streams send."""
        before = self.ports(switch)
        self.await_blocks(streams)
        after = self.ports(switch)
        return max((name for name in after if name.startswith(levels)),
                   key=lambda name: after[name]["sent_packets"] - before[name]["sent_packets"])

    def test_streams_go_on_while_cables_and_switches_fail(self):
        """Each fault is one of the way that the streams take."""
        softib, tcp = os.path.abspath(program("softib")), f"{ROOT}/tests/netns/tcp_stream.py"
        streams = [
            Stream(self, "tcp", (sys.executable, tcp, "receive", "7001"), (sys.executable, tcp, "send", "10.44.0.16", "7001")),
            Stream(self, "write", *((softib, "run", "--hca", host, "--", str(self.write_stream), verb, "10.44.0.16", "7002")
                                    for host, verb in (("host-16", "receive"), ("host-1", "send"))))]
        spine = self.way_up(streams, "leaf-1", "spine")
        self.set("cable", "leaf-1", spine, "down")
        self.await_blocks(streams)
        other = self.way_up(streams, "leaf-1", "spine")
        self.assertNotEqual(other, spine)
        core = self.way_up(streams, other, "core")
        self.set("cable", other, core, "down")
        self.await_blocks(streams)
        self.set("cable", "leaf-1", spine, "up")
        wait_until(lambda: self.ports("leaf-1")[spine]["state"] == "active", "OpenSM has brought the cable up")
        last = self.way_up(streams, "leaf-1", "spine")
        self.set("switch", last, "absent")
        self.await_blocks(streams)
        self.assertNotEqual(self.way_up(streams, "leaf-1", "spine"), last)
        for stream in streams:
            sent, longest = stream.end()
            print(f"{sent} blocks, longest wait {longest} ms")
        self.softib("down")
        self.assert_nothing_left()


class Examples(Lab):
    """A test for each file of examples/."""

    SUBNETS = "sub nets"

    def check(self):
        name = self.id().rpartition(".test_")[2].replace("_", "-")
        for tool in TOOLS_OF_EXAMPLES.get(name, ()):
            if shutil.which(tool) is None:
                self.skipTest(f"{tool} is not installed")
        self.file = ROOT / "examples" / f"{name}.yaml"
        self.softib("up")
        try:
            self.softib("check")
        except AssertionError:
            print(self.softib("show"), *(f"{log.name}:\n{log.read_text(errors='replace')}"
                                         for log in sorted(self.subnets.rglob("*.log"))))
            raise
        self.softib("down")
        self.assert_nothing_left()

    def test_bridge(self):
        self.check()

    def test_dhcp(self):
        self.check()

    def test_failover(self):
        self.check()

    def test_fat_tree(self):
        self.check()

    def test_hostile(self):
        self.check()

    def test_lost_link(self):
        self.check()

    def test_mpi(self):
        self.check()

    def test_multicast(self):
        self.check()

    def test_ospf(self):
        self.check()

    def test_partitions(self):
        self.check()

    def test_router(self):
        self.check()

    def test_service(self):
        self.check()

    def test_two_hosts(self):
        self.check()

    def test_each_has_a_test(self):
        names = {name.removeprefix("test_").replace("_", "-") for name in dir(self)
                 if name.startswith("test_")} - {"each-has-a-test"}
        self.assertEqual(names, {path.stem for path in (ROOT / "examples").glob("*.yaml")})


class OrdinaryUser(Lab):
    SUBNETS = "sub nets"
    USER = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")

    def setUp(self):
        may = subprocess.run([*self.USER, "unshare", "--user", "--map-root-user", "--net", "true"],
                             check=False, capture_output=True, text=True)
        if may.returncode != 0:
            self.skipTest(f"user {NOBODY} may have no namespaces: {may.stderr.strip()}")
        super().setUp()

    def test_a_bridge_from_a_folder_with_a_blank(self):
        folder = self.folder / "a b"
        folder.mkdir(mode=0o755)
        self.file = folder / "my lab.yaml"
        self.file.write_text(BRIDGED.replace("  far: {", "  far: {services: {s: 'pwd >\"$SOFTIB_LAB/there\"'}, ") +
                             "  - {from: all, runs: 'test \"$(cat \"$SOFTIB_LAB/there\")\" = \"$PWD\"'}\n"
                             "  - {from: vm, runs: test -e 'my lab.yaml'}\n", encoding="utf-8")
        self.softib("up")
        self.assertIn("10 of 10 expectations hold", self.softib("check"))
        self.softib("down")
        self.assert_nothing_left()

    def test_in_a_user_namespace(self):
        self.softib("up")
        self.assertIn("2 of 2 expectations hold", self.softib("check"))
        self.assertEqual(self.softib("exec", "a", "--", "id", "-u"), "0\n")
        self.softib("down")
        self.assert_nothing_left()


if __name__ == "__main__":
    if importlib.util.find_spec("yaml") is None or jsonschema is None:
        hosts.softib_subnet.skip("python3-yaml and python3-jsonschema are not installed")
    hosts.main()
