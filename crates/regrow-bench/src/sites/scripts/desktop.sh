#!/usr/bin/env bash
# A desktop: two browsers load a page that computes, and a player decodes the next piece of music now and then: `desktop.sh FOLDER`.
# Prints how many pieces were decoded, their mean time, and how long the pages took, in microseconds. `desktop.sh FOLDER piece` decodes a piece alone, and
# prints what that takes of the processor, in microseconds.
set -euo pipefail
cd "$1"
[ -e music.ogg ] || ffmpeg -loglevel error -f lavfi -i 'aevalsrc=sin(440*2*PI*t)*sin(3*t)|sin(330*2*PI*t)*sin(5*t):d=60' -c:a libvorbis music.ogg
decode() { ffmpeg -loglevel error -i music.ogg -f null -; }
if [ "${2-}" = piece ]; then
    decode
    TIMEFORMAT='%U %S'
    { time decode; } 2>&1 | awk '{ printf "%d\n", ($1 + $2) * 1e6 }'
    exit
fi
cat >compute.html <<'HTML'
<!doctype html><title>compute</title><p id="sum"></p><script>
let sum = 0;
for (let at = 0; at < 3e8; at++) sum = (sum * 31 + at) | 0;
document.getElementById("sum").textContent = sum;
</script>
HTML

load() {
    chromium --headless --no-sandbox --disable-gpu --user-data-dir="$PWD/desktop-$1" --timeout=30000 --dump-dom "file://$PWD/compute.html" \
        >"dom-$1" 2>/dev/null
    grep --quiet '<p id="sum">-\?[0-9]' "dom-$1"
}

now() { printf '%s' "${EPOCHREALTIME/./}"; }

begun=$(now)
load 1 &
load 2 &
pieces=0 all=0
# As long as pages load.
while sleep 0.4 && [ "$(jobs -rp | wc -l)" -eq 2 ]; do
    from=$(now)
    decode
    all=$((all + $(now) - from))
    pieces=$((pieces + 1))
done
for job in $(jobs -p); do wait "$job"; done
ended=$(now)
printf '%d %d %d\n' "$pieces" "$((all / pieces))" "$((ended - begun))"
