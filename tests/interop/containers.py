#!/usr/bin/env python3
"""Programs in containers share a subnet by its folder: namespaces of users, networks, processes, IPC and host names,
as those of a container engine with and without root.

Usage: containers.py SOFTIB [NAME]...
"""
import subprocess
import sys

from softib_subnet import PATIENCE, Subnet, is_locked, need, need_root, run_tests, wait_for

need("unshare", "rping", "ibstat")
need_root()
SOFTIB = sys.argv[1]
OWN = ("--net", "--pid", "--fork", "--mount-proc", "--kill-child", "--ipc", "--uts")
ROOTFUL = ("unshare", *OWN)
ROOTLESS = ("unshare", "--user", "--map-root-user", *OWN)
SERVICE = 0x01060000 | 7174  # the port of rping
ITERATIONS = 5


def start(subnet, container, hca, *command, **more):
    return subprocess.Popen([*container, *subnet.command(hca, *command)], env=subnet.environment, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)


def ping(server_in, client_in):
    """rping compares the data; the server is found by its node's address, without any network."""
    with Subnet(SOFTIB) as subnet:
        for hca in ("a", "b"):
            subnet.softib("set", "hca", hca, "present")
        server = start(subnet, server_in, "a", "rping", "-s", "-C", str(ITERATIONS))
        try:
            services = subnet.folder / "default/node/1/services"
            wait_for("the server", lambda: server.poll() is not None or
                     (services.exists() and is_locked(services, SERVICE)))
            client = start(subnet, client_in, "b", "rping", "-c", "-V", "-C", str(ITERATIONS), "-a", "127.77.0.1")
            output = client.communicate(timeout=PATIENCE)[0]
            assert client.returncode == 0, output
            output = server.communicate(timeout=PATIENCE)[0]
            assert server.returncode == 0, output
        finally:
            server.kill()
            server.wait()


def rootful_and_rootless():
    ping(ROOTFUL, ROOTLESS)


def rootless_and_rootful():
    ping(ROOTLESS, ROOTFUL)


def host_and_rootless():
    ping((), ROOTLESS)


def a_killed_container_leaves_nothing():
    """Its processes end with it, and their locks."""
    with Subnet(SOFTIB) as subnet:
        server = start(subnet, ROOTLESS, "a", "rping", "-s", "-P")
        services = subnet.folder / "default/node/1/services"
        wait_for("the server", lambda: services.exists() and is_locked(services, SERVICE))
        server.kill()
        server.wait()
        wait_for("its end", lambda: not is_locked(services, SERVICE))
        assert "Active" in subnet.run("a", "ibstat").stdout


run_tests([rootful_and_rootless, rootless_and_rootful, host_and_rootless, a_killed_container_leaves_nothing],
          sys.argv[2:])
