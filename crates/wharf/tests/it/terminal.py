"""Runs a program in a terminal of its own and does what the lines of standard input say.

wait TEXT, type TEXT, size ROWS COLUMNS, signal NUMBER. Then prints how the program ended, and whether the terminal is as before.
"""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time

PATIENCE_S = 60


def resize(terminal, rows, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def main():
    master, slave = pty.openpty()
    resize(slave, 40, 100)
    before = termios.tcgetattr(slave)
    own = lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    child = subprocess.Popen(
        sys.argv[1:], stdin=slave, stdout=slave, stderr=slave, start_new_session=True, preexec_fn=own
    )
    said, deadline = b"", time.monotonic() + PATIENCE_S
    for line in sys.stdin:
        verb, _, text = line.rstrip("\n").partition(" ")
        if verb == "wait":
            while text.encode() not in said:
                ready, _, _ = select.select([master], [], [], max(0, deadline - time.monotonic()))
                if not ready:
                    child.kill()
                    sys.exit(f"did not say {text!r} but {said!r}")
                said += os.read(master, 65536)
            said = said.partition(text.encode())[2]
        elif verb == "type":
            os.write(master, text.encode() + b"\n")
        elif verb == "size":
            resize(master, *map(int, text.split()))
        elif verb == "signal":
            child.send_signal(int(text))
    code = child.wait(PATIENCE_S)
    restored = termios.tcgetattr(slave)[:4] == before[:4]
    print(code, "restored" if restored else "raw")


main()
