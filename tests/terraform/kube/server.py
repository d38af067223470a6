"""The life of the API server: etcd beside it, one administrator, nothing that runs pods."""

from __future__ import annotations

import base64
import json
import secrets
import socket
import subprocess
from pathlib import Path

from millrace.machine import processes
from tests.terraform.kube import program

ADMISSION_OFF = "ServiceAccount"
"""No controller makes the accounts that it would ask for."""


class ApiServer:
    """etcd and kube-apiserver on this machine, each on a port of its own."""

    def __init__(self, place: Path, port: int) -> None:
        self.place, self.port = place, port
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self.place.mkdir(parents=True)
        token = secrets.token_hex(16)
        (self.place / "tokens.csv").write_text(f'{token},admin,1,"system:masters"\n')
        key = self.place / "accounts.key"
        key.write_bytes(subprocess.run([program(), "key"], check=True, stdout=subprocess.PIPE).stdout)
        etcd = f"http://127.0.0.1:{self.port + 1}"
        peers = f"http://127.0.0.1:{self.port + 2}"
        self._begin(
            "etcd",
            *("--data-dir", str(self.place / "etcd"), "--unsafe-no-fsync", "--log-level", "warn"),
            *("--listen-client-urls", etcd, "--advertise-client-urls", etcd),
            *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers),
            *("--initial-cluster", f"default={peers}"),
        )
        self._begin(
            "apiserver",
            *("--etcd-servers", etcd, "--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1"),
            *("--secure-port", str(self.port), "--cert-dir", str(self.place / "certificates")),
            *("--token-auth-file", str(self.place / "tokens.csv"), "--authorization-mode", "RBAC"),
            *("--service-account-issuer", "https://millrace.test", "--service-account-key-file", str(key)),
            *("--service-account-signing-key-file", str(key), "--service-cluster-ip-range", "10.0.0.0/24"),
            *("--disable-admission-plugins", ADMISSION_OFF, "--endpoint-reconciler-type", "none"),
        )
        certificate = self.place / "certificates" / "apiserver.crt"

        def is_whole() -> bool:
            return certificate.exists() and b"END CERTIFICATE" in certificate.read_bytes()

        assert processes.wait_until(is_whole, 120), self.said()
        self.config.write_text(json.dumps(_config(self.port, token, certificate)))
        ready = processes.wait_until(lambda: self._is_ready(), 180)
        assert ready, self.said()

    def stop(self) -> None:
        for each in reversed(self.running):
            each.terminate()
        for each in self.running:
            try:
                each.wait(timeout=30)
            except subprocess.TimeoutExpired:
                each.kill()

    @property
    def config(self) -> Path:
        return self.place / "kubeconfig"

    def kubectl(self, *words: str, stdin: str = "", codes: tuple[int, ...] = (0,)) -> str:
        """What kubectl prints, errors and warnings included."""
        done = subprocess.run(
            [program(), "kubectl", "--kubeconfig", self.config, *words],
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=180,
        )
        assert done.returncode in codes, f"kubectl {' '.join(words)}: {done.returncode}\n{done.stdout}"
        return done.stdout

    def said(self) -> str:
        return "\n".join(line for log in sorted(self.place.glob("*.log")) for line in processes.tail(log, 20))

    def _begin(self, *words: str) -> None:
        with (self.place / f"{words[0]}.log").open("w") as log:
            self.running.append(
                subprocess.Popen(
                    [program(), *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
            )

    def _is_ready(self) -> bool:
        assert all(each.poll() is None for each in self.running), self.said()
        with socket.socket() as trial:
            if trial.connect_ex(("127.0.0.1", self.port)):
                return False
        return "ok" in self.kubectl("get", "--raw", "/readyz", codes=(0, 1))


def _config(port: int, token: str, certificate: Path) -> dict[str, object]:
    trusted = base64.b64encode(certificate.read_bytes()).decode()
    server = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": trusted}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": server}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        "current-context": "test",
    }
