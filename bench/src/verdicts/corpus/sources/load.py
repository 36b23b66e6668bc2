# Four clients that set and get values, a hundred requests at a time.
import os
import socket

children = []
for client in range(4):
    child = os.fork()
    if child == 0:
        with socket.socket(socket.AF_UNIX) as server:
            server.connect("memcached.sock")
            sets = b"".join(b"set k%d-%d 0 0 8\r\n12345678\r\n" % (client, i) for i in range(100))
            gets = b"".join(b"get k%d-%d\r\n" % (client, i) for i in range(100))
            for _ in range(300):
                for request, end, count in ((sets, b"STORED", 100), (gets, b"END", 100)):
                    server.sendall(request)
                    answer = b""
                    while answer.count(end) < count or not answer.endswith(b"\n"):
                        answer += server.recv(1 << 16)
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
