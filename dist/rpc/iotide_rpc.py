#!/usr/bin/env python3
"""Asking `iotide serve` from Python, without HTTP. No package is needed.

    import iotide_rpc
    rpc = iotide_rpc.Rpc()                       # the daemon's socket: /run/iotide/serve.sock.rpc, or IOTIDE_DAEMON with ".rpc"
    write = rpc.resolve(job="4711", callpath="posix->write", metric="time")
    print(rpc.evaluate(write, [[64], [512], [4096]]))

As a program: iotide_rpc.py job|app NAME CALLPATH METRIC SIZE...
The format of frames is in docs/rpc.md.
"""
import json
import os
import socket
import struct
import sys

MAX_POINTS = 1024
MAX_INTERVALS = 16
MAX_FRAME = 1 << 20


class Refused(Exception):
    """What the daemon says no to; `code` as HTTP has them."""

    def __init__(self, code, why):
        super().__init__(why)
        self.code = code


def _text(text):
    data = text.encode()[:1024]
    return struct.pack("<H", len(data)) + data


class Rpc:
    def __init__(self, path=None):
        path = path or os.environ.get("IOTIDE_DAEMON", "/run/iotide/serve.sock") + ".rpc"
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.socket.sendall(b"iotrpc01")
        self.next = 0

    def close(self):
        self.socket.close()

    def _read(self, n):
        data = bytearray()
        while len(data) < n:
            piece = self.socket.recv(n - len(data))
            if not piece:
                raise ConnectionError("the daemon has ended the connection")
            data += piece
        return bytes(data)

    def _frame(self):
        length, kind, _flags, _zero, number = struct.unpack("<IBBHI", self._read(12))
        if not 8 <= length <= MAX_FRAME:
            raise ConnectionError("a frame of no valid length")
        return kind, number, self._read(length - 8)

    def _ask(self, kind, payload, expected, flags=0):
        number, self.next = self.next, (self.next + 1) % (1 << 32)
        self.socket.sendall(struct.pack("<IBBHI", len(payload) + 8, kind, flags, 0, number) + payload)
        answer, of, data = self._frame()
        while answer == 0x90:  # an event; subscribe on a connection of its own to have them
            answer, of, data = self._frame()
        if answer == 0xFF:
            code, length = struct.unpack_from("<HH", data)
            raise Refused(code, data[4:4 + length].decode())
        if answer != expected or of != number:
            raise ConnectionError("an answer to another question")
        return data

    def resolve(self, metric, callpath="", job=None, app=None, parameters=()):
        """Returns (handle, number of parameters) of the model of a metric."""
        payload = bytes([job is not None]) + _text(job if job is not None else app) + _text(callpath) + _text(metric)
        payload += bytes([len(parameters)]) + b"".join(map(_text, parameters))
        data = self._ask(1, payload, 0x81)
        handle, self.generation, self.runs, n = struct.unpack_from("<IQIB", data)
        return handle, n

    def evaluate(self, resolved, points, intervals=False):
        """Values at points; with intervals, (value, low, high) of each. NaN: there is none."""
        handle, n_parameters = resolved
        most, width = (MAX_INTERVALS, 3) if intervals else (MAX_POINTS, 1)
        values = []
        for begin in range(0, len(points), most):
            part = points[begin:begin + most]
            flat = [float(x) for point in part for x in point]
            if len(flat) != len(part) * n_parameters:
                raise ValueError(f"a point has {n_parameters} coordinates")
            payload = struct.pack("<II", handle, len(part)) + struct.pack(f"<{len(flat)}d", *flat)
            data = self._ask(2, payload, 0x82, int(intervals))
            self.generation, n = struct.unpack_from("<QI", data)
            values += struct.unpack_from(f"<{n * width}d", data, 12)
        return list(zip(*[iter(values)] * 3)) if intervals else values

    def jobs(self, query="state=running"):
        return json.loads(self._ask(3, _text(query), 0x83))["jobs"]

    def predictions(self, job=""):
        data = self._ask(4, _text(job), 0x84)
        (n,) = struct.unpack_from("<I", data)
        at, all = 4, {}
        for _ in range(n):
            (length,) = struct.unpack_from("<H", data, at)
            name = data[at + 2:at + 2 + length].decode()
            names = ("period_s", "next_phase_unix_s", "idle_s", "confidence", "bytes_per_phase", "load_bps")
            all[name] = dict(zip(names, struct.unpack_from("<6d", data, at + 2 + length)))
            at += 2 + length + 48
        return all

    def rhythms(self, job=""):
        """Rhythms of running jobs, by (job, uid): what those go by who act on jobs. NaN: there is none."""
        data = self._ask(7, _text(job), 0x87)
        (n,) = struct.unpack_from("<I", data)
        at, all = 4, {}
        names = ("period_s", "confidence", "age_s", "start_in_s", "earliest_in_s", "latest_in_s", "duration_s", "bytes", "idle_probability")
        for _ in range(n):
            (length,) = struct.unpack_from("<H", data, at)
            name = data[at + 2:at + 2 + length].decode()
            at += 2 + length
            (uid,) = struct.unpack_from("<I", data, at)
            all[name, uid] = dict(zip(names, struct.unpack_from("<9d", data, at + 4)))
            at += 4 + 72
        return all

    def load(self):
        read, written, expected, jobs = struct.unpack("<dddI", self._ask(5, b"", 0x85))
        return {"read_bps": read, "write_bps": written, "predicted_bps": expected, "jobs": jobs}

    def events(self):
        """Yields (kind, what) as things happen."""
        self._ask(6, b"", 0x86)
        while True:
            kind, _, data = self._frame()
            if kind == 0x90:
                (length,) = struct.unpack_from("<H", data)
                yield data[2:2 + length].decode(), json.loads(data[2 + length:])


def main(args):
    if len(args) < 5 or args[0] not in ("job", "app"):
        sys.exit(__doc__)
    rpc = Rpc()
    try:
        model = rpc.resolve(metric=args[3], callpath=args[2], **{args[0]: args[1]})
        points = [[float(size)] for size in args[4:]]
        for (size,), (value, low, high) in zip(points, rpc.evaluate(model, points, intervals=True)):
            print(f"{size:g} {value!r} {low!r} {high!r}")
        for (size,), value in zip(points, rpc.evaluate(model, points)):
            print(f"{size:g} {value!r}")
    except Refused as refused:
        sys.exit(str(refused))


if __name__ == "__main__":
    main(sys.argv[1:])
