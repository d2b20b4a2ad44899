"""Runs a part of the benchmark in a virtual machine with soft RDMA ports (scripts/vm)."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def measure(part, options, seconds, *vm_options, ports="InfiniBand"):
    """Runs the file `part` in the guest, which calls main(). Returns what it has measured. `seconds`
    limits boot and measurement together. `ports` is the link layer of the soft ports."""
    link_layer = ["--infiniband"] if ports == "InfiniBand" else []
    with tempfile.TemporaryDirectory(dir=options.programs) as folder:
        file = pathlib.Path(folder) / "measured.json"
        subprocess.run(
            [ROOT / "scripts" / "vm", *link_layer, *vm_options, "--seconds", str(seconds), "--",
             "env", f"IPOIB_BIN={options.programs}/bin", "PYTHONDONTWRITEBYTECODE=1",
             sys.executable, part, str(options.rounds), str(options.seconds), str(file)],
            check=True, cwd=ROOT)
        return json.loads(file.read_text(encoding="utf-8"))


def main(measure_in_guest):
    """In the guest. Arguments of the program: ROUNDS SECONDS FILE."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    for folder in ("kernel_peer", "vm"):
        sys.path.insert(0, str(ROOT / "tests" / folder))
    rounds, seconds, file = int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
    file.write_text(json.dumps(measure_in_guest(rounds, seconds)), encoding="utf-8")
