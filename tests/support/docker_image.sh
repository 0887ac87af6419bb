#!/usr/bin/env bash
# An image's files as a tar stream, made from packages that are installed on this Debian machine: no registry, no
# network.
#   docker_image.sh PACKAGE...
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# each package, all that it needs, as far as it is installed
apt-cache depends --recurse --installed --important --no-recommends --no-suggests --no-conflicts --no-breaks \
    --no-replaces --no-enhances "$@" 2>/dev/null | grep -E '^[a-z0-9]' | sort -u >"$scratch/wanted"
printf '%s\n' "$@" >>"$scratch/wanted"
dpkg-query -W -f='${db:Status-Abbrev} ${Package}\n' 2>/dev/null | awk '/^ii/ { print $2 }' | sort -u >"$scratch/installed"
sort -u "$scratch/wanted" | comm -12 - "$scratch/installed" >"$scratch/packages"

# their files without what nobody reads here, and the links that make them be found
{
    xargs dpkg -L <"$scratch/packages" | grep '^/' | grep -vE '^/usr/share/(man|doc|info|locale|lintian|bug)(/|$)'
    find /bin /sbin /lib /lib64 -maxdepth 0 -type l 2>/dev/null || true
    find /etc/alternatives -type l
    find /usr/bin -type l -lname '/etc/alternatives/*'
    echo /etc/ld.so.cache
    echo /etc/nsswitch.conf
} | sed 's#^/\(bin\|sbin\|lib\|lib64\)/#/usr/\1/#' | sort -u |
    while read -r path; do
        if [ -e "$path" ] || [ -L "$path" ]; then echo "${path#/}"; fi
    done | grep . >"$scratch/files"

root=$scratch/root
mkdir "$root"
tar -C / --no-recursion -c -T "$scratch/files" 2>/dev/null | tar -C "$root" -xp
mkdir -p "$root"/{proc,sys,dev,root,home,run,etc,var/tmp,tmp}
chmod 1777 "$root/tmp" "$root/var/tmp"
cat >"$root/etc/passwd" <<'END'
root:x:0:0:root:/root:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
END
printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
tar -C "$root" --sort=name --numeric-owner -c .
