"""An agent that a test plays by hand: what its stdio says and hears goes over a unix socket.

    python puppet.py SOCKET

It ends with its stdin, or with the socket. Standard library only.
"""

from __future__ import annotations

import os
import socket
import sys
import threading


def speak(test: socket.socket) -> None:
    """Write what the test says; its end ends the process."""
    while data := test.recv(1 << 16):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    os._exit(0)


def main() -> None:
    with socket.socket(socket.AF_UNIX) as test:
        test.connect(sys.argv[1])
        threading.Thread(target=speak, args=[test], daemon=True).start()
        while data := os.read(0, 1 << 16):
            test.sendall(data)


if __name__ == "__main__":
    main()
