#!/usr/bin/env bash
# A session with git and a shell: what `traces/git-1000.csv` is recorded from.
#
# Somebody writes a small project: edits files with the ordinary tools, looks at what changed, commits, branches, merges,
# searches the history. Rounds of it go on until more than a thousand processes were created.
set -euo pipefail
project=$(mktemp --directory /tmp/regrow-git.XXXXXX)
trap 'rm -rf "$project"' EXIT
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.org
cd "$project"

git init -q -b main .
git config gc.auto 0
mkdir src
for file in a b c d; do
    seq 1 40 | sed "s/.*/line & of $file/" >"src/$file.txt"
done
git add .
git commit -qm "first"

# Looks around, as one does between two changes.
look() {
    git status --short
    git diff --stat | tail -n 1
    git log --oneline -n 5 | cat
    find src -type f | sort | xargs wc -l | tail -n 1
}

for round in $(seq 1 "${ROUNDS:-21}"); do
    {
        git checkout -q -b "topic-$round"
        for file in a b; do
            sed -i "${round}s/\$/ changed in round $round/" "src/$file.txt"
            look
            git add "src/$file.txt"
        done
        git commit -qm "round $round: change a and b"
        date -u >"src/note-$round.txt"
        cp "src/c.txt" "src/copy-$round.txt"
        tr '[:lower:]' '[:upper:]' <src/d.txt | head -n 20 >"src/upper-$round.txt"
        git add .
        git commit -qm "round $round: notes"
        git checkout -q main
        sed -i "s/line $round of d/line $round of d, on main/" src/d.txt
        git commit -qam "round $round: main"
        git merge -q --no-edit "topic-$round"
        git branch -q -d "topic-$round"
        git log --format=%s | grep -c "round $round"
        git grep -n "round $round" | cut -d : -f 1 | sort -u
        git show --stat HEAD^ | tail -n 2
        git rev-parse --short HEAD
        du -a src | awk '{ blocks += $1 } END { print blocks }'
    } >/dev/null
done
