#!/usr/bin/env python3
"""Compares the functions of libsoftib.so, and their versions, with those of libibverbs and libibumad, whose
place it takes. A program that needs a function that it lacks could not start.

Usage: abi_names.py LIBSOFTIB
"""
import pathlib
import subprocess
import sys

from softib_subnet import need, skip

need("nm", "ldconfig", "readelf")

# softib's direct verbs, and the calls that reach the rdma_cm device.
DIRECT = {"softibdv_post_large_recv", "softibdv_last_error", "open", "open64", "openat", "openat64",
          "__open_2", "__open64_2", "__openat_2", "__openat64_2", "write", "fstat", "fstat64", "__fxstat", "__fxstat64"}
# The calls that look for files.
DIRECT |= set("""access canonicalize_file_name closedir dirfd eaccess euidaccess faccessat fdopendir fopen fopen64 fstatat fstatat64 lstat lstat64 opendir readdir readdir64 readdir_r readdir64_r readlink readlinkat realpath __realpath_chk rewinddir scandir scandir64 scandirat scandirat64 seekdir stat stat64 statx telldir __xstat __xstat64 __lxstat __lxstat64 __fxstatat __fxstatat64""".split())
# The calls that reach the RDMA family of netlink.
DIRECT |= {"socket", "send", "sendto", "sendmsg"}
# Names that only other releases of the libraries have.
PREFIXES = ("ibv_", "verbs_", "umad_")


def find(name):
    for line in subprocess.run(["ldconfig", "-p"], capture_output=True, text=True).stdout.splitlines():
        if line.strip().startswith(name + " "):
            return line.split("=>")[1].strip()
    return skip(f"{name} is not installed")


def exported(library):
    """Returns the functions that a library defines by default, with their versions: name@@version."""
    output = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", library],
                            capture_output=True, text=True, check=True).stdout
    symbols = [line.split() for line in output.splitlines()]
    return {name for _, kind, name in symbols if kind in "TWi" and "@" not in name.replace("@@", "")}


def main():
    ours = exported(sys.argv[1])
    failures = []
    all_of_theirs = set()
    for library in ("libibverbs.so.1", "libibumad.so.3"):
        theirs = exported(find(library))
        print(f"{library}: {len(theirs)} names")
        if len(theirs) < 30:
            failures.append(f"{library}: implausibly few names")
        failures += [f"{library} exports {name}, libsoftib.so does not" for name in sorted(theirs - ours)]
        link = pathlib.Path(sys.argv[1]).parent / "abi" / library
        if not link.exists() or not link.samefile(sys.argv[1]):
            failures.append(f"{link} is not libsoftib.so")
        all_of_theirs |= theirs
    failures += [f"libsoftib.so defines {name}, which is in none of the ABIs"
                 for name in sorted(ours - DIRECT - all_of_theirs) if not name.startswith(PREFIXES)]
    failures += [f"libsoftib.so does not define {name}" for name in DIRECT - ours]
    # It is preloaded into other programs, so it may only need the compiler's own libraries.
    needed = subprocess.run(["readelf", "-d", sys.argv[1]], capture_output=True, text=True,
                            check=True).stdout
    allowed = ("libc.", "libm.", "libstdc++.", "libgcc_s.", "ld-linux")
    for line in needed.splitlines():
        if "(NEEDED)" in line and not any(f"[{name}" in line for name in allowed):
            failures.append(f"libsoftib.so needs {line.split('[')[1].rstrip(']')}")
    print(*failures, sep="\n")
    return 1 if failures else 0


sys.exit(main())
