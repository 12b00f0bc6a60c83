"""A store of objects over HTTP: counts what it sends, checks signatures, and can be a bad one."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import hmac
import http.server
import re
import socket
import threading
import urllib.parse
from collections.abc import Iterator

ACCESS_KEY, SECRET_KEY, REGION = "AKIAEXAMPLE", "an example's secret", "eu-test-1"
_PIECE = 16 << 10


@dataclasses.dataclass
class Store:
    """What a server has and how it behaves; `sent` counts the bytes of objects."""

    objects: dict[str, bytes] = dataclasses.field(default_factory=dict)  # by path
    signed: bool = False      # refuses who does not prove to have SECRET_KEY
    cut_after: int = 0        # ends each answer after so many bytes; 0: never
    silent: bool = False      # takes requests and says nothing
    held: threading.Event = dataclasses.field(default_factory=threading.Event)
    holds_after: int = 0      # sends so much of an answer, then waits for `held`
    sent: int = 0
    answers: list[tuple[str, int]] = dataclasses.field(default_factory=list)  # path, code
    address: str = ""
    _lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    def count(self, size: int) -> None:
        with self._lock:
            self.sent += size


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def _signature(method: str, path: str, headers: dict[str, str], names: str, scope: str) -> str:
    """Signature version 4, as AWS describes it: of a request without a query."""
    canonical = "\n".join([method, path, "",
                           *(f"{name}:{headers[name].strip()}" for name in names.split(";")), "",
                           names, headers["x-amz-content-sha256"]])
    text = "\n".join(["AWS4-HMAC-SHA256", headers["x-amz-date"], scope,
                      hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{SECRET_KEY}".encode()
    for part in scope.split("/"):
        key = _hmac(key, part)
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: Store

    def log_message(self, format: str, *args: object) -> None:
        pass

    def refuse(self, code: int, word: str, message: str) -> None:
        body = f"<Error><Code>{word}</Code><Message>{message}</Message></Error>".encode()
        self.store.answers.append((self.path, code))
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refused_signature(self) -> str:
        """Why this request is not one of the owner of SECRET_KEY; "": it is."""
        headers = {name.lower(): value for name, value in self.headers.items()}
        proof = re.fullmatch(
            r"AWS4-HMAC-SHA256 Credential=([^/]+)/([^,]+), *SignedHeaders=([^,]+), *"
            r"Signature=([0-9a-f]+)", headers.get("authorization", ""))
        if proof is None:
            return "AccessDenied"
        key, scope, names, signature = proof.groups()
        if key != ACCESS_KEY:
            return "InvalidAccessKeyId"
        if scope.split("/")[1:] != [REGION, "s3", "aws4_request"]:
            return "AuthorizationHeaderMalformed"
        right = _signature(self.command, self.path, headers, names, scope)
        return "" if hmac.compare_digest(right, signature) else "SignatureDoesNotMatch"

    def do_GET(self) -> None:
        store = self.store
        if store.silent:
            store.held.wait()
            self.close_connection = True
            return
        if store.signed and (why := self.refused_signature()):
            return self.refuse(403, why, "It is not allowed.")
        content = store.objects.get(urllib.parse.unquote(self.path.partition("?")[0]))
        if content is None:
            return self.refuse(404, "NoSuchKey", "The specified key does not exist.")
        etag = f'"{hashlib.md5(content).hexdigest()}"'
        if self.headers.get("If-Match", etag) != etag:
            return self.refuse(412, "PreconditionFailed", "It has changed.")
        if self.headers.get("If-None-Match") == etag:
            store.answers.append((self.path, 304))
            self.send_response(304)
            self.send_header("ETag", etag)
            return self.end_headers()
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        first = int(wanted.group(1)) if wanted else 0
        self.send_response(206 if wanted else 200)
        store.answers.append((self.path, 206 if wanted else 200))
        self.send_header("ETag", etag)
        self.send_header("Content-Length", str(len(content) - first))
        if wanted:
            self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        self.send_content(content[first:])

    def send_content(self, content: bytes) -> None:
        store = self.store
        for begin in range(0, len(content), _PIECE):
            piece = content[begin:begin + _PIECE]
            if store.cut_after and begin + len(piece) > store.cut_after:
                piece = piece[:max(0, store.cut_after - begin)]
            self.wfile.write(piece)
            store.count(len(piece))
            if store.cut_after and begin + len(piece) >= store.cut_after < len(content):
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            if store.holds_after and begin + len(piece) >= store.holds_after:
                store.held.wait()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that are killed are a part of the tests."""


@contextlib.contextmanager
def serving() -> Iterator[Store]:
    store = Store()
    handler = type("Handler", (_Handler,), {"store": store})
    with _Server(("127.0.0.1", 0), handler) as server:
        store.address = f"127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield store
        finally:
            store.held.set()
            server.shutdown()
            thread.join()
