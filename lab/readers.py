"""Open pages: `python -m lab.readers ADDRESS PAGES` reads the stream of the live page over so many connections.

It runs until its input ends, and prints what each has read, in kB; 0 where the server has closed one. It gives way to
all other processes: browsers have machines of their own.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import urllib.request
from collections.abc import Sequence

NICE = 19
READ_BYTES, READ_WITHIN_S = 1 << 16, 30


def main(argv: Sequence[str]) -> None:
    address, pages = argv[0], int(argv[1])
    os.nice(NICE)
    ended = threading.Event()
    read: list[list[int]] = [[] for _ in range(pages)]
    are_open = threading.Barrier(pages + 1)

    def follow(sizes: list[int]) -> None:
        try:
            with urllib.request.urlopen(f"{address}live", timeout=READ_WITHIN_S) as answer:
                sizes.append(len(answer.read1(READ_BYTES)))
                are_open.wait(READ_WITHIN_S)
                while not ended.is_set() and (part := answer.read1(READ_BYTES)):
                    sizes.append(len(part))
        finally:
            if not ended.is_set():  # the page was closed: a stretch with fewer pages counts for nothing
                sizes.clear()

    # Of a page that did not open, the others are not waited for.
    threads = [threading.Thread(target=follow, args=(sizes,), daemon=True) for sizes in read]
    for each in threads:
        each.start()
    are_open.wait(READ_WITHIN_S)
    print("open", flush=True)
    sys.stdin.read()
    ended.set()
    for each in threads:
        each.join()
    print(json.dumps([sum(sizes) >> 10 for sizes in read]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
