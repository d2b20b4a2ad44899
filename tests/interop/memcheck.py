#!/usr/bin/env python3
"""Runs rdma-core's verbs programs on emulated HCAs under Valgrind, which must find no memory error
and no leak.

What a running thread has is not lost: Valgrind takes the block for the thread-local storage of the
thread that acts as the HCA for a possible leak.

Usage: memcheck.py SOFTIB
"""
import sys

from softib_subnet import Subnet, need, play, run_tests

PROGRAMS = (("ibv_rc_pingpong", "-e"), ("ibv_uc_pingpong",), ("ibv_ud_pingpong",),
            ("ibv_srq_pingpong",), ("ibv_xsrq_pingpong",))
VALGRIND = ("valgrind", "--quiet", "--error-exitcode=1", "--leak-check=full",
            "--errors-for-leak-kinds=definite,indirect")
need("valgrind", *(name for name, *_ in PROGRAMS))
SOFTIB = sys.argv[1]


def no_memory_error():
    with Subnet(SOFTIB) as subnet:
        for name, *options in PROGRAMS:
            play(subnet, name, "-n", "50", *options, under=VALGRIND)


run_tests([no_memory_error])
