# Makes a repository ready for an agent: nothing of it tells what came after HEAD, and what is there now is kept aside.
#   sh -s -- REPOSITORY OURS < prepare.sh
# REPOSITORY  the work tree; with or without a .git
# OURS        a directory that is made anew: OURS/base.git has the content of REPOSITORY as it is now
# Exit codes: 21 no git, 22 no such directory; any other but 0: something failed, and standard error says what.
set -eu
repository=$1 ours=$2
PATH=/usr/bin:/bin:/usr/local/bin:$PATH LC_ALL=C HOME=/nonexistent
GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_TERMINAL_PROMPT=0
export PATH LC_ALL HOME GIT_CONFIG_NOSYSTEM GIT_CONFIG_GLOBAL GIT_TERMINAL_PROMPT
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
command -v git >/dev/null || exit 21
cd "$repository" 2>/dev/null || exit 22
rm -rf "$ours"
mkdir -p "$ours"
: >"$ours/entries"
: >"$ours/exclude"

# Leaves of a repository (in GIT_DIR) only what HEAD and its index reach, and the tags of that.
forget_the_future() {
    rm -rf "$GIT_DIR/logs" "$GIT_DIR/worktrees" "$GIT_DIR/lost-found" "$GIT_DIR/refs/original" "$GIT_DIR/rebase-merge" \
        "$GIT_DIR/rebase-apply" "$GIT_DIR/sequencer"
    rm -f "$GIT_DIR"/*_HEAD "$GIT_DIR"/BISECT_* "$GIT_DIR/info/refs" "$GIT_DIR/info/grafts" "$GIT_DIR/gc.log"
    for remote in $(git remote); do git remote remove "$remote"; done
    git symbolic-ref -q HEAD >"$ours/kept" || true
    if git rev-parse --verify --quiet HEAD >/dev/null; then
        git for-each-ref --merged=HEAD --format='%(refname)' refs/tags >>"$ours/kept"
    fi
    git for-each-ref --format='%(refname)' >"$ours/refs"
    { grep -vxF -f "$ours/kept" "$ours/refs" || true; } | sed 's/^/delete /' | git update-ref --no-deref --stdin
    rm -rf "$GIT_DIR/refs/remotes"
    rm -f "$GIT_DIR"/objects/pack/*.keep "$GIT_DIR"/objects/pack/*.bitmap "$GIT_DIR"/objects/pack/*.rev
    rm -rf "$GIT_DIR/objects/info/commit-graph" "$GIT_DIR/objects/info/commit-graphs" "$GIT_DIR/objects/pack/multi-pack-index"
    git -c core.fsync=none -c pack.threads=2 -c pack.windowMemory=64m -c repack.writeBitmaps=false repack -a -d -q
    rm -f "$GIT_DIR/objects/info/alternates"
    git prune --expire=now
}

if [ -e .git ]; then
    if [ -d .git ]; then GIT_DIR=$repository/.git; else GIT_DIR=$(sed -n 's/^gitdir: //p' .git); fi
    export GIT_DIR
    if [ -f "$GIT_DIR/info/exclude" ]; then cp "$GIT_DIR/info/exclude" "$ours/exclude"; fi
    GIT_WORK_TREE=$repository git ls-files --stage -z >"$ours/entries"
    top=$GIT_DIR
    forget_the_future
    if [ -d "$top/modules" ]; then
        find "$top/modules" -name HEAD -type f | grep -v '/logs/\|/refs/' >"$ours/modules" || true
        while read -r head; do
            GIT_DIR=${head%/HEAD}
            if [ -d "$GIT_DIR/objects" ]; then forget_the_future; fi
        done <"$ours/modules"
    fi
    unset GIT_DIR
fi

# What is there now, in a repository that is ours: whatever happens to the other one, there is something to compare with.
# No attribute, filter, hook or configuration counts in it, so that files are kept byte for byte.
base=$ours/base.git
git init --quiet --bare --template= "$base"
cat >"$base/config" <<'END'
[core]
	repositoryformatversion = 0
	bare = false
	fileMode = true
	autocrlf = false
	excludesFile = /dev/null
	attributesFile = /dev/null
	hooksPath = /dev/null
	fsmonitor = false
	untrackedCache = false
	logAllRefUpdates = false
	compression = 1
	fsync = none
[gc]
	auto = 0
[advice]
	addEmbeddedRepo = false
END
mkdir -p "$base/info"
echo '* -text !eol !crlf !filter !ident !working-tree-encoding !diff !merge' >"$base/info/attributes"
{
    cat "$ours/exclude"
    echo # the file may have no end of line
    # what interpreters, test runners and package managers leave behind, where the repository does not ignore it itself
    printf '%s\n' '__pycache__/' '*.py[cod]' '.pytest_cache/' '.hypothesis/' '.mypy_cache/' '.ruff_cache/' '.tox/' '.nox/' \
        '.eggs/' '*.egg-info/' '.coverage' 'node_modules/'
    # what agents that hand in a patch of their own are told to call it
    echo '/patch.txt'
} >"$base/info/exclude"
find . -mindepth 2 -name .git -prune >"$ours/nested"
export GIT_DIR="$base" GIT_WORK_TREE="$repository"
git update-index -z --index-info <"$ours/entries"
while read -r nested; do # a repository in the repository that belongs to nothing, and may have no commit
    inner=${nested#./} inner=${inner%/.git}
    if [ -z "$(git ls-files -- "$inner" | head -n 1)" ]; then
        printf '/%s\n' "$inner" | sed 's/[][\\*?#! ]/\\&/g' >>"$base/info/exclude"
    fi
done <"$ours/nested"
git add --all .
git write-tree >"$base/tree.new"
mv "$base/tree.new" "$base/tree"
rm -f "$ours/entries" "$ours/exclude" "$ours/kept" "$ours/refs" "$ours/modules"
