"""A log in Standard Workload Format under a policy of AccaSim: `python jobs.py LOG NODES fcfs|easy`.

Prints makespan and mean wait in seconds. AccaSim 1.1.3 was written for Python before 3.10, where `collections` still had its abstract
classes; they are put back before it is imported.
"""
import collections
import collections.abc
import json
import os
import sys
import tempfile

for name in ("Callable", "Mapping", "MutableMapping", "Sequence", "Iterable"):
    if not hasattr(collections, name):
        setattr(collections, name, getattr(collections.abc, name))

from accasim.base.scheduler_class import FirstInFirstOut  # noqa: E402
from accasim.base.simulator_class import Simulator  # noqa: E402
from accasim.base.allocator_class import FirstFit  # noqa: E402

try:
    from accasim.base.scheduler_class import EASYBackfilling  # noqa: E402
except ImportError:
    from accasim.base.scheduler_class import EASY_Backfilling as EASYBackfilling  # noqa: E402


def main():
    log, nodes, policy = os.path.abspath(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        simulate(log, nodes, policy, folder)
        os.chdir("/")


def simulate(log, nodes, policy, folder):
    # Processors alone: its backfilling divides by what a job asks of each resource, and these logs ask for no memory.
    with open("system.json", "w") as file:
        json.dump({"groups": {"g0": {"core": 1}}, "resources": {"g0": nodes}}, file)
    allocator = FirstFit()
    dispatcher = FirstInFirstOut(allocator) if policy == "fcfs" else EASYBackfilling(allocator)
    Simulator(log, "system.json", dispatcher, RESULTS_FOLDER_PATH=folder, RESULTS_FOLDER_NAME="results").start_simulation()


main()
