#!/usr/bin/env bash
# Loads pages in Chromium, one after another, each in a browser of its own that is closed after a while: `browser.sh FOLDER SECONDS KIND…`.
#
#   page     4,000 paragraphs
#   script   a page that computes
#   video    a page that plays a film
set -euo pipefail
folder=$1 seconds=$2
shift 2
cd "$folder"
[ -e film.webm ] || ffmpeg -loglevel error -f lavfi -i testsrc=duration=10:size=640x360:rate=25 -c:v libvpx -b:v 1M film.webm
cat >page.html <<'HTML'
<!doctype html><title>page</title><body><script>
let text = "";
for (let at = 0; at < 4000; at++) text += "<p>paragraph " + at + " <b>bold</b> <i>italic</i></p>";
document.body.innerHTML = text;
</script>
HTML
cat >script.html <<'HTML'
<!doctype html><title>script</title><p id="sum"></p><script>
let sum = 0;
for (let at = 0; at < 1e8; at++) sum = (sum * 31 + at) | 0;
document.getElementById("sum").textContent = sum;
</script>
HTML
printf '<!doctype html><title>video</title><video src="film.webm" autoplay muted></video>\n' >video.html

for kind in "$@"; do
    # It is closed as a user closes it: the status is that of `timeout`.
    timeout --signal TERM "$seconds" chromium --headless --no-sandbox --disable-gpu --user-data-dir="$folder/profile" \
        "file://$folder/$kind.html" >/dev/null 2>&1 || true
done
