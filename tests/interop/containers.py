#!/usr/bin/env python3
"""Programs in containers share a subnet by its folder: namespaces of users, networks, processes, IPC and host names,
as those of a container engine with and without root.

Usage: containers.py SOFTIB [NAME]...
"""
import argparse
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

from softib_subnet import PATIENCE, Subnet, equal, has_other_users, is_locked, need, need_root, run_tests, wait_for

need("unshare", "setpriv", "rping", "ibstat")
need_root()
SOFTIB = sys.argv[1]
OWN = ("--net", "--pid", "--fork", "--mount-proc", "--kill-child", "--ipc", "--uts")
ROOTFUL = ("unshare", *OWN)
ROOTLESS = ("unshare", "--user", "--map-root-user", *OWN)
USER = 1_000_000 + os.getpid()
AS_USER = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups")
SERVICE = 0x01060000 | 7174  # the port of rping
ITERATIONS = 5
MANUAL = pathlib.Path(__file__).resolve().parents[2] / "man" / "softib.1"


def start(command, environment):
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def in_container(container, hca, *command):
    return lambda subnet: start([*container, *subnet.command(hca, *command)], subnet.environment)


class SubnetOfAUser(Subnet):
    def _start(self, command, **more):
        os.chown(self.root.name, USER, USER)
        os.chmod(self.root.name, 0o755)
        return super()._start([*AS_USER, *command], **more)


def ping(server_in, client_in, start_server=None, subnet_of=Subnet):
    """rping compares the data; the server is found by its node's address, without any network."""
    with subnet_of(SOFTIB) as subnet:
        for hca in ("a", "b"):
            subnet.softib("set", "hca", hca, "present")
        start_server = start_server or in_container(server_in, "a", "rping", "-s", "-C", str(ITERATIONS))
        server = start_server(subnet)
        try:
            services = subnet.folder / "default/node/1/services"
            wait_for("the server", lambda: server.poll() is not None or
                     (services.exists() and is_locked(services, SERVICE)))
            client = in_container(client_in, "b", "rping", "-c", "-V", "-C", str(ITERATIONS), "-a", "127.77.0.1")(subnet)
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


def containers_of_a_user_and_of_root():
    """Root's containers may use the subnet of a user, but other users' may not."""
    if not has_other_users():
        return
    ping(ROOTFUL, (*AS_USER, *ROOTLESS), subnet_of=SubnetOfAUser)
    ping((*AS_USER, *ROOTLESS), ROOTFUL, subnet_of=SubnetOfAUser)
    other = ("setpriv", f"--reuid={USER + 1}", "--clear-groups")
    for subnet_of, container in ((SubnetOfAUser, (*other, *ROOTLESS)), (SubnetOfAUser, other), (Subnet, (*AS_USER, *ROOTLESS))):
        with subnet_of(SOFTIB) as subnet:
            os.chmod(subnet.root.name, 0o755)
            refused = in_container(container, "a", "true")(subnet)
            output = refused.communicate(timeout=PATIENCE)[0]
            assert refused.returncode == 1 and re.search("belongs to (another )?user", output), output


def a_killed_container_leaves_nothing():
    """Its processes end with it, and their locks."""
    with Subnet(SOFTIB) as subnet:
        server = in_container(ROOTLESS, "a", "rping", "-s", "-P")(subnet)
        services = subnet.folder / "default/node/1/services"
        wait_for("the server", lambda: services.exists() and is_locked(services, SERVICE))
        server.kill()
        server.wait()
        wait_for("its end", lambda: not is_locked(services, SERVICE))
        assert "Active" in subnet.run("a", "ibstat").stdout


def recipe():
    """The command line of softib(1), without the name of the engine."""
    text = MANUAL.read_text(encoding="utf-8")
    return shlex.split(re.search(r"^\.Dl podman (run .*)$", text, re.MULTILINE)[1])


def recipe_of_the_manual_page():
    """Started as an engine does: in namespaces, without the caller's environment."""
    parser = argparse.ArgumentParser()
    parser.add_argument("run")
    parser.add_argument("--rm", action="store_true", required=True)
    for option in ("--network", "-v", "-e", "--entrypoint"):
        parser.add_argument(option, required=True)
    parser.add_argument("image")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args(recipe())
    equal((given.network, given.v, given.entrypoint), ("none", "$SOFTIB_DIR:$SOFTIB_DIR", "softib"))

    def start_server(subnet):
        environment = {"PATH": os.environ["PATH"], given.e: subnet.environment[given.e]}
        return start([*ROOTLESS, os.path.abspath(SOFTIB), *given.command, "-C", str(ITERATIONS)], environment)
    ping(None, ROOTFUL, start_server)


def engines_understand_the_recipe():
    """Without a daemon, docker only parses its arguments."""
    for engine in filter(shutil.which, ("docker", "podman")):
        nowhere = dict(os.environ, DOCKER_HOST="unix:///nowhere", CONTAINER_HOST="unix:///nowhere")
        remote = ["--remote"] if engine == "podman" else []
        for words, understood in ((recipe(), True), (["run", "--no-such-option", *recipe()[1:]], False)):
            done = subprocess.run([engine, *remote, *words], env=nowhere, text=True, capture_output=True,
                                  timeout=PATIENCE, check=False)
            assert done.returncode != 0 and ("nowhere" in done.stderr) == understood, done


run_tests([rootful_and_rootless, rootless_and_rootful, host_and_rootless, containers_of_a_user_and_of_root,
           a_killed_container_leaves_nothing,
           recipe_of_the_manual_page, engines_understand_the_recipe],
          sys.argv[2:])
