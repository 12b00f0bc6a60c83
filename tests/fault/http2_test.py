"""Frames, header blocks and protobuf fields: what is written is read again; examples of RFC 7541.

usage: http2_test.py [unittest arguments]
"""

import random
import unittest

import http2
import protobuf


class FrameTest(unittest.TestCase):
    def test_frames_are_found_however_the_bytes_are_cut(self):
        source = random.Random(1)
        frames = [http2.Frame(source.randrange(10), source.randrange(256),
                              source.randrange(1 << 31), source.randbytes(source.randrange(300)))
                  for _ in range(50)]
        data = b"".join(frame.encode() for frame in frames)
        for _ in range(20):
            reader, found, at = http2.FrameReader(), [], 0
            while at < len(data):
                size = source.randrange(1, 200)
                found += reader.feed(data[at:at + size])
                at += size
            self.assertEqual(found, frames)

    def test_padding_and_priority_are_no_content(self):
        self.assertEqual(http2.Frame(http2.DATA, http2.PADDED, 1, b"\x02abc\0\0").content(), b"abc")
        self.assertEqual(http2.Frame(http2.HEADERS, http2.WITH_PRIORITY, 1, b"12345abc").content(),
                         b"abc")
        with self.assertRaises(http2.Http2Error):
            http2.Frame(http2.DATA, http2.PADDED, 1, b"\x04abc").content()

    def test_settings(self):
        settings = {1: 0, 4: 1 << 30, 0xFE03: 1}
        self.assertEqual(http2.parse_settings(http2.settings_payload(settings)), settings)
        with self.assertRaises(http2.Http2Error):
            http2.parse_settings(b"12345")


class HeaderTest(unittest.TestCase):
    def test_what_is_encoded_is_decoded(self):
        headers = [(":method", "POST"), ("te", "trailers"), ("long", "x" * 1000)]
        self.assertEqual(http2.HeaderDecoder().decode(http2.encode_headers(headers)), headers)

    def test_the_examples_of_the_rfc(self):
        # RFC 7541, appendices C.2.1 to C.2.4.
        for block, expected in (
                ("400a637573746f6d2d6b65790d637573746f6d2d686561646572",
                 ("custom-key", "custom-header")),
                ("040c2f73616d706c652f70617468", (":path", "/sample/path")),
                ("100870617373776f726406736563726574", ("password", "secret")),
                ("82", (":method", "GET"))):
            self.assertEqual(http2.HeaderDecoder().decode(bytes.fromhex(block)), [expected])

    def test_the_dynamic_table_over_several_blocks(self):
        # RFC 7541, appendix C.3.
        decoder = http2.HeaderDecoder()
        blocks = ("828684410f7777772e6578616d706c652e636f6d", "828684be58086e6f2d6361636865",
                  "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565")
        found = [dict(decoder.decode(bytes.fromhex(block))) for block in blocks]
        self.assertEqual([headers[":authority"] for headers in found], ["www.example.com"] * 3)
        self.assertEqual(found[1]["cache-control"], "no-cache")
        self.assertEqual(found[2][":path"], "/index.html")
        self.assertEqual(found[2]["custom-key"], "custom-value")

    def test_a_table_of_no_size_keeps_nothing(self):
        decoder = http2.HeaderDecoder()
        decoder.decode(bytes.fromhex("20" "400a637573746f6d2d6b65790d637573746f6d2d686561646572"))
        with self.assertRaises(http2.Http2Error):
            decoder.decode(b"\xbe")

    def test_bytes_of_a_binary_header(self):
        block = http2.encode_headers([("x-bin", b"\0\x01\xff")])
        self.assertEqual(http2.HeaderDecoder().decode(block), [("x-bin", b"\x01\xff")])

    def test_cut_blocks_and_huffman_codes_are_refused(self):
        block = http2.encode_headers([("name", "value")])
        for size in range(1, len(block)):
            with self.assertRaises(http2.Http2Error):
                http2.HeaderDecoder().decode(block[:size])
        with self.assertRaisesRegex(http2.Http2Error, "Huffman"):
            http2.HeaderDecoder().decode(bytes.fromhex("418cf1e3c2e5f23a6ba0ab90f4ff"))


class ProtobufTest(unittest.TestCase):
    def test_fields_are_read_again(self):
        encoded = (protobuf.uint(1, 300) + protobuf.data(2, "text") + protobuf.double(3, 1.5)
                   + protobuf.message(4, b"") + protobuf.uint(1, 1) + protobuf.uint(200, 1 << 63))
        fields = protobuf.decode(encoded)
        self.assertEqual(fields[1], [300, 1])
        self.assertEqual(protobuf.last(fields, 1), 1)
        self.assertEqual(protobuf.text(fields, 2), "text")
        self.assertEqual((fields[4], fields[200]), ([b""], [1 << 63]))
        self.assertEqual(protobuf.last(fields, 9), 0)

    def test_known_bytes(self):
        # From the description of the encoding: field 1 = 150, field 2 = "testing".
        self.assertEqual(protobuf.uint(1, 150), bytes.fromhex("089601"))
        self.assertEqual(protobuf.data(2, "testing"), bytes.fromhex("120774657374696e67"))

    def test_defaults_are_left_out(self):
        self.assertEqual(protobuf.uint(1, 0) + protobuf.data(2, b"") + protobuf.double(3, 0.0), b"")

    def test_negative_numbers(self):
        for value in (-1, -(1 << 63), 0, 5):
            fields = protobuf.decode(protobuf.uint(1, value))
            self.assertEqual(protobuf.signed(protobuf.last(fields, 1)), value)

    def test_what_is_cut_or_no_message_is_refused(self):
        encoded = protobuf.uint(1, 300) + protobuf.data(2, "text") + protobuf.double(3, 1.5)
        for size in (1, 2, 4, 8, 10, len(encoded) - 1):
            with self.assertRaises(protobuf.ProtobufError):
                protobuf.decode(encoded[:size])
        with self.assertRaises(protobuf.ProtobufError):
            protobuf.decode(b"\x0b")  # a group


if __name__ == "__main__":
    unittest.main()
