"""What npm brings, and the browser that it brings."""

import base64
import hashlib
import http.server
import io
import json
import os
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.errors import InfraError
from millrace.machine import npm
from millrace.settings import PROJECT, Settings
from tests.browser import browser, shows


def test_no_component_names_a_registry() -> None:
    for lock in npm.HERE.glob("*/package-lock.json"):
        packages = json.loads(lock.read_text())["packages"]
        assert not [name for name, package in packages.items() if "resolved" in package]
        assert not [name for name, package in packages.items() if name and "integrity" not in package]


def test_another_content_is_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npm, "HERE", tmp_path)
    settings = Settings(PROJECT, tmp_path / "home", tmp_path / "state", 29000)
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "package.json").write_text("{}")
    before = npm.folder(settings, "small")
    assert npm.absent(settings, ["small"]) == ["small"]
    (tmp_path / "small" / "package.json").write_text("{ }")
    assert npm.folder(settings, "small") != before


PACKAGE = {"name": "small", "version": "1.0.0", "scripts": {"install": "touch ../../ran"}}


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[bytes]:
    """A registry with one package; yields its tarball."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        text = json.dumps(PACKAGE).encode()
        entry = tarfile.TarInfo("package/package.json")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
    tarball = packed.getvalue()

    class Registry(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = f"http://127.0.0.1:{self.server.server_address[1]}/small/-/small-1.0.0.tgz"
            about = {"name": "small", "versions": {"1.0.0": PACKAGE | {"dist": {"tarball": url}}}}
            body = tarball if self.path.endswith(".tgz") else json.dumps(about).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{server.server_address[1]}/")
        yield tarball
        server.shutdown()


def component(place: Path, tarball: bytes) -> None:
    """A component that depends on the one package, locked to these bytes."""
    wanted = {"name": "mine", "version": "1.0.0", "dependencies": {"small": "1.0.0"}}
    integrity = f"sha512-{base64.b64encode(hashlib.sha512(tarball).digest()).decode()}"
    packages = {
        "": wanted,
        "node_modules/small": {"version": "1.0.0", "integrity": integrity, "hasInstallScript": True},
    }
    lock = {"name": "mine", "version": "1.0.0", "lockfileVersion": 3, "requires": True, "packages": packages}
    place.mkdir()
    (place / "package.json").write_text(json.dumps(wanted | {"scripts": {"unpack": "touch unpacked"}}))
    (place / "package-lock.json").write_text(json.dumps(lock))


@pytest.mark.stack
def test_packages_come_as_locked_and_run_no_script(
    registry: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(npm, "HERE", tmp_path)
    settings = with_home_at(tmp_path / "home", monkeypatch)
    component(tmp_path / "mine", registry)
    place = npm.ensure(settings, "mine")
    assert (place / "node_modules" / "small" / "package.json").exists()
    assert (place / "unpacked").exists()
    assert not (place / "ran").exists()
    assert npm.absent(settings, ["mine"]) == []


@pytest.mark.stack
def test_a_package_that_is_not_as_locked_is_refused(
    registry: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(npm, "HERE", tmp_path)
    settings = with_home_at(tmp_path / "home", monkeypatch)
    component(tmp_path / "mine", registry + b"tampered")
    monkeypatch.setenv("npm_config_fetch_retries", "0")  # it would fetch the same again after 10 s and after 60 s
    with pytest.raises(InfraError, match=r"(?s)the npm packages of 'mine' could not be installed.*EINTEGRITY"):
        npm.ensure(settings, "mine")
    assert npm.absent(settings, ["mine"]) == ["mine"]


def with_home_at(home: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """An empty home that shares uv and its cache with the real one."""
    real = Settings.read(os.environ).home
    home.mkdir()
    for path in real.glob("uv-*"):
        (home / path.name).symlink_to(path)
    monkeypatch.setenv("UV_CACHE_DIR", os.environ.get("UV_CACHE_DIR") or str(real / "uv"))
    return Settings(PROJECT, home, home / "state", 29000)


@pytest.mark.stack
def test_the_browser_shows_text_in_fonts_that_it_brings(tmp_path: Path) -> None:
    with browser(600, 300) as page:
        page.set_content("<p id=text>Größe ≤ 84 ms → <b>✓</b></p><pre id=code>flink-spark</pre>")
        shows(page, "Größe ≤ 84 ms → ✓")
        assert page.screenshot(path=tmp_path / "page.png").startswith(b"\x89PNG")
        devtools = page.context.new_cdp_session(page)
        devtools.send("DOM.enable")
        devtools.send("CSS.enable")
        root = devtools.send("DOM.getDocument")["root"]["nodeId"]

        def fonts(selector: str) -> set[str]:
            node = devtools.send("DOM.querySelector", {"nodeId": root, "selector": selector})["nodeId"]
            found = devtools.send("CSS.getPlatformFontsForNode", {"nodeId": node})["fonts"]
            return {font["familyName"] for font in found}

        assert all(font.startswith(("Open Sans", "DejaVu")) for font in fonts("#text")), fonts("#text")
        assert "Open Sans" in fonts("#text")  # which hardly a machine has of its own
        assert fonts("#code") == {"DejaVu Sans Mono"}
