#!/usr/bin/env python3
"""Tests that the completions of bash, zsh and fish load, and complete options, words and interface names.

Shells that are not installed are left out.

Usage: completion_test.py COMPLETION_FOLDER PROGRAM_FOLDER
"""
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile

BASH_COMPLETION = "/usr/share/bash-completion/bash_completion"
SKIPPED = 77

# Each script reads lines, and prints the completions of each with the cursor at its end, then END.
END = "end of completions"

BASH = r"""
set -u +u
. "$BASH_COMPLETION" || exit 1
for each in ibarp ipoibd softib; do . "$FOLDER/$each" || exit 1; done
compopt() { :; }
while IFS= read -r COMP_LINE; do
    program=${COMP_LINE%% *} COMP_POINT=${#COMP_LINE} COMP_TYPE=9 COMP_KEY=9
    read -ra COMP_WORDS <<<"$COMP_LINE"
    [[ $COMP_LINE == *' ' ]] && COMP_WORDS+=('')
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    COMPREPLY=()
    "_$program" "$PROGRAMS/$program" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    printf '%s\n' "${COMPREPLY[@]}" "$END"
done
"""

# Only an interactive zsh completes, so there is one on a pseudo terminal. compadd writes the matches to a
# file, too.
ZSH = r"""
zmodload zsh/zpty || exit 1
out=$(mktemp) || exit 1
zpty z "OUT=$out zsh -f -i" || exit 1
zpty -w z 'PROMPT= RPROMPT= PATH=$PROGRAMS:$PATH; fpath=($FOLDER/zsh $fpath)'
zpty -w z 'autoload -U compinit && compinit -D -u'
zpty -w z 'compadd() {
  local -a hits; builtin compadd -A hits "$@"; (( $#hits )) && print -rl -- $hits >>$OUT
  builtin compadd "$@"; }'
zpty -w z 'list-all() { zle list-choices; BUFFER=; print -r -- $END >>$OUT }'
zpty -w z 'zle -N list-all; bindkey "^I" list-all; LISTMAX=100000; print -r ready >>$OUT'
wait_for() { until grep -qx "$1" "$out"; do zpty -r -t z ignored; sleep 0.005; done }
wait_for ready
while IFS= read -r line; do
    : >"$out"
    zpty -n -w z "$line"$'\t'
    wait_for "$END"
    cat "$out"
done
zpty -d z
rm "$out"
"""

FISH = r"""
for each in ibarp ipoibd softib
    source $FOLDER/fish/$each.fish; or exit 1
end
set -p PATH $PROGRAMS
while read -l line
    complete -C $line | string replace -r '\t.*' ''
    echo $END
end
"""

SHELLS = {"bash": ["bash", "--norc", "-c", BASH], "zsh": ["zsh", "-f", "-c", ZSH],
          "fish": ["fish", "--no-config", "-c", FISH]}

expectations = []


def expect(line, wanted, unwanted=()):
    """The completions of a line contain each wanted and no unwanted word, in each shell."""
    expectations.append((line, set(wanted), set(unwanted)))


def check(shell):
    """Returns whether the completions of a shell are as expected."""
    lines = "".join(line + "\n" for line, _, _ in expectations)
    done = subprocess.run(SHELLS[shell], input=lines, text=True, capture_output=True, timeout=100,
                          env={**os.environ, "END": END})
    parts = done.stdout.split(END + "\n")
    complaints = [] if not done.stderr and len(parts) == len(expectations) + 1 else [done.stderr]
    for (line, wanted, unwanted), part in zip(expectations, parts):
        words = {word.strip() for word in part.splitlines()}
        # zsh and fish offer what is before the "=", too.
        words |= {word.partition("=")[2] for word in words if "=" in word.rstrip("=")}
        if wanted - words or unwanted & words:
            complaints.append(f"{line!r}: missing {sorted(wanted - words)}, wrong "
                              f"{sorted(unwanted & words)}, got {sorted(words)}")
    for complaint in complaints:
        print(f"{shell}: {complaint}")
    return not complaints


def help_of(*command):
    done = subprocess.run([f"{os.environ['PROGRAMS']}/{command[0]}", *command[1:], "--help"], text=True,
                          capture_output=True, check=True, timeout=60)
    return done.stdout


def options_of(*command):
    """Returns the long options at the beginning of a line of a help."""
    return re.findall(r"^ +(?:-. \[ |-., )?(--[a-z0-9-]+)", help_of(*command), re.MULTILINE)


def commands_of(text):
    """Returns the commands of ibarp that its help lists."""
    part = text[text.index("\nCommands"):]
    return re.findall(r"^  ([a-z]+)", part[:part.index("\n\n")], re.MULTILINE)


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
        os.environ["SOFTIB_DIR"] = subnets

        # All that the programs say that they accept.
        expect("ibarp ", commands_of(help_of("ibarp")))
        expect("ibarp --", options_of("ibarp"))
        expect("ipoibd --", options_of("ipoibd"))
        for command in ("subnet", "run", "exec", "show", "metrics", "set", "list", "stop", "topology"):
            expect(f"softib {command} --", options_of("softib", command))

        expect("ibarp monitor ", ["neighbours", "link", "groups", "stations", "stats", "all", "dev"], ["show"])
        expect("ibarp monitor link dev ", [name])
        expect("ibarp wait ", ["up", "down"], ["dev"])
        expect("ibarp wait up ", ["dev"], ["down"])
        expect("ibarp top --sort ", ["rate", "address", "state", "idle", "uses"])
        expect("ibarp --color=", ["always", "auto", "never"])
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

        expect("softib ", ["subnet", "run", "roce", "exec", "lab", "show", "set", "list", "stop", "topology"])
        expect("softib --", options_of("softib"))
        expect("softib subnet --", ["--partition", "--mtu", "--subnet", "--log"], ["--hca"])
        expect("softib exec --hosts 2 ibv_devin", ["ibv_devinfo"], ["--hosts"])
        expect("softib exec --mtu ", ["2048", "4096"], ["--hosts"])
        expect("softib run --", ["--hca", "--capture", "--dir"], ["--partition"])
        expect("softib show --subnet ", ["red"])
        expect("softib set ", ["hca", "port", "lid", "mtu", "partition", "pkey", "sm"])
        expect("softib set --subnet red sm ", ["restart"])
        expect("softib set port a ", ["up", "down"])
        expect("softib set partition 0x12 a ", ["full", "limited", "none"])
        expect("softib set partition 0x12 ", ["delete"])
        expect("softib set link a ", ["off", "loss", "delay"])
        expect("softib set link a loss 1 ", ["delay"], ["off"])
        expect("softib show ", ["nodes", "partitions", "groups", "counters"])
        expect("softib show --", ["--json", "--watch", "--wide"])
        expect("softib lab ", ["up", "down", "exec", "show", "check"], ["subnet"])
        expect("softib lab show --", ["--json", "--dir"], ["--hca"])
        expect("softib stop ", [], ["show"])
        expect("softib topology --format ", ["net", "svg", "json"], ["show"])
        expect("softib topology --", ["--format", "--output"], ["--hca"])
        expect("softib run -- bas", ["bash"])
        right = True
        for shell in SHELLS:
            if shutil.which(shell):
                right &= check(shell)
            else:
                print(f"{shell} is not installed")
    sys.exit(0 if right else 1)


main()
