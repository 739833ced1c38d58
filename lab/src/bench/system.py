"""The nets of `bench system` in rebop: prints the events and the CPU seconds of a run."""

import sys
import time

import rebop


def one_server(load, until):
    net = rebop.Gillespie()
    net.add_reaction(load, [], ["q", "n"])
    net.add_reaction("q / (q + 0.000000001)", ["q"], ["n"])
    return net, {}, until


def eight_jobs(until):
    """Thinking, operating and moving, a job a colour: one queue of one server, one line that all share."""
    net = rebop.Gillespie()
    ops = " + ".join(f"o{j}" for j in range(8))
    moves = " + ".join(f"m{j}" for j in range(8))
    for j in range(8):
        net.add_reaction(1.0, [f"t{j}"], [f"o{j}", "n"])
        net.add_reaction(f"6 * o{j} / ({ops} + 0.000000001)", [f"o{j}"], [f"m{j}", "n"])
        net.add_reaction(f"5 * m{j} / ({moves} + 0.000000001)", [f"m{j}"], [f"t{j}", "n"])
    return net, {f"t{j}": 1 for j in range(8)}, until


what, until = sys.argv[1], float(sys.argv[2])
net, start, until = one_server(0.8, until) if what == "one" else eight_jobs(until)
began = time.process_time()
run = net.run(start, until, 1, rng=1)
print(int(run["n"].values[-1] if hasattr(run["n"], "values") else run["n"][-1]), time.process_time() - began)
