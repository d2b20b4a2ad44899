#!/usr/bin/env python3
"""Tests the emulated HCA with the small programs of rdma-core: what it is, and each way to send and receive.

Usage: programs_test.py SOFTIB [TEST]...
"""
import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "interop"))
from softib_subnet import Subnet, equal, need, need_root, play, run_tests, two_port_subnet  # noqa: E402

need("ibv_devinfo", "ibv_rc_pingpong")
need_root()
SOFTIB = os.path.abspath(sys.argv[1])
# Names and values that ibv_devinfo -v prints for an HCA, and for its port.
DEVICE = {
    "transport": "InfiniBand (0)", "vendor_id": "0x2501b", "vendor_part_id": "1", "hw_ver": "0x0", "board_id": "SOFTIB",
    "phys_port_cnt": "1", "max_mr_size": "0xffffffffffffffff", "page_size_cap": "0xfffffffffffff000", "max_qp": "4096",
    "max_qp_wr": "16384", "device_cap_flags": "0x01163c86", "max_sge": "16", "max_sge_rd": "16", "max_cq": "8192",
    "max_cqe": "524287", "max_mr": "65536", "max_pd": "4096", "max_qp_rd_atom": "16", "max_ee_rd_atom": "0",
    "max_res_rd_atom": "65536", "max_qp_init_rd_atom": "16", "atomic_cap": "ATOMIC_HCA (1)", "max_mw": "65536",
    "max_mcast_grp": "1024", "max_mcast_qp_attach": "128", "max_total_mcast_qp_attach": "131072", "max_ah": "131072",
    "max_srq": "4096", "max_srq_wr": "16384", "max_srq_sge": "16", "max_pkeys": "32", "local_ca_ack_delay": "0",
    "completion timestamp_mask": "0xffffffffffffffff", "hca_core_clock": "1000000kHZ", "device_cap_flags_ex": "0x1163C86",
    "max_tso": "65536", "maximum available device memory": "262144Bytes", "num_comp_vectors": "1"}
PORT = {
    "state": "PORT_ACTIVE (4)", "max_mtu": "4096 (5)", "active_mtu": "2048 (4)", "sm_lid": "1", "port_lid": "2",
    "port_lmc": "0x00", "link_layer": "InfiniBand", "max_msg_sz": "0x80000000", "port_cap_flags": "0x02000800",
    "port_cap_flags2": "0x0000", "max_vl_num": "1 (1)", "bad_pkey_cntr": "0x0", "qkey_viol_cntr": "0x0", "sm_sl": "0",
    "pkey_tbl_len": "32", "gid_tbl_len": "1", "subnet_timeout": "18", "init_type_reply": "0", "active_width": "4X (2)",
    "active_speed": "10.0 Gbps (4)", "phys_state": "LINK_UP (5)"}
ON_DEMAND = {
    "rc_odp_caps": ["SEND", "RECV", "WRITE", "READ", "ATOMIC", "SRQ"], "uc_odp_caps": ["SEND", "RECV", "WRITE"],
    "ud_odp_caps": ["SEND", "RECV"], "xrc_odp_caps": ["SEND", "RECV", "WRITE", "READ", "ATOMIC", "SRQ"],
    "supported_qp": ["UD"]}


def values_in(devinfo):
    found = {}
    for line in devinfo.splitlines():
        name, _, value = line.strip().partition(":")
        found.setdefault(name, value.strip())
    return found


def the_device_has_its_attributes():
    with Subnet(SOFTIB) as subnet:
        shown = subnet.run("a", "ibv_devinfo", "-v").stdout
    found = values_in(shown)
    for name, value in {**DEVICE, **PORT}.items():
        equal((name, found.get(name)), (name, value))
    for name, wanted in ON_DEMAND.items():
        [part] = re.findall(rf"(?m)^\s+{name}:\n((?:\s+SUPPORT_\w+\n)+)", shown)
        equal(re.findall(r"SUPPORT_(\w+)", part), wanted)
    guid = int(found["node_guid"].replace(":", ""), 16)
    equal(found["sys_image_guid"], found["node_guid"])
    [gid] = re.findall(r"GID\[  0\]:\s+(\S+)", shown)
    equal(gid.replace(":", ""), f"fe80000000000000{guid + 1:016x}")


def the_device_has_two_ports_on_two_cables():
    with two_port_subnet(SOFTIB) as subnet:
        shown = subnet.run("a", "ibv_devinfo").stdout
    equal(values_in(shown)["phys_port_cnt"], "2")
    equal(re.findall(r"port:\t(\d)", shown), ["1", "2"])
    equal(re.findall(r"state:\t+(\S+)", shown), ["PORT_ACTIVE"] * 2)
    lids = re.findall(r"port_lid:\t+(\d+)", shown)
    assert len(set(lids)) == 2 and "0" not in lids, shown


def play_all(program, *variants, word="bytes in"):
    with Subnet(SOFTIB) as subnet:
        for options in variants:
            _, printed = play(subnet, program, "-n", "30", *options)
            assert word in printed, (program, options, printed)


def reliable_connections_have_each_way_to_send_and_receive():
    play_all("ibv_rc_pingpong", ["-c", "-s", "3000"], ["-c", "-e", "-m", "256"], ["-c", "-o"], ["-c", "-O", "-P"],
             ["-t"], ["-j"], ["-N", "-c", "-s", "3000"], ["-r", "1", "-s", "1"])


def other_queue_pairs_have_each_way_to_send_and_receive():
    play_all("ibv_uc_pingpong", ["-c", "-s", "3000"], ["-e"])
    play_all("ibv_ud_pingpong", ["-c", "-s", "2048"], ["-e", "-s", "1"])
    play_all("ibv_srq_pingpong", ["-c", "-q", "4"], ["-e"])


def what_a_program_writes_and_reads_arrives():
    play_all("ib_write_bw", ["-s", "100000"], ["-s", "1"], word="#bytes")
    play_all("ib_read_bw", ["-s", "70000", "-o", "1"], word="#bytes")


def what_a_program_sends_and_changes_arrives():
    play_all("ib_atomic_bw", ["-A", "CMP_AND_SWAP"], ["-A", "FETCH_AND_ADD"], word="#bytes")
    play_all("ib_send_bw", ["-c", "UD", "-s", "2048"], ["-c", "UC", "-e", "-I", "100", "-s", "64"], word="#bytes")


if __name__ == "__main__":
    need("ib_write_bw")
    run_tests([the_device_has_its_attributes, the_device_has_two_ports_on_two_cables,
               reliable_connections_have_each_way_to_send_and_receive,
               other_queue_pairs_have_each_way_to_send_and_receive, what_a_program_writes_and_reads_arrives,
               what_a_program_sends_and_changes_arrives], sys.argv[2:])
