#!/bin/sh
# Sums up a job that has ended: summary.sh IDS USER ASKED USED. The scripts of the schedulers beside this one call it. See docs/epilog.md.
#
# IDS are the names under which the daemon may know the job; ASKED and USED are lists as `iotide job --summary` takes them. The summary goes, as one
# line of JSON, to the file IOTIDE_SUMMARY_LOG, and as text to the job's owner by the mail program IOTIDE_SUMMARY_MAIL; each only where it is set.
# It always succeeds. A question takes at most IOTIDE_SUMMARY_LIMIT seconds.

user=$2 asked=$3 used=$4
limit=${IOTIDE_SUMMARY_LIMIT:-30}

# summary OPTION...: of the first of the names that the daemon knows.
summary() {
    for id in $ids; do
        timeout -k 5 "$limit" "${IOTIDE:-iotide}" job --summary --asked "$asked" --used "$used" \
            --wait "${IOTIDE_SUMMARY_WAIT:-5s}" "$@" -- "$id" 2>/dev/null && return
    done
    return 1
}

# The daemon has an underscore for brackets, and for each byte of the letter that ids of Flux begin with.
ids=$(printf '%s' "$1" | LC_ALL=C tr -c 'A-Za-z0-9._+ -' _)
if [ -n "$IOTIDE_SUMMARY_LOG" ]; then
    line=$(summary --format json) && printf '%s\n' "$line" >>"$IOTIDE_SUMMARY_LOG"
fi
if [ -n "$IOTIDE_SUMMARY_MAIL" ]; then
    case $user in
    '' | -* | *[!A-Za-z0-9._@+-]*) exit 0 ;;
    esac
    block=$(summary) || exit 0
    subject=$(printf '%s\n' "$block" | head -n 1)
    printf '%s\n' "$block" | timeout -k 5 "$limit" "$IOTIDE_SUMMARY_MAIL" -s "$subject" "$user" >/dev/null 2>&1
fi
exit 0
