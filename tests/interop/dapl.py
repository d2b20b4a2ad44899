#!/usr/bin/env python3
"""Runs uDAPL's dtest (dapl2-utils) between two emulated HCAs: connections over sockets (the provider
scm), RDMA WRITE and READ, messages, and the validation of their data.

Usage: dapl.py SOFTIB
"""
import subprocess
import sys

from softib_subnet import PATIENCE, Subnet, equal, is_listening, need, run_tests, wait_for

need("dtest")
SOFTIB = sys.argv[1]
PROVIDER = "softib"
SERVER_PORT = 15828  # fixed in dtest; it listens only after it has said that it waits for a client
DAT_CONF = f'{PROVIDER} u2.0 nonthreadsafe default libdaploscm.so.2 dapl.2.0 "softib0 1" ""\n'


def connections_over_sockets():
    with Subnet(SOFTIB) as subnet:
        registry = subnet.folder / "dat.conf"
        registry.write_text(DAT_CONF, encoding="ascii")
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
        for output in (client.stdout, log.read_text()):
            assert "DAPL Test Complete. PASSED" in output, output
        assert "RDMA write buffer contains: server RDMA write data" in client.stdout, client.stdout
        assert "RDMA read buffer contains: server RDMA read data" in client.stdout, client.stdout


run_tests([connections_over_sockets])
