#!/bin/sh
# In the images that the real tasks are built on, this stands in for programs that would install something over the
# network, under each of their names: all that the tasks need is in the image already.
case $(basename "$0") in
apt-get | pip | mandb | man)
    exit 0
    ;;
curl)
    # the installer of uv
    case "$*" in *astral.sh*) echo 'mkdir -p "$HOME/.local/bin"; : >"$HOME/.local/bin/env"' && exit 0 ;; esac
    echo "curl: there is no network here" >&2
    exit 6
    ;;
dos2unix)
    exec sed -i 's/\r$//' "$@"
    ;;
unix2dos)
    exec sed -i 's/\r*$/\r/' "$@"
    ;;
uv)
    [ "$1" = run ] || exit 0
    shift
    ;;
uvx) ;;
esac
# uv run, and uvx: their options, then a command
while [ "${1#-}" != "$1" ]; do
    case "$1" in --with | -w | -p | --python) shift ;; esac
    shift
done
command=$1
shift
case $command in
pytest*) exec python3 -m pytest "$@" ;;
*.py) exec python3 "$command" "$@" ;;
*) exec "$command" "$@" ;;
esac
