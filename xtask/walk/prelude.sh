# Functions that all steps have.

# The log, also where a command's own output goes to a file.
exec 9>&2

fail() {
    echo "FAILED: $*" >&9
    exit 1
}

# A command that fails ends its step, is named, and what it wrote into the file `report` is shown.
set -E
trap 'echo "FAILED: exit code $?: $BASH_COMMAND" >&9; tail -n 20 report >&9 2>/dev/null' ERR

# expect CODE COMMAND...: fails unless the command ends with this exit code.
expect() {
    local wanted=$1 code=0
    shift
    "$@" || code=$?
    [ "$code" = "$wanted" ] || fail "exit code $code, not $wanted: $*"
}

# says FILE PATTERN: fails unless a line of the file matches; prints the file first.
says() {
    cat "$1"
    grep -qE -- "$2" "$1" || fail "'$2' is not in $1"
}

# has_threads FILE: fails unless the report in the file has a thread's line.
has_threads() {
    says "$1" '^ *([A-Z]: )?[0-9]+ (\(.*\) )?[^ ].* [0-9.]+ m?s '
}

# json FILE EXPRESSION: fails unless the file is JSON for which the expression in Python is true; `d` is what it holds.
json() {
    python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); sys.exit(not eval(sys.argv[2]))' "$1" "$2" ||
        fail "$1 is not JSON with $2"
}

workloads=~/coxswain/target/workloads
[ -d "$workloads" ] || workloads=/usr/local/share/walk/workloads
