#!/usr/bin/env bash
# rootfs.sh: a root file system for containers, with the service and the software device: `./dev package rootfs`.
#
#   rootfs.sh DEBS OUT.tar [SUITE]
#
# DEBS: a folder with the Debian packages of `./dev package deb`. By mmdebstrap, from the mirrors that apt has here: a
# minimal Debian with dovetail, nothing that its packages only recommend, no lists and no documents but our own. It needs
# to be root, or user namespaces. Nothing of NVIDIA's is in it: NVRTC is mounted at /usr/local/cuda, or not needed (PTX).
set -euo pipefail
debs=$(readlink -f "$1") out=$2
suite=${3:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
files=()
for p in libdovetail1 dovetail; do
    f=$(find "$debs" -name "${p}_*.deb" | sort -V | tail -n 1)
    [ -n "$f" ] || { echo "rootfs: no $p in $debs" >&2; exit 1; }
    files+=("$f")
done
names=()
for f in "${files[@]}"; do names+=("/tmp/$(basename "$f")"); done

# systemd-standalone-sysusers makes the user: there is no systemd. /run is empty in the end, so the service is told where
# its socket goes.
mmdebstrap --variant=minbase --include=systemd-standalone-sysusers,ca-certificates \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    --dpkgopt='path-include=/usr/share/doc/dovetail/*' \
    --customize-hook="copy-in $(printf '%s ' "${files[@]}")/tmp" \
    --customize-hook="chroot \"\$1\" apt-get -qy install --no-install-recommends ${names[*]}" \
    --customize-hook="chroot \"\$1\" rm -f ${names[*]}" \
    "$suite" "$out"
echo "$out: $(stat -c %s "$out") bytes"
