"""Messages between two machines that share a key, over TCP.

Either end proves that it has the key before anything else is read, and each message proves that it
is the next one of this connection (HMAC-SHA256 over the direction, a count and the content)::

    client -> server   b"LWRUN1\\n\\0"  nonce
    server -> client   nonce            HMAC(key, "server" nonces)
    client -> server   HMAC(key, "client" nonces)
    then, either way   length, 4 bytes  content           HMAC(HMAC(key, "session" nonces), ...)

Messages are authenticated, not secret: kernels and times can be read on the way. What a message
says is data; nothing is unpickled.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import socket
import stat
import struct
import time
from pathlib import Path

from ....ir.errors import LoopwrightOSError
from ....ir.files import read_named
from .remote import RunnerError

MAGIC = b"LWRUN1\n\0"
NONCE_BYTES = DIGEST_BYTES = 32
MOST_MESSAGE = 1 << 24
"""Bytes of a message; a kernel with its candidates has some thousand."""
HANDSHAKE_SECONDS = 5.0
LEAST_KEY = 16
"""Bytes of the shortest key."""


class WireError(RunnerError):
    """The other end has another key, does not speak this language, or is gone."""


class Wire:
    """One end of a connection that both have proved their key to."""

    def __init__(self, connection: socket.socket, key: bytes, server: bool) -> None:
        """Proves the key. Raises WireError, and closes the connection, if the other end does
        not."""
        self._socket = connection
        self._sent = self._received = 0
        self._own, self._other = (b"s", b"c") if server else (b"c", b"s")
        try:
            until = time.monotonic() + HANDSHAKE_SECONDS
            nonces = self._greet_client(key, until) if server else self._greet_server(key, until)
            self._key = _proof(key, b"session", nonces)
        except BaseException:
            connection.close()
            raise

    def _greet_client(self, key: bytes, until: float) -> bytes:
        hello = self._read(len(MAGIC) + NONCE_BYTES, until)
        if hello[: len(MAGIC)] != MAGIC:
            raise WireError("the other end does not speak this language")
        nonces = hello[len(MAGIC) :] + (nonce := secrets.token_bytes(NONCE_BYTES))
        self._write(nonce + _proof(key, b"server", nonces), until)
        if not hmac.compare_digest(self._read(DIGEST_BYTES, until), _proof(key, b"client", nonces)):
            raise WireError("the other end has another key")
        return nonces

    def _greet_server(self, key: bytes, until: float) -> bytes:
        nonce = secrets.token_bytes(NONCE_BYTES)
        self._write(MAGIC + nonce, until)
        answer = self._read(NONCE_BYTES + DIGEST_BYTES, until)
        nonces = nonce + answer[:NONCE_BYTES]
        if not hmac.compare_digest(answer[NONCE_BYTES:], _proof(key, b"server", nonces)):
            raise WireError("the other end has another key")
        self._write(_proof(key, b"client", nonces), until)
        return nonces

    def send(self, text: str, seconds: float) -> None:
        """Sends a message. Raises WireError if it is too long, or cannot be sent in time."""
        content = text.encode()
        if len(content) > MOST_MESSAGE:
            raise WireError(f"a message of {len(content)} bytes is too long")
        head = struct.pack("<I", len(content))
        tag = self._tag(self._own, self._sent, content)
        self._write(head + content + tag, time.monotonic() + seconds)
        self._sent += 1

    def receive(self, seconds: float) -> str:
        """Returns the next message. Raises WireError if none comes in time, or one that is not the
        other end's next."""
        until = time.monotonic() + seconds
        (length,) = struct.unpack("<I", self._read(4, until))
        if length > MOST_MESSAGE:
            raise WireError(f"a message of {length} bytes is too long")
        content = self._read(length, until)
        tag = self._read(DIGEST_BYTES, until)
        if not hmac.compare_digest(tag, self._tag(self._other, self._received, content)):
            raise WireError("a message is not as it was sent")
        self._received += 1
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise WireError("a message is not UTF-8") from error

    def close(self) -> None:
        """Ends the connection."""
        self._socket.close()

    def _tag(self, direction: bytes, count: int, content: bytes) -> bytes:
        return _proof(self._key, direction, struct.pack("<QI", count, len(content)) + content)

    def _read(self, count: int, until: float) -> bytes:
        parts: list[bytes] = []
        while count:
            self._wait(until)
            try:
                part = self._socket.recv(min(count, 1 << 16))
            except OSError as error:
                raise WireError(f"the connection is gone: {error}") from error
            if not part:
                raise WireError("the other end closed the connection")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def _write(self, data: bytes, until: float) -> None:
        self._wait(until)
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise WireError(f"the connection is gone: {error}") from error

    def _wait(self, until: float) -> None:
        left = until - time.monotonic()
        if left <= 0:
            raise WireError("the other end does not answer")
        self._socket.settimeout(left)


def _proof(key: bytes, role: bytes, content: bytes) -> bytes:
    return hmac.digest(key, role + b"\0" + content, hashlib.sha256)


def read_key(path: Path) -> bytes:
    """Returns the key of a file. Raises RunnerError unless it is one, which nobody else can
    read."""
    try:
        mode = path.stat().st_mode
        key = read_named(path, most_bytes=1 << 12).strip()
    except (OSError, LoopwrightOSError) as error:
        raise RunnerError(
            f"the key {path} cannot be read: {error}; loopwright runner --new-key {path} makes one"
        ) from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise RunnerError(f"others can read the key {path}: chmod 600 {path}")
    if len(key) < LEAST_KEY:
        raise RunnerError(f"the key {path} has {len(key)} bytes; {LEAST_KEY} are the least")
    return key


def write_key(path: Path) -> None:
    """Writes a new key to a new file that only its owner can read. Raises FileExistsError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_hex(32) + "\n")
