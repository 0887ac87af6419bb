# Makes the patch that leads from what `prepare.sh` kept to what is there now.
#   sh -s -- REPOSITORY OURS BIG_KB MAX_BYTES < collect.sh
# REPOSITORY  the work tree, whatever has become of it and of its .git
# OURS        as for prepare.sh; OURS/patch.diff and OURS/notes.txt are made
# BIG_KB      new files larger than so many KiB are left out
# MAX_BYTES   of the patch; one that is larger is not kept
# OURS/notes.txt has a line for each thing that is not in the patch: `left-out NAME`, `too-large BYTES`.
# Exit codes: 21 no git, 23 what prepare.sh kept is gone; any other but 0: something failed, and standard error says what.
set -eu
repository=$1 ours=$2 big_kb=$3 max_bytes=$4
PATH=/usr/bin:/bin:/usr/local/bin:$PATH LC_ALL=C HOME=/nonexistent
GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_TERMINAL_PROMPT=0
export PATH LC_ALL HOME GIT_CONFIG_NOSYSTEM GIT_CONFIG_GLOBAL GIT_TERMINAL_PROMPT
unset GIT_INDEX_FILE
command -v git >/dev/null || exit 21
base=$ours/base.git
if [ ! -s "$base/tree" ]; then exit 23; fi
export GIT_DIR="$base" GIT_WORK_TREE="$repository"
rm -rf "$ours/patch.diff" "$ours/notes.txt" "$base/index.lock"
: >"$ours/notes.txt"
mkdir -p "$repository"
cd "$repository"

is_known() { # whether the path, or something below it, was there
    [ -n "$(git ls-files -- ":(literal)$1" | head -n 1)" ]
}
leave_out() {
    printf '/%s\n' "$1" | sed 's/[][\\*?#! ]/\\&/g' >>"$base/info/exclude"
    printf 'left-out %s\n' "$1" >>"$ours/notes.txt"
}

# repositories that were made inside: of what was there, they must not hide anything; others are no part of the work
find . -mindepth 2 -name .git -prune >"$ours/nested.now"
{ grep -vxF -f "$ours/nested" "$ours/nested.now" || true; } >"$ours/nested.new"
while read -r nested; do
    inner=${nested#./} inner=${inner%/.git}
    if is_known "$inner"; then rm -rf "$nested"; else leave_out "$inner"; fi
done <"$ours/nested.new"

find . -path ./.git -prune -o -type f -size +"${big_kb}k" -print >"$ours/big"
while read -r file; do
    if ! is_known "${file#./}" && ! git check-ignore --quiet "${file#./}"; then leave_out "${file#./}"; fi
done <"$ours/big"

git add --all .
git diff --cached --binary --full-index --no-color --no-ext-diff --no-textconv --no-renames --ignore-submodules=all \
    --src-prefix=a/ --dst-prefix=b/ "$(cat "$base/tree")" >"$ours/patch.diff"
size=$(wc -c <"$ours/patch.diff")
if [ "$size" -gt "$max_bytes" ]; then
    : >"$ours/patch.diff"
    echo "too-large $((size))" >>"$ours/notes.txt"
fi
