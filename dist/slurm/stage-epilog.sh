#!/bin/sh
# Epilog for Slurm: brings away what a job left in its buffers on this node, for eleven minutes at most. See docs/staging.md.
#
# A job's buffers are $IOTIDE_BUFFERS/JOBID, and directories in it. Only what was begun by `iotide stage out` is finished, to where it went,
# and by the job's user: root reads and writes nothing that a user could have prepared. It always succeeds: Slurm drains a node whose epilog fails.

[ -n "$SLURM_JOB_ID" ] && [ -n "$SLURM_JOB_UID" ] || exit 0
buffers=${IOTIDE_BUFFERS:-/local}/$SLURM_JOB_ID
group=$(id -g "$SLURM_JOB_UID" 2>/dev/null) || exit 0

# Seconds for all buffers together. What a user has put there, a pipe for example, must not keep the node.
end=$(($(date +%s) + ${IOTIDE_STAGE_LIMIT:-660}))

# as_user SECONDS COMMAND...: ends the command after SECONDS, or when the time of all is over.
as_user() {
    left=$((end - $(date +%s)))
    [ "$left" -gt 0 ] || exit 0
    [ "$left" -lt "$1" ] || left=$1
    shift
    timeout -k 5 "$left" setpriv --reuid "$SLURM_JOB_UID" --regid "$group" --init-groups -- "$@"
}

for buffer in "$buffers" "$buffers"/*; do
    status=$buffer/.iotide-stage/status.json
    results=$(as_user 10 sed -n 's|^  "destination": "\(/[^"\\]*\)",$|\1|p' "$status" 2>/dev/null) || continue
    [ -n "$results" ] || continue
    as_user 660 "${IOTIDE:-iotide}" stage out "$buffer" "$results" --policy end --once \
        --deadline "${IOTIDE_STAGE_DEADLINE:-10min}" >/dev/null 2>&1
done
exit 0
