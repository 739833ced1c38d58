#!/bin/bash
# A batch script whose results leave a buffer on the node while the program runs. See docs/staging.md.
#
#   sbatch [OPTIONS] stage.sh BUFFER RESULTS PROGRAM [ARGUMENT…]
#
# Ten minutes before the time limit Slurm sends USR1: all closed files are brought away then, while the program goes on. What it writes after
# that, and what is left when a job is killed, is brought away by stage-epilog.sh, if BUFFER is where that looks.
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

stage= program=
trap 'kill -USR1 $stage' USR1
trap 'kill -TERM $program' TERM
# shellcheck disable=SC2086 # several options
"${IOTIDE:-iotide}" stage out "$buffer" "$results" --deadline 9min $IOTIDE_STAGE_OPTIONS &
stage=$!
"$@" &
program=$!

# A signal ends a wait, and the process may still run.
wait_for() {
    local status
    while :; do
        wait "$1"
        status=$?
        kill -0 "$1" 2>/dev/null || return $status
    done
}
wait_for $program
status=$?
kill -TERM $stage 2>/dev/null
wait_for $stage || echo "not all of $buffer is safe in $results: iotide stage status $results" >&2
exit $status
