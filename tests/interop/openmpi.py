#!/usr/bin/env python3
"""Open MPI on softib, each rank on a host of its own: over UCX, over libfabric, and by its own openib.
mpi_ring.c checks the data.

Usage: openmpi.py SOFTIB [NAME]...
"""
import sys

from mpi_ring import RANKS, ring
from softib_subnet import add_addresses, need, need_own_network, run_tests

need("mpicc.openmpi", "mpirun.openmpi")
need_own_network()
# Any number of processes on any machine, also as root.
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
               "UCX_NET_DEVICES": "softib0:1"}


def run(*parameters, prepare=lambda subnet: None, **variables):
    """Runs mpi_ring; shared memory and TCP between the ranks are off by the parameters."""
    ring(sys.argv[1], "mpicc.openmpi", ["mpirun.openmpi", *parameters], "OMPI_COMM_WORLD_RANK",
         ENVIRONMENT | variables, prepare)


def ucx_connections():
    run("--mca", "pml", "ucx", "--mca", "osc", "ucx", UCX_TLS="rc_v,self")


def ucx_datagrams():
    run("--mca", "pml", "ucx", "--mca", "osc", "ucx", UCX_TLS="ud_v,self")


def openib():
    run("--mca", "pml", "ob1", "--mca", "btl", "openib,self", "--mca", "btl_openib_allow_ib", "1")


def libfabric():
    run("--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", "verbs;ofi_rxm",
        # Its connected endpoints have addresses of network interfaces.
        prepare=lambda subnet: add_addresses(subnet, {f"r{rank}": f"10.1.0.{rank + 1}" for rank in range(RANKS)}))


run_tests([ucx_connections, ucx_datagrams, openib, libfabric], sys.argv[2:])
