#!/usr/bin/env python3
"""Tests that the bash completions load and complete options, words and interface names.

Usage: completion_test.py COMPLETION_FOLDER PROGRAM_FOLDER
"""
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

BASH_COMPLETION = "/usr/share/bash-completion/bash_completion"
SKIPPED = 77

# Completes a line as readline would, with the cursor at its end.
SCRIPT = r"""
set -u +u
. "$BASH_COMPLETION" || exit 1
. "$FOLDER/$1" || exit 1
COMP_LINE=$2 COMP_POINT=${#2} COMP_TYPE=9 COMP_KEY=9
read -ra COMP_WORDS <<<"$2"
[[ $2 == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
declare -a COMPREPLY=()
compopt() { :; }
"_$1" "$PROGRAMS/$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}" || exit 1
printf '%s\n' "${COMPREPLY[@]}"
"""

failed = 0


def expect(line, wanted, unwanted=(), **environment):
    """Checks that the completions of a line contain each wanted and no unwanted word."""
    global failed
    program = line.split()[0]
    done = subprocess.run(["bash", "--norc", "-c", SCRIPT, "bash", program, line], text=True,
                          capture_output=True, timeout=60, env={**os.environ, **environment})
    words = {word.strip() for word in done.stdout.splitlines()}
    missing = set(wanted) - words
    wrong = set(unwanted) & words
    if done.returncode != 0 or done.stderr or missing or wrong:
        failed += 1
        print(f"{line!r}: missing {sorted(missing)}, wrong {sorted(wrong)}, got {sorted(words)}, "
              f"status {done.returncode} {done.stderr}")


def main():
    if not os.path.exists(BASH_COMPLETION):
        print("bash-completion is not installed")
        sys.exit(SKIPPED)
    folder, programs = (str(pathlib.Path(each).resolve()) for each in sys.argv[1:])
    os.environ.update(BASH_COMPLETION=BASH_COMPLETION, FOLDER=folder, PROGRAMS=programs)
    name = f"c{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as daemon, tempfile.TemporaryDirectory() as subnets, \
            tempfile.TemporaryDirectory() as run:
        os.environ["IPOIBD_DIR"] = run
        sockets = f"{run}/net-{os.stat('/proc/self/ns/net').st_ino}/{name}"
        os.makedirs(sockets)
        daemon.bind(f"{sockets}/control")
        daemon.listen(1)
        os.mkdir(f"{subnets}/red")

        expect("ibarp ", ["show", "add", "del", "flush", "stats", "log", "trace", "info"])
        expect("ibarp --", ["--json", "--numeric", "--device", "--help", "--version"], ["show"])
        expect("ibarp --js", ["--json"], ["--numeric"])
        expect("ibarp fl", ["flush"], ["show"])
        expect("ibarp show dev ", [name])
        expect("ibarp groups ", ["dev"], ["show"])
        expect(f"ibarp stats -i {name[:2]}", [name])
        expect("ibarp flush ", ["dev", "all", "to", "nud"], ["show"])
        expect("ibarp show nud fa", ["failed"], ["stale"])
        expect("ibarp -", ["--ipv4", "--ipv6", "--batch", "--force"])
        expect("ibarp add 10.0.0.1 ", ["lladdr", "dev"])
        expect("ibarp log link=de", ["debug"], ["info"])
        expect("ibarp interface ", ["add", "del", "show"], ["flush"])
        expect("ibarp interface del ", [name], ["add"])
        expect("ibarp interface add 0x8001 ", ["name", "dev"], ["del", "lladdr"])
        expect("ibarp interface add 0x8001 dev ", [name])
        expect("ibarp me", ["metrics"], ["show"])
        expect("ibarp metrics ", ["dev"], ["show"])
        expect("ibarp metrics --", ["--serve", "--output"])

        expect("ipoibd --p", ["--port", "--pkey", "--pid-file"], ["--device"])
        expect("ipoibd --create-group ", ["yes", "no"])
        expect("ipoibd --name l", ["lo"])
        expect("ipoibd --control-g", ["--control-group"], ["--config"])
        expect("ipoibd --control-group ro", ["root"])
        expect("ipoibd --poll ", ["event", "busy", "adaptive"])
        expect("ipoibd --cp", ["--cpu"], ["--config"])
        expect("ipoibd --log-target s", ["stderr", "syslog"])
        expect("ipoibd --log ", ["debug", "link="])

        expect("softib ", ["subnet", "run", "show", "set", "list", "stop", "--help"])
        expect("softib subnet --", ["--partition", "--mtu", "--subnet", "--log"], ["--hca"])
        expect("softib run --", ["--hca", "--capture", "--dir"], ["--partition"])
        expect("softib show --subnet ", ["red"], SOFTIB_DIR=subnets)
        expect("softib set ", ["hca", "port", "lid", "mtu", "partition", "pkey", "sm"])
        expect("softib set --subnet red sm ", ["restart"])
        expect("softib set port a ", ["up", "down"])
        expect("softib set partition 0x12 a ", ["full", "limited", "none"])
        expect("softib set partition 0x12 ", ["delete"])
        expect("softib set link a ", ["off", "loss", "delay"])
        expect("softib set link a loss 1 ", ["delay"], ["off"])
        expect("softib show ", ["nodes", "partitions", "groups", "counters"])
        expect("softib show --", ["--json", "--watch", "--wide"])
        expect("softib stop ", [], ["show"])
        expect("softib run -- bas", ["bash"])
    sys.exit(1 if failed else 0)


main()
