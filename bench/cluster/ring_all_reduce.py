"""Times an all-reduce of two workers over TCP: the communication of a dense data-parallel step.

    ring_all_reduce.py --listen ADDRESS:PORT --bytes N --repeats R     (one side)
    ring_all_reduce.py --connect ADDRESS:PORT --bytes N --repeats R    (the other)

A ring of two: each sends the half that the other reduces and receives its own half (reduce-scatter),
then each sends its reduced half and receives the other one (all-gather). Both directions at once, N
bytes each way in all. The bytes are real, the additions are left out: they are counted as free.
The side that connects ends with one JSON object: {"seconds": [...], "bytes": N}.
"""

import argparse
import json
import socket
import sys
import threading
import time

CHUNK = 1 << 20
PATIENCE_SECONDS = 30


def exchange(connection, count):
    """Sends and receives `count` bytes at once."""
    payload = memoryview(bytearray(CHUNK))
    errors = []

    def send():
        try:
            left = count
            while left:
                left -= connection.send(payload[:min(left, CHUNK)])
        except OSError as error:
            errors.append(error)

    sender = threading.Thread(target=send)
    sender.start()
    inbox = memoryview(bytearray(CHUNK))
    left = count
    while left:
        got = connection.recv_into(inbox[:min(left, CHUNK)])
        if got == 0:
            raise ConnectionError(f"the other side left with {left} bytes to go")
        left -= got
    sender.join()
    if errors:
        raise errors[0]


def all_reduce(connection, count):
    """Seconds of one all-reduce of `count` bytes."""
    half = count // 2
    begin = time.monotonic()
    exchange(connection, half)
    exchange(connection, count - half)
    return time.monotonic() - begin


def endpoint(text):
    host, _, port = text.rpartition(":")
    return host, int(port)


def accept(address):
    with socket.create_server(address) as server:
        server.settimeout(PATIENCE_SECONDS)
        return server.accept()[0]


def connect(address):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return socket.create_connection(address, timeout=PATIENCE_SECONDS)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    side = parser.add_mutually_exclusive_group(required=True)
    side.add_argument("--listen", type=endpoint)
    side.add_argument("--connect", type=endpoint)
    parser.add_argument("--bytes", type=int, required=True)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if options.bytes < 2 or options.repeats < 1:
        parser.error("--bytes is at least 2, --repeats at least 1")
    with accept(options.listen) if options.listen else connect(options.connect) as connection:
        connection.settimeout(None)
        seconds = [all_reduce(connection, options.bytes) for _ in range(options.repeats)]
    if options.connect:
        print(json.dumps({"seconds": seconds, "bytes": options.bytes}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
