"""Asks ftio-hpc for the period of each signal: one JSON object {"t": [...], "b": [...]} a line in, one list of
[period_s, confidence] a line out, the dominant one first."""
import contextlib
import io
import json
import sys

with contextlib.redirect_stdout(io.StringIO()):
    from ftio.cli.ftio_core import core
    from ftio.parse.args import parse_args

for line in sys.stdin:
    signal = json.loads(line)
    data = {"time": signal["t"], "bandwidth": signal["b"], "total_bytes": 0, "ranks": 32}
    answer = []
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            import numpy

            data["time"], data["bandwidth"] = numpy.array(signal["t"]), numpy.array(signal["b"])
            prediction, _ = core(data, parse_args(["-e", "no", "-f", sys.argv[1]], "ftio"))
            found = zip(prediction.dominant_freq, prediction.conf)
            answer = sorted(((1.0 / float(f), float(c)) for f, c in found if f > 0), key=lambda a: -a[1])
        except Exception:  # no answer is an answer, too: FTIO raises on some signals
            pass
    print(json.dumps(answer), flush=True)
