#!/usr/bin/env python3
"""Open MPI on softib, each rank on a host of its own: over UCX and by its own openib.
mpi_ring.c checks the data.

Usage: openmpi.py SOFTIB [NAME]...
"""
import os
import pathlib
import subprocess
import sys
import tempfile

from softib_subnet import PATIENCE, Subnet, need, run_tests

need("mpicc", "mpirun")
SOFTIB = os.path.abspath(sys.argv[1])
SOURCE = pathlib.Path(__file__).with_name("mpi_ring.c")
RANKS = 4
# Any number of processes on any machine, also as root.
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
               "UCX_NET_DEVICES": "softib0:1"}


def ring(*parameters, **variables):
    """Runs mpi_ring; shared memory and TCP between the ranks are off by the parameters."""
    with Subnet(SOFTIB) as subnet, tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/mpi_ring"
        subprocess.run(["mpicc", "-O2", "-o", program, SOURCE], check=True)
        rank = f'exec "{SOFTIB}" run --hca r$OMPI_COMM_WORLD_RANK -- "$0"'
        command = ["mpirun", "-n", str(RANKS), *parameters, "sh", "-c", rank, program]
        done = subprocess.run(command, env=subnet.environment | ENVIRONMENT | variables, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE)
        assert done.returncode == 0 and f"{RANKS} ranks: all data is right" in done.stdout, done.stdout
        # The data went over the subnet: each rank has sent its part of what the largest messages have.
        for number in range(RANKS):
            counters = subnet.softib("show", "counters")
            sent = [line.split()[-1] for line in counters.splitlines()
                    if line.split()[:2] == [f"r{number}", "sent_bytes"]]
            assert sent and int(sent[0]) > 3 << 20, counters


def ucx_connections():
    ring("--mca", "pml", "ucx", "--mca", "osc", "ucx", UCX_TLS="rc_v,self")


def ucx_datagrams():
    ring("--mca", "pml", "ucx", "--mca", "osc", "ucx", UCX_TLS="ud_v,self")


def openib():
    ring("--mca", "pml", "ob1", "--mca", "btl", "openib,self", "--mca", "btl_openib_allow_ib", "1")


run_tests([ucx_connections, ucx_datagrams, openib], sys.argv[2:])
