"""Who takes part in `cargo xtask hostile`: victims, ordinary users, and attackers. Started as an unprivileged user, in the folder that
holds `backing`, `shown` (the mount) and `gate` (the arbiter's socket). Victims say `.` for each MiB, and `x` for each that went wrong."""
import fcntl, os, signal, socket, struct, subprocess, sys, threading, time

MIB = 1 << 20
BLOCK = bytes(MIB)
ROLE, NAME = sys.argv[1:3]
STORAGE_S = MIB / float(sys.argv[3])  # what a MiB takes where an arbiter's clients only pretend to move data


def said(word):
    os.write(1, word + b'\n')


def rested(share):
    """Sleeps until this process has used no more than a share of a core: there are others on this machine."""
    used, passed = time.process_time(), time.monotonic() - BEGAN
    time.sleep(min(max(used / share - passed, 0.0), 5.0))


BEGAN = time.monotonic()

# At the mount


def write(path, n_mib):
    file = os.open(path, os.O_CREAT | os.O_WRONLY, 0o644)
    for _ in range(n_mib):
        os.pwrite(file, BLOCK, 0)
        yield
    os.close(file)


def victim():
    while True:
        time.sleep(1)
        try:
            for _ in write('shown/' + NAME, 8):
                said(b'.')
        except OSError:
            said(b'x')


def ordinary():
    while True:
        for _ in write('shown/' + NAME, 8):
            rested(0.1)


def big():
    """Never lets go of its turn."""
    while True:
        for _ in write('shown/' + NAME, 64):
            pass
        rested(0.05)


def tiny():
    """Requests that are so small that nobody holds them up, one after the other."""
    file = os.open('shown/' + NAME, os.O_CREAT | os.O_WRONLY, 0o644)
    while True:
        for _ in range(500):
            os.pwrite(file, BLOCK[:16384], 0)
        rested(0.05)


def names():
    """Each request is of a job of its own."""
    i = 0
    while True:
        i += 1
        command = ['dd', 'if=/dev/zero', 'of=shown/' + NAME, 'bs=64k', 'count=1', 'status=none']
        subprocess.run(command, env={'IOSETS_JOB_ID': f'{NAME}-{i}' + 200 * 'n'})
        time.sleep(0.2)


def descriptors():
    while True:
        held = []
        try:
            while len(held) < 4000:
                held.append(os.open(f'shown/{NAME}-{len(held) % 50}', os.O_CREAT | os.O_RDWR, 0o644))
        except OSError:
            pass
        time.sleep(5)
        for file in held:
            os.close(file)
        rested(0.03)


def leases():
    """Opens files through the mount on which it holds leases behind it, and never gives them up."""
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    while True:
        held, waiting = [], []
        for i in range(40):
            path = f'{NAME}-{i}'
            file = os.open('backing/' + path, os.O_CREAT | os.O_RDWR, 0o644)
            held.append(file)
            try:
                fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            except OSError:
                continue
            ways = [lambda path: os.close(os.open(path, os.O_RDONLY)), lambda path: os.truncate(path, 1)]
            thread = threading.Thread(target=tried, args=(ways[i % 2], 'shown/' + path), daemon=True)
            thread.start()
            waiting.append(thread)
        time.sleep(30)
        for file in held:
            os.close(file)
        for thread in waiting:
            thread.join(60)


def tried(work, path):
    try:
        work(path)
    except OSError:
        pass


def rights():
    """Writes in every way to a program of others' that everyone may change; it must not keep its rights."""
    source = os.open('shown/' + NAME + '-source', os.O_CREAT | os.O_RDWR, 0o644)
    os.pwrite(source, b'evil', 0)
    target = os.open('shown/program', os.O_RDWR)
    while True:
        for way in [lambda: os.copy_file_range(source, target, 4, 0, 0), lambda: os.pwrite(target, b'evil', 0)]:
            way()
        time.sleep(1)


# At the arbiter


class Gate:
    def __init__(self, job):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(1.0)  # as long as the tracer waits for a sign of life
        self.socket.connect('gate')
        name = job.encode()[:48]
        self.socket.sendall(b'iogate01' + struct.pack('<IBxxx', os.getpid(), len(name)) + name.ljust(48, b'\0'))

    def asks(self, ids, size):
        self.socket.sendall(b''.join(struct.pack('<IIQQQ', 1, 1, i, size, 0) for i in ids))

    def granted(self):
        while True:
            message = b''
            while len(message) < 32:
                piece = self.socket.recv(32 - len(message))
                if not piece:
                    raise ConnectionError
                message += piece
            if struct.unpack('<I', message[:4])[0] == 3:
                return

    def done(self, i, size):
        self.socket.sendall(struct.pack('<IIQQQ', 2, 0, i, size, 0))


def moves(n_mib):
    """Moves data as a program under the tracer does: with leave, or after a while without."""
    gate = None
    for i in range(n_mib):
        word = b'.'
        try:
            gate = gate or Gate(NAME)
            gate.asks([i], MIB)
            gate.granted()
        except OSError:
            word, gate = b'x', None
        time.sleep(STORAGE_S)
        if gate:
            gate.done(i, MIB)
        yield word


def gate_victim():
    while True:
        time.sleep(1)
        for word in moves(8):
            said(word)


def gate_ordinary():
    while True:
        for _ in moves(1000):
            rested(0.1)


def crowd(n, job=lambda i: f'{NAME}-{i}-{time.monotonic()}'):
    gates = []
    for i in range(n):
        try:
            gates.append(Gate(job(i)))
        except OSError:
            break
    return gates


def flooded(gates, n_asks, size):
    for gate in gates:
        try:
            gate.asks(range(n_asks), size)
        except OSError:
            pass


def gate_deaf():
    """Asks for as much as it may and reads nothing; then goes, and leaves what it asked for behind."""
    while True:
        gates = crowd(10)
        flooded(gates, 4000, MIB)
        time.sleep(4)
        del gates
        rested(0.03)


def gate_silent():
    while True:
        held = []
        for _ in range(1500):
            one = socket.socket(socket.AF_UNIX)
            one.settimeout(1.0)
            try:
                one.connect('gate')
            except OSError:
                break
            held.append(one)
        time.sleep(6)
        del held
        rested(0.03)


def gate_undone():
    """Is granted what it asks for, as many jobs, and never says that it is done."""
    while True:
        gates = crowd(32)
        flooded(gates, 8, 1)
        time.sleep(3)
        del gates
        rested(0.03)


def gate_big():
    """Says of each request that it is larger than any storage, and takes its time."""
    while True:
        gates = crowd(4, job=lambda i: f'{NAME}-{i}')
        flooded(gates, 64, 1 << 40)
        time.sleep(10)
        del gates
        rested(0.03)


while True:
    try:
        globals()[ROLE]()
    except OSError:
        # As when the descriptors of this user are used up, by this user.
        time.sleep(0.5)
