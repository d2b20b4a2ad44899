#!/usr/bin/env python3
"""infiniband-extcap: Wireshark and tshark list the interfaces of ipoibd and the subnets of softib, and capture on
them."""

import os
import pathlib
import re
import signal
import subprocess
import sys

import hosts
from hosts import wait_until

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "python/extcap/infiniband-extcap"


class Extcap(hosts.Pair):
    def setUp(self):
        self.set_up()
        self.start()
        self.environment = {**self.subnet.environment, "PATH": f"{os.path.abspath(hosts.BIN)}:{os.environ['PATH']}"}

    def run_program(self, *words, status=0):
        done = subprocess.run(self.left.command(sys.executable, str(PROGRAM), *words), env=self.environment,
                              capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout if status == 0 else done.stderr

    def test_what_wireshark_asks(self):
        shown = self.run_program("--extcap-interfaces", "--extcap-version=4.0")
        self.assertRegex(shown, r"(?m)^extcap \{version=[0-9.]+\}")
        listed = dict(re.findall(r"(?m)^interface \{value=(.*?)\}\{display=(.*?)\}$", shown))
        self.assertEqual(listed.pop("ipoibd-ib0"), "InfiniBand packets of ib0, softib0 port 1, partition 0xffff")
        folder = self.subnet.folder / "default"
        self.assertEqual(listed.pop("softib-default"), f"InfiniBand packets of the emulated subnet in {folder}")
        # Other tests may run other subnets, in folders of their own.
        self.assertTrue(all(each.startswith("softib-") and "@" in each for each in listed), listed)
        self.assertRegex(self.run_program("--extcap-interface", "ipoibd-ib0", "--extcap-dlts"),
                         r"^dlt \{number=197\}\{name=\w+\}\{display=[^{}]+\}\n$")
        self.assertRegex(self.run_program("--extcap-interface=ipoibd-ib0", "--extcap-config"),
                         r"^arg \{number=0\}\{call=--neighbour\}\{display=\w+\}\{type=string\}")
        self.assertIn("eth0", self.run_program("--extcap-interface", "eth0", "--extcap-dlts", status=2))
        self.assertIn("no", self.run_program(status=2))
        self.assertIn("{call=--hcas}", self.run_program("--extcap-interface=softib-default", "--extcap-config"))
        self.left.daemon.end()
        self.assertNotIn("{value=ipoibd-", self.run_program("--extcap-interfaces"))

    def test_capture_into_a_pipe(self):
        self.capture_into_a_pipe("ipoibd-ib0", "--neighbour", "10.44.0.2")

    def test_capture_of_a_subnet(self):
        self.capture_into_a_pipe("softib-default", "--hcas", "left right")
        self.capture_into_a_pipe(f"softib-default@{self.subnet.folder}")

    def capture_into_a_pipe(self, name, *options):
        fifo = self.subnet.folder / "fifo"
        fifo.unlink(missing_ok=True)
        os.mkfifo(fifo, 0o600)
        process = subprocess.Popen(self.left.command(
            sys.executable, str(PROGRAM), "--capture", "--extcap-interface", name, "--fifo", str(fifo), *options),
            env=self.environment, stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        with open(fifo, "rb", buffering=0) as pipe:
            self.assertEqual(pipe.read(4).hex(), "a1b2c3d4")
            self.assertTrue(self.left.reaches("10.44.0.2"))
            self.assertTrue(pipe.read(20 + 16 + 16))
            process.send_signal(signal.SIGTERM)
            pipe.readall()
        self.assertEqual((process.wait(hosts.PATIENCE), process.stderr.read()), (0, b""))

    def test_errors_are_shown(self):
        said = self.run_program("--capture", "--extcap-interface", "ipoibd-ib9", "--fifo", "/dev/null", status=1)
        self.assertIn("ib9: no ipoibd runs this interface", said)

    @hosts.needs("tshark", "dumpcap")
    def test_tshark(self):
        # Root's tshark looks for programs in its own folder only; there is ours, in a mount namespace.
        folders = subprocess.run(["tshark", "-G", "folders"], capture_output=True, text=True, check=True).stdout
        folder = re.search(r"(?m)^Extcap path:\s+(\S+)$", folders)[1]
        tshark = self.left.command("unshare", "--mount", "--", "sh", "-c",
                                   'mount --bind "$1" "$2" && shift 2 && exec tshark "$@"', "sh",
                                   str(PROGRAM.parent), folder)
        listed = subprocess.run([*tshark, "-D"], env=self.environment, capture_output=True, text=True, check=False,
                                timeout=120).stdout
        self.assertIn("ipoibd-ib0 (InfiniBand packets of ib0, softib0 port 1, partition 0xffff)", listed)
        capture = subprocess.Popen([*tshark, "-l", "-i", "ipoibd-ib0", "-c", "4", "-Y", "icmp"],
                                   env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(capture.stdout.close)

        def is_over():
            self.left.ping("10.44.0.2", "-c", "2", "-i", "0.1")
            return capture.poll() is not None
        wait_until(is_over, "tshark has seen four packets")
        self.assertIn("Echo (ping) request", capture.stdout.read())


if __name__ == "__main__":
    hosts.main()
