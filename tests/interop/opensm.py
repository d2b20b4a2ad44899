"""OpenSM as the subnet manager of a softib subnet, on one of its HCAs."""
import signal

from softib_subnet import PATIENCE, wait_for

# All ports are in the default partition; tests add others.
PARTITIONS = "Default=0x7fff,ipoib:ALL=full;\n"


class OpenSm:
    """`subnet` runs with --sm none. OpenSM writes its files into its own folder."""

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
        """Starts OpenSM and waits until it prints `words`."""
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
        def is_printed():
            assert self.process.poll() is None, f"OpenSM has ended:\n{self.output()}"
            return words in self.output()
        wait_for(f"OpenSM to print '{words}'", is_printed)

    def output(self):
        """Returns its output since the last start."""
        return "".join(path.read_text(errors="replace")
                       for path in (self.log, self.folder / "out") if path.exists())

    def end(self, number=signal.SIGTERM):
        """Ends OpenSM and returns its exit status."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


