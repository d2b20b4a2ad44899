"""One TCP connection, for the expectation tcp; see the usage."""

import hashlib
import os
import socket
import sys
import time

USAGE = """usage: transfer.py serve ADDRESS SECONDS | send ADDRESS PORT SECONDS BYTES | connect ADDRESS PORT SECONDS

serve prints its port, then the number of bytes that it has received and their SHA-256; send prints
these of what it has sent; connect only connects. Both try again until a server answers."""


def serve(address, seconds):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as server:
        server.settimeout(seconds)
        print(server.getsockname()[1], flush=True)
        connection, _ = server.accept()
        with connection:
            connection.settimeout(seconds)
            count, digest = 0, hashlib.sha256()
            while data := connection.recv(1 << 16):
                count += len(data)
                digest.update(data)
        print(count, digest.hexdigest())


LEAST_PATIENCE = 0.1  # seconds for the last attempt
FULL_PATIENCE = 1  # seconds; a shorter attempt that times out says less than the error before it


def connected(address, port, seconds):
    """Returns a connection; tries again until there is one."""
    end, error = time.monotonic() + seconds, None
    while True:
        left = max(LEAST_PATIENCE, end - time.monotonic())
        try:
            return socket.create_connection((address, port), timeout=left)
        except OSError as failure:
            is_cut_short = isinstance(failure, TimeoutError) and left < FULL_PATIENCE
            error = error if error and is_cut_short else failure
            if time.monotonic() > end:
                raise error from None
            time.sleep(0.1)


def send(address, port, seconds, count):
    digest = hashlib.sha256()
    with connected(address, port, seconds) as connection:
        left = count
        while left > 0:
            data = os.urandom(min(left, 1 << 16))
            connection.sendall(data)
            digest.update(data)
            left -= len(data)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)  # until the server has received all
    print(count, digest.hexdigest())


def connect(address, port, seconds):
    connected(address, port, seconds).close()


def main():
    what, address, *numbers = sys.argv[1:]
    try:
        {"serve": serve, "send": send, "connect": connect}[what](address, *map(int, numbers))
    except OSError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(USAGE)
    main()
