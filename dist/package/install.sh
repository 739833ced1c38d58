# After the files of iotide-daemon are there. It is not started: an administrator enables it.
if command -v systemd-sysusers >/dev/null 2>&1; then
    systemd-sysusers iotide.conf || true
elif ! getent group iotide >/dev/null; then
    groupadd --system iotide || true
fi
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
    systemctl try-restart iotide.service || true
fi
