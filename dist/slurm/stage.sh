#!/bin/bash
# A batch script whose results leave a buffer on the node while the program runs. See docs/staging.md.
#
#   sbatch [OPTIONS] stage.sh BUFFER RESULTS PROGRAM [ARGUMENT…]
#
# Ten minutes before the time limit Slurm sends USR1: all closed files are brought away then, while the program goes on. What it writes after
# that is brought away as before, and when it ends. What is left when a job is killed is brought away by stage-epilog.sh, if BUFFER is where
# that looks.
#
# Options of `iotide stage out` go into IOTIDE_STAGE_OPTIONS, for example "--purge space --capacity 400G".
#SBATCH --signal=B:USR1@600

if [ $# -lt 3 ]; then
    echo "usage: sbatch stage.sh BUFFER RESULTS PROGRAM [ARGUMENT…]" >&2
    exit 2
fi
buffer=$1 results=$2
shift 2
mkdir -p "$buffer" "$results" || exit 2

stage= program= is_announced=
trap 'is_announced=1' USR1
trap 'kill -TERM $program' TERM

# Until it listens to USR1, that must not kill it.
begin() {
    # shellcheck disable=SC2086 # several options
    (trap '' USR1; exec "${IOTIDE:-iotide}" stage out "$buffer" "$results" --deadline 9min $IOTIDE_STAGE_OPTIONS) &
    stage=$!
}

# Has all brought away that is closed. It may not listen yet when it is asked for the first time; asked again, it does no more.
finish() {
    local status
    while :; do
        while kill -USR1 $stage 2>/dev/null; do
            sleep 0.2
        done
        wait $stage
        status=$?
        # One that was asked before it could ignore that has done nothing: another takes its place.
        [ $status -gt 128 ] && [ "$(kill -l $status)" = USR1 ] || return $status
        begin
        sleep 0.2
    done
}

begin
"$@" &
program=$!
while :; do
    wait $program
    status=$?
    # A signal ends a wait, and the process may still run.
    if ! kill -0 $program 2>/dev/null; then
        # Or it has ended just then, and how is not said yet.
        if [ $status -gt 128 ]; then
            wait $program 2>/dev/null
            again=$?
            [ $again -eq 127 ] || status=$again
        fi
        break
    fi
    if [ -n "$is_announced" ]; then
        is_announced=
        finish
        # The program may write more.
        begin
    fi
done
finish || echo "not all of $buffer is safe in $results: iotide stage status $results" >&2
exit $status
