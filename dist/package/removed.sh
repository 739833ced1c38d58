# After the files and settings of iotide-daemon are gone: nothing stays but the store, /var/lib/iotide.
rm -rf /run/iotide
rmdir /etc/iotide 2>/dev/null || true
if getent group iotide >/dev/null; then
    groupdel iotide || true
fi
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
