#!/bin/sh
# TaskProlog for Slurm: every task counts what it reads and writes, without a wrapper. See docs/slurm.md.
#
# Slurm runs this as the job's user before each task and each batch script, and adds "export NAME=value" from its output to the environment.
# If the library or the directory of counter pages is missing, or the user has set IOTIDE_DISABLE, it prints nothing and the task runs as it
# would without iotide.

library=${IOTIDE_LIBRARY:-/usr/lib/iotide/libiotide.so}
pages=${IOTIDE_LIVE:-/run/iotide/pages}

case ${IOTIDE_DISABLE:-0} in 0) ;; *) exit 0 ;; esac
[ -r "$library" ] && [ -d "$pages" ] && [ -w "$pages" ] || exit 0
# The loader would split a path with one of these.
case $library in *[\ :\;\$]*) exit 0 ;; esac

# A job that is submitted from within another one inherits its environment.
case :$LD_PRELOAD: in
*[:\ ]"$library"[:\ ]*) ;;
*) echo "export LD_PRELOAD=$library${LD_PRELOAD:+:$LD_PRELOAD}" ;;
esac
echo "export IOTIDE_LIVE=$pages"
# AddressSanitizer insists on being the first library otherwise, and ends the program.
case ${ASAN_OPTIONS:-} in
*verify_asan_link_order*) ;;
*) echo "export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0" ;;
esac
exit 0
