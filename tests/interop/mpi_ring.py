"""mpi_ring.c on softib, each rank on a host of its own, for the MPI libraries that the tests run."""
import os
import pathlib
import subprocess
import tempfile

from softib_subnet import PATIENCE, Subnet

SOURCE = pathlib.Path(__file__).with_name("mpi_ring.c")
RANKS = 4


def ring(softib, compiler, launcher, rank, variables, prepare=lambda subnet: None, ranks=RANKS):
    """Compiles and runs it: `launcher` is a command that gets the number of ranks and the program, `rank` the
    environment variable in which each rank finds its number. `prepare` is called with the subnet first."""
    softib = os.path.abspath(softib)
    with Subnet(softib) as subnet, tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/mpi_ring"
        subprocess.run([compiler, "-O2", "-o", program, SOURCE], check=True)
        prepare(subnet)
        on_host = f'exec "{softib}" run --hca r${rank} -- "$0"'
        done = subprocess.run([*launcher, "-n", str(ranks), "sh", "-c", on_host, program], env=subnet.environment | variables,
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE)
        assert done.returncode == 0 and f"{ranks} ranks: all data is right" in done.stdout, done.stdout
        # The data went over the subnet: each rank has sent its part of what the largest messages have.
        for number in range(ranks):
            counters = subnet.softib("show", "counters")
            sent = [line.split()[-1] for line in counters.splitlines()
                    if line.split()[:2] == [f"r{number}", "sent_bytes"]]
            assert sent and int(sent[0]) > 3 << 20, counters
