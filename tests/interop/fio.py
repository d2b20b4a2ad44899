#!/usr/bin/env python3
"""fio's engine rdma between two emulated HCAs: RDMA WRITE, RDMA READ, and SEND.

fio connects without retries for a receiver that is not ready, and ignores the completion with that error, so both
sides then wait for ever, on any device. So the server posts receives for all messages at once. The client waits for
half a second before its first; if the machine was slower, the test is run again.

Usage: fio.py SOFTIB [NAME]...
"""
import json
import subprocess
import sys

from softib_subnet import PATIENCE, Subnet, equal, is_locked, need, run_tests, wait_for

need("fio")
SOFTIB = sys.argv[1]
PORT = 4444
SERVICE = 0x01060000 | PORT  # port space TCP
MESSAGES, SIZE = 64, 65536
NOT_READY = "RNR retry counter exceeded"


def job(rw, verb, depth):  # the side that writes is the client, whatever the verb
    return ("fio", f"--name={verb}", "--ioengine=rdma", "--hostname=127.77.0.1", f"--port={PORT}", f"--verb={verb}",
            f"--rw={rw}", f"--bs={SIZE}", f"--size={MESSAGES * SIZE}", f"--iodepth={depth}", "--thread",
            "--output-format=json")


def report_of(output):
    return json.loads(output[output.index("{"):output.rindex("}") + 1])["jobs"][0]


def transfer(verb):
    """Returns whether the receiver was ready in time."""
    with Subnet(SOFTIB) as subnet:
        log = subnet.folder / "server.out"
        services = subnet.folder / "default/node/1/services"
        with open(log, "w", encoding="utf-8") as out:
            server = subnet.start("a", *job("read", verb, MESSAGES), stdout=out, stderr=subprocess.STDOUT)
        wait_for("the server", lambda: server.poll() is not None or
                 (services.exists() and is_locked(services, SERVICE)))
        client_log = subnet.folder / "client.out"
        with open(client_log, "w", encoding="utf-8") as out:
            client = subnet.start("b", *job("write", verb, 16), stdout=out,
                                  stderr=subprocess.STDOUT)
        wait_for("the client", lambda: client.poll() is not None or NOT_READY in client_log.read_text())
        if NOT_READY in client_log.read_text():
            return False
        server.wait(PATIENCE)
        outputs = (client_log.read_text(), log.read_text())
        equal((client.returncode, server.returncode), (0, 0))
        done = report_of(outputs[0])
        equal(done["error"], 0)
        equal(done["write"]["io_bytes"], MESSAGES * SIZE)
        if verb == "send":
            equal(report_of(outputs[1])["read"]["io_bytes"], MESSAGES * SIZE)
        sender = "a" if verb == "read" else "b"
        counters = [line.split() for line in subnet.softib("show", "counters").splitlines()]
        sent = [int(line[2]) for line in counters if line[:2] == [sender, "sent_bytes"]]
        assert sent and sent[0] >= MESSAGES * SIZE, counters
        return True


def writes():
    transfer("write")


def reads():
    transfer("read")


def sends():
    assert any(transfer("send") for _ in range(3)), NOT_READY


run_tests([writes, reads, sends], sys.argv[2:])
