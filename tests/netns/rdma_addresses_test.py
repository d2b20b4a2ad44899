#!/usr/bin/env python3
"""Programs of librdmacm name their peers by IP addresses of interfaces of ipoibd."""

import re

import hosts
from hosts import Process, program, wait_until

PINGS = 3


@hosts.needs("rping")
class RdmaAddresses(hosts.Pair):
    def setUp(self):
        self.set_up("--partition", "1=full")
        self.start()

    def rping(self, host, *options):
        """Starts rping on the HCA of a host, in its network namespace."""
        log = self.subnet.folder / f"rping-{host.name}.out"
        log.unlink(missing_ok=True)
        process = Process(host.command(program("softib"), "run", "--hca", host.name, "--", "rping", "-v",
                                       "-C", str(PINGS), *options), log, self.subnet.environment)
        self.addCleanup(process.end)
        return process

    def assert_pings(self, server, client, address, *, bound="0.0.0.0"):
        """At its end rping may close the channel before its thread waits on it, which is an error."""
        for _ in range(5):
            listener = self.rping(server, "-s", "-a", bound)
            wait_until(lambda: self.listens(server) or not listener.is_running(), "the server listens")
            caller = self.rping(client, "-c", "-a", address)
            status = caller.popen.wait(hosts.PATIENCE)
            listener.popen.wait(hosts.PATIENCE)
            for output in (listener.output(), caller.output()):
                self.assertEqual(re.findall(r"ping data: rdma-ping-(\d+): ", output),
                                 [str(number) for number in range(PINGS)], output)
            if status == 0:
                return
            self.assertIn("rdma_get_cm_event: Bad file descriptor", caller.output())
        self.fail("it always closes its channel too early")

    def listens(self, host):
        """Whether a process of the host listens on the port of rping."""
        node = next(each for each in self.subnet.nodes().values() if each["name"] == host.name)
        services = self.subnet.folder / "default" / "node" / str(node["node"]) / "services"
        return services.exists() and hosts.softib_subnet.is_locked(services, 0x0106 << 16 | 7174)

    def neighbours(self, host):
        return {each["address"]: each["state"]
                for each in hosts.json.loads(host.run(program("ibarp"), "show", "--json").stdout)}

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


if __name__ == "__main__":
    hosts.main()
