"""The request-level model of `iotide simulate io report --rules report --policies set10`, as one would write it in Python.

Sixteen jobs compute and then write; a server's workers take requests from a two-level queue (sets by credits, the job with
the lowest id first) and share a device. No chances: every run is the same. Prints the four figures as JSON.
"""

import heapq
import json
import math
from collections import deque

MIB = 1 << 20
BANDWIDTH = 110.0 * MIB
FRAME = (400.0, 3200.0)
WORKERS = 24
PROCESSES = 8
REQUEST = MIB
LATENCY = 1e-3


class Job:
    def __init__(self, number, compute, volume, iterations):
        self.number = number
        self.compute = compute
        self.volume = volume
        self.iterations = iterations
        self.done = 0
        self.to_send = 0.0
        self.out = 0
        self.phase_start = 0.0
        self.cpu = 0.0
        self.moved = 0.0
        self.end = math.inf
        self.settled = False
        w_iter = compute + volume / BANDWIDTH
        self.priority = 10.0 ** -round(math.log10(w_iter))
        self.queue = deque()


class Queue:
    """Priority -> job -> requests; each priority in turn has its credit of requests served."""

    def __init__(self):
        self.sets = {}
        self.order = []
        self.current = None
        self.left = 0

    def push(self, job, size):
        job.queue.append(size)
        if len(job.queue) == 1:
            members = self.sets.get(job.priority)
            if members is None:
                members = self.sets[job.priority] = []
                self.order = sorted(self.sets, reverse=True)
            heapq.heappush(members, (job.number, job))

    def pop(self):
        waiting = [priority for priority in self.order if self.sets[priority]]
        if not waiting:
            return None
        if self.current not in waiting or self.left == 0:
            after = [p for p in waiting if self.current is not None and p < self.current]
            self.current = after[0] if after else waiting[0]
            self.left = max(1, round(self.current / waiting[-1]))
        self.left -= 1
        members = self.sets[self.current]
        job = members[0][1]
        size = job.queue.popleft()
        if not job.queue:
            heapq.heappop(members)
        return job, size


class Device:
    """Serves several requests at once, each as fast as the others."""

    def __init__(self):
        self.now = 0.0
        self.served = 0.0
        self.ends = []
        self.started = 0

    def advance(self, now):
        if self.ends:
            self.served += (now - self.now) * BANDWIDTH / len(self.ends)
        self.now = now

    def start(self, now, job, size):
        self.advance(now)
        if not self.ends:
            self.served = 0.0
        heapq.heappush(self.ends, (self.served + size, self.started, job))
        self.started += 1

    def next_end(self):
        if not self.ends:
            return math.inf
        return self.now + max(0.0, self.ends[0][0] - self.served) * len(self.ends) / BANDWIDTH

    def finish(self):
        end = self.next_end()
        self.served, _, job = heapq.heappop(self.ends)
        self.now = end
        return end, job


def within(start, end):
    return max(0.0, min(end, FRAME[1]) - max(start, FRAME[0]))


class Simulation:
    def __init__(self):
        self.jobs = [Job(1, 18.0, 8 * 16 * MIB, 200)]
        self.jobs += [Job(n, 360.0, 8 * 320 * MIB, None) for n in range(2, 17)]
        self.queue = Queue()
        self.device = Device()
        self.agenda = []
        self.planned = 0
        self.unsettled = len(self.jobs)
        for job in self.jobs:
            self.begin_compute(job, 0.0)

    def plan(self, at, what, job):
        heapq.heappush(self.agenda, (at, self.planned, what, job))
        self.planned += 1

    def settle(self, job):
        if not job.settled:
            job.settled = True
            self.unsettled -= 1

    def begin_compute(self, job, now):
        if job.done == job.iterations:
            job.end = now
            self.settle(job)
            return
        until = now + job.compute
        job.cpu += within(now, until)
        if until >= FRAME[1]:
            self.settle(job)
        self.plan(until, self.begin_phase, job)

    def begin_phase(self, job, now):
        job.phase_start = now
        job.to_send = job.volume
        for _ in range(PROCESSES):
            self.send(job, now)

    def send(self, job, now):
        if job.to_send <= 0:
            return
        size = min(REQUEST, job.to_send)
        job.to_send -= size
        job.out += 1
        self.queue.push(job, size)

    def served(self, job, now):
        job.out -= 1
        if job.to_send > 0:
            self.plan(now + LATENCY, self.send, job)
        elif job.out == 0:
            job.moved += job.volume * within(job.phase_start, now) / (now - job.phase_start)
            job.done += 1
            if now >= FRAME[1]:
                self.settle(job)
            self.begin_compute(job, now)

    def run(self):
        queue, device, agenda = self.queue, self.device, self.agenda
        while self.unsettled:
            end = device.next_end()
            if end <= (agenda[0][0] if agenda else math.inf):
                now, job = device.finish()
                self.served(job, now)
            else:
                now, _, what, job = heapq.heappop(agenda)
                what(job, now)
            while len(device.ends) < WORKERS:
                request = queue.pop()
                if request is None:
                    break
                device.start(now, *request)

    def figures(self):
        stretches, slowdowns, computed = [], [], 0.0
        for job in self.jobs:
            time = within(0.0, job.end)
            alone = job.moved / BANDWIDTH
            stretches.append(time / (job.cpu + alone))
            slowdowns.append((time - job.cpu) / alone)
            computed += job.cpu
        mean = lambda values: math.exp(sum(map(math.log, values)) / len(values))
        return {
            "max_stretch": max(stretches),
            "geomean_stretch": mean(stretches),
            "io_slowdown": mean(slowdowns),
            "utilization": computed / (len(self.jobs) * (FRAME[1] - FRAME[0])),
        }


if __name__ == "__main__":
    simulation = Simulation()
    simulation.run()
    print(json.dumps(simulation.figures()))
