#!/usr/bin/env python3
"""The latency benchmark between two emulated HCAs: each way of doing it does it, and what cannot be
done is said.

Usage: latency_on_softib.py SOFTIB BENCH_LATENCY
"""
import json
import pathlib
import subprocess
import sys

from softib_subnet import Subnet, run_tests

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import latency  # noqa: E402

SOFTIB, PROGRAM = sys.argv[1:]


def check(said):
    # One whose answer takes long is given up: on a busy machine that may happen.
    assert said["messages"] > 0 and said["lost"] < said["messages"], said
    assert sum(count for _, count in said["buckets"]) == said["messages"], said
    assert 0 < said["p10"] <= said["median"] <= said["p90"] <= said["p99"], said


def each_way_on_verbs():
    ways = ({}, {"poll": "busy"}, {"burst": 64}, {"pause": 1000}, {"size": 2000}, {"inline": "yes"},
            {"signal": 16, "burst": 200, "poll": "busy"})
    with Subnet(SOFTIB) as subnet:
        for way in ways:
            check(latency.exchange(PROGRAM, "verbs", subnet.command("a"), subnet.command("b"),
                                   {"seconds": 1, **way}, environment=subnet.environment))


def refusal(*arguments):
    done = subprocess.run([PROGRAM, *arguments], check=False, capture_output=True, text=True)
    return done.returncode, done.stderr


def what_it_does_not_understand():
    for wrong in ((), ("tcp", "server"), ("udp", "client"), ("udp", "server", "--peer", "::1"),
                  ("udp", "server", "--poll", "rarely"), ("udp", "server", "--size", "7"),
                  ("udp", "server", "--burst", "257"), ("verbs", "server", "--signal", "0"),
                  ("udp", "server", "--loud")):
        code, said = refusal(*wrong)
        assert code == 2 and said.endswith("try --help\n"), (wrong, code, said)


def what_it_cannot_reach():
    with Subnet(SOFTIB) as subnet:
        done = subnet.run("b", PROGRAM, "verbs", "client", "--peer", "2/nonsense", check=False)
        assert done.returncode == 1 and "LID/QPN/GID" in done.stdout, done.stdout
        nobody = json.loads(subnet.run("b", PROGRAM, "udp", "client", "--peer", "127.9.9.9").stdout)
        assert nobody["messages"] == 0 and nobody["lost"] > 0 and nobody["median"] == 0, nobody


run_tests([each_way_on_verbs, what_it_does_not_understand, what_it_cannot_reach])
