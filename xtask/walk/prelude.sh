# Functions for all steps.

# Descriptor 9 is the step's log, even where a command's own output is redirected to a file.
exec 9>&2

fail() {
    echo "FAILED: $*" >&9
    exit 1
}

# A command that fails ends its step. Its name and exit code are logged, and the end of the file `report`.
set -E
trap 'echo "FAILED: exit code $?: $BASH_COMMAND" >&9; tail -n 20 report >&9 2>/dev/null' ERR

# expect CODE COMMAND...: fails unless the command ends with this exit code.
expect() {
    local wanted=$1 code=0
    shift
    "$@" || code=$?
    [ "$code" = "$wanted" ] || fail "exit code $code, not $wanted: $*"
}

# says FILE PATTERN: prints the file, and fails unless a line of it matches.
says() {
    cat "$1"
    grep -qE -- "$2" "$1" || fail "'$2' is not in $1"
}

# has_threads FILE: fails unless the report in the file has a line for a thread.
has_threads() {
    says "$1" '^ *([A-Z]: )?[0-9]+ (\(.*\) )?[^ ].* [0-9.]+ (m|µ)?s '
}

# json FILE EXPRESSION: fails unless the file is JSON for which the Python expression is true; `d` is the parsed value.
json() {
    python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); sys.exit(not eval(sys.argv[2]))' "$1" "$2" ||
        fail "$1 is not JSON with $2"
}

workloads=~/coxswain/target/workloads
[ -d "$workloads" ] || workloads=/usr/local/share/walk/workloads
