#!/usr/bin/env python3
"""ipoibd --acm answers Debian's librdmacm, and ib_acme, in place of ibacm."""

import contextlib
import json
import socket
import struct
import sys

import hosts
from hosts import Process, program, wait_until

# /run of a host of its own, where the programs look for the socket.
IN_OWN_RUN = """
set -e
mount -t tmpfs none /run
ln -s "$IPOIB_ACM_SOCKET" /run/ibacm.sock
ln -s "$IPOIB_ACM_SOCKET" /run/ibacm-unix.sock
exec "$@"
"""

# rdma_getaddrinfo() of argv[1] with the flags argv[2]: prints family, GID and path length of each result.
GET_ADDRESSES = """
import ctypes, json, sys
rdmacm = ctypes.CDLL("librdmacm.so.1")
class Info(ctypes.Structure):
    pass
Info._fields_ = [("flags", ctypes.c_int), ("family", ctypes.c_int), ("qp_type", ctypes.c_int),
                 ("port_space", ctypes.c_int), ("src_len", ctypes.c_uint32), ("dst_len", ctypes.c_uint32),
                 ("src", ctypes.c_void_p), ("dst", ctypes.c_void_p), ("src_name", ctypes.c_char_p),
                 ("dst_name", ctypes.c_char_p), ("route_len", ctypes.c_size_t), ("route", ctypes.c_void_p),
                 ("connect_len", ctypes.c_size_t), ("connect", ctypes.c_void_p),
                 ("next", ctypes.POINTER(Info))]
hints = Info(flags=int(sys.argv[2]), port_space=0x106)
out = ctypes.POINTER(Info)()
assert rdmacm.rdma_getaddrinfo(sys.argv[1].encode(), b"7471", ctypes.byref(hints), ctypes.byref(out)) == 0
found = []
while out:
    one = out.contents
    found.append({"family": one.family, "dst": ctypes.string_at(one.dst, one.dst_len).hex(),
                  "route": ctypes.string_at(one.route, one.route_len).hex() if one.route_len else ""})
    out = one.next
print(json.dumps(found))
"""
AF_IB = 27
NO_ROUTE = 4  # RAI_NOROUTE
SIB_ADDRESS = slice(8, 24)  # of sockaddr_ib
PATH_DGID = slice(8 + 8, 8 + 24)  # of ibv_path_data


class Acm(hosts.Pair):
    def setUp(self):
        self.set_up()
        self.socket = self.subnet.folder / "run" / "ibacm.sock"
        self.socket.parent.mkdir()
        self.subnet.environment["IPOIBD_DIR"] = str(self.socket.parent)
        self.left.start("--acm", address="10.44.0.1/24")
        self.right.start(address="10.44.0.2/24")

    def command(self, host, *command):
        return host.command("env", f"IPOIB_ACM_SOCKET={self.socket}", "unshare", "--mount", "sh", "-c",
                            IN_OWN_RUN, "sh", program("softib"), "run", "--hca", host.name, "--", *command)

    def run_on_left(self, *command):
        return self.left.run(*self.command(self.left, *command)[4:], check=False)

    def addresses(self, address, flags=0):
        done = self.run_on_left(sys.executable, "-c", GET_ADDRESSES, address, str(flags))
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def counter(self, name):
        return self.left.counters()[f"acm_{name}"]

    def gid(self, host):
        return socket.inet_pton(socket.AF_INET6, host.ibarp("info")["gid"])

    def test_rdma_getaddrinfo(self):
        """The first result is an address of AF_IB with the path, as with ibacm."""
        self.assertEqual([each["family"] for each in self.addresses("10.44.0.2", NO_ROUTE)],
                         [socket.AF_INET], "it is not known yet, and the program does not wait")
        first, second = self.addresses("10.44.0.2")
        self.assertEqual((first["family"], second["family"]), (AF_IB, socket.AF_INET))
        self.assertEqual(bytes.fromhex(first["dst"])[SIB_ADDRESS], self.gid(self.right))
        self.assertEqual(bytes.fromhex(first["route"])[PATH_DGID], self.gid(self.right))
        self.assertEqual(len(self.addresses("10.44.0.2", NO_ROUTE)), 2, "from the cache")
        self.assertEqual(len(self.addresses("10.44.0.9")), 1, "nobody has it")
        self.assertEqual(len(self.addresses("192.0.2.1")), 1, "not on the link")
        self.left.run("ip", "addr", "add", "fd01::1/64", "dev", "ib0", "nodad")
        self.right.run("ip", "addr", "add", "fd01::2/64", "dev", "ib0", "nodad")
        wait_until(lambda: len(self.addresses("fd01::2")) == 2, "IPv6")
        self.assertGreater(self.counter("requests_failed"), 0)
        self.assertEqual(self.counter("bad_requests"), 0)

    @hosts.needs("rdma_server", "rdma_client")
    def test_an_address_of_an_interface_leads_to_a_connection(self):
        server = Process(self.command(self.right, "rdma_server"), self.subnet.folder / "server.out",
                         self.subnet.environment)
        self.addCleanup(server.end)
        wait_until(lambda: "rdma_client: end 0" in self.run_on_left("rdma_client", "-s", "10.44.0.2").stdout
                   or not server.is_running(), "the client has its answer")
        self.assertEqual(server.popen.wait(hosts.PATIENCE), 0, server.output())
        self.assertIn("rdma_server: end 0", server.output())
        self.assertGreater(self.counter("requests"), 0)
        self.assertEqual(self.counter("requests_failed"), 0)

    @hosts.needs("ib_acme")
    def test_ib_acme(self):
        done = self.run_on_left("ib_acme", "-f", "i", "-s", "10.44.0.1", "-d", "10.44.0.2")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lid = self.right.ibarp("info")["lid"]
        self.assertRegex(done.stdout, rf"(?m)^ *dlid: {lid}$")
        self.assertIn("return status 0x0", done.stdout)
        done = self.run_on_left("ib_acme", "-f", "i", "-d", "10.44.0.2")
        self.assertIn("Source: 10.44.0.1", done.stdout)
        done = self.run_on_left("ib_acme", "-f", "i", "-d", "192.0.2.1")
        self.assertNotIn("dlid", done.stdout)

    def test_nonsense_harms_only_its_sender(self):
        """Sends nonsense, and goes on with it, while others are served."""
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(str(self.socket))
            stranger.sendall(struct.pack("=BBB3xHQ", 1, 1, 0, 0xffff, 1))
            self.assertEqual(stranger.recv(1), b"")
        silent = [socket.socket(socket.AF_UNIX) for _ in range(600)]
        for each in silent:
            self.addCleanup(each.close)
            each.connect(str(self.socket))
            # One beyond the limit may have been refused by now.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                each.send(b"\1")
        wait_until(lambda: self.counter("clients_refused") >= 88, "those beyond the limit are refused")
        self.assertEqual(self.counter("bad_requests"), 1)
        self.assertTrue(self.left.reaches("10.44.0.2"))

    def test_says_that_programs_do_not_find_the_socket(self):
        """Something else has the name that librdmacm knows."""
        other = self.subnet.host("other")
        text = 'mount -t tmpfs none /run && mkdir /run/ibacm.sock && exec env --unset IPOIBD_DIR "$@"'
        other.start_alone("--softib=default/other", "--acm",
                          command=("unshare", "--mount", "sh", "-c", text, "sh", program("ipoibd")))
        other.wait_for_log("--acm: programs do not find the socket: /run/ibacm.sock: Is a directory")

    def test_only_one_daemon_has_the_socket_and_a_new_one_takes_it_over(self):
        other = self.subnet.host("other")
        other.start("--acm", address="10.44.0.3/24")
        self.assertTrue(other.logged("--acm", f"process {self.left.daemon.pid} listens there"))
        before = self.left.daemon
        self.left.start("--acm", "--takeover", wait=False)
        wait_until(lambda: not before.is_running(), "the daemon before has ended")
        wait_until(lambda: len(self.addresses("10.44.0.2")) == 2, "the new one answers")
        self.left.daemon.end()
        self.assertFalse(self.socket.exists())


if __name__ == "__main__":
    hosts.main()
