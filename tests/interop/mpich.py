#!/usr/bin/env python3
"""MPICH on softib, each rank on a host of its own, over UCX, as Debian builds it. mpi_ring.c checks the data.

Usage: mpich.py SOFTIB [NAME]...
"""
import sys

from mpi_ring import RANKS, ring
from softib_subnet import need, run_tests

need("mpicc.mpich", "mpirun.mpich")


def run(transports, ranks=RANKS):
    # Ranks on one machine would exchange messages in shared memory.
    ring(sys.argv[1], "mpicc.mpich", ["mpirun.mpich"], "PMI_RANK",
         {"UCX_NET_DEVICES": "softib0:1", "UCX_TLS": transports, "MPIR_CVAR_NOLOCAL": "1"}, ranks=ranks)


def connections():
    run("rc_v,self", ranks=8)


def datagrams():
    run("ud_v,self")


run_tests([connections, datagrams], sys.argv[2:])
