#!/usr/bin/env bash
# Fills a folder with the headers and libraries that Quern needs on 64-bit ARM: the distribution's own packages, fetched and unpacked with
# a state of apt's that lies in that folder too. So it needs no root, and the machine's own packages stay as they are.
set -euo pipefail
[ $# -ge 2 ] || { echo "usage: sysroot.sh FOLDER PACKAGE[|ALTERNATIVE…]…" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)  # apt takes its options relative to other folders
shift
state=$folder/apt
mkdir -p "$state/lists/partial" "$state/archives/partial"
: >"$state/status"  # nothing is installed: all that a package depends on is fetched too
options=(-o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$state" -o Dir::State::lists="$state/lists"
  -o Dir::State::status="$state/status" -o Dir::Cache="$state" -o Dir::Cache::archives="$state/archives" -o Debug::NoLocking=1
  -o APT::Sandbox::User="$(id -un)" -o Acquire::Retries=3)
apt-get -qq "${options[@]}" update
packages=()
for package in "$@"; do
  for alternative in ${package//|/ }; do  # those of other releases are unknown to this one's apt
    package=$alternative
    if apt-cache "${options[@]}" show "$package" >/dev/null 2>&1; then break; fi
  done
  packages+=("$package")
done
apt-get -qq "${options[@]}" install --yes --no-install-recommends --download-only "${packages[@]}"
for archive in "$state"/archives/*.deb; do
  dpkg-deb --extract "$archive" "$folder"
done
rm -r "$state"
# Links to libraries begin at the root, which is not this machine's.
find "$folder" -type l -lname '/*' | while IFS= read -r link; do
  ln -sfnr "$folder$(readlink "$link")" "$link"
done
