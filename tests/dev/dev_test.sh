#!/usr/bin/env bash
# What scripts rely on in ./dev, as far as it can be said without installing, building or fetching anything.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0

check() {  # check WHAT EXPECTED ACTUAL
  [ "$2" = "$3" ] && return
  echo "$1: expected '$2', got '$3'; it said: $(cat "$folder/err")"
  failures=$((failures + 1))
}
status_of() { "$@" >"$folder/out" 2>"$folder/err" </dev/null; echo $?; }

check "help succeeds" 0 "$(status_of "$root/dev" --help)"
check "an unknown command is a usage error" 2 "$(status_of "$root/dev" frobnicate)"
check "no command is a usage error" 2 "$(status_of "$root/dev")"
for command in run test build bench lint fmt conformance setup; do
  check "$command --help succeeds" 0 "$(status_of "$root/dev" $command --help)"
  check "$command --help says how to call it" "./dev $command" "$(head -n 1 "$folder/out" | cut -d ' ' -f 1-2)"
done
check "an unknown preset is a usage error" 2 "$(status_of "$root/dev" build nosuch)"
check "an unknown purpose is a usage error" 2 "$(status_of "$root/dev" setup nosuch)"

# On a system that has neither the packages nor apt, it must say what to install. Such a system: a PATH with the coreutils alone.
mkdir "$folder/bin" "$folder/checkout"
cp -r "$root/dev" "$root/dev.d" "$folder/checkout"
echo 'test  nosuch-dev  header  no/such/header.h' >>"$folder/checkout/dev.d/packages.txt"
for tool in bash cat dirname nproc env sort grep tr; do ln -s "$(command -v $tool)" "$folder/bin/$tool"; done
check "what is missing fails the set-up" 1 "$(PATH=$folder/bin status_of "$folder/checkout/dev" setup test)"
check "what is missing is named" yes "$(grep -q 'nosuch-dev' "$folder/err" && echo yes)"

[ $failures -eq 0 ] && echo "all as it should be"
exit $((failures > 0))
