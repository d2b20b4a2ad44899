#!/usr/bin/env python3
"""Tests ipoibd as a program: what it does from its start to its end, seen from outside.

Usage: program_test.py SOFTIB IPOIBD [TEST]...
"""
import contextlib
import json
import os
import pathlib
import re
import socket
import subprocess
import sys

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS / "interop"), str(TESTS / "netns")]
os.environ["IPOIB_BIN"] = os.path.dirname(os.path.abspath(sys.argv[2]))

import hosts  # noqa: E402
from hosts import wait_until  # noqa: E402
from monitor import Monitor  # noqa: E402
from stations_test import Station  # noqa: E402
from softib_subnet import equal, need, need_root, run_tests  # noqa: E402

need("ip", "ping")
need_root()
PCAP_HEADER, PCAP_RECORD = 24, 16  # bytes
ERF_FLAGS, ERF_INTERFACE = PCAP_RECORD + 9, 3
SENT, RECEIVED = 0, 1
IBARP, IPOIBD = hosts.program("ibarp"), hosts.program("ipoibd")


@contextlib.contextmanager
def subnet_of(*names, options=()):
    """A subnet, and hosts on it."""
    subnet = hosts.Subnet(*options)
    try:
        yield (subnet, *(subnet.host(name) for name in names))
    except BaseException:
        print(subnet.logs(), file=sys.stderr)
        raise
    finally:
        subnet.close()


def change(subnet, *words):
    done = subnet.run_softib("set", *words)
    equal((done.returncode, done.stderr), (0, ""))


def ask(host, *words):
    """Returns what ibarp prints as JSON."""
    done = host.run(IBARP, "--json", *words, check=False)
    return json.loads(done.stdout)


def end(host, interface="ib0"):
    """Ends the daemon in order: nothing is left."""
    equal(host.daemon.end(), 0)
    assert not host.logged("in another network namespace"), host.daemon.output()
    equal(host.link(interface), None)
    equal(host.run(IBARP, "interface", check=False).stdout, "")


def directions_in(capture):
    """Returns the directions of the packets of a file, which has a record of ERF for each."""
    at, found = PCAP_HEADER, []
    while at < len(capture):
        found.append(capture[at + ERF_FLAGS] & ERF_INTERFACE)
        at += PCAP_RECORD + int.from_bytes(capture[at + 8:at + 12], "big")
    return found


class Service:
    """What a service manager is told."""

    def __init__(self, subnet):
        path = str(subnet.folder / "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.socket.settimeout(hosts.PATIENCE)
        subnet.environment["NOTIFY_SOCKET"] = path

    def wait_for(self, front):
        """Waits for a message that begins with this."""
        while not self.socket.recv(4096).decode().startswith(front):
            pass


def tells_its_state_from_start_to_end():
    with subnet_of("a") as (subnet, host):
        service = Service(subnet)
        pid_file = subnet.folder / "pid"
        host.start("--pid-file", str(pid_file), "--mtu", "1500", "--log", "link=debug")
        service.wait_for("READY=1")
        service.wait_for("STATUS=ib0 is up")
        pid = host.daemon.pid
        equal(pid_file.read_text(encoding="ascii"), f"{pid}\n")
        [info] = ask(host, "info")
        equal([info[key] for key in ("interface", "state", "device", "port", "pkey", "membership", "mtu", "host_mtu", "pid")],
              ["ib0", "up", "softib0", 1, "0xffff", "full", 2044, 1500, pid])
        equal(host.link()["mtu"], 1500)
        [levels] = ask(host, "log")
        equal(levels["levels"]["link"], "debug")
        done = host.run(IPOIBD, "--reload")
        equal(done.stdout.split(":")[0], f"process {pid} on softib0 port 1 (ib0)")
        equal(host.run(IPOIBD, "--reload", "--pid-file", "/no/such").stdout, done.stdout)
        host.wait_for_log("has read its configuration again")
        change(subnet, "port", "a", "down")
        service.wait_for("STATUS=ib0 waits for the port")
        equal(ask(host, "info")[0]["state"], "port_down")
        wait_until(lambda: not host.has_carrier(), "it has no carrier")
        for words in "daemon: ib0: on softib0 port 1, partition 0xffff", "verbs: softib0: port down":
            assert host.logged(words), (words, host.daemon.output())
        assert not host.logged("may lose their multicast groups"), host.daemon.output()
        change(subnet, "port", "a", "up")
        service.wait_for("STATUS=ib0 is up")
        end(host)
        service.wait_for("STOPPING=1")
        assert not pid_file.exists()


def carries_packets_between_hosts():
    with subnet_of("a", "b") as (subnet, a, b):
        a.start(address="10.44.0.1/24")
        b.start(address="10.44.0.2/24")
        before = a.counters()
        equal(a.lost_of(3, "10.44.0.2", "-i", "0.01", "-s", "5000"), 0)
        after = a.counters()
        assert after["tx_packets"] - before["tx_packets"] >= 9, (before, after)  # three fragments each
        assert after["rx_packets"] - before["rx_packets"] >= 9, (before, after)
        [entry] = ask(a, "show", "10.44.0.2")
        [peer], [own] = ask(b, "info"), ask(a, "info")
        equal((entry["state"], entry["lladdr"]), ("reachable", peer["lladdr"]))
        equal((entry["path"]["dlid"], entry["path"]["mtu"], entry["flags"]), (peer["lid"], 2048, 0))
        assert entry["uses"] >= 9 and entry["waiting"] == 0, entry
        found = {each["subject"]: each for each in ask(a, "probe", "10.44.0.2")[0]["findings"]}
        equal([found[each]["verdict"] for each in ("route", "neighbour", "path", "datagram")], ["ok"] * 4)
        # Groups and their members.
        broadcast = next(each for each in ask(a, "groups", "--members")
                         if each.get("address") == "255.255.255.255")
        equal(broadcast["membership"], "full")
        equal(sorted(each["gid"] for each in broadcast["members"]), sorted([peer["gid"], own["gid"]]))
        # Entries that the operator sets.
        run = a.run
        run(IBARP, "add", "10.44.0.9", "lladdr", peer["lladdr"])
        run(IBARP, "add", "10.44.0.8", "gid", "fe80::8")
        states = {each["address"]: each["state"] for each in ask(a, "show")}
        equal((states["10.44.0.9"], states["10.44.0.8"]), ("permanent", "pinned"))
        run(IBARP, "flush")
        equal({each["address"] for each in ask(a, "show")} - {"10.44.0.9", "10.44.0.8"}, set())
        run(IBARP, "del", "10.44.0.9")
        run(IBARP, "flush", "nud", "pinned")
        equal([each for each in ask(a, "show") if each["address"] in ("10.44.0.9", "10.44.0.8")], [])
        assert a.run(IBARP, "del", "10.44.0.9", check=False).returncode == 1
        equal(a.run(IBARP, "trace").returncode, 0)
        end(a)


def is_seen_with_ibarp():
    """What it prints for people."""
    with subnet_of("a", "b") as (subnet, a, b), contextlib.ExitStack() as at_end:
        a.start(address="10.44.0.1/24")
        b.start(address="10.44.0.2/24")
        file = subnet.folder / "packets"
        monitor, capture = (hosts.Process(a.command(IBARP, *words), subnet.folder / words[0], subnet.environment)
                            for words in (["monitor", "all"], ["capture", str(file), "--count", "4", "--neighbour", "10.44.0.2"]))
        at_end.callback(monitor.end)
        at_end.callback(capture.end)
        [peer], [own] = ask(b, "info"), ask(a, "info")

        def wait_for(line):
            wait_until(lambda: re.search(f"(?m)^{line}$", monitor.output()), line)

        wait_until(lambda: a.counters()["control_subscriptions"] == 1 and file.exists(), "they run")
        equal(a.lost_of(3, "10.44.0.2", "-i", "0.01"), 0)
        wait_for(rf"\[neighbour\] 10.44.0.2 dev ib0 reachable qpn 0x{peer['qpn']:06x} gid {peer['gid']} "
                 rf"dlid 0x{peer['lid']:04x}: confirmed")
        equal(capture.ends(hosts.PATIENCE), True)
        equal((capture.status(), capture.output()), (0, "4 packets, 0 left out\n"))
        equal(directions_in(file.read_bytes()), [SENT, RECEIVED] * 2)  # ARP, and an echo
        a.run("ip", "addr", "add", "224.1.2.3/32", "dev", "ib0", "autojoin")
        wait_for(r"\[group\] 224.1.2.3 dev ib0 joined full mgid ff12:401b:ffff::1:203 mlid 0xc00\d")
        a.run(IBARP, "add", "10.44.0.9", "lladdr", peer["lladdr"])
        a.run(IBARP, "add", "10.44.0.8", "gid", "fe80::8")
        wait_for(r"\[neighbour\] 10.44.0.8 dev ib0 pinned gid fe80::8 pinned: pinned by the operator")
        equal(sorted(a.run(IBARP, "save").stdout.splitlines()), [
            "# ibarp save; ibarp --batch sets it again.",
            "log link=info sa=info verbs=info control=info daemon=info dev ib0",
            "replace 10.44.0.8 gid fe80::8 dev ib0",
            f"replace 10.44.0.9 lladdr {peer['lladdr']} dev ib0"])
        heading, entry = a.run(IBARP, "show", "10.44.0.2").stdout.splitlines()
        equal(heading.split(), ["ADDRESS", "DEV", "STATE", "IDLE", "DLID", "QPN", "GID"])
        equal(entry.split()[:3] + entry.split()[4:],
              ["10.44.0.2", "ib0", "reachable", f"0x{peer['lid']:04x}", f"0x{peer['qpn']:06x}", peer["gid"]])
        shown = a.run(IBARP, "info").stdout
        for line in (r"ib0: up", rf".*{own['lladdr']}.*", r".*0xffff.*", r".*softib0.*"):
            assert re.search(f"(?m)^{line}", shown), (line, shown)
        checked = a.run(IBARP, "check").stdout
        assert re.search("(?m)^.*clock.* the trace has the time of this host$", checked), checked
        change(subnet, "port", "a", "down")
        wait_for(r"\[link\] ib0: state port_down qkey 0x00000000, waiting for the port, which is DOWN .*")
        wait_for(r"\[group\] 224.1.2.3 dev ib0 left mgid ff12:401b:ffff::1:203")
        wait_for(r"\[neighbour\] 10.44.0.2 dev ib0 stale .*: link down")
        change(subnet, "port", "a", "up")
        wait_for(r"\[link\] ib0: state up qkey 0x00000b1b")
        end(a)
        wait_until(lambda: "its ipoibd has ended" in monitor.output(), "the end")


def reports_changes_while_they_happen():
    with subnet_of("a", "b") as (subnet, a, b):
        a.start(address="10.44.0.1/24")
        b.start(address="10.44.0.2/24")
        monitor = Monitor(a, "all")
        try:
            def happened(event, **values):
                """Whether there was an event with these values in its main part."""
                mains = [{**each, **each.get("entry", {}), **each.get("group", {}), **each.get("info", {})}
                         for each in monitor.events() if each["event"] == event]
                return any(values.items() <= main.items() for main in mains)

            assert a.reaches("10.44.0.2")
            for state, why in (("incomplete", "request sent"), ("resolving", "address learnt"), ("reachable", "confirmed")):
                wait_until(lambda: happened("neighbour", address="10.44.0.2", state=state, why=why), state)
            a.run("ip", "addr", "add", "224.1.2.3/32", "dev", "ib0", "autojoin")
            wait_until(lambda: happened("group", address="224.1.2.3", membership="full", change="joined"), "a group")
            change(subnet, "port", "a", "down")
            wait_until(lambda: happened("link", state="port_down"), "the link is down")
            wait_until(lambda: happened("group", address="224.1.2.3", change="left", why="lost"), "the group is lost")
            wait_until(lambda: happened("neighbour", address="10.44.0.2", state="stale", why="link down"), "a stale one")
            end(a)
            wait_until(lambda: happened("end", interface="ib0"), "the end")
        finally:
            monitor.process.end()


def hands_over_to_its_successor():
    with subnet_of("a", "b", options=("--partition", "1=full")) as (subnet, a, b):
        a.start_all(address="10.44.0.1/24")
        b.start(address="10.44.0.2/24")
        wait_until(lambda: a.link("ib0.8001") is not None, "the second interface")
        assert a.reaches("10.44.0.2")
        a.run(IBARP, "add", "10.44.0.8", "gid", "fe80::8", "dev", "ib0")
        service = Service(subnet)
        [before] = ask(a, "info", "dev", "ib0")
        [index] = [a.link()["ifindex"]]
        old = a.daemon
        monitor = Monitor(a, "link", "dev", "ib0")
        a.start_all("--takeover", wait=False)
        service.wait_for(f"MAINPID={a.daemon.pid}")
        equal(old.end(), 0)
        monitor.wait_for("the takeover is an event", lambda event: event["event"] == "takeover")
        monitor.process.end()
        [after] = ask(a, "info", "dev", "ib0")
        equal((after["pid"], after["gid"], after["state"]), (a.daemon.pid, before["gid"], "up"))
        equal(a.link()["ifindex"], index)
        entries = {each["address"]: each["state"] for each in ask(a, "show", "dev", "ib0")}
        assert entries["10.44.0.2"] in ("reachable", "stale", "delay", "probing"), entries
        equal(entries["10.44.0.8"], "pinned")
        assert a.reaches("10.44.0.2")
        assert a.logged("taking over from process", str(old.pid)), a.daemon.output()
        end(a)
        # Nobody to take over from.
        a.start("--takeover")
        end(a)


def waits_for_its_device():
    with subnet_of("a", options=("--partition", "1=full")) as (subnet, host):
        service = Service(subnet)
        host.start_all("--wait", "--mtu", "1500")
        service.wait_for("READY=1")
        change(subnet, "hca", "a", "failed")
        host.wait_for_log("waiting for softib0 to come back")
        host.wait_for_log("daemon: waiting: ")
        wait_until(lambda: [each["state"] for each in ask(host, "info")] == ["no_device"] * 2, "it says so")
        info, other = ask(host, "info")
        equal((other["interface"], other["device"], other["pid"]), ("ib0.8001", "softib0", host.daemon.pid))
        equal((info["interface"], info["device"], info["port"], info["pid"]), ("ib0", "softib0", 1, host.daemon.pid))
        assert info["waiting_for"].startswith("the RDMA device: "), info
        index = host.link()["ifindex"]
        refused = host.run(IBARP, "show", check=False)
        equal(refused.returncode, 1)
        assert "ib0: ipoibd waits for the RDMA device: " in refused.stderr, refused.stderr
        service.wait_for("STATUS=waiting: ")
        host.run(IPOIBD, "--reload")
        host.wait_for_log("has read its configuration again")
        change(subnet, "hca", "a", "present")
        wait_until(host.has_carrier, "it is up again")
        equal(host.link()["ifindex"], index)
        change(subnet, "hca", "a", "failed")
        service.wait_for("STATUS=waiting: ")
        end(host)


def has_an_interface_for_each_partition():
    with subnet_of("a", options=("--partition", "1=full", "--partition", "2=full")) as (subnet, host):
        host.start()
        equal(ask(host, "interface", "add", "0x8001", "name", "other"), [{"interface": "other"}])
        equal(ask(host, "interface", "add", "0x8002"), [{"interface": "ib0.8002"}])
        wait_until(lambda: host.has_carrier("other") and host.has_carrier("ib0.8002"), "they are up")
        shown = {each["interface"]: each["pkey"] for each in ask(host, "interface")}
        equal(shown, {"ib0": "0xffff", "other": "0x8001", "ib0.8002": "0x8002"})
        again = host.run(IBARP, "interface", "add", "0x8001", "dev", "ib0", check=False)
        equal(again.returncode, 1)
        assert "0x8001" in again.stderr, again.stderr
        saved = host.run(IBARP, "save").stdout
        assert "interface replace 0x8001 name other dev ib0\n" in saved, saved
        host.run(IBARP, "interface", "delete", "dev", "other")
        wait_until(lambda: host.link("other") is None, "it is gone")
        equal({each["interface"] for each in ask(host, "interface")}, {"ib0", "ib0.8002"})
        end(host)
        equal(host.link("ib0.8002"), None)


def keeps_its_interfaces_with_keep():
    with subnet_of("a") as (_, host):
        def start(*options):
            host.start("--name", "kept", *options, wait=False)
            wait_until(lambda: host.has_carrier("kept"), "it is up")

        start("--keep")
        equal(host.daemon.end(), 0)
        assert host.link("kept") is not None and not host.has_carrier("kept")
        index = host.link("kept")["ifindex"]
        start()
        equal(host.link("kept")["ifindex"], index)
        end(host, "kept")
        start("--keep")
        wait_until(lambda: host.link("kept").get("altnames"), "it is marked")
        host.kill()
        on_hca = (hosts.program("softib"), "run", "--hca", "a", "--")
        equal(host.run(*on_hca, IPOIBD, "--cleanup").stdout, "removed kept\n")
        equal(host.link("kept"), None)


def serves_from_its_backup_when_its_port_fails():
    with subnet_of("a", "peer") as (subnet, a, peer):
        a.start_alone("--device", "softib0:1", "--backup", "softib1:1", "--hold-down", "0", address="10.44.0.1/24",
                      command=(hosts.program("softib"), "run", "--hca", "a,b", "--", IPOIBD))
        peer.start(address="10.44.0.2/24")

        def ports():
            return {each["device"]: each for each in ask(a, "info")[0]["ports"]}

        wait_until(lambda: ports()["softib1"]["state"] == "up", "the backup is ready")
        equal([(each["port"], each["active"]) for each in ports().values()], [(1, True), (1, False)])
        equal(a.lost_of(5, "10.44.0.2", "-i", "0.01"), 0)
        before, [own] = a.counters(), ask(a, "info")
        change(subnet, "port", "a", "down")
        wait_until(lambda: ports()["softib1"]["active"], "the backup serves")
        [now] = ask(a, "info")
        equal((now["device"], now["state"], now["ports"][0]["state"]), ("softib1", "up", "port_down"))
        assert now["gid"] != own["gid"] and a.has_carrier(), now
        wait_until(lambda: a.reaches("10.44.0.2"), "the peer has learnt the address")
        after = a.counters()
        equal(after["failovers"], 1)
        assert after["tx_packets"] > before["tx_packets"] and after["rx_packets"] > before["rx_packets"], (before, after)
        assert a.logged("softib1:1 serves the interface now"), a.daemon.output()
        change(subnet, "port", "a", "up")
        wait_until(lambda: ports()["softib0"]["active"], "the primary port serves again")
        done = a.run(IBARP, "failover")
        equal(done.returncode, 0)
        equal([each["active"] for each in ports().values()], [False, True])
        equal(a.run(IBARP, "failover", "softib7:1", check=False).returncode, 1)
        wait_until(lambda: a.reaches("10.44.0.2"), "the peer has learnt it again")
        # An HCA that is replaced serves again, as the backup that it was.
        a.run(IBARP, "failover", "softib0:1")
        change(subnet, "hca", "b", "failed")
        wait_until(lambda: ports()["softib1"]["state"] != "up", "the backup has failed")
        change(subnet, "hca", "b", "present")
        wait_until(lambda: ports()["softib1"]["state"] == "up", "the backup is back")
        equal([each["active"] for each in ports().values()], [True, False])
        a.run(IBARP, "failover", "softib1:1")
        wait_until(lambda: a.reaches("10.44.0.2"), "the new HCA serves")
        end(a)


def has_an_interface_of_type_ethernet():
    with subnet_of("a", "b") as (_, a, b):
        a.start("--ethernet", "--ethernet-stations", "4", address="10.44.0.1/24")
        b.start(address="10.44.0.2/24")
        link, [info] = a.link(), ask(a, "info")
        equal((link["link_type"], link["mtu"]), ("ether", 2044))
        equal(link["address"], ":".join(["02", *info["lladdr"].split(":")[15:]]))
        assert a.reaches("10.44.0.2")
        [entry] = ask(a, "show", "10.44.0.2")
        [kernel] = json.loads(a.run("ip", "-json", "neigh", "show", "10.44.0.2", "dev", "ib0").stdout)
        equal((kernel["lladdr"], entry["mac"][:3]), (entry["mac"], "06:"))
        # A station behind a bridge.
        a.run("ip", "addr", "del", "10.44.0.1/24", "dev", "ib0")
        a.bridge("ib0")
        station = Station(a, 11, "02:00:00:00:00:11")
        for host, address in (b, station.address), (station, "10.44.0.2"):
            wait_until(lambda of=host, to=address: of.reaches(to), f"{address} is reached")
        shown = {each["address"]: each for each in ask(a, "stations")}
        equal((shown[station.address]["mac"], shown[station.address]["served"]), (station.mac, True))
        old = a.daemon
        a.start("--ethernet", "--takeover", wait=False)
        a.wait_for_log("has taken over 1 interfaces from process", str(old.pid))
        wait_until(lambda: b.reaches(station.address), "the station is reached again")
        assert station.address in {each["address"] for each in ask(a, "stations")}
        equal(old.end(), 0)
        end(a)


def runs_itself_on_a_subnet():
    with subnet_of("a") as (subnet, host):
        neighbours = subnet.folder / "neighbours"
        neighbours.write_text("fe80::7 10.44.0.7\n", encoding="ascii")
        host.start_alone("--softib=default/a", "--name", "ib0", "--mtu", "1400", "--neighbour-file", str(neighbours))
        wait_until(host.has_carrier, "it is up")
        [info] = ask(host, "info")
        equal((info["device"], info["pkey"]), ("softib0", "0xffff"))
        wait_until(lambda: host.link()["mtu"] == 1400, "it has its MTU")
        equal([(each["address"], each["state"]) for each in ask(host, "show")], [("10.44.0.7", "pinned")])
        end(host)


def runs_on_a_network_interface():
    with subnet_of("a", "b") as (_, *both):
        a, b = both
        a.run("ip", "link", "add", "eth0", "mtu", "4200", "type", "veth", "peer", "name", "eth0", "mtu", "4200",
              "netns", b.namespace)
        for number, host in enumerate(both, 1):
            host.run("ip", "addr", "add", f"10.43.0.{number}/24", "dev", "eth0")
            host.run("ip", "link", "set", "eth0", "up")
        for number, host in enumerate(both, 1):
            host.start_alone("--softib", "--roce=eth0", address=f"10.44.0.{number}/24")
        wait_until(lambda: a.reaches("10.44.0.2"), "the peer is reached")
        [info] = ask(a, "info")
        equal((info["device"], info["state"], info["mtu"]), ("softib0", "up", 2044))
        groups = {each["address"]: each["membership"] for each in ask(a, "groups") if each.get("address")}
        equal((groups["255.255.255.255"], groups["224.0.0.1"]), ("full", "full"))
        # The other host has another address, and so another GID.
        b.run("ip", "link", "set", "eth0", "down")
        wait_until(lambda: ask(b, "info")[0]["state"] == "port_polling", "its link is down")
        b.run("ip", "link", "set", "eth0", "up")
        wait_until(lambda: a.reaches("10.44.0.2"), "the peer is reached again")
        for host in both:
            end(host)


def cannot_start_without_what_it_needs():
    with subnet_of("a", "b") as (subnet, a, b):
        def refusal(*options, hca="a", host=a):
            done = host.run(hosts.program("softib"), "run", "--hca", hca, "--", IPOIBD, *options, check=False)
            assert not done.stdout, done.stdout
            return done.returncode, done.stderr.splitlines()[-1]

        a.start()
        for options, status, words in [
                (["--device", "mlx5_9"], 1, "mlx5_9"),
                (["--port", "9"], 1, "port 9"),
                (["--pkey", "0x8005", "--name", "ib0"], 1, f"process {a.daemon.pid} (ipoibd) has it open"),
                (["--pkey", "0xffff", "--vlan", "5=0x8005"], 2, "--ethernet"),
                (["--pkey", "nothing"], 2, "nothing"),
                (["--config", "/no such"], 2, "/no such"),
                (["--netns", "/no such"], 1, "/no such")]:
            found, text = refusal(*options)
            assert found == status and text.startswith("ipoibd: ") and words in text, (options, found, text)
        equal(refusal("--takeover=required", hca="b", host=b),
              (1, "ipoibd: --takeover=required: no ipoibd to take over from is running"))
        done = b.run(IPOIBD, "--reload", check=False)
        assert done.returncode == 1 and "no ipoibd" in done.stderr, done.stderr
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([IPOIBD, "--version"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        equal(done.returncode, 1)
        assert done.stderr.startswith("ipoibd: "), done.stderr


run_tests([tells_its_state_from_start_to_end, carries_packets_between_hosts, is_seen_with_ibarp, reports_changes_while_they_happen,
           hands_over_to_its_successor, waits_for_its_device, has_an_interface_for_each_partition,
           keeps_its_interfaces_with_keep, serves_from_its_backup_when_its_port_fails,
           has_an_interface_of_type_ethernet, runs_itself_on_a_subnet, runs_on_a_network_interface, cannot_start_without_what_it_needs], sys.argv[3:])
