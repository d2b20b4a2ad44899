#!/usr/bin/env python3
"""sa_responses_like_opensm.py SOFTIB SA_RESPONSES: the emulated SA responds as OpenSM does.

Both get the same requests; apart from values that differ by nature, the responses are the same lines.
"""
import difflib
import json
import pathlib
import subprocess
import sys

from softib_subnet import SKIPPED, Subnet

softib, program = sys.argv[1:3]
here = pathlib.Path(__file__).parent

opensm = subprocess.run([sys.executable, here / "opensm_on_ibsim.py", program],
                        stdout=subprocess.PIPE, text=True, check=False)
if opensm.returncode == SKIPPED:
    print(opensm.stdout, end="")
    sys.exit(SKIPPED)
assert opensm.returncode == 0, opensm.stdout

# The partitions of opensm_on_ibsim.py, with a group whose MTU is larger than that of the HCAs.
with Subnet(softib, "--mtu", "4096", "--partition", "0x7fff=full,mtu=2048",
            "--partition", "0x0012=full,mtu=4096") as subnet:
    subnet.softib("set", "hca", "host2", "present")
    for hca in ("softib-sm", "host2"):
        subnet.softib("set", "mtu", hca, "2048")
    shown = subprocess.run([softib, "show", "--json"], env=subnet.environment, check=True,
                             stdout=subprocess.PIPE).stdout
    sm = json.loads(shown)["nodes"][0]
    responses = subnet.run("host2", program, "--peer", sm["gid"]).stdout

differences = list(difflib.unified_diff(opensm.stdout.splitlines(), responses.splitlines(),
                                        "OpenSM", "softib", lineterm=""))
print(*differences, sep="\n")
count = len([line for line in opensm.stdout.splitlines() if not line.startswith(" ")])
print(f"{count} requests")
sys.exit(1 if differences or count < 300 else 0)
