#!/usr/bin/env python3
"""iSER, both ends in user space: tgt's target on one HCA, programs of libiscsi on another. A file system is written
to the disk and read back, and the target is killed under load.

Usage: iser.py SOFTIB ISCSI_IMAGE [NAME]...
"""
import random
import subprocess
import sys

from softib_subnet import PATIENCE, Subnet, equal, is_locked, need, run_tests, wait_for

need("tgtd", "tgtadm", "iscsi-readcapacity16", "iscsi-perf", "mke2fs", "e2fsck")
SOFTIB, IMAGE = sys.argv[1:3]
TARGET, INITIATOR = "iqn.2026-01.test:disk", "iqn.2026-01.test:host"
URL = f"iser://127.77.0.1:3260/{TARGET}/1"
SERVICE = 0x01060000 | 3260  # port space TCP
SIZE = 16 << 20


class Target:
    """tgtd with one disk of `SIZE` bytes."""

    def __init__(self, subnet):
        self.subnet = subnet
        self.disk = subnet.folder / "disk"
        self.log = subnet.folder / "tgtd.out"
        # tgtd and tgtadm find each other by this name.
        subnet.environment["TGT_IPC_SOCKET"] = str(subnet.folder / "tgtd")
        with open(self.disk, "ab") as file:
            file.truncate(SIZE)
        with open(self.log, "w", encoding="utf-8") as out:
            # 128 MiB of buffers, the least that it takes.
            self.process = subnet.start("a", "tgtd", "-f", "--iser", "pool_sz_mb=128", stdout=out,
                                        stderr=subprocess.STDOUT)
        services = subnet.folder / "default/node/1/services"
        wait_for("tgtd", lambda: self.process.poll() is not None or
                 (services.exists() and is_locked(services, SERVICE)))
        self.administer("target", "new", "-T", TARGET)
        self.administer("logicalunit", "new", "--lun", "1", "-b", str(self.disk))
        # tgt 1.0.85 asks for both over iSER: the address and the name of the initiator.
        self.administer("target", "bind", "-I", "ALL")
        self.administer("target", "bind", "-Q", INITIATOR)

    def administer(self, mode, operation, *options):
        done = subprocess.run(["tgtadm", "--lld", "iser", "--mode", mode, "--op", operation, "--tid", "1", *options],
                              env=self.subnet.environment, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, (done.stderr, self.log.read_text())

    def kill(self):
        self.process.kill()
        self.process.wait()
        (self.subnet.folder / "tgtd.0").unlink()


def file_system(path):
    """Makes one with files of random bytes."""
    files = path.parent / "files"
    files.mkdir()
    numbers = random.Random(1)
    for number in range(20):
        (files / str(number)).write_bytes(numbers.randbytes(numbers.randrange(1 << 19)))
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", files, path, f"{SIZE >> 10}k"], check=True,
                   capture_output=True)


def image(subnet, direction, path):
    subnet.run("b", IMAGE, INITIATOR, URL, direction, str(path))


def a_file_system_is_written_and_read_back():
    with Subnet(SOFTIB) as subnet:
        target = Target(subnet)
        capacity = subnet.run("b", "iscsi-readcapacity16", "-i", INITIATOR, URL).stdout
        assert f"Total size:{SIZE}" in capacity, capacity
        written, read = subnet.folder / "written", subnet.folder / "read"
        file_system(written)
        image(subnet, "write", written)
        image(subnet, "read", read)
        assert read.read_bytes() == written.read_bytes() == target.disk.read_bytes(), "the data differs"
        subprocess.run(["e2fsck", "-fn", read], check=True, capture_output=True)


def the_target_is_killed_under_load():
    with Subnet(SOFTIB) as subnet:
        target = Target(subnet)
        log = subnet.folder / "load.out"
        with open(log, "w", encoding="utf-8") as out:
            load = subnet.start("b", "iscsi-perf", "-i", INITIATOR, "-m", "8", "-b", "64", "-t", "60", "-n", URL,
                                stdout=out, stderr=subprocess.STDOUT)
        wait_for("some load", lambda: "iops average" in log.read_text() or load.poll() is not None)
        assert load.poll() is None, log.read_text()
        target.kill()
        # libiscsi does not look at events of the connection (nor do its programs, with any device), so the load
        # waits for ever.
        load.kill()
        load.wait()
        # A new target serves the same disk.
        target = Target(subnet)
        content = random.Random(2).randbytes(SIZE)
        written = subnet.folder / "written"
        written.write_bytes(content)
        image(subnet, "write", written)
        equal(target.disk.read_bytes() == content, True)


run_tests([a_file_system_is_written_and_read_back, the_target_is_killed_under_load], sys.argv[3:])
