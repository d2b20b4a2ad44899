#!/usr/bin/env python3
"""Programs of librdmacm name their peers by IP addresses of interfaces of ipoibd."""

import json
import re

import hosts
from hosts import Process, program, wait_until
from softib_subnet import is_locked

PINGS = 3
LISTENER = 0x0106 << 16 | 7174  # the service ID of rping


class Rping(hosts.Pair):
    """Helpers, with rping between the two hosts."""

    HCAS = {"left": "left", "right": "right"}

    def start_program(self, host, *command):
        """Starts a program on the HCAs of a host, in its network namespace."""
        log = self.subnet.folder / f"{command[0]}-{host.name}-{command[1]}.out"
        log.unlink(missing_ok=True)
        process = Process(host.command(program("softib"), "run", "--hca", self.HCAS[host.name], "--", *command),
                          log, self.subnet.environment)
        self.addCleanup(process.end)
        return process

    def rping(self, host, option, *options):
        """Starts rping."""
        return self.start_program(host, "rping", option, "-v", "-C", str(PINGS), *options)

    def assert_pings(self, server, client, address, *, bound="0.0.0.0"):
        """At its end rping may close the channel before its thread waits on it, which is an error."""
        for _ in range(5):
            listener = self.rping(server, "-s", "-a", bound)
            wait_until(lambda: self.listens() or not listener.is_running(), "the server listens")
            caller = self.rping(client, "-c", "-a", address)
            status = caller.popen.wait(hosts.PATIENCE)
            listener.popen.wait(hosts.PATIENCE)
            for output in (listener.output(), caller.output()):
                self.assertEqual(re.findall(r"ping data: rdma-ping-(\d+): ", output),
                                 [str(number) for number in range(PINGS)], output)
            if status == 0:
                return
            self.assertIn("rdma_get_cm_event: ", caller.output())
        self.fail("it always closes its channel too early")

    def listens(self):
        """Whether a process of any host listens."""
        files = sorted(self.subnet.folder.glob("*/node/*/services"))
        return any(is_locked(path, LISTENER) for path in files)

    def neighbours(self, host):
        """Address -> entry."""
        shown = host.run(program("ibarp"), "show", "--json").stdout
        return {entry["address"]: entry for entry in json.loads(shown)}


@hosts.needs("rping")
class RdmaAddresses(Rping):
    def setUp(self):
        self.set_up("--partition", "1=full")
        self.start()

    def test_peers_are_named_by_addresses_of_interfaces(self):
        self.assertEqual(self.neighbours(self.left), {})
        self.assert_pings(self.right, self.left, "10.44.0.2")
        self.assertIn("10.44.0.2", self.neighbours(self.left))
        self.assert_pings(self.left, self.right, "10.44.0.1", bound="10.44.0.1")
        # The host's own address.
        self.assert_pings(self.left, self.left, "10.44.0.1")
        taken = self.rping(self.left, "-s", "-a", "10.44.0.2")
        taken.popen.wait(hosts.PATIENCE)
        self.assertIn("Cannot assign requested address", taken.output())

    @hosts.needs("udpong")
    def test_datagrams_of_rsockets(self):
        """The client asks the server for its queue pair by UDP, over the interfaces themselves. After a second without
        an answer it asks again, and mistakes the second answer for that to its next message, so the hosts know each other
        before. It waits for each echo: those by UDP may be overtaken by those of the queue pair."""
        self.assert_connected()
        options = ("-C", "50", "-S", "1000", "-T", "e")
        server = self.start_program(self.right, "udpong", "-b", "10.44.0.2", *options)
        wait_until(lambda: ":7174 " in self.right.run("ss", "-Haun").stdout, "the server waits")
        client = self.start_program(self.left, "udpong", "-s", "10.44.0.2", *options)
        self.assertEqual(client.popen.wait(hosts.PATIENCE), 0, client.output())
        self.assertRegex(client.output(), r"\ncustom +1000 +100 ")
        self.assertTrue(server.is_running())

    def test_ipv6(self):
        for host, address in ((self.left, "fd01::1/64"), (self.right, "fd01::2/64")):
            host.run("ip", "addr", "add", address, "dev", "ib0", "nodad")
        self.assert_pings(self.right, self.left, "fd01::2", bound="::")

    def test_an_interface_of_a_partition(self):
        """The connection is in the partition of the interface."""
        for host, address in ((self.left, "10.45.0.1/24"), (self.right, "10.45.0.2/24")):
            host.run(program("ibarp"), "interface", "add", "0x8001")
            host.configure("ib0.8001", address)
        self.softib_set("partition", "0x7fff", "left", "limited")
        self.softib_set("partition", "0x7fff", "right", "limited")
        self.assert_pings(self.right, self.left, "10.45.0.2")

    def test_a_daemon_that_is_killed_and_started_again(self):
        self.assert_pings(self.right, self.left, "10.44.0.2")
        self.left.kill()
        caller = self.rping(self.left, "-c", "-a", "10.44.0.2")
        caller.popen.wait(hosts.PATIENCE)
        self.assertIn("RDMA_CM_EVENT_ADDR_ERROR, error -110", caller.output())
        self.left.start(wait=False)
        wait_until(self.left.is_ready, "ib0 is ready again")
        self.assert_pings(self.right, self.left, "10.44.0.2")
        self.assert_pings(self.left, self.right, "10.44.0.1", bound="10.44.0.1")
        # That of the peer is only needed for addresses that the cache does not know.
        self.right.kill()
        self.assert_pings(self.right, self.left, "10.44.0.2")
        self.right.start(wait=False)
        wait_until(self.right.is_ready, "ib0 is ready again")
        self.left.run(program("ibarp"), "flush")
        self.assert_pings(self.right, self.left, "10.44.0.2")

    def test_nobody_has_the_address(self):
        for address in ("10.44.0.9", "10.99.0.1"):
            caller = self.rping(self.left, "-c", "-a", address)
            caller.popen.wait(hosts.PATIENCE)
            self.assertIn("RDMA_CM_EVENT_ADDR_ERROR, error -110", caller.output())


@hosts.needs("rping")
class RdmaFailover(Rping):
    HCAS = {"left": "a,b", "right": "right"}

    def test_the_peer_moves_to_its_backup_port(self):
        """The listener is on both ports. Whoever calls from there calls from the port that serves."""
        self.set_up()
        self.left.start_alone("--device", "softib0:1", "--backup", "softib1:1", "--pkey", "0xffff",
                              address="10.44.0.1/24",
                              command=(program("softib"), "run", "--hca", "a,b", "--", program("ipoibd")))
        self.right.start(address="10.44.0.2/24")
        wait_until(lambda: all(port["state"] == "up" for port in self.left.ibarp("info")["ports"]),
                   "the backup is ready")
        for _ in range(2):
            self.assert_pings(self.left, self.right, "10.44.0.1")
            self.assert_pings(self.right, self.left, "10.44.0.2")
            gid = self.neighbours(self.right)["10.44.0.1"]["gid"]
            self.left.run(program("ibarp"), "failover")
            wait_until(lambda: self.neighbours(self.right)["10.44.0.1"]["gid"] != gid,
                       "the peer knows the other port")


if __name__ == "__main__":
    hosts.main()
