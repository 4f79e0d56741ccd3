"""A storm through several proxies at once, for scripts/bench-cluster: `create` makes new names in one directory, all clients together;
`write` overwrites one file from the first client alone. Prints how many calls were answered and how many seconds that took.

    bench-cluster-storm.py create|write CALLS (ADDRESS:PORT MOUNT-PORT)...
"""
import os
import socket
import struct
import sys
import threading
import time

NFS, MOUNT, WINDOW = 100003, 100005, 16


def opaque(data):
    return struct.pack(">I", len(data)) + data + b"\0" * (-len(data) % 4)


AUTH = struct.pack(">II", 1, 20 + 4) + struct.pack(">I", 0) + opaque(b"stm1") + struct.pack(">III", 0, 0, 0)


class Client:
    """A connection; calls are numbered so that no two clients use one number."""

    def __init__(self, host, port, number):
        self.socket = socket.create_connection((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.xid = (number << 24) + (os.getpid() << 8) % (1 << 24)

    def send(self, program, procedure, arguments):
        self.xid += 1
        body = struct.pack(">IIIIII", self.xid, 0, 2, program, 3, procedure) + AUTH + struct.pack(">II", 0, 0) + arguments
        self.socket.sendall(struct.pack(">I", 1 << 31 | len(body)) + body)

    def receive(self):
        length = struct.unpack(">I", self.exactly(4))[0] & 0x7FFFFFFF
        results = self.exactly(length)[24:]
        status = struct.unpack(">I", results[:4])[0]
        if status != 0:
            sys.exit(f"a call failed with status {status}")
        return results[4:]

    def exactly(self, count):
        got = b""
        while len(got) < count:
            more = self.socket.recv(count - len(got))
            if not more:
                sys.exit("a proxy closed the connection")
            got += more
        return got

    def call(self, program, procedure, arguments):
        self.send(program, procedure, arguments)
        return self.receive()


def handle(results):
    return results[4 : 4 + struct.unpack(">I", results[:4])[0]]


def attributes(mode):
    return struct.pack(">II", 1, mode) + struct.pack(">IIIII", 0, 0, 0, 0, 0)


def create(directory, name):
    return opaque(directory) + opaque(name) + struct.pack(">I", 0) + attributes(0o666)


def play(client, calls, arguments, procedure):
    """So many calls, a few under way at a time."""
    for number in range(calls + WINDOW):
        if number < calls:
            client.send(NFS, procedure, arguments(number))
        if number >= WINDOW:
            client.receive()


def main():
    kind, calls, places = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    hosts = [address.rsplit(":", 1) for address in places[::2]]
    clients = [Client(host, int(port), number + 1) for number, (host, port) in enumerate(hosts)]
    root = handle(Client(hosts[0][0], int(places[1]), 100).call(MOUNT, 1, opaque(b"/cached")))
    first = clients[0]
    made = first.call(NFS, 9, opaque(root) + opaque(f"storm-{kind}-{os.getpid()}".encode()) + attributes(0o777))
    directory = handle(made[4:])
    start = time.monotonic()
    if kind == "create":
        each = calls // len(clients)
        names = lambda mine: lambda number: create(directory, f"f{mine}-{number}".encode())
        threads = [threading.Thread(target=play, args=(it, each, names(mine), 8)) for mine, it in enumerate(clients)]
        calls = each * len(clients)
    else:
        file = handle(first.call(NFS, 8, create(directory, b"f"))[4:])
        data = b"x" * 512
        write = lambda number: opaque(file) + struct.pack(">QII", number % 64 * 512, 512, 0) + opaque(data)
        threads = [threading.Thread(target=play, args=(first, calls, write, 7))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(calls, time.monotonic() - start)


main()
