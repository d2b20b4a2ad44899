#!/usr/bin/env python3
"""A program in Go on softib, which calls libibverbs by cgo.

Usage: go_program.py SOFTIB [NAME]...
"""
import pathlib
import subprocess
import sys
import tempfile

from softib_subnet import PATIENCE, Subnet, equal, need, run_tests

need("go", "gcc")
SOURCE = pathlib.Path(__file__).resolve().parent / "foreign" / "pingpong.go"


def goroutines_exchange_messages():
    with tempfile.TemporaryDirectory() as folder, Subnet(sys.argv[1]) as subnet:
        program = f"{folder}/pingpong"
        # What it compiles of its own library is kept nowhere else.
        environment = {**subnet.environment, "GOCACHE": f"{folder}/cache", "CGO_ENABLED": "1",
                       "GO111MODULE": "off"}
        subprocess.run(["go", "build", "-o", program, str(SOURCE)], env=environment, check=True, timeout=10 * PATIENCE)
        done = subprocess.run(subnet.command("a", program), env=subnet.environment, text=True, capture_output=True,
                              check=False, timeout=PATIENCE)
        equal((done.returncode, done.stdout, done.stderr), (0, "2000 messages\n", ""))


run_tests([goroutines_exchange_messages], sys.argv[2:])
