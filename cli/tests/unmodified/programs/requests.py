"""So many requests to a Redis server, one after the other."""
import socket
import sys

server = socket.socket(socket.AF_UNIX)
server.connect(sys.argv[1])
stream = server.makefile("rwb")
for number in range(int(sys.argv[2])):
    value = b"%d" % number
    stream.write(b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$%d\r\n%s\r\n" % (len(value), value))
    stream.flush()
    if stream.readline() != b"+OK\r\n":
        sys.exit("not stored")
print("answered")
