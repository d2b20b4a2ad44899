#!/usr/bin/env python3
"""Tests softib run: the environment, errors, and programs that outlive the subnet process or a peer.

Usage: run_test.py SOFTIB [TEST]...
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "interop"))
from softib_subnet import PATIENCE, Subnet, has_other_users, need, need_root, run_tests, wait_for  # noqa: E402

need_root()
need("ibstat", "ibping", "saquery")
SOFTIB = os.path.abspath(sys.argv[1])


def environment_of(subnet, *options):
    """Returns the environment of a program under softib run."""
    done = subprocess.run([SOFTIB, "run", *options, "--", "env"], text=True, check=True,
                          env=subnet.environment, capture_output=True)
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


def refused(*command, **more):
    """Returns the exit code and message of a softib run that fails."""
    done = subprocess.run([SOFTIB, "run", *command], text=True, capture_output=True, **more)
    return done.returncode, done.stderr


def environment_names_folder_subnet_and_hca():
    with Subnet(SOFTIB) as subnet:
        found = environment_of(subnet, "--hca", "a")
        assert found["SOFTIB_DIR"] == subnet.root.name, found
        assert found["SOFTIB_SUBNET"] == "default" and found["SOFTIB_HCA"] == "a", found
        library = found["LD_PRELOAD"].split(":")[-1]
        if library == "libsoftib.so":  # its folder has a blank, which LD_PRELOAD cannot have
            library = os.path.join(found["LD_LIBRARY_PATH"].split(":")[1], library)
        assert os.path.isabs(library) and os.path.exists(library), found


def program_on_two_hcas_has_a_device_on_each():
    with Subnet(SOFTIB) as subnet:
        listed = subnet.run("a,b", "ibstat").stdout
        assert "CA 'softib0'" in listed and "CA 'softib1'" in listed, listed
        guids = {name: [line.split()[-1] for line in subnet.run(name, "ibstat").stdout.splitlines()
                        if "Port GUID" in line] for name in ("a", "b", "a,b", "b,a")}
        assert guids["a,b"] == guids["a"] + guids["b"] != guids["b,a"], guids
        for device in ("softib0", "softib1"):
            found = subnet.run("a,b", "saquery", "-C", device).stdout
            # Both HCAs, the switch and the subnet manager's node.
            assert found.count("NodeRecord dump") == 4, (device, found)
        code, why = refused("--hca", "b,b", "--", "true", env=subnet.environment)
        assert code == 2 and "twice" in why, (code, why)


def exit_code_is_the_programs():
    with Subnet(SOFTIB) as subnet:
        for code in (0, 7):
            done = subnet.run("a", "sh", "-c", f"exit {code}", check=False)
            assert done.returncode == code, done
        assert subnet.run("a", "no-such-program", check=False).returncode == 127
        nowhere = os.path.join(subnet.root.name, "nowhere")
        os.mkdir(nowhere, mode=0)
        path = subnet.environment["PATH"]
        subnet.environment["PATH"] = f"{nowhere}:{path}"
        assert subnet.run("a", "no-such-program", check=False).returncode == 127
        subnet.environment["PATH"] = path
        assert subnet.run("a", "/etc/passwd", check=False).returncode == 126


def options_end_at_the_program():
    with Subnet(SOFTIB) as subnet:
        for command in (["--hca", "a", "echo", "--hca"], ["--hca=a", "--", "echo", "--hca"]):
            done = subprocess.run([SOFTIB, "run", *command], env=subnet.environment, text=True,
                                  capture_output=True, check=True)
            assert done.stdout == "--hca\n", done
        assert refused("--hca", "a", env=subnet.environment)[0] == 2
        assert refused("--no-such-option", "true", env=subnet.environment)[0] == 2


def without_a_subnet_it_says_how_to_start_one():
    with tempfile.TemporaryDirectory() as folder:
        code, message = refused("true", env=dict(os.environ, SOFTIB_DIR=folder))
        assert code == 1 and "softib subnet" in message, message
        code, message = refused("true", env=dict(os.environ, SOFTIB_DIR=folder, SOFTIB_SUBNET="../x"))
        assert code == 1 and "not a valid" in message, message


def names_are_checked():
    with Subnet(SOFTIB) as subnet:
        for options in (["--hca", "a b"], ["--hca", "../x"], ["--subnet", "../x"]):
            code, message = refused(*options, "true", env=subnet.environment)
            assert code == 2 and message.count("\n") == 1, message
            assert options[0] in message and "not a valid" in message, message


def relative_folder_is_resolved():
    with Subnet(SOFTIB) as subnet:
        above, name = os.path.split(subnet.root.name)
        for where in (dict(env=dict(os.environ, SOFTIB_DIR=name)), dict(options=["--dir", name])):
            done = subprocess.run([SOFTIB, "run", *where.get("options", []), "--hca", "a", "--", "sh",
                                   "-c", "cd / && echo $SOFTIB_DIR && ibstat -l"], cwd=above,
                                  env=where.get("env"), text=True, capture_output=True)
            assert done.stdout.split() == [subnet.root.name, "softib0"], done


def users_without_a_runtime_folder_have_a_private_one():
    """In the folder for temporary files, where others may have made something of that name before."""
    if not has_other_users():
        return
    user = 1_000_000 + os.getpid()
    with tempfile.TemporaryDirectory() as temporary:
        os.chmod(temporary, 0o1777)
        own = pathlib.Path(temporary, f"softib-{user}")

        def exec_as_user():
            command = ["setpriv", f"--reuid={user}", "--clear-groups", "env", "-u", "XDG_RUNTIME_DIR", "-u", "SOFTIB_DIR",
                       f"TMPDIR={temporary}", SOFTIB, "exec", "sh", "-c", "echo $SOFTIB_DIR"]
            return subprocess.run(command, text=True, capture_output=True, timeout=PATIENCE)

        done = exec_as_user()
        assert (done.returncode, done.stdout) == (0, f"{own}\n"), done
        assert (own.stat().st_uid, own.stat().st_mode & 0o777) == (user, 0o700), own.stat()
        for owner, mode in (0, 0o700), (0, 0o777), (user, 0o755):
            os.chown(own, owner, -1)
            os.chmod(own, mode)
            done = exec_as_user()
            assert done.returncode == 1 and str(own) in done.stderr and "set SOFTIB_DIR" in done.stderr, (owner, mode, done)
        own.rmdir()
        other = pathlib.Path(temporary, "other")
        other.mkdir(mode=0o700)
        os.chown(other, user, -1)
        own.symlink_to(other)
        done = exec_as_user()
        assert done.returncode == 1 and "remove it" in done.stderr, done


def tied_subnet_ends_with_its_parent():
    def start(folder):
        command = [SOFTIB, "subnet", "--tied", "--dir", folder]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline().startswith("ready")
        return process

    with tempfile.TemporaryDirectory() as folder:
        with start(folder) as process:
            process.stdin.close()
            assert process.wait(PATIENCE) == 0
        assert os.listdir(folder) == [], os.listdir(folder)
        with start(folder) as process:
            process.stdin.write("x")
            process.stdin.close()
            shown = subprocess.run([SOFTIB, "show", "--dir", folder], capture_output=True)
            assert shown.returncode == 0, shown
            process.terminate()


def hca_is_named_after_the_namespace():
    name = f"softib-test-{os.getpid()}"
    with Subnet(SOFTIB) as subnet:
        subprocess.run(["ip", "netns", "add", name], check=True)
        try:
            done = subprocess.run(["ip", "netns", "exec", name, SOFTIB, "run", "printenv", "SOFTIB_HCA"],
                                  env=subnet.environment, text=True, capture_output=True, check=True)
            assert done.stdout.strip() == name, done
        finally:
            subprocess.run(["ip", "netns", "delete", name], check=True)
        # A namespace without a name is identified by its number.
        done = subprocess.run(["unshare", "--net", SOFTIB, "run", "sh", "-c",
                               "echo $SOFTIB_HCA; readlink /proc/self/ns/net"],
                              env=subnet.environment, text=True, capture_output=True, check=True)
        hca, link = done.stdout.split()
        assert hca == "ns-" + link[len("net:["):-1], done
        own = environment_of(subnet)["SOFTIB_HCA"]
        # An ordinary user's test is not in the initial namespace, which has the system-wide settings.
        initial = os.path.exists("/proc/sys/net/core/netdev_max_backlog")
        assert own.startswith("ns-") != initial, own


def pings(subnet, hca, lid):
    done = subnet.run(hca, "ibping", "-c", "1", str(lid), check=False)
    return "Pong" in done.stdout


def lid_of(subnet, hca):
    listing = subnet.run(hca, "ibstat").stdout
    return int(next(line for line in listing.splitlines() if "Base lid" in line).split(":")[1])


def mads_of_programs_go_on_without_the_subnet_process():
    with Subnet(SOFTIB) as subnet:
        lid = lid_of(subnet, "b")
        lid_of(subnet, "a")
        subnet.start("b", "ibping", "-S")
        wait_for("a pong", lambda: pings(subnet, "a", lid))
        subnet.kill_subnet()
        # A program started now finds its HCA and its peer.
        assert pings(subnet, "a", lid), "no pong without the subnet process"
        assert "not running" in subnet.run("a", "true").stdout
        subnet.start_subnet()
        assert lid_of(subnet, "b") == lid, "the LID changed over the restart"
        records = subnet.run("a", "saquery").stdout
        assert records.count("NodeRecord dump") >= 3, records
        assert pings(subnet, "a", lid), "no pong after the restart"


def a_killed_program_starts_again():
    with Subnet(SOFTIB) as subnet:
        lid = lid_of(subnet, "b")
        server = subnet.start("b", "ibping", "-S")
        wait_for("a pong", lambda: pings(subnet, "a", lid))
        # An HCA has one server per management class.
        second = subnet.run("b", "ibping", "-S", check=False)
        assert "can't serve class" in second.stdout, second.stdout
        server.send_signal(signal.SIGKILL)
        server.wait()
        assert not pings(subnet, "a", lid), "a killed server responds"
        subnet.start("b", "ibping", "-S")
        wait_for("a pong of the new server", lambda: pings(subnet, "a", lid))


run_tests([environment_names_folder_subnet_and_hca, exit_code_is_the_programs,
           program_on_two_hcas_has_a_device_on_each,
           options_end_at_the_program, without_a_subnet_it_says_how_to_start_one,
           names_are_checked, relative_folder_is_resolved,
           users_without_a_runtime_folder_have_a_private_one,
           tied_subnet_ends_with_its_parent, hca_is_named_after_the_namespace,
           mads_of_programs_go_on_without_the_subnet_process, a_killed_program_starts_again], sys.argv[2:])
