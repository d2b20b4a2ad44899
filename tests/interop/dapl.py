#!/usr/bin/env python3
"""Runs uDAPL's dtest and dapltest (dapl2-utils) between two emulated HCAs: connections over sockets
(the provider scm) and by the RDMA CM (cma), RDMA WRITE and READ, messages, and the validation of
their data.

Usage: dapl.py SOFTIB
"""
import subprocess
import sys

from softib_subnet import PATIENCE, Subnet, equal, is_listening, is_locked, need, need_own_network, run_tests, wait_for

need("dtest", "dapltest")
need_own_network()
SOFTIB = sys.argv[1]
PROVIDER = "softib"
SERVER_PORT = 15828  # of TCP, fixed in dtest; it listens only after it has said that it waits for a client
DAT_CONF = PROVIDER + ' u2.0 nonthreadsafe default {library} dapl.2.0 "{device}" ""\n'
DAPLTEST_SERVICE = 0x01060000 | 62000  # fixed, too: port space TCP
V4 = {"a": "127.77.0.1", "b": "127.77.0.2"}


def check_transfers(*outputs):
    for output in outputs:
        assert "DAPL Test Complete. PASSED" in output, output
    assert "RDMA write buffer contains: server RDMA write data" in outputs[0], outputs[0]
    assert "RDMA read buffer contains: server RDMA read data" in outputs[0], outputs[0]


def connections_over_sockets():
    with Subnet(SOFTIB) as subnet:
        registry = subnet.folder / "dat.conf"
        registry.write_text(DAT_CONF.format(library="libdaploscm.so.2", device="softib0 1"), encoding="ascii")
        # The addresses that the two sides exchange are those of this interface.
        subnet.environment.update(DAT_OVERRIDE=str(registry), DAPL_SCM_NETDEV="lo")
        log = subnet.folder / "server.out"
        options = ("-P", PROVIDER, "-b", "65536")
        with open(log, "w", encoding="utf-8") as out:
            server = subnet.start("a", "stdbuf", "-oL", "dtest", *options, stdout=out,
                                  stderr=subprocess.STDOUT)
        wait_for("the server", lambda: server.poll() is not None or is_listening(SERVER_PORT))
        client = subnet.run("b", "dtest", *options, "-h", "127.0.0.1")
        server.wait(PATIENCE)
        equal(server.returncode, 0)
        check_transfers(client.stdout, log.read_text())


class RdmaCm:
    """The provider cma is bound to the address of an HCA, so each side has its own registry."""

    def __init__(self, subnet):
        self.subnet = subnet
        for hca, address in V4.items():
            subnet.run(hca, "true")  # in this order, which gives them their addresses
            self.registry(hca).write_text(
                DAT_CONF.format(library="libdaplofa.so.2", device=f"{address} 0"), encoding="ascii")

    def registry(self, hca):
        return self.subnet.folder / f"dat.{hca}"

    def command(self, hca, *command):
        return ["env", f"DAT_OVERRIDE={self.registry(hca)}", "stdbuf", "-oL", *command]

    def serve(self, listens, *command):
        log = self.subnet.folder / "server.out"
        with open(log, "w", encoding="utf-8") as out:
            server = self.subnet.start("a", *self.command("a", *command), stdout=out,
                                       stderr=subprocess.STDOUT)
        wait_for("the server", lambda: server.poll() is not None or listens())
        return server, log

    def run(self, *command):
        return self.subnet.run("b", *self.command("b", *command)).stdout


def connections_by_the_rdma_cm():
    with Subnet(SOFTIB) as subnet:
        cm = RdmaCm(subnet)
        options = ("-P", PROVIDER, "-b", "65536")
        server, log = cm.serve(lambda: is_listening(SERVER_PORT), "dtest", *options)
        output = cm.run("dtest", *options, "-h", V4["a"])
        server.wait(PATIENCE)
        equal(server.returncode, 0)
        check_transfers(output, log.read_text())


def transactions_by_the_rdma_cm():
    """dapltest: several threads and connections at once."""
    with Subnet(SOFTIB) as subnet:
        cm = RdmaCm(subnet)
        services = subnet.folder / "default/node/1/services"
        server, log = cm.serve(lambda: services.exists() and is_locked(services, DAPLTEST_SERVICE),
                               "dapltest", "-T", "S", "-D", PROVIDER, "-d")
        for ways in (("client", "SR", "256", "1", "server", "SR", "256", "1"),
                     ("client", "RW", "4096", "1", "server", "RR", "4096", "1", "client", "SR", "64", "1",
                      "server", "SR", "64", "1")):
            output = cm.run("dapltest", "-T", "T", "-s", V4["a"], "-D", PROVIDER, "-i", "20", "-t", "2", "-w",
                            "4", *ways)
            assert "Total WQE" in output and "End of Work" in output, output
            wait_for("the server", lambda: "Transaction Test Finished" in log.read_text())
        cm.run("dapltest", "-T", "Q", "-s", V4["a"], "-D", PROVIDER)
        server.wait(PATIENCE)
        assert "End Successfully" in log.read_text()


run_tests([connections_over_sockets, connections_by_the_rdma_cm, transactions_by_the_rdma_cm])
