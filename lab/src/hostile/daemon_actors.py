"""Attackers of `cargo xtask hostile daemon` that need to be users of their own: ROLE HOST:PORT IOTIDE."""
import os
import socket
import subprocess
import sys
import time

ROLE, HTTP, IOTIDE = sys.argv[1:]
HOST, PORT = HTTP.rsplit(':', 1)


def connected():
    one = socket.socket()
    one.settimeout(2.0)
    one.connect((HOST, int(PORT)))
    return one


def hold():
    """Says half a question on as many connections as it gets."""
    held = []
    while True:
        try:
            one = connected()
            one.send(b'GET /metrics HTTP/1.1\r\nHost: x\r\nX-')
            held.append(one)
        except OSError:
            time.sleep(0.2)
        if len(held) > 400:
            held.pop(0).close()


def ask():
    """Asks what costs most, over and over, by the socket that everyone may use."""
    while True:
        for path in ('/metrics', '/api/1/jobs?limit=100000', '/jobs', '/api/1/models?app=x'):
            try:
                one = socket.socket(socket.AF_UNIX)
                one.settimeout(5.0)
                one.connect(os.environ['IOTIDE_DAEMON'])
                one.send(f'GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'.encode())
                while one.recv(1 << 16):
                    pass
            except OSError:
                time.sleep(0.05)


def login():
    """Tries links that nobody was given."""
    while True:
        try:
            one = connected()
            one.send(b'GET /login?link=' + b'0' * 64 + b' HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
            one.recv(1 << 16)
            one.close()
        except OSError:
            time.sleep(0.05)


def alarms():
    """Has as many alarms as it may, which fire all the time, of the severity that wakes people."""
    number = 0
    while True:
        number += 1
        rule = ['alarms', 'add', f'noise{number}', 'processes > 0', '--severity', 'page']
        subprocess.run([IOTIDE, *rule], capture_output=True, check=False)
        time.sleep(0.2)


while True:
    globals()[ROLE]()
