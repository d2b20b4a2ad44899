#!/usr/bin/env python3
"""sa_answers_like_opensm.py SOFTIB SA_ANSWERS: the emulated administrator answers as OpenSM does.

The same questions go to both; the answers, without what differs by nature, are the same lines.
"""
import difflib
import json
import pathlib
import subprocess
import sys

from softib_subnet import SKIPPED, Subnet

softib, questions = sys.argv[1:3]
here = pathlib.Path(__file__).parent

opensm = subprocess.run([sys.executable, here / "opensm_on_ibsim.py", questions],
                        stdout=subprocess.PIPE, text=True, check=False)
if opensm.returncode == SKIPPED:
    print(opensm.stdout, end="")
    sys.exit(SKIPPED)
assert opensm.returncode == 0, opensm.stdout

# The partitions of opensm_on_ibsim.py.
with Subnet(softib, "--partition", "0x0012=full,mtu=4096") as subnet:
    picture = subprocess.run([softib, "show", "--json"], env=subnet.environment, check=True,
                             stdout=subprocess.PIPE).stdout
    sm = json.loads(picture)["nodes"][0]
    answers = subnet.run("host2", questions, "--peer", sm["gid"]).stdout

differences = list(difflib.unified_diff(opensm.stdout.splitlines(), answers.splitlines(),
                                        "OpenSM", "softib", lineterm=""))
print(*differences, sep="\n")
count = len([line for line in opensm.stdout.splitlines() if not line.startswith(" ")])
print(f"{count} questions")
sys.exit(1 if differences or count < 300 else 0)
