#!/usr/bin/env python3
"""Runs rdma-core's own verbs tests (python3-pyverbs) on one emulated HCA.

They skip what the device does not support. docs/softib-conformance.md lists which tests have to pass,
so that they cannot all be skipped.

Usage: pyverbs_suite.py SOFTIB
"""
import sys

import rdma_core_suite
from rdma_core_suite import EXAMPLE, PYTHON, listed
from softib_subnet import Subnet, run_tests, skip

SOFTIB = sys.argv[1]

if why := rdma_core_suite.why_not():
    skip(why)


def no_test_fails_and_those_to_be_passed_are():
    with Subnet(SOFTIB) as subnet:
        suite = rdma_core_suite.unpack(subnet.folder / "suite" / "tests")
        done = subnet.run("a", PYTHON, str(suite), "-v", check=False, patience=300)
        assert done.returncode == 0, done.stdout
        rdma_core_suite.check(done.stdout, listed("Passed"), listed("Skipped"))


def guid_of(subnet, hca):
    return subnet.run(hca, "cat", "/sys/class/infiniband/softib0/node_guid").stdout.strip().replace(":", "")


def example_lists_the_hcas():
    """The only example that Debian packages."""
    with Subnet(SOFTIB) as subnet:
        printed = subnet.run("a,b", PYTHON, str(EXAMPLE)).stdout
        devices = {words[0]: int(words[-1], 16) for words in map(str.split, printed.splitlines()[2:])}
        expected = {device: int(guid_of(subnet, hca), 16) for device, hca in (("softib0", "a"), ("softib1", "b"))}
        assert devices == expected, (printed, expected)


run_tests([example_lists_the_hcas, no_test_fails_and_those_to_be_passed_are])
