#!/usr/bin/env python3
"""rdma-core's own tests of verbs, as python3-pyverbs brings them, on one emulated HCA.

They skip what a device says it cannot do. So that they do not skip everything, those that are to be
passed are named here.

Usage: pyverbs_suite.py SOFTIB
"""
import gzip
import pathlib
import re
import shutil
import subprocess
import sys

from softib_subnet import Subnet, run_tests, skip

SOFTIB = sys.argv[1]
PYTHON = "/usr/bin/python3"  # pyverbs is built for the distribution's
SUITE = pathlib.Path("/usr/share/doc/rdma-core/tests")

if subprocess.run([PYTHON, "-c", "import pyverbs"], stderr=subprocess.DEVNULL).returncode != 0:
    skip("python3-pyverbs is not installed")
if not SUITE.is_dir():
    skip(f"{SUITE} is not there: the package's documents were left out")

TO_BE_PASSED = """
    test_create_ah test_destroy_ah
    test_create_cq test_create_cq_with_comp_channel test_create_cq_bad_flow test_resize_cq
    test_cq_events_ud test_create_cq_ex test_create_cq_ex_bad_flow test_ud_traffic_cq_ex
    test_dev_list test_open_dev test_query_device test_query_device_ex test_query_port
    test_query_port_bad_flow test_query_gid test_query_gid_ex test_query_gid_table
    test_query_gid_table_bad_flow test_query_pkey
    test_reg_mr_bad_flags
    test_alloc_pd test_dealloc_pd test_multiple_pd_creation test_destroy_pd_twice
    test_create_ud_qp_no_attr test_create_ud_qp_with_attr test_create_ud_qp_ex_no_attr
    test_create_ud_qp_ex_with_attr
    test_modify_ud_qp test_query_ud_qp
    test_full_rq_bad_flow test_rq_with_larger_sgl_bad_flow test_post_receive_qp_state_bad_flow
    test_post_send_qp_state_bad_flow
    test_qp_ex_ud_send test_qp_ex_ud_send_imm test_qp_ex_ud_zero_size test_ro_ud_traffic
""".split()


def unpack(folder):
    """A copy of the suite, without the compression that Debian gives to documents."""
    shutil.copytree(SUITE, folder)
    for packed in folder.glob("*.gz"):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
    return folder / "run_tests.py"


def no_test_fails_and_those_of_datagrams_pass():
    with Subnet(SOFTIB) as subnet:
        suite = unpack(subnet.folder / "suite" / "tests")
        done = subnet.run("a", PYTHON, str(suite), "-v", check=False)
        assert done.returncode == 0, done.stdout
        passed = set()
        name = None
        for line in done.stdout.splitlines():
            if found := re.match(r"(test_\w+) \(tests\.", line):
                name = found[1]
            if line.endswith("... ok"):
                passed.add(name)
        missing = sorted(set(TO_BE_PASSED) - passed)
        assert not missing, f"not passed: {missing}\n{done.stdout}"


run_tests([no_test_fails_and_those_of_datagrams_pass])
