#!/usr/bin/env python3
"""Tests what the three programs say about command lines that they refuse, and about the exit status then.

Usage: refusals_test.py FOLDER_OF_THE_PROGRAMS

No daemon and no subnet runs, and none can start.
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

PROGRAMS = pathlib.Path(sys.argv[1]).resolve()
# What ends most messages about a command line.
HINT = re.compile(r" \((see ibarp|try softib|try softib [a-z]+) --help\)$")
EVERY_STATE = ",".join(["permanent"] * 16)
FILES = {"quoted": 'name = "ib0"\n', "sections": "[daemon]\nname = ib0\n", "unknown": "nmae = ib0\n",
         "empty": "", "batch": "monitor\n", "cable": 'Hca 1 "a"\n[1] "b"[1]\nHca 1 "b"\n[1] "a"[1]\n', "reserved": 'Switch 2 "s"\n[1] "softib-sm"[1]\nHca 1 "softib-sm"\n[1] "s"[1]\n'}
MANY_HCAS = " ".join(f"h{number}" for number in range(49))

# (program, exit status): arguments and message.
REFUSALS = {
    ("ibarp", 2): (
        ("show -4 -6", "use only one of -4 and -6"),
        ("show --color=blue", "--color is always, auto or never"),
        ("show --output f", "--output is for metrics, save and bugreport only"),
        ("show --serve 9000", "--serve is for metrics only"),
        ("metrics --password-file f", "--password-file has no effect without --serve"),
        ("metrics --output f --serve 9000", "use only one of --output and --serve"),
        ("metrics --output --serve", "--output needs a file; one whose name begins with -- is ./--serve"),
        ("metrics --json", "metrics, save and bugreport do not print JSON"),
        ("show --neighbour 10.0.0.1", "--neighbour, -C and -W are for capture only"),
        ("show -C 1", "--neighbour, -C and -W are for capture only"),
        ("capture f -W 2", "-W needs -C, the size of each file"),
        ("capture - -C 1 -W 2", "-W needs a file, not the standard output"),
        ("capture f -C 0", "--file-size is a number from 1 to 1000000"),
        ("capture f -C 1000001", "--file-size is a number from 1 to 1000000"),
        ("capture f -W x", "--files is a number from 1 to 10000"),
        ("-a -d 10.0.0.1", "use only one of -a, -s, -d and -f"),
        ("-s", "the option -s needs an argument"),
        ("show --from", "the option --from needs an argument"),
        ("--batch f show", "--batch takes its commands from a file only"),
        ("--batch batch", "batch:1: monitor, top and capture are not for --batch"),
        ("-a --batch f", "--batch takes its commands from a file only"),
        ("show --force", "--force is for --batch only"),
        ("monitor --count 0", "--count is a positive number"),
        ("top --sort name", "--sort is rate, address, state, idle or uses"),
        ("monitor --timeout x", "--timeout is a number of seconds from 0 to 1000000"),
        ("top --interval 0", "--interval is a number of seconds from 0.1 to 3600"),
        ("add", "an address is required"),
        ("add 10.0.0.1", '"lladdr HW" or "gid GID" is required'),
        ("add 10.0.0.1 lladdr", "the command line ends, expected a link-layer address"),
        ("add 10.0.0.1 lladdr 12",
         '"12" is no link-layer address; expected 20 bytes in hexadecimal with colons, or QPN@GID'),
        ("add 10.0.0.1 lladdr qpn 5 lid", '"qpn QPN" must be followed by "gid GID"'),
        ("add 10.0.0.1 lladdr qpn 5 gid", "the command line ends, expected a GID"),
        ("add 10.0.0.1 gid 10.0.0.1", '"10.0.0.1" is no GID; expected the format of an IPv6 address'),
        ("add 10.0.0.1 gid fe80::1 gid fe80::2", 'give either "lladdr" or "gid", once'),
        ("add 10.0.0.1 gid fe80::1 nud stale", "the only state that can be set is permanent"),
        ("add 10.0.0.1 10.0.0.2", '"10.0.0.2" is not expected here'),
        ("get", "an address is required"),
        ("get 10.0.0.1 dev", "the command line ends, expected an interface"),
        ("show 10.0.0", '"10.0.0" is not an IP address or prefix'),
        ("show to 10.0.0.1 to 10.0.0.2", '"10.0.0.2" is not expected here'),
        ("show nud", "the command line ends, expected a state"),
        ("log link", '"link" is not MODULE=LEVEL'),
        ("log =debug", '"=debug" is not MODULE=LEVEL'),
        ("monitor nothing",
         '"nothing" is no topic; topics are neighbours, neighbors, link, groups, stats, stations, all'),
        ("failover mlx5_0", '"mlx5_0" is not DEVICE:PORT'),
        ("failover mlx5_0:0", '"mlx5_0:0" is not DEVICE:PORT'),
        ("explain --from 10.0.0.1 10.0.0.2", "use either --from or the address that packets go to"),
        ("explain", "an address is required"),
        ("get --from 10.0.0.1", "--from is for explain only"),
        ("interface add", "a P_Key is required"),
        ("interface delete", "an interface is required"),
        ("interface add 0",
         '"0" is no P_Key; expected 0x0001 to 0x7fff, with or without the membership bit 0x8000; hexadecimal '
         "numbers need 0x"),
        ("interface add ffff",
         '"ffff" is no P_Key; expected 0x0001 to 0x7fff, with or without the membership bit 0x8000; '
         "hexadecimal numbers need 0x"),
        ("interface show x", '"x" is not expected here'),
        ("wait", 'the command line ends, expected "up" or "down"'),
        ("wait sideways", '"sideways" is neither "up" nor "down"'),
        ("capture", "capture needs a file, or - for the standard output"),
        ("capture a b", '"b" is not expected here'),
        ("metrics --serve nowhere",
         '"nowhere" is no address to listen on; expected PORT, ADDRESS:PORT or [ADDRESS]:PORT'),
        ("metrics --serve 127.0.0.1:70000",
         '"127.0.0.1:70000" is no address to listen on; expected PORT, ADDRESS:PORT or [ADDRESS]:PORT'),
        ("resolve 10.0.0.1", 'the command "resolve" is unknown'),
        ("show --wat", "the option --wat is unknown"),
        ("show --json=yes", "the option --json=yes takes no argument"),
        ("shwo", 'the command "shwo" is unknown; did you mean show?'),
        (f"show nud {EVERY_STATE}", "too many states"),
    ),
    ("ibarp", 1): (
        ("metrics --serve 127.0.0.1:0 --password-file empty",
         "--password-file empty: has no password; openssl rand -hex 32 makes one"),
        ("metrics --serve 127.0.0.1:0 --password-file /proc/nowhere",
         "--password-file /proc/nowhere: cannot be read: No such file or directory"),
        ("metrics --serve 127.0.0.1:0 --password-file /dev/null",
         "--password-file /dev/null: others may read it: chmod o= /dev/null"),
        ("show dev nosuch", "nosuch: no ipoibd runs this interface in this network namespace: start it, or see in its log "
                            "why it has ended"),
        ("groups", "no ipoibd is running in this network namespace"),
        ("stations", "no ipoibd is running in this network namespace"),
        ("-d 10.0.0.1", "no ipoibd is running in this network namespace"),
        ("--batch /proc/nowhere", "/proc/nowhere: No such file or directory"),
        ("-f /proc/nowhere", "no ipoibd is running in this network namespace"),
    ),
    ("softib", 2): (
        ("subnet --topology empty",
         "--topology: empty: has neither a switch nor an HCA; expected a net file of ibsim, or the output of ibnetdiscover"),
        ("subnet --topology cable", "--topology: cable has no switch"),
        ("subnet --topology reserved", "--topology: 'softib-sm' is the subnet manager's own HCA; rename that of reserved"),
        ("--subent", "unknown option '--subent'"),
        ("subnte", "unknown subcommand 'subnte'; did you mean subnet?"),
        ("capture", "no file to write; - is the standard output"),
        ("capture f --file-size 0", "--file-size is 1 to 1000000 million bytes"),
        ("capture f --file-size 1000001", "--file-size is 1 to 1000000 million bytes"),
        ("capture f --files 0", "--files is 1 to 10000"),
        ("capture f --files 2", "--files needs --file-size and the name of a file"),
        ("capture f --count 0", "--count is 1 or more"),
        ("capture - --json", "--json needs the name of a file"),
        ("capture f a:1", "an HCA is named without port"),
        (f"capture f {MANY_HCAS}", "at most 48 HCAs"),
        ("capture f .",
         "'.' is not a valid HCA name (1 to 63 letters, digits, '.', '_' and '-'; not '.' or '-' first)"),
        ("show --subnet a/b",
         "--subnet: 'a/b' is not a valid subnet name (1 to 63 letters, digits, '.', '_' and '-'; not '.' or "
         "'-' first)"),
        ('show --dir ""', "--dir: the name of the directory is empty"),
        ("run --hca .. true",
         "--hca: '..' is not a valid HCA name (1 to 63 letters, digits, '.', '_' and '-'; not '.' or '-' "
         "first)"),
        ("run --hca a:3 true", "--hca: the HCA 'a' has no port '3': an HCA has 2 ports"),
        ("run --hca a,a true", "--hca: the HCA 'a' is named twice"),
        ("run --hca a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q true", "--hca: a program can use 4 HCAs, not 17"),
        ("run", "no program to run"),
        ("run --address x true", "--address: 'x' is not an IP address"),
        ("exec", "no command to run"),
        ("exec --hosts 0 true", "--hosts is 1 to 4095"),
        ("exec --mtu 1500 true", "--mtu is 2048 or 4096"),
        ("lab", "which of up, down, exec, show and check?"),
        ("lab nosuch", "unknown command 'nosuch'"),
        ("lab up a b", "unexpected argument 'b'"),
        ("metrics --output f --serve 1", "use only one of --output and --serve"),
        ("metrics --serve nowhere",
         '"nowhere" is no address to listen on; expected PORT, ADDRESS:PORT or [ADDRESS]:PORT'),
        ("roce --log loud", "--log is debug, info, warning, error or off, not 'loud'"),
        ("set",
         "no change is given; changes: hca, port, lid, mtu, link, qp, address, partition, pkey, cable, "
         "switch, sm"),
        ("set mtu a 1500",
         "mtu: '1500' is not a valid MTU (256, 512, 1024, 2048 or 4096); usage: softib set mtu HCA[PORT] BYTES"),
        ("set lid a 0xc000", "lid: '0xc000' is not a valid LID (1 to 49151); usage: softib set lid HCA[PORT] LID"),
        ("set port a sideways",
         "port: 'sideways' is not a valid state of a port (up|down|init|armed); usage: softib set port HCA[PORT] "
         "up|down|init|armed"),
        ("set partition 0 full",
         "partition: '0' is not a valid P_Key (0x0001 to 0x7fff, with or without the membership bit 0x8000; "
         "hexadecimal numbers need 0x); usage: softib set partition PKEY HCA full|limited|none | PKEY delete"),
        ("set partition ffff full",
         "partition: 'ffff' is not a valid P_Key (0x0001 to 0x7fff, with or without the membership bit "
         "0x8000; hexadecimal numbers need 0x); usage: softib set partition PKEY HCA full|limited|none | "
         "PKEY delete"),
        ("set address a x",
         "address: 'x' is not a valid IP address (IPv4 or IPv6); usage: softib set address HCA[PORT] ADDRESS "
         "[delete]"),
        ("set pkey 0x7fff a 500",
         "pkey: '500' is not a valid index (0 to 31); usage: softib set pkey PKEY HCA[PORT] INDEX"),
        ("set link a b",
         "link: 'b' is not a valid fault of a link (loss|duplicate|reorder|corrupt|cm-loss|delay|seed); "
         "usage: softib set link HCA[PORT] off|FAULT..."),
        ("set link a loss 101",
         "link: '101' is not a valid percentage (0 to 100); usage: softib set link HCA[PORT] off|FAULT..."),
        ("set link a cm-loss 101",
         "link: '101' is not a valid percentage (0 to 100); usage: softib set link HCA[PORT] off|FAULT..."),
        ("show counter", "'counter' is not nodes, switches, partitions, groups or counters"),
        ("show --cm --wide", "--cm is printed by itself"),
        ("show --topology=net --json", "--topology is printed by itself"),
        ("show --watch 0", "--watch is 0.1 to 86400 seconds"),
        ("show --topology=png", "unknown format 'png'; formats are summary, net, ibnetdiscover, dot, svg, json"),
        ("list x", "too many positional options have been specified on the command line"),
        ("stop a --subnet b", "the subnet is given twice"),
        ("stop ..",
         "'..' is not a valid subnet name (1 to 63 letters, digits, '.', '_' and '-'; not '.' or '-' first)"),
        ("subnet --mtu 1500", "--mtu is 2048 or 4096, not 1500"),
        ("subnet --mtu many", "the argument ('many') for option '--mtu' is invalid"),
        ("subnet --lmc 8", "--lmc is 0 to 7, not 8"),
        ("subnet --sm maybe", "--sm is own or none, not 'maybe'"),
        ("subnet --sm none --lmc 1",
         "--partition and --lmc need --sm own: an external subnet manager decides on them"),
        ("subnet --topology nosuch.net",
         "--topology: 'nosuch.net' is no shape, nor a file; shapes are fat-tree:..., torus:..., "
         "dragonfly:..., line:..., star:..."),
        ("subnet --topology square:2",
         "--topology: 'square:2' is no shape, nor a file; shapes are fat-tree:..., torus:..., dragonfly:..., "
         "line:..., star:..."),
        ("subnet --topology star:0", "--topology: 'star:0' is wrong; expected star:N with 1 to 254 hosts"),
        ("subnet --log loud", "--log is debug, info, warning, error or off, not 'loud'"),
        ("subnet --partition 0x12",
         "partition '0x12': membership is full or limited; expected "
         "PKEY=full|limited[:HCA,...][,mtu=BYTES][,rate=GBITS][,nogroup]"),
        ("subnet --partition 0x12=half",
         "partition '0x12=half': membership is full or limited; expected "
         "PKEY=full|limited[:HCA,...][,mtu=BYTES][,rate=GBITS][,nogroup]"),
        ("subnet --partition 0=full",
         "partition '0=full': the P_Key is 0x0001 to 0x7fff, with or without the membership bit 0x8000; "
         "hexadecimal numbers need 0x; expected "
         "PKEY=full|limited[:HCA,...][,mtu=BYTES][,rate=GBITS][,nogroup]"),
        ("subnet --partition 0x12=full,mtu=9000",
         "partition '0x12=full,mtu=9000': mtu is one of 256, 512, 1024, 2048, 4096; expected "
         "PKEY=full|limited[:HCA,...][,mtu=BYTES][,rate=GBITS][,nogroup]"),
        ("subnet --partition 0x12=full,rate=7",
         "partition '0x12=full,rate=7': rate is one of 2.5, 5, 10, 14, 20, 26, 28, 30, 40, 53, 56, 60, 80, "
         "103, 112, 120, 169, 206, 309, 425, 638, 850, 1275 (or nominal, as 100 or 400); expected "
         "PKEY=full|limited[:HCA,...][,mtu=BYTES][,rate=GBITS][,nogroup]"),
        ("topology", "no shape or file"),
        ("topology star:1 star:2", "unexpected argument 'star:2'"),
        ("topology star:1 --json --format net", "use only one of --json and --format"),
        ("topology star:1 --format png",
         "unknown format 'png'; formats are summary, net, ibnetdiscover, dot, svg, json"),
        ("view --ibnetdiscover - --perfquery -", "only one file can be -"),
        ("view --perfquery f", "--perfquery needs --ibnetdiscover"),
        ("view --port x", "the argument ('x') for option '--port' is invalid"),
    ),
    ("softib", 1): (
        ("capture f",
         "no subnet 'default' is running in /proc/nowhere/default; start one with: softib subnet --subnet "
         "default"),
        ("run --hca a true",
         "no subnet 'default' is running in /proc/nowhere/default; start one with: softib subnet --subnet "
         "default"),
        ("roce",
         "cannot create the folder /proc/nowhere: No such file or directory; choose another directory with "
         "SOFTIB_DIR"),
        ("set cable a b down",
         "no subnet 'default' is running in /proc/nowhere/default; start one with: softib subnet --subnet "
         "default"),
        ("show",
         "no subnet 'default' is running in /proc/nowhere/default; start one with: softib subnet --subnet "
         "default"),
        ("stop", "no subnet 'default' is running in /proc/nowhere/default; see softib list"),
        ("subnet --topology star:1",
         "cannot create the folder /proc/nowhere: No such file or directory; choose another directory with "
         "SOFTIB_DIR"),
        ("subnet --partition 0x12=full:a..b",
         "cannot create the folder /proc/nowhere: No such file or directory; choose another directory with "
         "SOFTIB_DIR"),
        ("subnet",
         "cannot create the folder /proc/nowhere: No such file or directory; choose another directory with "
         "SOFTIB_DIR"),
        ("subnet --capture /proc/nowhere/f",
         "cannot create the folder /proc/nowhere: No such file or directory; choose another directory with "
         "SOFTIB_DIR"),
        ("topology star:1 --output /proc/nowhere/f", "/proc/nowhere/f: No such file or directory"),
        ("topology nosuch",
         "'nosuch' is no shape, nor a file; shapes are fat-tree:..., torus:..., dragonfly:..., line:..., "
         "star:..."),
        ("topology star:1 --output /dev/null",
         "/dev/null: is a device or a pipe, which a file must not replace; redirect the standard output to it"),
        ("topology /proc", "/proc: Is a directory"),
        ("topology /dev/null",
         "/dev/null: has neither a switch nor an HCA; expected a net file of ibsim, or the output of ibnetdiscover"),
        ("view --ibnetdiscover /proc/nowhere", "/proc/nowhere: No such file or directory"),
        ("view",
         "no subnet 'default' is running in /proc/nowhere/default; start one with: softib subnet --subnet "
         "default"),
    ),
    ("ipoibd", 2): (
        ("--config quoted", 'quoted:1: name = "ib0": values stand without quotes'),
        ("--config sections", "sections:1: [daemon]: the file has no sections, only options"),
        ("--config unknown", "unknown:1: no option 'nmae'; did you mean name? (ipoibd --help lists the options)"),
        ("--config /proc/nowhere", "--config /proc/nowhere: No such file or directory"),
        ("--config /proc", "--config /proc: Is a directory"),
        ("--neighbour-file /proc/nowhere", "--neighbour-file /proc/nowhere: No such file or directory"),
        ("--device mlx5_0:1 --port 2", "--device mlx5_0:1: --port chooses another port"),
        ("--roce --softib=a", "--roce: a RoCE port is in no subnet: leave out the names of --softib"),
        ("--softib --port 3", "--port 3: an emulated HCA (--softib) has ports 1 and 2"),
        ("--vlan 18=0x8012", "--vlan: needs --ethernet for the interface ib0, which carries the VLANs"),
        ("--ethernet --ethernet-stations 0 --vlan 18=0x8012",
         "--vlan: not with --ethernet-stations 0: in a VLAN, there are only stations"),
        ("--ethernet --vlan 18=0x8012 --pkey 0x8012",
         "--vlan 18=0x8012: that is the partition of frames without a tag"),
        ("--vlan 18", "--vlan 18: must be a VLAN and the P_Key of its partition, as 18=0x8012"),
        ("--name abcdefghijk",
         "--name abcdefghijk: must have at most 10 characters, since P_Keys (.8001) and VLANs (.18) are "
         "appended to it; or choose one partition with --pkey, and no --vlan"),
        ("--nmae x", "unrecognised option '--nmae'; did you mean --name? (ipoibd --help lists the options)"),
        ("x",
         "too many positional options have been specified on the command line (ipoibd --help lists the "
         "options)"),
        ("--ethernet-stations 5", "--ethernet-stations: has no effect without --ethernet"),
        ("--user nosuch", "--user nosuch: must be a user that exists: getent passwd lists them"),
        ("--group nosuch", "--group nosuch: must be a group that exists: getent group lists them"),
        ("--backup x", "--backup x:1: needs --device, which names the other port"),
        ("--device a --backup a", "--backup a:1: is the port of --device"),
        ("--log nothing=debug", "--log: nothing: no such module; modules are link, sa, verbs, control, daemon, all"),
        ("--poll maybe", "--poll maybe: must be event, busy or adaptive"),
        ("--takeover=perhaps", "--takeover perhaps: must be required, or no value"),
        ("--mtu 1", "--mtu 1: must be a number from 68 to 4092"),
        ("--pkey ffff",
         "--pkey ffff: must be a P_Key from 0x0001 to 0x7fff, with or without the membership bit 0x8000; "
         "hexadecimal numbers need 0x"),
        ("--name 0123456789abcdef",
         "--name 0123456789abcdef: must be a name of 1 to 15 characters without blanks, quotes, / : and %"),
        ("--name a/b", "--name a/b: must be a name of 1 to 15 characters without blanks, quotes, / : and %"),
    ),
    ("ipoibd", 1): (
        ("--netns nosuch", "network namespace nosuch: No such file or directory; `ip netns list` shows the named ones"),
        ("--softib=a/b",
         "the emulated subnet did not start: cannot create the folder /proc/nowhere: No such file or "
         "directory; choose another directory with SOFTIB_DIR"),
    ),
}


def run(program, arguments, folder):
    environment = dict(os.environ, SOFTIB_DIR="/proc/nowhere", IPOIBD_DIR=folder, LC_ALL="C")
    return subprocess.run([PROGRAMS / program, *shlex.split(arguments)], stdin=subprocess.DEVNULL, check=False,
                          capture_output=True, text=True, env=environment, cwd=folder, timeout=60)


def message_in(stderr, program, arguments):
    """Returns the one line of stderr without the name of the program, or of the subcommand of softib, and without the hint."""
    line = HINT.sub("", stderr.removesuffix("\n"))
    for start in (f"{program}: ", f"{program} {arguments.split(' ')[0]}: "):
        if line.startswith(start):
            return line.removeprefix(start)
    return stderr


def main():
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, text in FILES.items():
            pathlib.Path(folder, name).write_text(text, encoding="ascii")
            pathlib.Path(folder, name).chmod(0o600)
        for (program, status), rows in REFUSALS.items():
            for arguments, message in rows:
                done = run(program, arguments, folder)
                found = done.returncode, done.stdout, message_in(done.stderr, program, arguments)
                if found != (status, "", message):
                    wrong += 1
                    print(f"{program} {arguments}\n  is {found}\n  not {(status, '', message)}")
        left = set(os.listdir(folder)) - set(FILES)
    if left:
        print(f"left behind: {left}")
    sys.exit(1 if wrong or left else 0)


if __name__ == "__main__":
    main()
