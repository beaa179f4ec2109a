"""The little of RFC 6455 that a client of websocketd needs: one text message is one line.

Frames are built and read by hand, because a library costs more than the server that is measured.
The mask of what we send is zero: legal on the wire, its chance serves proxies that we have not.
"""

from __future__ import annotations

import base64
import os
import socket
import struct

_FIN_TEXT = 0x81
_MASKED = 0x80
_NO_MASK = bytes(4)
_SHORT, _MEDIUM, _LONG = 125, 126, 127
_MEDIUM_BYTES_MAX = 0xFFFF
_HEAD_BYTES = 2
_LENGTH_BYTES = {_MEDIUM: 2, _LONG: 8}
_OPCODE = 0x0F
_FIN = 0x80
_CONTINUED, _TEXT, _CLOSE = 0, 1, 8
READ_BYTES = 256 * 1024


def connect(host: str, port: int, path: str = "/", token: str = "") -> socket.socket:
    """Connect and shake hands; with a token it is sent as a bearer's.

    Raises:
        ConnectionRefusedError: Nobody listens there yet.
        ConnectionError: It is no WebSocket server.
    """
    plug = socket.create_connection((host, port))
    plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    key = base64.b64encode(os.urandom(16)).decode()
    bearer = f"Authorization: Bearer {token}\r\n" if token else ""
    plug.sendall(
        f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\n"
        f"Connection: Upgrade\r\n{bearer}"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    head = b""
    # Byte by byte, so that nothing of the first message is taken.
    while not head.endswith(b"\r\n\r\n"):
        byte = plug.recv(1)
        if not byte:
            break
        head += byte
    if b" 101 " not in head.partition(b"\r\n")[0]:
        plug.close()
        raise ConnectionError(f"no WebSocket server: {head[:80]!r}")
    return plug


class Frames:
    """Takes a server's frames out of what was received, however it was cut."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._wanted_bytes = _HEAD_BYTES

    def feed(self, data: bytes) -> bytes:
        """The payloads of the frames that are whole now, a line feed behind each message.

        Raises:
            EOFError: The server has said that it closes.
        """
        self._held += data
        if len(self._held) < self._wanted_bytes:
            # A huge frame comes in many reads: not every one of them moves all of it.
            return b""
        data = bytes(self._held)
        pieces: list[bytes] = []
        self._wanted_bytes = _HEAD_BYTES
        at, size = 0, len(data)
        while size - at >= _HEAD_BYTES:
            first, length = data[at], data[at + 1]
            begin = at + _HEAD_BYTES
            if length in _LENGTH_BYTES:
                begin += _LENGTH_BYTES[length]
                length = int.from_bytes(data[at + _HEAD_BYTES : begin])
            end = begin + length
            if end > size:
                self._wanted_bytes = end - at
                break
            if first & _OPCODE in (_CONTINUED, _TEXT):
                pieces.append(data[begin:end])
                if first & _FIN:
                    pieces.append(b"\n")
            elif first & _OPCODE == _CLOSE:
                raise EOFError("the server has closed the connection")
            at = end
        del self._held[:at]
        return b"".join(pieces)


class WebSocketWire:
    """A `client.Wire` over one connection."""

    def __init__(self, plug: socket.socket) -> None:
        self._plug = plug
        self._frames = Frames()

    def send(self, line: bytes) -> None:
        size = len(line)
        if size <= _SHORT:
            head = struct.pack("!BB", _FIN_TEXT, _MASKED | size)
        elif size <= _MEDIUM_BYTES_MAX:
            head = struct.pack("!BBH", _FIN_TEXT, _MASKED | _MEDIUM, size)
        else:
            head = struct.pack("!BBQ", _FIN_TEXT, _MASKED | _LONG, size)
        self._plug.sendall(head + _NO_MASK + line)

    def read(self) -> bytes:
        got = b""
        while not got:
            data = self._plug.recv(READ_BYTES)
            if not data:
                raise EOFError("the server has closed the connection")
            got = self._frames.feed(data)
        return got

    def close(self) -> None:
        self._plug.close()
