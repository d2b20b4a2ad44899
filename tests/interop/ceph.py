#!/usr/bin/env python3
"""Ceph's messenger over RDMA (ms_type async+rdma): a monitor, an OSD that keeps its objects in memory, and clients,
each on an HCA of its own. The messenger exchanges the numbers of its queue pairs over TCP; all else goes by them.

Usage: ceph.py SOFTIB [NAME]...
"""
import pathlib
import random
import signal
import subprocess
import sys
import uuid

from softib_subnet import PATIENCE, Subnet, equal, need, need_own_network, run_tests, wait_for

need("ceph", "ceph-mon", "ceph-osd", "rados", "monmaptool")
need_own_network()
SOFTIB = sys.argv[1]
MONITOR, OSD, CLIENT = "monitor", "osd", "client"  # HCAs
ADDRESS = "127.0.0.1:7789"
OSD_UUID = str(uuid.uuid4())
SIZE = 8 << 20  # bytes
CONFIGURATION = """\
[global]
fsid = {fsid}
ms_type = async+rdma
ms_async_rdma_device_name = softib0
# With the default, 32,768, each process has 4 GiB of them.
ms_async_rdma_receive_buffers = 1024
ms_async_rdma_receive_queue_len = 512
ms_async_rdma_send_buffers = 256
mon_host = {address}
public_network = 127.0.0.0/8
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
pid_file = {folder}/$name.pid
admin_socket = {folder}/$name.$pid.asok
log_file = {folder}/$name.log
run_dir = {folder}
keyring = {folder}/keyring
mon_data = {folder}/mon
mon_data_avail_crit = 0
osd_data = {folder}/osd.data
osd_objectstore = memstore
memstore_device_bytes = 268435456
osd_pool_default_size = 1
mon_allow_pool_size_one = true
osd_crush_chooseleaf_type = 0
osd_crush_initial_weight = 1
"""


class Cluster:
    """A monitor and an OSD, and a pool of objects."""

    def __init__(self, subnet):
        self.subnet = subnet
        self.folder = pathlib.Path(subnet.root.name) / "ceph"
        self.folder.mkdir()
        fsid = str(uuid.uuid4())
        subnet.environment["CEPH_CONF"] = str(self.folder / "conf")
        (self.folder / "conf").write_text(
            CONFIGURATION.format(fsid=fsid, address=ADDRESS, folder=self.folder), encoding="utf-8")
        (self.folder / "osd.data").mkdir()
        (self.folder / "keyring").touch()
        subprocess.run(["monmaptool", "--create", "--add", "a", ADDRESS, "--fsid", fsid, self.folder / "map"],
                       check=True, capture_output=True)
        subnet.run(MONITOR, "ceph-mon", "--mkfs", "-i", "a", "--monmap", str(self.folder / "map"))
        self.monitor = self.start(MONITOR, "ceph-mon", "-f", "-i", "a")
        self.run("ceph", "osd", "create", OSD_UUID, "0")
        subnet.run(OSD, "ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", OSD_UUID)
        self.osd = self.start(OSD, "ceph-osd", "-f", "-i", "0")
        self.run("ceph", "osd", "pool", "create", "objects", "8")
        self.run("ceph", "osd", "pool", "application", "enable", "objects", "test")

    def start(self, hca, *command):
        """Starts a program; its output goes into a file."""
        with open(self.folder / f"{hca}.out", "w", encoding="utf-8") as out:
            return self.subnet.start(hca, *command, stdout=out, stderr=subprocess.STDOUT)

    def run(self, *command):
        return self.subnet.run(CLIENT, *command).stdout

    def rados(self, *command):
        return self.run("rados", "-p", "objects", *command)

    def sent(self, hca):
        return self.subnet.nodes()[hca]["counters"]["sent_bytes"]

    def log(self):
        return (self.folder / f"{OSD}.out").read_text(encoding="utf-8", errors="replace")


def an_object_is_written_and_read_back():
    """A client that is killed while it writes changes nothing for the others."""
    with Subnet(SOFTIB) as subnet:
        cluster = Cluster(subnet)
        written, read = cluster.folder / "written", cluster.folder / "read"
        written.write_bytes(random.Random(1).randbytes(SIZE))
        cluster.rados("put", "object", str(written))
        cluster.rados("get", "object", str(read))
        assert read.read_bytes() == written.read_bytes(), "the data differs"
        for hca in (CLIENT, OSD):
            assert cluster.sent(hca) > SIZE, (hca, cluster.sent(hca), cluster.log())
        before = cluster.sent(CLIENT)
        writer = cluster.start(CLIENT, "rados", "-p", "objects", "bench", "600", "write", "--no-cleanup")
        wait_for("what it writes", lambda: writer.poll() is not None or cluster.sent(CLIENT) > before + SIZE)
        writer.kill()
        equal(writer.wait(PATIENCE), -signal.SIGKILL)
        read.unlink()
        cluster.rados("get", "object", str(read))
        assert read.read_bytes() == written.read_bytes(), "the data differs after a client was killed"
        for daemon in (cluster.osd, cluster.monitor):
            daemon.terminate()
            equal((daemon.wait(PATIENCE), daemon.args[-4]), (0, daemon.args[-4]))


run_tests([an_object_is_written_and_read_back], sys.argv[2:])
