#!/usr/bin/env python3
"""The images of contrib/: built by buildah as docs/containers.md and the recipes say, and run.

It is skipped, and says why, without root, buildah, debootstrap, a mirror of Debian, or packages in build/packages,
which scripts/package builds. There is no registry: the base image is what debootstrap makes. The containers have no
network and no capabilities. All is in a folder that is removed.

Usage: images.py PACKAGES [NAME]...
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from softib_subnet import equal, need, run_tests, skip

PACKAGES = pathlib.Path(sys.argv[1])
ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE = 900  # seconds; packages come from a mirror
BASE, SUITE = "docker.io/library/debian:12", "bookworm"


class Store:
    """Images and containers in a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.options = ["--storage-driver", "vfs", "--root", f"{folder}/root", "--runroot", f"{folder}/run"]

    def buildah(self, *words, before=(), check=True):
        done = subprocess.run([*before, "buildah", *self.options, *words], capture_output=True, text=True, check=False,
                              timeout=PATIENCE, stdin=subprocess.DEVNULL)
        if check and done.returncode != 0:
            raise AssertionError(f"buildah {words} ended with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        return done

    def import_base(self):
        tree = self.folder / "base"
        made = subprocess.run(["debootstrap", "--variant=minbase", SUITE, tree], capture_output=True, text=True, check=False,
                              timeout=PATIENCE)
        if made.returncode != 0:
            skip(f"debootstrap cannot make a base image: {(made.stdout + made.stderr).strip().splitlines()[-1]}")
        container = self.buildah("from", "scratch").stdout.strip()
        archive = self.folder / "base.tar"
        subprocess.run(["tar", "-C", tree, "--one-file-system", "-cf", archive, "."], check=True)
        self.buildah("add", "--quiet", container, archive, "/")
        self.buildah("commit", "--quiet", "--rm", container, BASE)
        archive.unlink()
        shutil.rmtree(tree)

    def build(self, recipe, name, packages, *options):
        """`packages`: (the file as the recipe calls it, the package)."""
        context = self.folder / name
        context.mkdir()
        shutil.copy(ROOT / "contrib" / recipe / "Containerfile", context)
        for file, package in packages:
            shutil.copy(newest(package), context / file)
        self.buildah("build", "--isolation", "chroot", "--pull-never", "--layers=false", *options, "-t", name,
                     str(context))

    def run(self, image, *command, check=True):
        """Runs a command in a new container, with no network but loopback."""
        container = self.buildah("from", "--pull-never", f"localhost/{image}").stdout.strip()
        try:
            return self.buildah("run", "--isolation", "chroot", "--cap-drop", "all", container, "--",
                                *command, check=check,
                                before=("unshare", "--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"))
        finally:
            self.buildah("rm", container)

    def entry_point(self, image):
        """What a container of the image executes, before the words of the command line."""
        shown = json.loads(self.buildah("inspect", "--type", "image", f"localhost/{image}").stdout)
        return shown["OCIv1"]["config"]["Entrypoint"]


class Daemon:
    """A container of the daemon's image under podman, with the rights that docs/containers.md names; with a network
    of its own and an emulated subnet."""

    RIGHTS = ("--security-opt", "unmask=/proc/sys", "--device", "/dev/net/tun", "--cap-drop", "all", "--cap-add", "net_admin",
              "--cap-add", "sys_admin", "--cap-add", "ipc_lock")

    def __init__(self, store):
        self.store = store
        # Limits that also a process without CAP_SYS_RESOURCE may set, and the runtime that knows cgroups of version 1, too.
        limits = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000")
        self.runtime = ("--runtime", "runc") if shutil.which("runc") else ()
        self.podman("run", "--detach", "--name", "daemon", "--network", "none", *limits, *self.RIGHTS, "localhost/ipoibd",
                    "--softib=default/box", "--port", "1", "--pkey", "0xffff")

    def podman(self, *words, check=True):
        done = subprocess.run(["podman", *self.store.options, "--cgroup-manager", "cgroupfs", "--events-backend", "file",
                               *self.runtime, *words], capture_output=True, text=True, check=False, timeout=PATIENCE,
                              stdin=subprocess.DEVNULL)
        if check and done.returncode != 0:
            raise AssertionError(f"podman {words} ended with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        return done

    def execute(self, *command, check=True):
        return self.podman("exec", "daemon", *command, check=check)

    def end(self):
        self.podman("rm", "--force", "daemon", check=False)


def newest(package):
    found = sorted(PACKAGES.glob(f"{package}_*.deb"), key=os.path.getmtime)
    if not found:
        skip(f"there is no package {package} in {PACKAGES}: scripts/package builds it")
    return found[-1]


def programs_run_on_an_emulated_subnet():
    """Of the image for tests of other projects (contrib/ci)."""
    store.build("ci", "softib", [("softib.deb", "softib")])
    entry = store.entry_point("softib")
    equal(entry, ["softib", "exec", "--hosts", "4", "--"])
    shown = store.run("softib", *entry, "softib", "show").stdout
    for host in ("host1", "host4"):
        assert host in shown, shown
    failed = store.run("softib", *entry, "sh", "-c", "exit 9", check=False)
    equal(failed.returncode, 9)


def the_daemon_is_there():
    """In its image (contrib/oci), beside softib. It does not run in a container that has only a chroot, where buildah
    leaves /proc/sys read-only."""
    store.build("oci", "ipoibd", [(newest(each).name, each) for each in ("ipoibd", "libibarp0", "softib")],
                "--build-arg", "MORE=/tmp/packages/softib_*.deb")
    entry = store.entry_point("ipoibd")
    equal(entry, ["/usr/sbin/ipoibd"])
    done = store.run("ipoibd", *entry, "--help")
    assert "IP over InfiniBand" in done.stdout, done


def the_daemon_serves_in_a_container():
    """And `ibarp check` says there what is missing, and that nothing is."""
    if not shutil.which("podman"):
        return  # the other tests need none
    daemon = Daemon(store)
    try:
        daemon.execute("ip", "link", "set", "lo", "up")
        daemon.execute("ip", "link", "set", "ib0", "up")
        daemon.execute("ibarp", "wait", "up", "--timeout", "60")
        without = daemon.execute("ibarp", "check", "--json", check=False)
        assert "none besides those of the link" in without.stdout, without
        daemon.execute("ip", "addr", "add", "10.44.0.1/24", "dev", "ib0")
        checked = json.loads(daemon.execute("ibarp", "check", "--json", check=False).stdout)[0]
        equal([each for each in checked["findings"] if each["verdict"] == "wrong"], [])
        assert "box" in daemon.execute("softib", "show").stdout
    except AssertionError as failure:
        raise AssertionError(f"{failure}\n{daemon.podman('logs', 'daemon', check=False)}") from failure
    finally:
        daemon.end()


need("buildah", "debootstrap", "unshare")
if os.geteuid() != 0:
    skip("needs root, for debootstrap and containers")
for name in ("ipoibd", "libibarp0", "softib"):
    newest(name)
with tempfile.TemporaryDirectory(prefix="images-") as made:
    store = Store(pathlib.Path(made))
    store.import_base()
    run_tests([programs_run_on_an_emulated_subnet, the_daemon_is_there, the_daemon_serves_in_a_container], sys.argv[2:])
