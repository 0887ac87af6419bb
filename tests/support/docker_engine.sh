#!/usr/bin/env bash
# A Docker engine of one's own, for tests, as root:
#   docker_engine.sh start DIR [NETNS]   start one with socket, data and log in DIR; prints its DOCKER_HOST
#   docker_engine.sh stop DIR            stop it
# DIR must be short: the paths of sockets end at 107 characters. A second engine beside a running one needs a network
# namespace of its own, NETNS, or each would undo the other's firewall rules; it is made. There the engine also listens
# on TCP with TLS if DIR/tls has certificates: tcp://127.0.0.1:2376, within NETNS.
set -uo pipefail
PATH=$PATH:/usr/sbin:/sbin
action=$1 dir=$2 netns=${3:-}
socket=unix://$dir/docker.sock

# stale FILE: a pid file whose process is gone or a zombie would keep the engine from starting
stale() {
    local pid
    pid=$(cat "$1" 2>/dev/null) || return 0
    if ! kill -0 "$pid" 2>/dev/null || grep -qs '^State:.*Z' "/proc/$pid/status"; then
        rm -f "$1"
    fi
}

answers() {
    curl --silent --fail --max-time 5 --unix-socket "$dir/docker.sock" http://docker/_ping >/dev/null
}

start() {
    local enter=() options=() pid
    mkdir -p "$dir"
    if [ -n "$netns" ]; then
        ip netns list | grep -qw "$netns" || ip netns add "$netns" || return 1
        # not `ip netns exec`, which mounts another /sys, without the control groups
        enter=(nsenter "--net=/run/netns/$netns")
        "${enter[@]}" ip link set lo up
        options=(--bridge=none --iptables=false)
        if [ -d "$dir/tls" ]; then
            options+=(-H tcp://127.0.0.1:2376 --tlsverify --tlscacert "$dir/tls/ca.pem"
                --tlscert "$dir/tls/server-cert.pem" --tlskey "$dir/tls/server-key.pem")
        fi
    fi
    # twice: after an engine was killed, the next one may wait in vain for what the first has left
    for _ in 1 2; do
        stale "$dir/docker.pid"
        stale "$dir/exec/containerd/containerd.pid"
        "${enter[@]}" setsid dockerd -H "$socket" --data-root "$dir/data" --exec-root "$dir/exec" --mtu 1400 \
            --pidfile "$dir/docker.pid" "${options[@]}" >>"$dir/dockerd.log" 2>&1 </dev/null &
        pid=$!
        for _ in $(seq 300); do
            if answers; then
                echo "$socket"
                return 0
            fi
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
        kill "$pid" 2>/dev/null
        wait "$pid"
    done
    echo "dockerd did not come up:" >&2
    tail -n 5 "$dir/dockerd.log" >&2
    return 1
}

# the containers first, since the engine waits ten seconds for those that ignore SIGTERM
stop() {
    local pid
    pid=$(cat "$dir/docker.pid" 2>/dev/null) || return 0
    kill -CONT "$pid" 2>/dev/null
    curl --silent --max-time 5 --unix-socket "$dir/docker.sock" 'http://docker/containers/json?all=1' |
        grep -oE '"Id":"[0-9a-f]{64}"' | cut -d'"' -f4 |
        xargs -r -P 8 -I{} curl --silent --max-time 30 --unix-socket "$dir/docker.sock" -X DELETE \
            'http://docker/containers/{}?force=1&v=1' >/dev/null
    kill -TERM "$pid" 2>/dev/null
    for _ in $(seq 150); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null
    # what containers an engine has left that did not answer
    for pid in $(pgrep -f "containerd-shim.* -address $dir/exec/"); do
        pkill -KILL -P "$pid"
        kill -KILL "$pid"
    done
    # the engine mounts its data on itself, once each time it is started
    while umount -R "$dir/data" 2>/dev/null; do :; done
    [ -z "$netns" ] || ip netns delete "$netns"
}

case $action in
start) start ;;
stop) stop ;;
*) exit 2 ;;
esac
