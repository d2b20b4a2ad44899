#!/usr/bin/env python3
"""Looks at the HCA of the process as programs do: by Python's calls, and by those of the C library.

Prints nothing if all is as expected. Usage, below `softib run`: view_probe.py
"""
import ctypes
import os
import stat

HCA = "/sys/class/infiniband/softib0"
UVERBS = "/dev/infiniband/uverbs0"
libc = ctypes.CDLL(None, use_errno=True)
for function in ("fopen", "realpath", "opendir", "canonicalize_file_name"):
    getattr(libc, function).restype = ctypes.c_void_p
verbs = ctypes.CDLL("libibverbs.so.1", use_errno=True)


def equal(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


def fails(error, call, *arguments):
    try:
        call(*arguments)
    except OSError as raised:
        equal(raised.errno, error)
    else:
        raise AssertionError(f"{call.__name__}{arguments} did not fail")


def text(file, folder=HCA):
    with open(f"{folder}/{file}", encoding="ascii") as opened:
        return opened.read()


def descriptors():
    return sorted(os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
                  if os.path.lexists(f"/proc/self/fd/{fd}"))


def look():
    device = os.stat(UVERBS)
    assert stat.S_ISCHR(device.st_mode)
    equal((os.major(device.st_rdev), os.minor(device.st_rdev)), (231, 192))
    assert os.access(UVERBS, os.R_OK | os.W_OK) and not os.access(UVERBS, os.X_OK)
    assert not os.access(f"{HCA}/node_guid", os.W_OK)
    fails(6, os.open, UVERBS, os.O_RDWR)  # ENXIO
    equal(os.listdir("/sys/class/infiniband"), ["softib0"])
    equal(sorted(os.listdir("/dev/infiniband")), ["rdma_cm", "umad0", "uverbs0"])
    equal(os.path.isdir(f"{HCA}/ports/1"), True)
    equal([entry.name for entry in os.scandir(f"{HCA}/ports") if entry.is_dir()], ["1"])
    equal(text("ports/1/state"), "4: ACTIVE\n")
    equal(text("ports/1/link_layer"), "InfiniBand\n")
    fails(2, os.stat, f"{HCA}/no_such")  # ENOENT
    fails(13, os.open, f"{HCA}/node_guid", os.O_RDWR)  # EACCES
    fails(20, os.listdir, f"{HCA}/node_guid")  # ENOTDIR
    fails(22, os.readlink, HCA)  # EINVAL
    equal(os.path.realpath(f"{HCA}/device/../ports"), f"{HCA}/ports")
    with open(f"{HCA}/node_guid", "rb") as file:
        fails(1, os.write, file.fileno(), b"x")  # EPERM

    # What Python does not call.
    path = ctypes.create_string_buffer(4096)
    assert libc.realpath(HCA.encode(), path)
    equal(path.value.decode(), HCA)
    stream = libc.fopen(f"{HCA}/node_type".encode(), b"re")
    line = ctypes.create_string_buffer(64)
    assert libc.fgets(line, 64, ctypes.c_void_p(stream))
    equal(line.value, b"1: CA\n")
    libc.fclose(ctypes.c_void_p(stream))
    names = ctypes.POINTER(ctypes.c_void_p)()
    equal(libc.scandir(b"/sys/class/infiniband_verbs", ctypes.byref(names), None,
                       ctypes.cast(libc.alphasort, ctypes.c_void_p)), 2)  # uverbs0, abi_version
    assert not libc.opendir(b"/dev/infiniband/no_such")

    # What libibverbs says is there.
    verbs.ibv_get_sysfs_path.restype = ctypes.c_char_p
    equal(os.path.isdir(verbs.ibv_get_sysfs_path().decode() + "/class/infiniband/softib0"), True)

    # All other files are the kernel's.
    equal(os.path.exists("/sys/class/net/lo/mtu"), True)
    equal(text("ostype", "/proc/sys/kernel"), "Linux\n")
    fails(2, os.listdir, "/dev/infinibands")


look()  # the first time, the libraries open what they keep
before = descriptors()
look()
look()
equal(descriptors(), before)
