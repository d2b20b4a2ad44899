"""OpenSM as the manager of a subnet of softib, run on one of its HCAs."""
import signal

from softib_subnet import PATIENCE, wait_for

# Everybody is in the first; who else is where, tests say.
PARTITIONS = "Default=0x7fff,ipoib:ALL=full;\n"


class OpenSm:
    """`subnet` has been made with --sm none. What OpenSM writes is in a folder of its own."""

    def __init__(self, subnet, hca="sm", partitions=PARTITIONS, options="",
                 until="SUBNET UP"):
        self.subnet = subnet
        self.hca = hca
        self.folder = subnet.folder / f"opensm-{hca}"
        self.folder.mkdir(exist_ok=True)
        self.log = self.folder / "log"
        self.process = None
        self.write(partitions)
        (self.folder / "options").write_text(f"force_log_flush TRUE\n{options}")
        self.start(until)

    def write(self, partitions):
        (self.folder / "partitions.conf").write_text(partitions)

    def start(self, words="SUBNET UP"):
        """Returns when it has said so: that it has brought the subnet up."""
        self.log.unlink(missing_ok=True)
        self.subnet.environment |= {"OSM_TMP_DIR": str(self.folder),
                                    "OSM_CACHE_DIR": str(self.folder)}
        with open(self.folder / "out", "wb") as out:
            self.process = self.subnet.start(
                self.hca, "opensm", "-F", str(self.folder / "options"), "-P",
                str(self.folder / "partitions.conf"), "-f", str(self.log),
                stdout=out, stderr=out)
        self.wait_for_line(words)

    def wait_for_line(self, words):
        def is_there():
            assert self.process.poll() is None, f"OpenSM has ended:\n{self.said()}"
            return words in self.said()
        wait_for(f"OpenSM to say '{words}'", is_there)

    def said(self):
        """Since its last start."""
        return "".join(path.read_text(errors="replace")
                       for path in (self.log, self.folder / "out") if path.exists())

    def end(self, number=signal.SIGTERM):
        """Its exit status."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


