#!/usr/bin/env python3
"""Tests softib exec: a command with a subnet of its own, of which nothing is left.

Usage: exec_test.py SOFTIB [TEST]...
"""
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "interop"))
from softib_subnet import PATIENCE, equal, has_other_users, need, need_root, run_tests, wait_for  # noqa: E402

need_root()
need("ibv_devinfo", "ibv_rc_pingpong", "ldconfig", "setpriv", "unshare")
SOFTIB = os.path.abspath(sys.argv[1])
CONTRIB = pathlib.Path(__file__).resolve().parents[4] / "contrib" / "ci"
NODES = "\"$0\" show --json | grep -o '\"name\":\"host[0-9]*\"' | wc -l"


class Folder(tempfile.TemporaryDirectory):
    """A directory of subnets, in which nothing is left at the end."""

    def __init__(self, **more):
        super().__init__(prefix="softib exec-", **more)

    def __enter__(self):
        super().__enter__()
        return self

    def __exit__(self, kind, *more):
        left = os.listdir(self.name)
        super().__exit__(kind, *more)
        if kind is None:
            equal(left, [])

    def exec(self, *words, prefix=(), **more):
        """Runs softib exec to its end."""
        command = [*prefix, SOFTIB, "exec", *words]
        return subprocess.run(command, env=self.environment(), text=True, capture_output=True,
                              timeout=PATIENCE, **more)

    def environment(self, **more):
        return dict(os.environ, SOFTIB_DIR=self.name, **more)

    def start(self, *words, **more):
        return subprocess.Popen([SOFTIB, "exec", *words], env=self.environment(), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)


def has_ended(pid):
    return not os.path.exists(f"/proc/{pid}")


def output_and_exit_code_are_the_commands():
    with Folder() as folder:
        done = folder.exec("--", "sh", "-c", "ibv_devinfo | grep -c softib0; cat; echo why >&2; exit 7",
                           input="typed\n")
        equal((done.returncode, done.stdout, done.stderr), (7, "1\ntyped\n", "why\n"))
        equal(folder.exec("no_such_command").returncode, 127)
        equal(folder.exec("/dev/null").returncode, 126)


def hosts_are_there_before_the_command():
    with Folder() as folder:
        equal(folder.exec("--hosts", "3", "sh", "-c", NODES, SOFTIB).stdout, "3\n")
        for hosts in ("0", "4096", "x", "-1"):
            equal(folder.exec("--hosts", hosts, "true").returncode, 2)
        equal(folder.exec().returncode, 2)
        equal(folder.exec("--mtu", "1500", "true").returncode, 2)


def programs_on_two_hosts_reach_each_other():
    with Folder() as folder:
        script = ("ibv_rc_pingpong -g 0 -n 10 & server=$!; until ss -ltn | grep -q :18515; do :; done;"
                  " \"$0\" run --hca host2 -- ibv_rc_pingpong -g 0 -n 10 127.0.0.1 && wait $server")
        network = ("unshare", "--net", "sh", "-c", "ip link set lo up; exec \"$@\"", "sh")
        done = folder.exec("--hosts", "2", "sh", "-c", script, SOFTIB, prefix=network)
        assert done.returncode == 0 and done.stdout.count("10 iters") == 2, done


def ranks_of_a_job_get_the_hosts_in_turn():
    show_guid = "ibv_devinfo | grep node_guid"
    with Folder() as folder:
        for variable in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"):
            script = (f"for rank in 0 1 2 3; do export {variable}=$rank; {show_guid}; done;"
                      f" export {variable}=x; {show_guid};"
                      f" {variable}=0 \"$0\" run --hca host2 -- ibv_devinfo | grep node_guid")
            guids = folder.exec("--hosts", "3", "sh", "-c", script, SOFTIB).stdout.splitlines()
            equal(len(set(guids)), 3)
            equal(guids[3:], [guids[0], guids[0], guids[1]])


def signals_are_the_commands():
    with Folder() as folder:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP):
            with folder.start("--", "sh", "-c", f"trap 'echo caught; exit 3' {int(number)}; echo ready;"
                              " while :; do sleep 0.01; done") as process:
                equal(process.stdout.readline(), "ready\n")
                process.send_signal(number)
                equal(process.stdout.readline(), "caught\n")
                equal(process.wait(PATIENCE), 3)
        # The end by a signal is passed on, too.
        equal(folder.exec("--", "sh", "-c", "kill -TERM $$").returncode, -signal.SIGTERM)


def what_the_command_leaves_is_ended():
    with Folder() as folder:
        script = "ibv_rc_pingpong -g 0 -p 0 >/dev/null 2>&1 & echo $!; until \"$0\" show nodes | grep -q $!; do :; done"
        done = folder.exec("--", "sh", "-c", script, SOFTIB)
        equal(done.returncode, 0)
        assert has_ended(int(done.stdout)), done


def subnet_and_command_end_with_a_killed_exec():
    with Folder() as folder, folder.start("--", "sh", "-c", "echo $$; exec sleep 1000") as process:
        command = int(process.stdout.readline())
        process.kill()
        wait_for("the end of the command", lambda: has_ended(command))
        wait_for("the end of the subnet", lambda: not os.listdir(folder.name))


def ordinary_user(folder):
    """The beginning of a command for an ordinary user, who gets the folder. In a user namespace that has only
    one user, that is who has made the namespace."""
    if not has_other_users():
        return ()
    nobody = pwd.getpwnam("nobody")
    os.chown(folder.name, nobody.pw_uid, nobody.pw_gid)
    return ("setpriv", "--reuid", str(nobody.pw_uid), "--clear-groups")


def runs_in_poor_surroundings():
    """An ordinary user, in a folder with a blank, with a home that cannot be written to, 64 MiB of
    shared memory, and no terminal."""
    with tempfile.TemporaryDirectory(prefix="with a blank ") as base, Folder(dir=base) as folder:
        os.chmod(base, 0o755)
        user = ordinary_user(folder)
        uid = subprocess.run([*user, "id", "-u"], check=True, capture_output=True, text=True).stdout
        mount = "mount -t tmpfs -o size=64m,mode=1777 tmpfs /dev/shm && exec \"$@\""
        prefix = ("setsid", "--wait", "unshare", "--mount", "sh", "-c", mount, "sh", *user, "env", "HOME=/proc")
        done = folder.exec("--hosts", "2", "--", "sh", "-c", "id -u; ibv_devinfo | grep -c PORT_ACTIVE",
                           prefix=prefix, cwd=folder.name)
        equal((done.returncode, done.stdout), (0, f"{uid}1\n"))


def running_subnet_is_refused():
    with Folder() as folder:
        script = "\"$0\" exec --subnet mine true; echo $?"
        done = folder.exec("--subnet", "mine", "--", "sh", "-c", script, SOFTIB)
        equal(done.stdout, "1\n")
        assert "is running" in done.stderr, done.stderr


def recipe(name):
    """The command that a file of contrib/ci runs, as words."""
    text = (CONTRIB / name).read_text(encoding="utf-8")
    entry = re.search(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)
    return [*json.loads(entry[1]), "./run-tests"] if entry else re.search(r"softib exec.*", text)[0].split()


def recipes_run_tests_without_privileges():
    """As in the containers of CI services: an ordinary user in a user namespace without rights."""
    check = "#!/bin/sh\nset -e\n[ \"$(%s)\" = 4 ]\nibv_devinfo | grep -q PORT_ACTIVE\nexit 9\n"
    with tempfile.TemporaryDirectory() as project, Folder() as folder:
        script = pathlib.Path(project, "run-tests")
        script.write_text(check % NODES.replace('"$0"', "softib"), encoding="utf-8")
        for path in (script, project):
            os.chmod(path, 0o755)
        user = (*ordinary_user(folder), "unshare", "--user")
        path = f"{os.path.dirname(SOFTIB)}:{os.environ['PATH']}"
        for name in ("github-actions.yml", "gitlab-ci.yml", "Containerfile"):
            done = subprocess.run([*user, *recipe(name)], cwd=project, text=True, capture_output=True,
                                  env=folder.environment(PATH=path), timeout=PATIENCE)
            equal((name, done.returncode, done.stderr), (name, 9, ""))


def recipes_are_yaml():
    for name in ("github-actions.yml", "gitlab-ci.yml"):
        jobs = yaml.safe_load((CONTRIB / name).read_text(encoding="utf-8"))
        job = jobs["jobs"]["test"] if "jobs" in jobs else jobs["infiniband"]
        steps = [step.get("run", "") for step in job["steps"]] if "steps" in job else job["script"]
        equal(steps[-1].split(), recipe(name))


def says_what_cannot_work():
    with Folder() as folder:
        static = folder.exec("ldconfig", "--version")
        assert "ldconfig cannot use the emulated HCA: it is statically linked" in static.stderr, static
        equal(static.returncode, 0)
        for words in (["env", "-i", "true"], ["env", "-u", "HOME", "A=b", "-", "true"],
                      ["/usr/bin/env", "--ignore-environment", "true"]):
            done = folder.exec("--", *words)
            assert f"{words[0]} cannot use the emulated HCA: it clears the environment; let it start" in done.stderr, done
        for words in (["true"], ["env", "A=b", "true", "-i"], ["env", "-u", "-i", "true"],
                      ["env", "-i", "LD_PRELOAD=", "true"], ["env", "-i"]):
            equal(folder.exec("--", *words).stderr, "")
        if has_other_users():
            with tempfile.TemporaryDirectory() as other:
                program = shutil.copy(shutil.which("true"), other)
                os.chown(program, 1, 1)
                os.chmod(program, 0o4755)
                done = folder.exec("--", program)
                assert "cannot use the emulated HCA: it changes its user or group" in done.stderr, done
                os.chmod(program, 0o755)
                equal(folder.exec("--", program).stderr, "")
        subnet = 'SOFTIB_DIR="$SOFTIB_DIR" SOFTIB_SUBNET="$SOFTIB_SUBNET"'
        inside = folder.exec("--", "sh", "-c", f'env -i {subnet} "$0" run --hca host1 -- /usr/bin/ibv_devinfo', SOFTIB)
        assert "PORT_ACTIVE" in inside.stdout, inside


run_tests([output_and_exit_code_are_the_commands, hosts_are_there_before_the_command,
           programs_on_two_hosts_reach_each_other, ranks_of_a_job_get_the_hosts_in_turn,
           signals_are_the_commands, what_the_command_leaves_is_ended,
           subnet_and_command_end_with_a_killed_exec, runs_in_poor_surroundings,
           running_subnet_is_refused, recipes_run_tests_without_privileges, recipes_are_yaml,
           says_what_cannot_work], sys.argv[2:])
