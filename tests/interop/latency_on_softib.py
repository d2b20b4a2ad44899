#!/usr/bin/env python3
"""The latency benchmark between two emulated HCAs: each mode works, and errors are reported.

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


def check(result):
    # On a busy machine a message may time out.
    assert result["messages"] > 0 and result["lost"] < result["messages"], result
    assert sum(count for _, count in result["buckets"]) == result["messages"], result
    assert 0 < result["p10"] <= result["median"] <= result["p90"] <= result["p99"], result


def each_mode_on_verbs():
    modes = ({}, {"poll": "busy"}, {"burst": 64}, {"pause": 1000}, {"size": 2000}, {"inline": "yes"},
             {"signal": 16, "burst": 200, "poll": "busy"})
    with Subnet(SOFTIB) as subnet:
        for mode in modes:
            check(latency.exchange(PROGRAM, "verbs", subnet.command("a"), subnet.command("b"),
                                   {"seconds": 1, **mode}, environment=subnet.environment))


def refusal(*arguments):
    done = subprocess.run([PROGRAM, *arguments], check=False, capture_output=True, text=True)
    return done.returncode, done.stderr


def wrong_options():
    for wrong in ((), ("tcp", "server"), ("udp", "client"), ("udp", "server", "--peer", "::1"),
                  ("udp", "server", "--poll", "rarely"), ("udp", "server", "--size", "7"),
                  ("udp", "server", "--burst", "257"), ("verbs", "server", "--signal", "0"),
                  ("udp", "server", "--loud")):
        code, message = refusal(*wrong)
        assert code == 2 and message.endswith("try --help\n"), (wrong, code, message)


def unreachable_peers():
    with Subnet(SOFTIB) as subnet:
        done = subnet.run("b", PROGRAM, "verbs", "client", "--peer", "2/nonsense", check=False)
        assert done.returncode == 1 and "LID/QPN/GID" in done.stdout, done.stdout
        silent = json.loads(subnet.run("b", PROGRAM, "udp", "client", "--peer", "127.9.9.9").stdout)
        assert silent["messages"] == 0 and silent["lost"] > 0 and silent["median"] == 0, silent


run_tests([each_mode_on_verbs, wrong_options, unreachable_peers])
