#!/usr/bin/env python3
"""Tests the command line of softib: exit codes, messages and output.

Usage: softib_command.py SOFTIB IPOIBD
"""
import json
import os
import subprocess
import sys
import tempfile

from softib_subnet import Subnet, equal, run_tests

SOFTIB, IPOIBD = (os.path.abspath(program) for program in sys.argv[1:])
SUBCOMMANDS = ("subnet", "run", "show", "set")
NOWHERE = dict(os.environ, SOFTIB_DIR="/proc/nowhere")  # no subnet can start there


def softib(*arguments, program=SOFTIB, **more):
    """Runs softib; without a folder in which a subnet could start, unless `env` is given."""
    more = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=NOWHERE) | more
    return subprocess.run([program, *arguments], text=True, timeout=60, **more)


def wrong_usage_exits_with_2():
    wrong = [[], ["--no-such-option"], ["no-such-subcommand"],
             ["subnet", "--mtu", "100"], ["subnet", "--mtu", "many"], ["subnet", "--lmc", "8"],
             ["subnet", "--sm", "maybe"], ["subnet", "--partition", "0x12=half"],
             ["subnet", "--partition", "0x12=full:a b"], ["subnet", "--partition", "0x12=full,mtu=4096"], ["subnet", "--log", "loud"],
             ["subnet", "--sm", "none", "--lmc", "1"], ["subnet", "argument"],
             ["run"], ["run", "--hca", "a b", "true"],
             ["show", "argument"], ["show", "--subnet", "a b"], ["show", "--dir", ""],
             ["set"], ["set", "dance"], ["set", "port", "c"], ["set", "port", "a b", "up"],
             ["set", "mtu", "a", "1500"], ["set", "lid", "a", "0xc000"]]
    wrong += [[each, "--no-such-option"] for each in SUBCOMMANDS]
    for arguments in wrong:
        done = softib(*arguments)
        assert (done.returncode, done.stdout) == (2, ""), (arguments, done)
        assert "softib" in done.stderr, (arguments, done)


def messages_say_what_is_wrong():
    message = softib("set", "port", "c").stderr
    assert "up|down|init|armed is missing; usage: softib set port HCA up|down|init|armed" in message, message
    for arguments in (["set", "port", "a b", "up"], ["run", "--hca", "a b", "true"],
                      ["show", "--subnet", "a b"], ["subnet", "--partition", "0x12=full:a b"]):
        message = softib(*arguments).stderr
        assert "letters, digits" in message, (arguments, message)


def help_and_version_have_short_forms():
    for short, long in (("-h", "--help"), ("-V", "--version")):
        for subcommand in ([], *([each] for each in SUBCOMMANDS)):
            done = [softib(*subcommand, option) for option in (short, long)]
            equal([each.returncode for each in done], [0, 0])
            equal(done[0].stdout, done[1].stdout)
            assert done[0].stdout.startswith("usage:" if short == "-h" else "softib "), done


def output_that_cannot_be_written_is_a_failure():
    with Subnet(SOFTIB) as subnet, open("/dev/full", "w", encoding="ascii") as full:
        more = dict(stdout=full, env=subnet.environment)
        for arguments in (["show"], ["show", "--json"], ["--help"], ["--version"], ["show", "--help"],
                          ["set", "-V"], ["subnet", "--subnet", "other"]):
            done = softib(*arguments, **more)
            assert done.returncode == 1 and "No space left on device" in done.stderr, (arguments, done)
        assert not (subnet.folder / "other").exists()


def json_has_keys_and_rates_in_one_form():
    with Subnet(SOFTIB, "--partition", "0x12=limited,rate=2.5") as subnet:
        shown = json.loads(subnet.softib("show", "-j"))
        equal(shown["nodes"][0]["pkeys"], ["0xffff", "0x8012"])
        equal(shown["nodes"][0]["rate_mbps"], 40000)
        equal([group["rate_mbps"] for group in shown["groups"]], [10000, 2500])
        equal([each["pkey"] for each in shown["partitions"]], ["0xffff", "0x8012"])


def automatic_start_tells_why_it_failed():
    with tempfile.NamedTemporaryFile() as file:
        environment = dict(os.environ, SOFTIB_DIR=file.name)
        done = softib("--softib", program=IPOIBD, env=environment)
        assert done.returncode != 0, done
        assert "did not start" in done.stderr and file.name in done.stderr, done.stderr
        assert "by hand" not in done.stderr, done.stderr


run_tests([wrong_usage_exits_with_2, messages_say_what_is_wrong, help_and_version_have_short_forms,
           output_that_cannot_be_written_is_a_failure, json_has_keys_and_rates_in_one_form,
           automatic_start_tells_why_it_failed])
