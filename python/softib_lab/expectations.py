"""Checks the expectations of a lab: runs a command on a host for each pair of hosts."""

import concurrent.futures
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

from .lab_file import address_of

WORKERS = 4  # expectations that are checked at a time
TRANSFER = pathlib.Path(__file__).resolve().parent / "transfer.py"


@dataclasses.dataclass(frozen=True)
class Check:
    """What one host expects of one address."""
    line: int
    kind: str
    source: str
    target: str  # as in the file; of "runs", the command line
    address: str  # empty: that of no host
    server: str  # the host that has the address; empty if none has
    expectation: object

    def __str__(self):
        if self.kind == "runs":
            return f"{self.source} runs {self.target}"
        verb = {"ping": "pings", "tcp": "connects to"}.get(self.kind, self.kind)
        name = "" if self.target == self.address else f" ({self.address})"
        port = f" port {self.expectation.port}" if self.expectation.port else ""
        return f"{self.source} {verb} {self.target}{name}{port}"


def checks_of(lab):
    """Returns the checks of all expectations; with several hosts, one for each pair of two."""
    owners = {address.split("/")[0]: host.name for host in lab.hosts for link in host.links
              for address in link.addresses}
    found = []
    for each in lab.expectations:
        for source in each.sources:
            for target in each.targets:
                if each.kind == "runs":
                    found.append(Check(each.line, each.kind, source, target, "", "", each))
                    continue
                host = lab.host(target)
                address = address_of(host) if host else target
                if target != source:
                    found.append(Check(each.line, each.kind, source, target, address, owners.get(address, ""), each))
    return found


class Checker:
    def __init__(self, command, environment, folder):
        """`command(host, *words, folder)` returns the command that runs another one on a host; `folder`
        is where those of "runs" run."""
        self.command = command
        self.folder = folder
        self.environment = environment

    def run(self, checks, on_result):
        """Calls on_result(check, failure) for each check in their order; failure is None or the reason."""
        with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
            futures = [pool.submit(self._failure_of, check) for check in checks]
            try:
                for check, future in zip(checks, futures):
                    on_result(check, future.result())
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _failure_of(self, check):
        kinds = {"ping": self._ping, "tcp": self._tcp, "reaches": self._reaches,
                 "does not reach": self._does_not_reach, "runs": self._runs}
        return kinds[check.kind](check)

    def _run(self, host, *words):
        return subprocess.run(self.command(host, *words), env=self.environment, check=False, capture_output=True,
                              text=True, stdin=subprocess.DEVNULL)

    def _ping(self, check):
        count = check.expectation.count
        done = self._run(check.source, "ping", "-n", "-c", str(count), "-i", "0.2", "-w", str(count + 10),
                         check.address)
        counts = re.search(r"(\d+) packets transmitted, (\d+) received", done.stdout)
        if counts is None:
            return _last_line(done)
        sent, received = map(int, counts.groups())
        return None if received >= count and received == sent else f"{received} of {sent} pings were answered"

    def _replies(self, check, count):
        return self._run(check.source, "ping", "-n", "-c", str(count), "-i", "0.2", "-W", "1", check.address)

    def _reaches(self, check):
        end = time.monotonic() + check.expectation.within
        while (done := self._replies(check, 1)).returncode != 0:
            if time.monotonic() > end:
                return f"no reply within {check.expectation.within} s: {_last_line(done)}"
            if done.returncode != 1:
                time.sleep(0.2)
        return None

    def _does_not_reach(self, check):
        return "it was answered" if self._replies(check, 3).returncode == 0 else None

    def _runs(self, check):
        """Until it succeeds. A command that takes longer than there is time is killed, with what it has
        started in its session."""
        expectation = check.expectation
        end = time.monotonic() + expectation.within
        while True:
            with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
                process = subprocess.Popen(
                    self.command(check.source, "sh", "-c", check.target, folder=self.folder),
                    env=self.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                    start_new_session=True)
                try:
                    status = process.wait(max(0.1, end - time.monotonic()))
                except subprocess.TimeoutExpired:
                    status = None
                finally:
                    if process.poll() is None:
                        os.killpg(process.pid, signal.SIGKILL)
                        process.wait()
                if status == 0:
                    return None
                if time.monotonic() > end:
                    output.seek(0)
                    lines = output.read().strip().splitlines()
                    reason = f"not finished after {expectation.within} s" if status is None else f"exit status {status}"
                    return reason + (f": {lines[-1]}" if lines else "")
            time.sleep(0.2)

    def _tcp(self, check):
        expectation = check.expectation
        transfer = [sys.executable, "-B", str(TRANSFER)]
        within = str(expectation.within)
        if expectation.port is not None:
            done = self._run(check.source, *transfer, "connect", check.address, str(expectation.port), within)
            return None if done.returncode == 0 else _last_line(done)
        server = subprocess.Popen(self.command(check.server, *transfer, "serve", check.address, within),
                                  env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        with server:
            port = server.stdout.readline().strip()
            if not port:
                return server.stderr.read().strip() or "no server"
            done = self._run(check.source, *transfer, "send", check.address, port, within, str(expectation.bytes))
            if done.returncode != 0:
                server.kill()
                return _last_line(done)
            received = server.stdout.readline().strip()
            return None if received == done.stdout.strip() else f"sent {done.stdout.strip()}, received {received}"


def _last_line(done):
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return lines[-1] if lines else f"exit status {done.returncode}"
