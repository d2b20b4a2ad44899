"""The package ipoibd for guests with systemd: made from the build folder and what debhelper makes of
debian/, and installed there; and the files that docs/ recommends."""

import os
import pathlib
import re
import shutil
import subprocess
import textwrap
import time

import machine

import hosts

BUILD = pathlib.Path(hosts.BIN).resolve().parent
CONFIGURATION = pathlib.Path("/etc/ipoibd")


def run(*command, check=True, cwd=None, **environment):
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=500, cwd=cwd, env={**os.environ, **environment})
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return done


def wait_until(condition, what):
    """Asks less often than the other tests: a systemctl takes long in an emulated machine."""
    return hosts.wait_until(lambda: condition() or time.sleep(0.5), what, 2 * hosts.PATIENCE)


def recipe(document, name):
    """The file of this name in a document."""
    text = (machine.ROOT / "docs" / document).read_text(encoding="utf-8")
    found = re.search(rf"^    # {re.escape(name)}\n((?:    (?!#).*\n|\n)+)", text, re.M)
    return textwrap.dedent(found[1]).strip() + "\n"


def configure(name, *lines):
    (CONFIGURATION / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")


class Packages:
    """A folder with several versions of the package."""

    def __init__(self, name):
        self.folder = BUILD / "vm" / name

    def make(self, *versions):
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(machine.ROOT / "debian", self.folder / "debian")
        installed = self.folder / "debian/tmp"
        run("cmake", "--install", str(BUILD), "--prefix", "/usr", "--strip", DESTDIR=str(installed))
        # As debian/rules configures it.
        debhelper = pathlib.Path(shutil.which("dh_installsystemd")).read_text(encoding="utf-8")
        system = "usr/lib" if "usr/lib/systemd/system" in debhelper else "lib"
        architecture = run("dpkg-architecture", "-qDEB_HOST_MULTIARCH").stdout.strip()
        for part, folder in (("systemd", system), ("udev", system),
                             ("wireshark", f"usr/lib/{architecture}")):
            (installed / folder).mkdir(exist_ok=True)
            (installed / "usr/lib" / part).rename(installed / folder / part)
        for unit in (installed / system / "systemd/system").iterdir():
            text = unit.read_text(encoding="utf-8")
            unit.write_text(text.replace("/usr/local/", "/usr/"), encoding="utf-8")
        for step in ("install", "installdirs", "installsysusers", "installtmpfiles",
                     "installsystemd", "installdeb"):
            options = ["--no-enable", "--no-start"] if step == "installsystemd" else []
            run(f"dh_{step}", "--package=ipoibd", *options, cwd=self.folder, SYSTEM=system)
        for version in versions:
            run("dh_gencontrol", "--package=ipoibd", "--", f"-v{version}", cwd=self.folder)
            run("dh_builddeb", "--package=ipoibd", "--destdir=.", "--", "-Znone", cwd=self.folder)

    def download(self, name):
        """Adds a package of the distribution, with what this host lacks for it."""
        done = run("apt-get", "install", "--simulate", "--no-install-recommends", name, check=False)
        names = re.findall(r"^Inst (\S+)", done.stdout, re.M) or [name]
        (self.folder / name).mkdir()
        run("apt-get", "download", *names, check=False, cwd=self.folder / name)

    def install_downloaded(self, name):
        """Returns whether there was something to install."""
        files = sorted(map(str, (self.folder / name).glob("*.deb")))
        if files:
            run("dpkg", "--install", "--no-triggers", *files)
        return bool(files)

    def install(self, version):
        (file,) = self.folder.glob(f"ipoibd_{version}_*.deb")
        # Of other packages, such as man-db.
        run("dpkg", "--install", "--no-triggers", str(file))


def why_not():
    """Returns why these tests cannot run on this host, or None."""
    missing = [path for path in ("/lib/systemd/systemd", "/lib/systemd/systemd-udevd",
                                 "/lib/udev/rules.d/90-rdma-umad.rules")
               if not pathlib.Path(path).exists()]
    if missing:
        return f"needs {', '.join(missing)} (packages systemd, udev, rdma-core)"
    missing = [name for name in ("cmake", "dh_installsystemd", "dpkg-gencontrol",
                                "dpkg-architecture")
               if shutil.which(name) is None]
    if missing:
        return f"needs {', '.join(missing)}"
    return machine.why_no_guest("IPOIB_VM")
