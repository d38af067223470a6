"""The warm gateway's client: submissions over a socket that only its user can reach.

The server is millrace.flink.submission.Gateway.
"""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import Any

SUBMIT_WITHIN_S = 60
"""After that the gateway counts as hung; it plans a job in about a second, and in some ten while it warms up."""


class GatewayError(Exception):
    """The gateway did not submit this job; if it does so later, its id is taken."""


class SubmissionError(Exception):
    """Flink refused a job that the gateway submitted."""


def submit(at: Path, job: dict[str, Any], library: Path) -> str:
    """Submit a job, planned with the jars in the library; returns its id."""
    until_ms = int((time.time() + SUBMIT_WITHIN_S) * 1000)
    jars = sorted(str(jar.resolve()) for jar in library.iterdir())
    answer = request(at, json.dumps({**job, "library": jars, "until_ms": until_ms}), SUBMIT_WITHIN_S)
    if "refused" in answer:
        raise GatewayError(f"refuses: {answer['refused']}")
    if "error" in answer:
        raise SubmissionError(answer["error"])
    return str(answer["job_id"])


def is_ready(at: Path) -> bool:
    """Whether a gateway answers there."""
    try:
        return bool(request(at, "", 2)["is_ready"])
    except GatewayError:
        return False


def request(at: Path, question: str, within_s: float) -> dict[str, Any]:
    """The answer to a submission, or to an empty question, within a deadline."""
    deadline = time.monotonic() + within_s
    try:
        folder = os.open(at.parent, os.O_PATH | os.O_DIRECTORY)
        try:
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(within_s)
                # By the folder's descriptor: the path of a socket holds 107 bytes at most.
                client.connect(f"/proc/self/fd/{folder}/{at.name}")
                client.sendall(question.encode())
                client.shutdown(socket.SHUT_WR)
                answer = bytearray()
                while part := client.recv(65536):
                    answer += part
                    client.settimeout(max(0.001, deadline - time.monotonic()))
        finally:
            os.close(folder)
        found: dict[str, Any] = json.loads(answer)
        return found
    except TimeoutError:
        raise GatewayError(f"does not answer within {within_s:.0f} s") from None
    except (OSError, ValueError) as error:
        raise GatewayError(f"does not answer ({error})") from None
