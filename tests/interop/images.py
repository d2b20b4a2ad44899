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
    """In its image (contrib/oci), beside softib. It does not run there: in a container that has only a chroot,
    buildah leaves /proc/sys read-only."""
    store.build("oci", "ipoibd", [(newest(each).name, each) for each in ("ipoibd", "libibarp0", "softib")],
                "--build-arg", "MORE=/tmp/packages/softib_*.deb")
    entry = store.entry_point("ipoibd")
    equal(entry, ["/usr/sbin/ipoibd"])
    assert "IP over InfiniBand" in store.run("ipoibd", *entry, "--help").stdout


need("buildah", "debootstrap", "unshare")
if os.geteuid() != 0:
    skip("needs root, for debootstrap and containers")
for name in ("ipoibd", "libibarp0", "softib"):
    newest(name)
with tempfile.TemporaryDirectory(prefix="images-") as made:
    store = Store(pathlib.Path(made))
    store.import_base()
    run_tests([programs_run_on_an_emulated_subnet, the_daemon_is_there], sys.argv[2:])
