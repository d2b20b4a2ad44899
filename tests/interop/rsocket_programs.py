#!/usr/bin/env python3
"""ssh, and curl with a web server, over RDMA sockets between two emulated HCAs.

Usage: rsocket_programs.py SOFTIB RSOCKET_RELAY

curl is preloaded with librspreload. The servers are started as inetd starts them, by rsocket_relay:
docs/softib-conformance.md says which servers do not run with librspreload, and why.
"""
import getpass
import hashlib
import os
import random
import re
import shlex
import shutil
import subprocess
import sys

from softib_subnet import (PATIENCE, Subnet, equal, has_other_users, is_locked, need, need_root, rsocket_preload,
                           run_tests, wait_for)

need("busybox", "curl", "ssh", "ssh-keygen", "sshd", "unshare")
need_root()
SOFTIB, RELAY = sys.argv[1], os.path.abspath(sys.argv[2])
PRELOADED = rsocket_preload()
V4 = "127.77.0.1"  # of HCA "a", which is the first one of its subnet
SSH_PORT, HTTP_PORT, TCP = 2222, 8080, 0x0106
SIZE = 3_000_000
# sshd wants this folder, which its service makes.
WITH_RUN_SSHD = ("unshare", "--mount", "sh", "-c",
                 'mount -t tmpfs tmpfs /run && mkdir /run/sshd && exec "$@"', "sh")


def serve(subnet, port, *command):
    server = subnet.start("a", RELAY, "serve", V4, str(port), *command, stderr=subprocess.DEVNULL)
    services = subnet.folder / "default/node/1/services"
    wait_for("the server", lambda: services.exists() and is_locked(services, TCP << 16 | port))
    return server


def write_file(subnet):
    data = random.Random(1).randbytes(SIZE)
    (subnet.folder / "file").write_bytes(data)
    return data


def curl_gets_a_file():
    with Subnet(SOFTIB) as subnet:
        data = write_file(subnet)
        server = serve(subnet, HTTP_PORT, "busybox", "httpd", "-i", "-h", str(subnet.folder))
        subnet.run("b", *PRELOADED, "curl", "-s", "-S", "-o", str(subnet.folder / "got"),
                   f"http://{V4}:{HTTP_PORT}/file")
        equal((subnet.folder / "got").read_bytes(), data)
        equal(server.wait(timeout=PATIENCE), 0)


def ssh_runs_a_command():
    """And carries its standard input to it."""
    with Subnet(SOFTIB) as subnet:
        data = write_file(subnet)
        for key in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(subnet.folder / key)],
                           check=True)
        (subnet.folder / "sshd_config").write_text(
            f"HostKey {subnet.folder}/host\nAuthorizedKeysFile {subnet.folder}/user.pub\n"
            "StrictModes no\nUsePAM no\nPermitRootLogin yes\n", encoding="ascii")
        server = serve(subnet, SSH_PORT, *WITH_RUN_SSHD, shutil.which("sshd"), "-i", "-f",
                       str(subnet.folder / "sshd_config"))
        relay = shlex.join(subnet.command("b", RELAY, "connect", V4, str(SSH_PORT)))
        with open(subnet.folder / "file", "rb") as file:
            done = subprocess.run(
                ["ssh", "-F", "none", "-i", str(subnet.folder / "user"), "-o", f"ProxyCommand={relay}",
                 "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
                 f"{getpass.getuser()}@hca-a", "sha256sum"], env=subnet.environment, stdin=file,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stderr
        equal(re.match(r"[0-9a-f]+", done.stdout)[0], hashlib.sha256(data).hexdigest())
        equal(server.wait(timeout=PATIENCE), 0)


if has_other_users():
    run_tests([curl_gets_a_file, ssh_runs_a_command])
print("skipped ssh_runs_a_command: sshd changes its user, and this user namespace has only one")
run_tests([curl_gets_a_file])
