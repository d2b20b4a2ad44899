#!/usr/bin/env python3
"""A virtual machine as a station: its TAP and an Ethernet interface of ipoibd are ports of one bridge, and
it talks to a host with a TUN. Its packets have the offloads of virtio.

This program runs on the host, and with the argument "guest" in the machine.
"""

import json
import pathlib
import subprocess
import sys

import machine
from service import run, wait_until

import dhcp
import hosts
import streams

PEER = "10.44.0.2"
TAP = "vm0"
MEBIBYTES = "8"
SECONDS = 420


# --- In the guest ------------------------------------------------------------------------------


def addresses():
    (device,) = json.loads(run("ip", "-json", "addr", "show", "dev", "eth0").stdout)
    return [entry["local"] for entry in device["addr_info"] if entry["family"] == "inet"]


def in_guest():
    """Gets an address, and prints the checksums of what it sends and receives."""
    run("ip", "link", "set", "eth0", "up")
    client = subprocess.Popen(dhcp.udhcpc(pathlib.Path("/tmp"), "eth0"))
    wait_until(addresses, "the guest has an address")
    wait_until(lambda: run("ping", "-c1", "-W2", PEER, check=False).returncode == 0,
               "the guest reaches the peer")
    sent = run(sys.executable, "-c", streams.TCP_SENDER, PEER, MEBIBYTES).stdout
    print("sent", sent.strip(), flush=True)
    receiver = subprocess.Popen([sys.executable, "-c", streams.TCP_RECEIVER], stdout=subprocess.PIPE,
                                text=True)
    receiver.stdout.readline()
    print("listening at", addresses()[0], flush=True)
    print("received", receiver.stdout.readline().strip(), flush=True)
    client.terminate()


# --- On the host -------------------------------------------------------------------------------


class Station(hosts.Pair):
    def setUp(self):
        if why := machine.why_no_guest():
            self.skipTest(why)
        self.set_up()
        self.right.start(address=f"{PEER}/24")
        server = dhcp.start_server(self.right, self.subnet.folder)
        self.addCleanup(server.end)
        left = self.left
        left.start("--ethernet")
        left.run("ip", "tuntap", "add", TAP, "mode", "tap", "vnet_hdr")
        left.run("ip", "link", "set", TAP, "mtu", "2044")
        left.bridge("ib0", TAP, mtu=2044)

    def start_guest(self):
        # The machine gets the folder in which scripts/vm runs.
        command = ["env", "-C", str(machine.ROOT), "scripts/vm", "--network", f"tap={TAP}",
                   "--seconds", str(SECONDS), "--", "env", f"IPOIB_BIN={hosts.BIN}",
                   "PYTHONDONTWRITEBYTECODE=1", sys.executable, __file__, "guest"]
        guest = hosts.Process(self.left.command(*command), self.subnet.folder / "guest.log", None)
        self.addCleanup(guest.end)
        return guest

    def said(self, guest, word):
        """What follows that word in the guest's output."""
        def found():
            self.assertTrue(guest.is_running(), guest.output())
            return next((line.removeprefix(word).strip() for line in guest.output().splitlines(keepends=True)
                         if line.startswith(word) and line.endswith("\n")), None)
        return hosts.wait_until(found, f"the guest says: {word}", SECONDS)

    def test_virtual_machine(self):
        receiver = hosts.Process(self.right.command(sys.executable, "-c", streams.TCP_RECEIVER),
                                 self.subnet.folder / "receiver", None)
        self.addCleanup(receiver.end)
        guest = self.start_guest()
        sent = self.said(guest, "sent")
        hosts.wait_until(lambda: not receiver.is_running(), "the receiver has read all")
        self.assertEqual(receiver.output().split()[-1], sent)
        address = self.said(guest, "listening at")
        (station,) = [entry for entry in json.loads(self.left.run(
            hosts.program("ibarp"), "--json", "stations").stdout) if entry["address"] == address]
        self.assertTrue(station["served"] and station["mac"].startswith("52:54:00:"), station)
        sender = self.right.run(sys.executable, "-c", streams.TCP_SENDER, address, MEBIBYTES)
        self.assertEqual(self.said(guest, "received"), sender.stdout.strip())
        self.assertEqual(guest.popen.wait(hosts.PATIENCE), 0, guest.output())
        # Offloads of the guest reach the fabric as large packets.
        self.assertGreater(self.left.counters()["tx_large_packets"], 0)


if __name__ == "__main__":
    if sys.argv[1:] == ["guest"]:
        in_guest()
    else:
        hosts.main()
