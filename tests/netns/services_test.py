#!/usr/bin/env python3
"""Ordinary network programs, written for Ethernet, over ipoibd."""

import hashlib
import pathlib
import random
import re
import shutil
import socket

import hosts
import ospf
from hosts import needs, needs_users, wait_until


class Services(hosts.Pair):
    def setUp(self):
        self.set_up()

    def launch(self, host, name, *command):
        """Starts a program on a host until the test ends."""
        process = hosts.Process(host.command(*command), self.subnet.folder / f"{host.name}.{name}",
                                self.subnet.environment)
        self.addCleanup(process.end)
        return process

    def launch_with_run(self, host, name, folder, *command):
        """Like launch(), with a /run that contains only one empty folder."""
        script = 'mount -t tmpfs tmpfs /run && mkdir "$0" && exec "$@"'
        return self.launch(host, name, "sh", "-c", script, folder, *command)


class Transport(Services):
    """Two hosts with a router between their networks, on one link, in both families."""

    def setUp(self):
        super().setUp()
        router = self.start_with_router()
        for host, address in ((self.left, "fd46::1/64"), (self.right, "fd47::2/64"),
                              (router, "fd46::254/64"), (router, "fd47::254/64")):
            host.run("ip", "addr", "add", address, "dev", "ib0", "nodad")
        for host, four, six in ((self.left, "10.44.0.254", "fd46::254"),
                                (self.right, "10.45.0.254", "fd47::254")):
            host.run("ip", "route", "add", "default", "via", four)
            host.run("ip", "-6", "route", "add", "default", "via", six)

    def send_by_tcp(self, version, address):
        wait_until(lambda: self.left.reaches(address.strip("[]")), "left reaches right")
        sent = self.subnet.folder / "sent"
        sent.write_bytes(random.randbytes(4 << 20))
        received = self.subnet.folder / "received"
        server = self.launch(self.right, "socat", "socat", "-d", "-d", "-u",
                             f"TCP{version}-LISTEN:5003", f"CREATE:{received}")
        wait_until(lambda: "listening on" in server.output(), "the server listens")
        done = self.left.run("socat", "-u", f"OPEN:{sent}", f"TCP{version}:{address}:5003",
                             check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        server.popen.wait(hosts.PATIENCE)
        self.assertEqual(received.read_bytes(), sent.read_bytes())

    def echo_by_udp(self, version, address):
        server = self.launch(self.right, "socat", "socat", "-d", "-d",
                             f"UDP{version}-RECVFROM:5003,fork", "EXEC:cat")
        wait_until(lambda: "receiving on" in server.output(), "the server listens")
        client = f"echo hello | socat -t 1 - 'UDP{version}:{address}:5003'"
        wait_until(lambda: self.left.run("sh", "-c", client, check=False).stdout == "hello\n",
                   "the echo comes back")

    @needs("socat")
    def test_tcp_over_ipv4_through_a_gateway(self):
        self.send_by_tcp(4, "10.45.0.2")

    @needs("socat")
    def test_tcp_over_ipv6_through_a_gateway(self):
        self.send_by_tcp(6, "[fd47::2]")

    @needs("socat")
    def test_udp_over_ipv4_through_a_gateway(self):
        self.echo_by_udp(4, "10.45.0.2")

    @needs("socat")
    def test_udp_over_ipv6_through_a_gateway(self):
        self.echo_by_udp(6, "[fd47::2]")


class Multicast(Services):
    def receive(self, host, recipe):
        heard = self.subnet.folder / f"{host.name}.heard"
        process = self.launch(host, "socat", "socat", "-d", "-d", "-u", recipe, f"CREATE:{heard}")
        wait_until(lambda: "starting data transfer loop" in process.output(), "socat receives")
        return heard

    @staticmethod
    def membership(host, mgid):
        return [group["membership"] for group in host.ibarp("info")["groups"]
                if group["mgid"] == mgid]

    def stream(self, mgid, receiver, join, sender, direct):
        """Streams to two members, and checks that an outsider receives only unicast to `direct`."""
        self.start()
        third = self.add_host("third", "10.44.0.3/24")
        outsider = self.add_host("outsider", "10.44.0.4/24")
        outsider.run("ip", "addr", "add", "fd44::4/64", "dev", "ib0", "nodad")
        self.left.run("ip", "addr", "add", "fd44::1/64", "dev", "ib0", "nodad")
        receivers = [self.receive(host, f"{receiver},{join}") for host in (self.right, third)]
        overheard = self.receive(outsider, receiver)
        for host in (self.right, third):
            wait_until(lambda h=host: self.membership(h, mgid) == ["full"], "the group is joined")
        # The stream fits into the receive buffers, so even a slow receiver loses nothing.
        stream = self.subnet.folder / "stream"
        stream.write_bytes(random.randbytes(64 * 1000))
        # The first packet triggers the send-only join.
        self.left.run("sh", "-c", f"echo first | socat -u - '{sender}'")
        wait_until(lambda: self.membership(self.left, mgid) == ["send-only"], "left may send")
        self.left.run("socat", "-u", "-b", "1000", f"OPEN:{stream}", sender)
        for heard in receivers:
            wait_until(lambda one=heard: one.read_bytes() == b"first\n" + stream.read_bytes(),
                       "the whole stream arrives")
        self.left.run("sh", "-c", f"echo you | socat -u - '{direct}'")
        wait_until(lambda: overheard.read_bytes() == b"you\n", "the outsider receives only that")

    @needs("socat")
    def test_ipv4_stream_reaches_only_members(self):
        self.stream("ff12:401b:ffff::f01:203", "UDP4-RECV:5002", "ip-add-membership=239.1.2.3:ib0",
                    "UDP4-DATAGRAM:239.1.2.3:5002,ip-multicast-if=10.44.0.1",
                    "UDP4:10.44.0.4:5002")

    @needs("socat")
    def test_ipv6_stream_reaches_only_members(self):
        self.stream("ff12:601b:ffff::1234", "UDP6-RECV:5002", "ipv6-join-group=[ff15::1234]:ib0",
                    "UDP6-DATAGRAM:[ff15::1234]:5002,so-bindtodevice=ib0",
                    "UDP6:[fd44::4]:5002")


class Shell(Services):
    """ssh, and rsync over it."""

    SERVER = """
Port 2222
ListenAddress 10.44.0.2
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PidFile none
"""

    def setUp(self):
        super().setUp()
        self.start()
        self.folder = self.subnet.folder

    def start_server(self):
        for key in ("host_key", "user_key"):
            self.left.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
                          str(self.folder / key))
        config = self.folder / "sshd_config"
        config.write_text(self.SERVER.format(folder=self.folder))
        server = self.launch_with_run(self.right, "sshd", "/run/sshd", shutil.which("sshd"), "-D",
                                      "-e", "-f", str(config))
        wait_until(lambda: "Server listening" in server.output(), "sshd listens")

    def ssh(self):
        """Returns an ssh command that ignores the user's own files."""
        return ["ssh", "-F", "none", "-p", "2222", "-i", str(self.folder / "user_key"),
                "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no",
                "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]

    def make_tree(self, root):
        source = random.Random(7)
        for number in range(300):
            path = root / f"d{number % 17}" / f"{number}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(source.randbytes(source.choice((0, 1, 1000, 2044, 20000))))
        (root / "large").write_bytes(source.randbytes(8 << 20))

    def checksums(self, root):
        return {str(path.relative_to(root)): hashlib.blake2b(path.read_bytes()).hexdigest()
                for path in root.rglob("*") if path.is_file()}

    @needs_users()
    @needs("sshd", "ssh", "ssh-keygen")
    def test_ssh(self):
        self.start_server()
        done = self.left.run(*self.ssh(), "root@10.44.0.2", "echo $SSH_CONNECTION", check=False)
        self.assertRegex(done.stdout, r"^10\.44\.0\.1 \d+ 10\.44\.0\.2 2222$", done.stderr)

    @needs_users()
    @needs("sshd", "ssh", "ssh-keygen", "rsync")
    def test_rsync_of_a_tree(self):
        self.start_server()
        tree, copy = self.folder / "tree", self.folder / "copy"
        self.make_tree(tree)
        shell = " ".join(self.ssh())
        for _ in range(2):  # the second time there is nothing to copy
            done = self.left.run("rsync", "-a", "--checksum", "-i", "-e", shell, f"{tree}/",
                                 f"root@10.44.0.2:{copy}/", check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(self.checksums(copy), self.checksums(tree))
        self.assertEqual(len(self.checksums(copy)), 301)


class Names(Services):
    """Multicast DNS."""

    CONFIG = """
[server]
host-name={host}-of-ipoibd
use-ipv4=yes
use-ipv6=no
allow-interfaces=ib0
allow-point-to-point=yes
enable-dbus=no
[wide-area]
enable-wide-area=no
[publish]
publish-hinfo=no
publish-workstation=no
"""

    def start_avahi(self, host):
        """Starts avahi; returns the path of its control socket."""
        config = self.subnet.folder / f"avahi-{host.name}.conf"
        config.write_text(self.CONFIG.format(host=host.name))
        avahi = self.launch_with_run(host, "avahi", "/run/avahi-daemon",
                                     shutil.which("avahi-daemon"), "-f", str(config),
                                     "--no-rlimits", "--no-drop-root", "--no-chroot")
        wait_until(lambda: "Server startup complete" in avahi.output(), "avahi has started")
        return f"/proc/{avahi.pid}/root/run/avahi-daemon/socket"

    def resolve(self, path, name):
        with socket.socket(socket.AF_UNIX) as daemon:
            daemon.settimeout(hosts.PATIENCE)
            daemon.connect(path)
            daemon.sendall(f"RESOLVE-HOSTNAME-IPV4 {name}\n".encode())
            with daemon.makefile() as lines:
                answer = lines.readline()
        found = re.match(r"\+ .* ([\d.]+)\n", answer)
        return found[1] if found else None

    @needs_users()
    @needs("avahi-daemon")
    def test_mdns_answers(self):
        self.start()
        left, right = self.start_avahi(self.left), self.start_avahi(self.right)
        wait_until(lambda: self.resolve(left, "right-of-ipoibd.local") == "10.44.0.2",
                   "left resolves right by name")
        wait_until(lambda: self.resolve(right, "left-of-ipoibd.local") == "10.44.0.1",
                   "right resolves left by name")


class Routing(Services):
    def route(self, version):
        self.start()
        third = self.add_host("third", "10.44.0.3/24")
        ospf.run(self, version, [(self.left, 1, "ib0"), (self.right, 2, "ib0"), (third, 3, "ib0")])

    @needs("bird", "birdc")
    def test_ospf_v2(self):
        self.route(ospf.V2)

    @needs("bird", "birdc")
    def test_ospf_v3(self):
        self.route(ospf.V3)


if __name__ == "__main__":
    hosts.main()
