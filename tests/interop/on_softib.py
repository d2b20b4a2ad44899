#!/usr/bin/env python3
"""on_softib.py SOFTIB PROGRAM [ARGUMENT]...: runs a program on an HCA of a fresh subnet."""
import sys

from softib_subnet import Subnet

with Subnet(sys.argv[1]) as subnet:
    done = subnet.run("a", *sys.argv[2:], check=False)
    print(done.stdout)
sys.exit(done.returncode)
