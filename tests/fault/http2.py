"""HTTP/2 as far as a gRPC client and a frame-aware proxy need it: frames and header blocks.

Frames: RFC 9113, section 4. Header blocks: RFC 7541, without Huffman codes, which the project's
servers do not use towards a peer that announces SETTINGS below.
"""

import dataclasses
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER_BYTES = 9

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, \
    CONTINUATION = range(10)
FRAME_NAMES = ("DATA", "HEADERS", "PRIORITY", "RST_STREAM", "SETTINGS", "PUSH_PROMISE", "PING",
               "GOAWAY", "WINDOW_UPDATE", "CONTINUATION")

END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
WITH_PRIORITY = 0x20

SETTINGS_HEADER_TABLE_SIZE = 1
SETTINGS_ENABLE_PUSH = 2
SETTINGS_INITIAL_WINDOW_SIZE = 4
SETTINGS_MAX_FRAME_SIZE = 5
# gRPC's own: metadata named *-bin may travel as bytes, not as base64 in Huffman codes.
SETTINGS_GRPC_TRUE_BINARY = 0xFE03

DEFAULT_WINDOW = 65535
DEFAULT_MAX_FRAME = 16384


class Http2Error(Exception):
    """Bytes that are no HTTP/2, or that use a part of it that is not handled here."""


@dataclasses.dataclass(frozen=True)
class Frame:
    kind: int
    flags: int
    stream: int
    payload: bytes

    def encode(self):
        return (struct.pack(">I", len(self.payload))[1:]
                + struct.pack(">BBI", self.kind, self.flags, self.stream) + self.payload)

    def name(self):
        return FRAME_NAMES[self.kind] if self.kind < len(FRAME_NAMES) else f"kind {self.kind}"

    def content(self):
        """The payload of DATA or HEADERS without padding and priority."""
        start, end = 0, len(self.payload)
        if self.flags & PADDED:
            if not self.payload or self.payload[0] >= len(self.payload):
                raise Http2Error(f"{self.name()}: padding is longer than the frame")
            start, end = 1, end - self.payload[0]
        if self.kind == HEADERS and self.flags & WITH_PRIORITY:
            start += 5
        return self.payload[start:end]


def header_of(nine_bytes):
    """(payload length, kind, flags, stream) of a frame's first nine bytes."""
    length = int.from_bytes(nine_bytes[:3], "big")
    kind, flags, stream = struct.unpack(">BBI", nine_bytes[3:9])
    return length, kind, flags, stream & 0x7FFFFFFF


class FrameReader:
    """Cuts a byte stream into whole frames; what is incomplete waits for more bytes."""

    def __init__(self):
        self._buffer = bytearray()

    def feed(self, data):
        """The frames that `data` completes."""
        self._buffer += data
        frames = []
        while len(self._buffer) >= HEADER_BYTES:
            length, kind, flags, stream = header_of(self._buffer[:HEADER_BYTES])
            if len(self._buffer) < HEADER_BYTES + length:
                break
            payload = bytes(self._buffer[HEADER_BYTES:HEADER_BYTES + length])
            del self._buffer[:HEADER_BYTES + length]
            frames.append(Frame(kind, flags, stream, payload))
        return frames


def settings_payload(settings):
    return b"".join(struct.pack(">HI", key, value) for key, value in settings.items())


def parse_settings(payload):
    if len(payload) % 6 != 0:
        raise Http2Error(f"SETTINGS of {len(payload)} bytes, not a multiple of 6")
    return dict(struct.iter_unpack(">HI", payload))


# --- header blocks -------------------------------------------------------------------------------

# RFC 7541, appendix A; index 0 is not used.
_STATIC = [
    None, (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"),
    (":path", "/index.html"), (":scheme", "http"), (":scheme", "https"), (":status", "200"),
    (":status", "204"), (":status", "206"), (":status", "304"), (":status", "400"),
    (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""),
    ("accept", ""), ("access-control-allow-origin", ""), ("age", ""), ("allow", ""),
    ("authorization", ""), ("cache-control", ""), ("content-disposition", ""),
    ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""),
    ("date", ""), ("etag", ""), ("expect", ""), ("expires", ""), ("from", ""), ("host", ""),
    ("if-match", ""), ("if-modified-since", ""), ("if-none-match", ""), ("if-range", ""),
    ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""), ("location", ""),
    ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""),
    ("vary", ""), ("via", ""), ("www-authenticate", ""),
]


def _encode_integer(value, prefix_bits, first_byte):
    limit = (1 << prefix_bits) - 1
    if value < limit:
        return bytes([first_byte | value])
    out = bytearray([first_byte | limit])
    value -= limit
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    out.append(value)
    return bytes(out)


def _encode_string(value):
    data = value.encode("latin-1") if isinstance(value, str) else value
    return _encode_integer(len(data), 7, 0) + data


def encode_headers(headers):
    """A block of literals that changes no table: [(name, value)], names in lower case."""
    return b"".join(b"\x00" + _encode_string(name) + _encode_string(value)
                    for name, value in headers)


class HeaderDecoder:
    """Reads a peer's header blocks, in order. Values are str, those of *-bin names bytes."""

    def __init__(self, table_bytes=4096):
        self._table = []
        self._limit = table_bytes

    def decode(self, block):
        """[(name, value)]; Http2Error when a string is in Huffman codes or the block is cut."""
        self._block, self._at, found = block, 0, []
        try:
            while self._at < len(block):
                entry = self._field()
                if entry is not None:
                    found.append(entry)
        except IndexError as error:
            raise Http2Error("a header block ends too early or names no entry") from error
        return found

    def _field(self):
        first = self._block[self._at]
        if first & 0x80:
            return self._entry(self._integer(7))
        if first & 0xE0 == 0x20:
            self._limit = self._integer(5)
            self._evict()
            return None
        keeps = first & 0x40
        index = self._integer(6 if keeps else 4)
        name = self._entry(index)[0] if index else self._string().decode("latin-1")
        value = self._string()
        if name.endswith("-bin"):
            value = value[1:] if value[:1] == b"\0" else value
        else:
            value = value.decode("latin-1")
        if keeps:
            self._table.insert(0, (name, value))
            self._evict()
        return name, value

    def _entry(self, index):
        if index == 0:
            raise IndexError(index)
        if index < len(_STATIC):
            return _STATIC[index]
        return self._table[index - len(_STATIC)]

    def _integer(self, prefix_bits):
        limit = (1 << prefix_bits) - 1
        value = self._block[self._at] & limit
        self._at += 1
        shift = 0
        while value >= limit:
            byte = self._block[self._at]
            self._at += 1
            value += (byte & 127) << shift
            shift += 7
            if not byte & 128:
                break
        return value

    def _string(self):
        huffman = self._block[self._at] & 0x80
        length = self._integer(7)
        if huffman:
            raise Http2Error("a header in Huffman codes, which the servers should not send here")
        if self._at + length > len(self._block):
            raise IndexError(length)
        self._at += length
        return self._block[self._at - length:self._at]

    def _evict(self):
        size = 0
        for place, (name, value) in enumerate(self._table):
            size += len(name) + len(value) + 32
            if size > self._limit:
                del self._table[place:]
                return
