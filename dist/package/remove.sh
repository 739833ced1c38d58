# Before the files of iotide-daemon go.
if [ -d /run/systemd/system ]; then
    systemctl disable --now iotide.service run-iotide-pages.mount || true
fi
