#!/usr/bin/env python3
"""A program in Rust on softib, which calls the functions of libibverbs and those in its structures.

Usage: rust_program.py SOFTIB [NAME]...
"""
import pathlib
import subprocess
import sys
import tempfile

from softib_subnet import PATIENCE, Subnet, equal, need, run_tests

need("rustc")
SOURCE = pathlib.Path(__file__).resolve().parent / "foreign" / "pingpong.rs"


def threads_exchange_datagrams():
    with tempfile.TemporaryDirectory() as folder, Subnet(sys.argv[1]) as subnet:
        program = f"{folder}/pingpong"
        subprocess.run(["rustc", "-O", str(SOURCE), "-o", program], check=True, timeout=10 * PATIENCE)
        done = subprocess.run(subnet.command("a", program), env=subnet.environment, text=True, capture_output=True,
                              check=False, timeout=PATIENCE)
        equal((done.returncode, done.stdout, done.stderr), (0, "2000 messages\n", ""))


run_tests([threads_exchange_datagrams], sys.argv[2:])
