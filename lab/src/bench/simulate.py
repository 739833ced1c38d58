"""The request-level model of `iotide simulate io rr9537 --policies set10`, as one would write it in Python.

Sixteen jobs compute and then write; a server's workers take requests from a two-level queue and share a device. The queue
follows the rules of the report (`report`: sets by credits in requests, in a set the lowest id first) or iotide's (`iotide`: sets
share bytes by priority, in a set the job whose phase began first, now and then one that has waited long). No chances: every
run is the same. Prints the four figures as JSON.
"""

import heapq
import json
import math
import sys
from collections import OrderedDict, deque

MIB = 1 << 20
BANDWIDTH = 110.0 * MIB
FRAME = (400.0, 3200.0)
WORKERS = 24
PROCESSES = 8
REQUEST = MIB
LATENCY = 1e-3
PATIENCE = 60.0
EVERY = 16
PHASE_GAP = 1.0


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
        self.gap = min(PHASE_GAP, w_iter / 10)
        self.queue = deque()
        self.in_flight = 0
        self.phase = 0
        self.last_active = -math.inf
        self.waiting_since = -math.inf


class Set:
    def __init__(self, priority):
        self.priority = priority
        self.waiting = []
        self.finish = 0.0


class Queue:
    """Sets by what they were served over their priority; in a set jobs by phase; for each job its requests in order."""

    def __init__(self):
        self.sets = {}
        self.turns = []
        self.virtual_time = 0.0
        self.waiting = OrderedDict()
        self.since_out_of_turn = 0
        self.phases = 0

    def push(self, job, size, now):
        if job.phase == 0 or not job.queue and job.in_flight == 0 and now - job.last_active > job.gap:
            self.phases += 1
            job.phase = self.phases
        job.last_active = max(job.last_active, now)
        job.queue.append(size)
        if len(job.queue) == 1:
            job.waiting_since = now
            self.waiting[job] = None
            of = self.sets.get(job.priority)
            if of is None:
                of = self.sets[job.priority] = Set(job.priority)
            heapq.heappush(of.waiting, (job.phase, job.number, job))
            if len(of.waiting) == 1:
                of.finish = max(of.finish, self.virtual_time)
                self.turns.append(of)

    def pop(self, now):
        if not self.turns:
            return None
        oldest = next(iter(self.waiting))
        if self.since_out_of_turn + 1 >= EVERY and now - oldest.waiting_since > PATIENCE:
            self.since_out_of_turn = 0
            job = oldest
            of = self.sets[job.priority]
        else:
            self.since_out_of_turn += 1
            of = min(self.turns, key=lambda of: (of.finish, -of.priority))
            job = of.waiting[0][2]
        size = job.queue.popleft()
        job.in_flight += 1
        job.last_active = max(job.last_active, now)
        job.waiting_since = now
        start = max(of.finish, self.virtual_time)
        self.virtual_time = start
        of.finish = start + size / of.priority
        if job.queue:
            self.waiting.move_to_end(job)
        else:
            del self.waiting[job]
            if of.waiting[0][2] is job:
                heapq.heappop(of.waiting)
            else:
                of.waiting.remove((job.phase, job.number, job))
                heapq.heapify(of.waiting)
            if not of.waiting:
                self.turns.remove(of)
        return job, size

    def complete(self, job, now):
        job.in_flight -= 1
        job.last_active = max(job.last_active, now)


class QueueOfTheReport:
    """Priority -> job -> requests; each priority in turn has its credit of requests served."""

    def __init__(self):
        self.sets = {}
        self.order = []
        self.current = None
        self.left = 0

    def push(self, job, size, now):
        job.queue.append(size)
        if len(job.queue) == 1:
            members = self.sets.get(job.priority)
            if members is None:
                members = self.sets[job.priority] = []
                self.order = sorted(self.sets, reverse=True)
            heapq.heappush(members, (job.number, job))

    def pop(self, now):
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

    def complete(self, job, now):
        pass


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
    def __init__(self, queue):
        self.jobs = [Job(1, 18.0, 8 * 16 * MIB, 200)]
        self.jobs += [Job(n, 360.0, 8 * 320 * MIB, None) for n in range(2, 17)]
        self.queue = queue
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
        self.queue.push(job, size, now)

    def served(self, job, now):
        self.queue.complete(job, now)
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
                request = queue.pop(now)
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
    simulation = Simulation({"report": QueueOfTheReport, "iotide": Queue}[sys.argv[1]]())
    simulation.run()
    print(json.dumps(simulation.figures()))
