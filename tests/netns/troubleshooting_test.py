#!/usr/bin/env python3
"""Each row of docs/troubleshooting.md: the failure is produced, and ibarp alone says what it is.

The docstring of a test is the first cell of its row.
"""

import json
import os
import pathlib
import subprocess

import hosts
from hosts import wait_until

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs/troubleshooting.md"


def rows():
    """The first cells of the table."""
    lines = [line for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    return [line.split(" | ")[0].removeprefix("| ") for line in lines[1:]]


class Rows(hosts.Pair):
    def test_each_row_is_produced(self):
        """"""
        names = [getattr(Troubleshooting, name) for name in dir(Troubleshooting) if name.startswith("test_")]
        self.assertEqual(sorted(each.__doc__ for each in names), sorted(rows()))


class Troubleshooting(hosts.Pair):
    def begin(self, *subnet_options):
        self.set_up(*subnet_options)
        self.start()

    def ask(self, *words, host=None, before=()):
        """The findings of ibarp by their subjects; each has a verdict, a text and a remedy."""
        done = (host or self.left).run(*before, hosts.program("ibarp"), *words, "--json", check=False)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        found = json.loads(done.stdout)[0]["findings"]
        return {each["subject"]: each for each in found}

    def await_finding(self, verdict, subject, texts, *words, **options):
        """Waits until ibarp finds this, with all the texts in it or in what is to be done."""
        def is_found():
            one = self.ask(*words, **options).get(subject, {})
            all_text = f"{one.get('text', '')} -> {one.get('remedy', '')}"
            return one.get("verdict") == verdict and all(text in all_text for text in texts)
        wait_until(is_found, f"ibarp {' '.join(words)}: {verdict} {subject} {texts}")

    def keep_pinging(self, address):
        """Traffic by which the daemon notices that a neighbour has gone."""
        pings = hosts.Process(self.left.command("ping", "-i", "0.2", address), self.subnet.folder / "pings.log",
                              self.subnet.environment)
        self.addCleanup(pings.end)

    # --- The port and its subnet ----------------------------------------------------------------

    def test_no_carrier(self):
        """Nothing can be sent, the interface has no carrier"""
        self.begin()
        self.softib_set("port", "left", "down")
        self.await_finding("wrong", "port", ["cable"], "check")

    def test_no_subnet_manager(self):
        """The link is up, but no subnet manager has configured the port"""
        self.begin()
        self.softib_set("port", "left", "init")
        self.await_finding("wrong", "port", ["INIT", "opensm"], "check")

    def test_not_in_the_partition(self):
        """The port is not in the partition"""
        self.set_up("--partition", "1=full:right")
        self.left.start("--pkey", "0x8001")
        self.await_finding("wrong", "port", ["P_Key", "put the port into the partition"], "check")

    def test_no_broadcast_group(self):
        """The broadcast group is missing, or its parameters do not fit the port"""
        self.set_up("--partition", "1=full,nogroup")
        self.left.start("--pkey", "0x8001")
        self.await_finding("wrong", "port", ["--create-group"], "check")

    def test_group_that_is_too_fast(self):
        """The broadcast group is faster than the port, as after its cable has become slower"""
        self.set_up("--partition", "1=full,rate=100")  # the ports have 40 Gb/s
        self.left.start("--pkey", "0x8001")
        self.await_finding("wrong", "port", ["join", "does not support its MTU or rate"], "check")

    # --- Neighbours -----------------------------------------------------------------------------

    def test_limited_members(self):
        """Two hosts reach a third one, but not each other"""
        self.begin()
        self.assert_connected()
        for host in "left", "right":
            self.softib_set("partition", "0x7fff", host, "limited")
        # The neighbour still seems to be reachable.
        self.await_finding("warning", "partition", ["limited member", "full member"], "explain", "10.44.0.2")

    def test_nobody_answers(self):
        """One address does not answer"""
        self.begin()
        self.await_finding("wrong", "neighbour", ["10.44.0.77 does not answer", "ibarp check"], "explain", "10.44.0.77")

    def test_dead_gateway(self):
        """The gateway is dead"""
        self.begin()
        self.left.run("ip", "route", "add", "192.0.2.0/24", "via", "10.44.0.2")
        self.await_finding("ok", "neighbour", [], "explain", "192.0.2.9")
        self.right.kill()
        self.softib_set("hca", "right", "absent")
        # No packet is sent to it: explain asks it.
        self.await_finding("wrong", "neighbour", ["10.44.0.2 does not answer"], "explain", "192.0.2.9")
        self.await_finding("ok", "route", ["gateway 10.44.0.2"], "explain", "192.0.2.9")

    def test_no_path(self):
        """It answers, but nothing arrives"""
        self.begin()
        # An entry whose GID the subnet does not have.
        self.left.run(hosts.program("ibarp"), "add", "10.44.0.9", "lladdr", "0x401@fe80::dead")
        self.await_finding("wrong", "path", ["fe80::dead", "saquery"], "explain", "10.44.0.9")

    def replace_card(self):
        """The host 10.44.0.2 has another HCA."""
        self.right.kill()
        self.softib_set("hca", "right", "absent")
        return self.add_host("replaced", "10.44.0.2/24")

    def test_static_neighbour(self):
        """A static neighbour has another card or daemon now"""
        self.begin()
        lladdr = self.right.ibarp("info")["lladdr"]
        self.left.run(hosts.program("ibarp"), "replace", "10.44.0.2", "lladdr", lladdr)
        self.assertTrue(self.left.reaches("10.44.0.2"))
        self.replace_card()
        self.await_finding("warning", "neighbour", ["permanent", "ibarp del 10.44.0.2 dev ib0"], "explain", "10.44.0.2")
        self.await_finding("wrong", "datagram", ["no reply"], "probe", "10.44.0.2")
        self.left.run(hosts.program("ibarp"), "del", "10.44.0.2", "dev", "ib0")
        self.await_finding("ok", "datagram", ["echo reply"], "probe", "10.44.0.2")

    def test_pinned_neighbour(self):
        """A pinned neighbour has another card now"""
        self.begin()
        self.left.run(hosts.program("ibarp"), "replace", "10.44.0.2", "gid", self.right.ibarp("info")["gid"])
        self.assertTrue(self.left.reaches("10.44.0.2"))
        replaced = self.replace_card()
        self.keep_pinging("10.44.0.2")
        self.await_finding("warning", "drops", ["drop_pinned_gid"], "explain", "10.44.0.2")
        self.await_finding("wrong", "neighbour", ["does not answer"], "explain", "10.44.0.2")
        self.left.run(hosts.program("ibarp"), "replace", "10.44.0.2", "gid", replaced.ibarp("info")["gid"])
        self.await_finding("ok", "datagram", ["echo reply"], "probe", "10.44.0.2")

    def test_duplicate_address(self):
        """Two hosts have the same address"""
        self.begin()
        other = self.add_host("other", "10.44.0.3/24")
        other.run("ip", "addr", "add", "10.44.0.1/24", "dev", "ib0")
        self.await_finding("warning", "drops", ["drop_duplicate_address"], "check")
        self.left.run(hosts.program("ibarp"), "flush")
        self.left.reaches("10.44.0.2")
        self.await_finding("warning", "drops", ["drop_duplicate_address"], "check", host=other)

    # --- Keys -----------------------------------------------------------------------------------

    def attack(self, qkey, hca="sender"):
        """A host that sends ARP to left with this Q_Key."""
        info = self.left.ibarp("info")
        program = os.path.join(hosts.BIN, "../tests/hostile_host")
        words = ["probes", "100", "20", info["lid"], info["qpn"], info["gid"], qkey, "10.44.0.1", "10.44.0.2", "fe80::1", 0]
        return subprocess.run([hosts.program("softib"), "run", "--hca", hca, "--", program, *map(str, words)],
                              env=self.subnet.environment, check=False, capture_output=True, text=True, timeout=60)

    def test_wrong_qkey(self):
        """A host sends with a wrong Q_Key, as after a change of the partition's"""
        self.begin()
        done = self.attack(0x0b1c)
        self.await_finding("warning", "drops", ["drop_port_bad_qkey"], "check")
        self.await_finding("warning", "drops", ["drop_port_bad_qkey"], "explain", "--from", "10.44.0.2")
        self.assertEqual(done.stderr, "")

    def test_wrong_pkey(self):
        """A host sends in a partition that the receiver is not in"""
        self.begin("--partition", "1=full")
        lladdr = self.left.ibarp("info")["lladdr"]
        other = self.subnet.host("sender")
        other.start("--pkey", "0x8001", address="10.44.0.3/24")
        other.run(hosts.program("ibarp"), "add", "10.44.0.1", "lladdr", lladdr)
        other.ping("10.44.0.1", "-c", "1", "-W", "1")  # it knows the path from now on
        self.softib_set("partition", "1", "left", "none")
        other.ping("10.44.0.1", "-c", "3", "-i", "0.1", "-W", "1")
        self.await_finding("warning", "drops", ["drop_port_bad_pkey"], "check")

    # --- Routes, MTU, multicast -----------------------------------------------------------------

    def test_route(self):
        """Packets leave by another interface, or not at all"""
        self.begin()
        self.await_finding("wrong", "route", ["ip route get 192.0.2.1"], "explain", "192.0.2.1")

    def test_mtu(self):
        """Large packets do not arrive"""
        self.begin()
        self.left.run("ip", "link", "set", "ib0", "mtu", "4000")
        self.await_finding("wrong", "MTU", ["ip link set ib0 mtu 2044"], "check")

    def test_multicast_without_listeners(self):
        """Multicast arrives nowhere"""
        self.begin()
        self.left.run("ip", "route", "add", "224.0.0.0/4", "dev", "ib0")
        self.left.ping("239.1.2.3", "-c", "1", "-W", "1")
        self.await_finding("wrong", "group", ["no host has joined"], "explain", "239.1.2.3")

    def test_multicast_waits(self):
        """Multicast waits"""
        self.begin()
        self.left.run("ip", "route", "add", "224.0.0.0/4", "dev", "ib0")
        self.subnet.process.send_signal(hosts.signal.SIGSTOP)
        try:
            self.left.ping("239.1.2.3", "-c", "1", "-W", "1")
            self.await_finding("wrong", "group", ["packet waiting", "has not answered"], "explain", "239.1.2.3")
        finally:
            self.subnet.process.send_signal(hosts.signal.SIGCONT)

    def test_sender(self):
        """Packets of one host do not arrive"""
        self.begin()
        self.left.run("sysctl", "-qw", "net.ipv4.conf.ib0.rp_filter=1")
        self.right.run("ip", "addr", "add", "192.0.2.9/32", "dev", "ib0")
        self.await_finding("wrong", "route back", ["none"], "explain", "--from", "192.0.2.9")

    # --- The host -------------------------------------------------------------------------------

    def test_drops(self):
        """It is slow, or packets are missing"""
        self.begin()
        self.left.ping("10.44.0.77", "-c", "1", "-W", "5")
        self.await_finding("warning", "drops", ["drop_neighbour_failed"], "check")
        stats = self.left.run(hosts.program("ibarp"), "stats").stdout
        self.assertIn("drop_neighbour_failed", stats)

    def test_locked_memory(self):
        """Queue pairs cannot be created, although the device has room"""
        self.begin()
        self.await_finding("ok", "daemon", [], "check")
        pid = self.left.ibarp("info")["pid"]
        subprocess.run(["prlimit", "--memlock=65536:65536", "--pid", str(pid)], check=True)
        self.await_finding("warning", "locked memory", ["65536 bytes", "LimitMEMLOCK"], "check")

    def test_no_rights(self):
        """The daemon ends at its start, since it lacks a right"""
        self.set_up()
        daemon = self.left.run("setpriv", "--bounding-set=-net_admin", hosts.program("softib"), "run", "--hca", "left",
                               "--", hosts.program("ipoibd"), "--port", "1", "--pkey", "0xffff", check=False)
        self.assertEqual(daemon.returncode, 1)
        self.assertIn("a TUN needs CAP_NET_ADMIN: run as root", daemon.stderr)
        done = self.left.run(hosts.program("ibarp"), "check", "dev", "ib0", check=False)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("no ipoibd runs this interface in this network namespace: start it, or see in its log", done.stderr)

    @hosts.needs_users()
    def test_user(self):
        """A user can look, but not change anything"""
        self.begin()
        user = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        self.assertEqual(self.ask("check", before=user)["daemon"]["verdict"], "ok")
        done = self.left.run(*user, hosts.program("ibarp"), "flush", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("ib0: only root may change anything here", done.stderr)

    def test_clock(self):
        """The times of the trace are not those of the host"""
        self.begin()
        self.await_finding("ok", "clock", [], "check")
        elsewhere = ("unshare", "--time", "--fork", "--monotonic", "100000", "--")
        self.await_finding("warning", "clock", ["behind", "nsenter --time"], "check", before=elsewhere)

    def in_other_sysfs(self, script):
        """A command before another one: with files of a kernel's adapter."""
        device = self.left.ibarp("info")["device"]
        made = f"mount -t tmpfs none /sys/class && mkdir -p /sys/class/infiniband/{device}/device && {script}"
        return ("unshare", "--mount", "--", "sh", "-c", made, "sh")

    def test_other_programs(self):
        """Another program uses the adapter"""
        self.begin()
        device = self.left.ibarp("info")["device"]
        # The shell has the device open, and ibarp has not.
        script = (f"mkdir -p /sys/class/infiniband/{device}/device/infiniband_verbs/uverbs7 && "
                  "mount -t tmpfs none /dev && mkdir /dev/infiniband && echo >/dev/infiniband/uverbs7 && "
                  "exec 9</dev/infiniband/uverbs7 && \"$@\" 9<&-")
        self.await_finding("ok", "other programs", [f"on {device}: sh (process"], "check", before=self.in_other_sysfs(script))
        self.assertNotIn("other programs", self.ask("check"))

    def test_kernel_driver(self):
        """Another interface of the kernel's driver is in the same partition"""
        self.begin()
        device = self.left.ibarp("info")["device"]
        script = (f"mkdir -p /sys/class/net/ib7/device/infiniband/{device} && echo 0xffff >/sys/class/net/ib7/pkey && \"$@\"")
        self.await_finding("warning", "kernel driver", ["ib7 of ib_ipoib"], "check", before=self.in_other_sysfs(script))


if __name__ == "__main__":
    hosts.main()
