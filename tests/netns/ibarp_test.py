#!/usr/bin/env python3
"""ibarp and its control socket, with running daemons on an emulated subnet."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import hosts
from hosts import wait_until

MANY = 10000
NOBODY = 65534
RESIDENT_LIMIT_KIB = 64 * 1024

# Sets many permanent entries over one connection, then prints how many were refused.
FILLER = """
import json, os, socket, sys
refused = 0
with socket.socket(socket.AF_UNIX) as daemon:
    inode = os.stat('/proc/self/ns/net').st_ino
    daemon.connect(f'/run/ipoibd/net-{inode}/ib0/control')
    lines = daemon.makefile('rw')
    for i in range(int(sys.argv[1])):
        lines.write(json.dumps({'op': 'set', 'mode': 'add',
                                'address': f'10.45.{i // 250}.{i % 250 + 1}',
                                'lladdr': sys.argv[2]}) + '\\n')
        lines.flush()
        refused += not json.loads(lines.readline())['ok']
print(refused)
"""


class Ibarp(hosts.Pair):
    def setUp(self):
        self.set_up()
        self.start()

    def ibarp(self, *arguments, host=None, status=0):
        """Runs ibarp on a host, and returns what it prints."""
        done = (host or self.left).run(hosts.program("ibarp"), *arguments, check=False)
        self.assertEqual(done.returncode, status, f"{arguments}: {done.stdout}{done.stderr}")
        return done.stdout

    def entry(self, address):
        """Returns the neighbour entry of an address; None without one."""
        found = json.loads(self.ibarp("show", address, "--json"))
        return found[0] if found else None

    def assert_reached(self):
        wait_until(lambda: self.left.reaches("10.44.0.2"), "left reaches right")

    def test_shows_a_neighbour(self):
        self.assert_reached()
        entry, peer = self.entry("10.44.0.2"), self.right.ibarp("info")
        self.assertEqual(entry["interface"], "ib0")
        self.assertIn(entry["state"], ("reachable", "stale", "delay", "probing"))
        self.assertEqual(entry["lladdr"], peer["lladdr"])
        self.assertEqual((entry["qpn"], entry["gid"]), (peer["qpn"], peer["gid"]))
        self.assertEqual(entry["path"]["dlid"], peer["lid"])
        self.assertEqual(entry["path"]["mtu"], 2048)
        self.assertEqual(entry["waiting"], 0)
        self.assertIn(entry["gid"], self.ibarp())
        self.assertIn(entry["lladdr"], self.ibarp("--wide"))

    def test_info_shows_the_interface(self):
        info = self.left.ibarp("info")
        self.assertEqual((info["state"], info["waiting_for"]), ("up", ""))
        self.assertEqual((info["port"], info["pkey"], info["mtu"]), (1, "0xffff", 2044))
        self.assertEqual(info["pid"], self.left.daemon.pid)
        groups = {group["mgid"]: group["membership"] for group in info["groups"]}
        self.assertEqual(groups["ff12:401b:ffff::ffff:ffff"], "full")
        self.assertEqual(groups["ff12:401b:ffff::1"], "full")

    def test_lists_the_groups(self):
        groups = {group.get("address"): group for group in json.loads(self.ibarp("groups", "-j"))}
        for address in ("255.255.255.255", "224.0.0.1"):
            self.assertEqual(groups[address]["membership"], "full")
            self.assertGreaterEqual(int(groups[address]["mlid"], 16), 0xC000)
        self.assertIn("224.0.0.1 ", self.ibarp("groups"))

    def test_lists_the_members_of_groups(self):
        gids = {host.ibarp("info")["gid"] for host in self.subnet.hosts}
        for group in json.loads(self.ibarp("groups", "-j")):
            if group.get("address") in ("255.255.255.255", "224.0.0.1"):
                members = group["members"]
                self.assertEqual({member["gid"] for member in members}, gids)
                self.assertTrue(all(member["join"] == ["full"] for member in members))
        lines = self.ibarp("groups", "-m").splitlines()
        rows = [line.split() for line in lines if line.startswith("224.0.0.1 ")]
        self.assertEqual({(fields[2], fields[3]) for fields in rows},
                         {(gid, "full") for gid in gids})

    def test_reports_unknown_members(self):
        self.softib_set("port", "softib-sm", "down")
        done = self.left.run(hosts.program("ibarp"), "groups", check=False)
        self.assertEqual(done.returncode, 0)
        self.assertIn("224.0.0.1 ", done.stdout)
        self.assertIn("ib0: members are unknown: no response from the subnet administrator",
                      done.stderr)
        self.assertEqual(self.ibarp("groups", "-m", status=1).splitlines()[1:], [])

    def test_info_shows_what_the_bring_up_waits_for(self):
        self.subnet.run_softib("set", "port", "left", "down")
        wait_until(lambda: self.left.ibarp("info")["state"] != "up", "the link is down")
        self.assertIn("port", self.left.ibarp("info")["waiting_for"])

    def test_info_shows_that_the_interface_is_administratively_down(self):
        self.assertTrue(self.left.ibarp("info")["admin_up"])
        self.left.run("ip", "link", "set", "ib0", "down")
        self.assertFalse(self.left.ibarp("info")["admin_up"])
        self.assertIn("ib0: administratively down, link up", self.ibarp("info"))

    def test_says_that_the_hca_has_failed(self):
        self.softib_set("hca", "left", "failed")
        self.left.wait_for_log("waiting for", "to come back")
        wait_until(lambda: self.left.run(hosts.program("ibarp"), "info", check=False).returncode == 0,
                   "the daemon responds")
        info = self.left.ibarp("info")
        self.assertEqual((info["interface"], info["state"]), ("ib0", "no_device"))
        self.assertIn("the RDMA device", info["waiting_for"])
        self.assertEqual(info["pid"], self.left.daemon.pid)
        done = self.left.run(hosts.program("ibarp"), check=False)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("ib0: ipoibd waits for the RDMA device", done.stderr)
        self.softib_set("hca", "left", "present")
        wait_until(self.left.has_carrier, "the HCA is back")
        self.assert_reached()

    def test_a_permanent_entry_is_obeyed(self):
        self.assert_reached()
        peer = self.right.ibarp("info")
        self.ibarp("replace", "10.44.0.2", "lladdr", f"{peer['qpn'] ^ 1}@{peer['gid']}")
        self.assertEqual(self.entry("10.44.0.2")["state"], "permanent")
        self.assertIn("set by an operator, so ARP and ND do not change it", self.ibarp("explain", "10.44.0.2"))
        self.assertFalse(self.left.reaches("10.44.0.2"), "no such queue pair")
        self.ibarp("change", "10.44.0.2", "lladdr", peer["lladdr"])
        self.assert_reached()
        self.ibarp("add", "10.44.0.2", "lladdr", peer["lladdr"], status=1)
        self.ibarp("flush")
        self.assertIsNotNone(self.entry("10.44.0.2"), "permanent entries are not flushed")
        self.ibarp("del", "10.44.0.2")
        self.assertIsNone(self.entry("10.44.0.2"))
        self.ibarp("del", "10.44.0.2", status=1)
        self.assert_reached()

    def test_a_permanent_entry_needs_no_arp(self):
        peer = self.right.ibarp("info")
        self.ibarp("-s", "10.44.0.2", peer["lladdr"])
        self.ibarp("-s", "10.44.0.1", self.left.ibarp("info")["lladdr"], host=self.right)
        before = self.left.counters()["arp_requests_broadcast"]
        self.assert_reached()
        self.assertEqual(self.left.counters()["arp_requests_broadcast"], before)

    def test_flushes(self):
        self.assert_reached()
        self.ibarp("flush", "dev", "ib0")
        self.assertIsNone(self.entry("10.44.0.2"))
        self.assert_reached()

    def test_counts_what_is_dropped(self):
        self.left.ping("10.44.0.9", "-c", "1", "-W", "1")
        wait_until(lambda: self.entry("10.44.0.9")["state"] == "failed", "resolution fails")
        self.assertGreater(self.left.counters()["drop_neighbour_failed"], 0)
        self.assertIn("drop_neighbour_failed", self.ibarp("stats"))

    def test_manual_explains_all_counters(self):
        manual = pathlib.Path(__file__).resolve().parents[2] / "man" / "ibarp.8"
        explained = {word for line in manual.read_text(encoding="utf-8").splitlines()
                     if line.startswith(".It ") for word in line.split()}
        self.assertEqual(set(self.left.counters()) - explained, set())

    def test_only_root_changes(self):
        if not os.access(hosts.program("ibarp"), os.X_OK):
            self.skipTest("no program")
        as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        look = self.left.run(*as_nobody, hosts.program("ibarp"), check=False)
        if look.returncode in (126, 127):
            self.skipTest("user nobody cannot reach the program")
        self.assertEqual(look.returncode, 0, look.stderr)
        for words in (["flush"], ["del", "10.44.0.2"], ["log", "link=off"],
                      ["interface", "add", "0x8001"], ["interface", "del", "ib0"]):
            done = self.left.run(*as_nobody, hosts.program("ibarp"), *words, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn("only root", done.stderr)

    def test_changes_log_levels(self):
        self.ibarp("log", "link=debug", "dev", "ib0")
        levels = json.loads(self.ibarp("log", "--json"))[0]["levels"]
        self.assertEqual((levels["link"], levels["sa"]), ("debug", "info"))
        self.assert_reached()
        wait_until(lambda: "10.44.0.2" in self.left.daemon.output(), "the log names the neighbour")
        self.ibarp("log", "link=loud", status=2)

    def test_a_crash_leaves_the_trace(self):
        self.assert_reached()
        threads = {record["thread"] for record in json.loads(self.ibarp("trace", "-j"))[0]["records"]}
        self.assertEqual(threads, {"control", "ib0"})
        self.left.daemon.end(signal.SIGABRT)
        for thread in threads:
            self.assertIn(f"\ntrace {thread} ", self.left.daemon.output())
        done = self.left.run(hosts.program("ibarp"), check=False)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("ib0: its ipoibd is not running", done.stderr)
        self.left.start()
        self.assert_reached()

    def test_lists_many_in_little_memory(self):
        lladdr = self.right.ibarp("info")["lladdr"]
        many = MANY // 20 if hosts.has_sanitizer(self.left.daemon.pid) else MANY
        refused = self.left.run(sys.executable, "-c", FILLER, str(many), lladdr)
        self.assertEqual(refused.stdout.strip(), "0")
        self.assertEqual(self.left.counters()["neighbours"], many)
        self.assertEqual(len(json.loads(self.ibarp("--json"))), many)
        self.assertEqual(len(self.ibarp().splitlines()), many + 1)
        resident = hosts.resident_kib(self.left.daemon.pid)
        self.assertTrue(resident is None or resident < RESIDENT_LIMIT_KIB, resident)


# Tries to take names that control sockets have, and holds them until its input ends.
SQUATTER = """
import fcntl, os, socket, sys
taken = []
def attempt(what, *arguments):
    try:
        taken.append(what(*arguments))
        return True
    except OSError:
        return False
def bind(name):
    made = socket.socket(socket.AF_UNIX)
    made.bind(name)
    made.listen()
    return made
for interface in ('ib0', 'ib0.8001'):
    attempt(bind, f'\\0ipoibd/{interface}')
folder = f'/run/ipoibd/net-{os.stat("/proc/self/ns/net").st_ino}'
succeeded = [name for name in ('/run/ipoibd', folder, f'{folder}/ib0', f'{folder}/ib0.8001')
             if attempt(os.mkdir, name) or attempt(bind, f'{name}/control')
             or attempt(os.unlink, f'{name}/control') or attempt(os.rename, name, f'{name}x')
             or attempt(open, f'{name}/lock')]
print(succeeded, flush=True)
sys.stdin.read()
"""

# A container with the host's network, but with a /run of its own, and without capabilities.
CONTAINER = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs /run && exec "$@"', "sh", "setpriv",
             "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")
CONNECTS = """
import socket, sys
with socket.socket(socket.AF_UNIX) as daemon:
    daemon.connect(sys.argv[1].replace('@', chr(0)))
"""


class ControlSockets(hosts.Pair):
    """What other users and containers can do with the sockets."""

    AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")

    def setUp(self):
        self.set_up("--partition", "1=full")
        inode = int(self.left.run("stat", "-L", "-c", "%i", "/proc/self/ns/net").stdout)
        self.folder = pathlib.Path(f"/run/ipoibd/net-{inode}")

    def squat(self):
        """Starts a squatter; returns its process, and which names below /run/ipoibd it has got."""
        if self.left.run(*self.AS_NOBODY, "true", check=False).returncode != 0:
            self.skipTest("needs another user")
        squatter = subprocess.Popen(self.left.command(*self.AS_NOBODY, sys.executable, "-c", SQUATTER),
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(squatter.wait)
        self.addCleanup(squatter.communicate)
        return squatter.stdout.readline()

    def answers(self, interface):
        return self.left.run(hosts.program("ibarp"), "info", "-i", interface,
                             check=False).returncode == 0

    def test_other_users_cannot_take_names(self):
        self.assertEqual(self.squat(), "[]\n")
        self.left.start_all()
        for interface in ("ib0", "ib0.8001"):
            wait_until(lambda name=interface: self.answers(name), f"{interface} has its socket")
        self.assertEqual(self.squat(), "[]\n", "now that the folders exist")
        self.softib_set("hca", "left", "failed")
        self.left.wait_for_log("waiting for", "to come back")
        self.softib_set("hca", "left", "present")
        wait_until(lambda: self.left.has_carrier("ib0.8001"), "the device is back")
        self.assertEqual(self.left.ibarp("info", "ib0.8001")["pid"], self.left.daemon.pid)

    def test_a_name_that_is_taken_ends_nothing(self):
        self.folder.mkdir(parents=True)
        taken = self.folder / "ib0.8001"
        taken.write_text("by root", encoding="ascii")
        self.left.start_all()
        wait_until(lambda: self.answers("ib0") and self.left.link("ib0.8001"), "both exist")
        self.assertFalse(self.answers("ib0.8001"))
        self.left.wait_for_log("ib0.8001: no control socket", "trying again")
        self.softib_set("hca", "left", "failed")
        self.left.wait_for_log("waiting for", "to come back")
        self.softib_set("hca", "left", "present")
        wait_until(lambda: self.left.has_carrier("ib0.8001"), "the device is back")
        taken.unlink()
        wait_until(lambda: self.answers("ib0.8001"), "the daemon has tried again")
        self.assertEqual(self.left.daemon.end(), 0)
        self.assertFalse(self.folder.exists(), "the daemon removes its folders")

    def test_root_in_a_container_changes_nothing(self):
        self.left.start()
        wait_until(lambda: self.answers("ib0"), "ib0 has its socket")
        done = self.left.run(*CONTAINER, hosts.program("ibarp"), "flush", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("a container has to mount that", done.stderr)
        for name in ("@ipoibd/ib0", str(self.folder / "ib0" / "control")):
            done = self.left.run(*CONTAINER, sys.executable, "-c", CONNECTS, name, check=False)
            self.assertEqual(done.returncode, 1, name)
            self.assertRegex(done.stderr, "ConnectionRefused|FileNotFound")

    def test_root_in_a_user_namespace_may_only_read(self):
        self.left.start()
        wait_until(lambda: self.answers("ib0"), "ib0 has its socket")
        nested = (*self.AS_NOBODY, "unshare", "--user", "--map-root-user", hosts.program("ibarp"))
        look = self.left.run(*nested, "info", check=False)
        if look.returncode != 0:
            self.skipTest(f"no such namespace: {look.stderr}")
        self.assertNotIn("qkey", look.stdout)
        done = self.left.run(*nested, "flush", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("only root may change anything", done.stderr)

    def test_a_waiting_daemon_keeps_its_interfaces(self):
        self.left.start()
        wait_until(lambda: self.answers("ib0"), "ib0 has its socket")
        self.softib_set("hca", "left", "failed")
        self.left.wait_for_log("waiting for", "to come back")
        wait_until(lambda: self.answers("ib0"), "the waiting daemon has the socket")
        other = self.left.run(hosts.program("softib"), "run", "--hca", "other", "--",
                              hosts.program("ipoibd"), "--pkey", "0xffff", check=False)
        self.assertEqual(other.returncode, 1)
        self.assertIn("ib0: exists", other.stderr)
        self.assertIsNotNone(self.left.link())

    def test_a_group_may_make_changes(self):
        if self.left.run(*self.AS_NOBODY, "true", check=False).returncode != 0:
            self.skipTest("there are no other users in this user namespace")
        self.left.start("--control-group", "nogroup,private")
        wait_until(lambda: self.answers("ib0"), "ib0 has its socket")
        member = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--groups=nogroup")
        stranger = ("setpriv", "--reuid=65533", "--regid=65533", "--clear-groups")
        done = self.left.run(*member, hosts.program("ibarp"), "flush", check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.left.run(*stranger, hosts.program("ibarp"), check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("only root and members of the group nogroup may use its control socket",
                      done.stderr)


if __name__ == "__main__":
    hosts.main()
